"""AssemblyAI's streaming protocol, version 3, at ``/v3/ws``: an utterance of ours is a turn.

The transcript of a turn is what was committed; tentative words are among its words alone, as not final.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args
from uuid import uuid4

import msgspec
from msgspec import Struct
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers

from ..audio.pcm import AudioFormat
from ..events import Discarded, Ended, Error, Event, Final, Partial, SpeechStarted, Word
from ..hub import Hub, Refused
from ..utterance import Configuration
from .endpoint import Admission, Endpoint, bearer
from .exchange import Conversation, audio_format
from .hints import usable
from .parsing import Phrases, Text, language_of, parsed, parsed_query

ENCODINGS = {"pcm_s16le": "s16le", "pcm_mulaw": "mulaw"}
EXPIRES_S = 3 * 3600
"""What clients are told; nothing happens then."""
BAD_MESSAGE, SERVER_ERROR = 3006, 3005
"""Codes of the protocol's errors."""
IMPOSSIBLE = {
    "webhook_url": "turns are told on the connection alone",
    "redact_pii": "nothing is redacted here",
}
"""Parameters that cannot be ignored without harm."""


class TurnsQuery(Struct):
    """What a client asks for in the address."""

    sample_rate: int | None = None
    encoding: str = "pcm_s16le"
    language_code: str | None = None
    language_codes: str | None = None
    """A list in JSON."""
    keyterms_prompt: str | None = None
    """The same."""
    prompt: Text = ""
    max_turn_silence: int | None = None
    include_partial_turns: bool = True

    def audio(self, hub: Hub) -> AudioFormat:
        """How the audio is encoded. Raises ``Refused``."""
        rate = hub.settings.audio.sample_rate if self.sample_rate is None else self.sample_rate
        return audio_format(ENCODINGS.get(self.encoding, self.encoding), rate)

    def configuration(self, hub: Hub) -> Configuration:
        """What the session shall do. Raises ``Refused``."""
        named = _list("language_codes", self.language_codes)
        language = named[0] if len(named) == 1 else self.language_code
        endpointing, soon = hub.defaults.endpointing, self.max_turn_silence
        if endpointing is not None and soon is not None:
            endpointing = endpointing.after_silence(min(soon, endpointing.silence_ms))
        configuration = replace(
            hub.defaults,
            language=language_of(language) or hub.defaults.language,
            prompt=self.prompt or hub.defaults.prompt,
            phrases=usable(hub, _list("keyterms_prompt", self.keyterms_prompt)),
            endpointing=endpointing,
            words=True,
            partials=self.include_partial_turns,
        )
        hub.check(configuration)
        return configuration


class Terminate(Struct, tag="Terminate"):
    """No more audio."""


class ForceEndpoint(Struct, tag="ForceEndpoint"):
    """The turn ends here."""


class KeepAlive(Struct, tag="KeepAlive"):
    """I am still here."""


class UpdateConfiguration(Struct, tag="UpdateConfiguration"):
    """From the next turn on; what is None stays."""

    keyterms_prompt: Phrases | None = None
    prompt: Text | None = None


Message = Terminate | ForceEndpoint | KeepAlive | UpdateConfiguration

TYPES = ", ".join(kind.__struct_config__.tag for kind in get_args(Message))

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_list_decoder: msgspec.json.Decoder[Phrases] = msgspec.json.Decoder(Phrases)


class AssemblyAI(Endpoint):
    """Senders of audio that speak the protocol."""

    def takes(self, path: str) -> bool:
        return path == "/v3/ws"

    def token(self, headers: Headers) -> str | None:
        return bearer(headers) or next(iter(headers.get_all("Authorization")), None)

    def check(self, hub: Hub, admission: Admission) -> None:
        super().check(hub, admission)
        query = parse_query(admission)
        query.audio(hub)
        query.configuration(hub)

    def refusal(self, refused: Refused) -> bytes:
        return msgspec.json.encode(error_message(refused.message, BAD_MESSAGE))

    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        await TurnsConversation(socket, hub, admission).serve()


class TurnsConversation(Conversation):
    """One client."""

    def __init__(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        super().__init__(socket, hub, admission.client)
        self._query = parse_query(admission)
        self._began = time.time()
        self._turn = 0
        self._told = False
        """Whether the open turn was told of."""

    async def greet(self) -> None:
        await self.open(self._query.audio(self.hub), self._query.configuration(self.hub))
        expires_at = int(self._began) + EXPIRES_S
        await self._send({"type": "Begin", "id": str(uuid4()), "expires_at": expires_at})

    async def take(self, message: str | bytes) -> None:
        session = self.session
        assert session is not None
        if isinstance(message, bytes):
            await session.feed(message)
            return
        match parsed(_decoder, message, TYPES):
            case Terminate():
                session.finish()
            case ForceEndpoint():
                session.flush()
            case UpdateConfiguration(keyterms_prompt=phrases, prompt=prompt):
                old = session.configuration
                changed = replace(
                    old,
                    phrases=old.phrases if phrases is None else usable(self.hub, phrases),
                    prompt=old.prompt if prompt is None else prompt,
                )
                session.configure(changed)

    async def refuse(self, refused: Refused, message: str | bytes) -> None:
        await self._send(error_message(refused.message, BAD_MESSAGE))

    async def tell(self, event: Event) -> None:
        match event:
            case SpeechStarted(start=start):
                self._told = False
                await self._send({"type": "SpeechStarted", "timestamp": round(1000 * start)})
            case Partial(words=words) if words:
                await self._tell_turn(event.committed, words, ended=False)
            case Final(text=text):
                await self._tell_turn(text, event.words or (), ended=True)
            case Discarded() if self._told:
                await self._tell_turn("", (), ended=True)
            case Error(message=message):
                await self._send(error_message(message, SERVER_ERROR))
            case Ended(audio_s=audio_s):
                lasted = time.time() - self._began
                await self._send(
                    {
                        "type": "Termination",
                        "audio_duration_seconds": round(audio_s),
                        "session_duration_seconds": round(lasted),
                    }
                )

    async def _tell_turn(self, transcript: str, words: Sequence[Word], *, ended: bool) -> None:
        self._told = True
        told = [
            {
                "text": word.text,
                "start": round(1000 * word.start),
                "end": round(1000 * word.end),
                "confidence": word.confidence,
                "word_is_final": word.committed is not False,
            }
            for word in words
        ]
        await self._send(
            {
                "type": "Turn",
                "turn_order": self._turn,
                "turn_is_formatted": ended,
                "end_of_turn": ended,
                "transcript": transcript,
                "end_of_turn_confidence": float(ended),
                "words": told,
            }
        )
        self._turn += ended

    async def _send(self, message: dict[str, Any]) -> None:
        await self.socket.send(msgspec.json.encode(message), text=True)


def parse_query(admission: Admission) -> TurnsQuery:
    """The parameters of an address. Raises ``Refused``, naming the one at fault."""
    return parsed_query(TurnsQuery, admission.target.query, lists=(), impossible=IMPOSSIBLE)


def error_message(message: str, code: int) -> dict[str, Any]:
    """An ``Error``."""
    return {"type": "Error", "error_code": code, "error": message}


def _list(name: str, text: str | None) -> tuple[str, ...]:
    try:
        return _list_decoder.decode(text) if text else ()
    except msgspec.DecodeError as error:
        raise Refused("bad_field", f"{name}: is no list in JSON: {error}", name) from error
