"""What vosk-server speaks, on any path of its port: one reply to each piece of audio, none to ``config``.

It has no words for a refusal: the connection is closed, with the reason.
"""

import asyncio
from collections import deque
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from websockets.asyncio.server import ServerConnection

from ..events import Discarded, Ended, Event, Final, Flushed, Partial
from ..hub import Hub, Refused
from ..session import Session
from ..transcript import join
from .endpoint import Admission, Endpoint
from .exchange import Conversation, audio_format, close_unread
from .hints import usable
from .parsing import parsed

REFUSED_CLOSE = 1008
REASON_BYTES = 120
"""A close frame has room for no more."""
UNKNOWN_WORD = "[unk]"
"""How a list of phrases says that others may be spoken too, as they always may here."""


class Config(Struct):
    """What is to be done; the last one before the audio counts."""

    sample_rate: float | None = None
    phrase_list: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    words: bool | int = True
    max_alternatives: int = 0


class TextMessage(Struct):
    """A text frame: one of these."""

    config: Config | None = None
    eof: Any = None
    reset: Any = None


_decoder: msgspec.json.Decoder[TextMessage] = msgspec.json.Decoder(TextMessage)


class Vosk(Endpoint):
    """A port of its own, all of whose paths are the same."""

    def takes(self, path: str) -> bool:
        return True

    def refusal(self, refused: Refused) -> bytes:
        return msgspec.json.encode({"error": refused.message})

    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        await Recognizer(socket, hub, admission.client).serve()


class Recognizer(Conversation):
    """One client."""

    def __init__(self, socket: ServerConnection, hub: Hub, client: str | None) -> None:
        super().__init__(socket, hub, client)
        self._config = Config()
        self._finals: deque[Final] = deque()
        """Those that no reply has told yet."""
        self._partial = ""
        self._flushed = asyncio.Event()

    async def take(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            await (self.session or await self._begin()).feed(message)
            told = self._result([self._finals.popleft()]) if self._finals else {"partial": self._partial}
            await self._reply(told)
            return
        asked = parsed(_decoder, message)
        if asked.config is not None:
            self._config = asked.config
        elif asked.eof:
            (self.session or await self._begin()).finish()
        elif asked.reset:
            self._flushed.clear()
            (self.session or await self._begin()).flush()
            await self._flushed.wait()  # replies come in the order of what they reply to
        else:
            raise Refused("bad_message", "a text frame is one of config, eof and reset")

    async def tell(self, event: Event) -> None:
        match event:
            case Partial(committed=committed, tentative=tentative):
                self._partial = committed + tentative
            case Final():
                self._finals.append(event)
                self._partial = ""
            case Discarded():
                self._partial = ""
            case Flushed() | Ended(reason="finished" | "shutdown"):
                await self._reply(self._result(list(self._finals)))
                self._finals.clear()
                self._flushed.set()

    async def refuse(self, refused: Refused, message: str | bytes = "") -> None:
        reason = refused.message.encode()[:REASON_BYTES].decode(errors="ignore")
        await close_unread(self.socket, REFUSED_CLOSE, reason)

    async def _begin(self) -> Session:
        config, usual = self._config, self.hub.settings.audio
        audio = audio_format("s16le", int(config.sample_rate or usual.sample_rate))
        phrases = usable(self.hub, (phrase for phrase in config.phrase_list if phrase != UNKNOWN_WORD))
        return await self.open(audio, replace(self.hub.defaults, words=True, partials=True, phrases=phrases))

    def _result(self, finals: list[Final]) -> dict[str, Any]:
        """What utterances become, together."""
        text = join((final.text for final in finals), finals[-1].language if finals else None)
        words = [
            {"conf": word.confidence, "end": word.end, "start": word.start, "word": word.text}
            for final in finals
            for word in final.words or ()
        ]
        told = {"result": words, "text": text} if words and self._config.words else {"text": text}
        if self._config.max_alternatives <= 0:
            return told
        confidence = min((final.confidence for final in finals), default=1.0)
        return {"alternatives": [{"confidence": confidence, **told}]}

    async def _reply(self, told: dict[str, Any]) -> None:
        await self.socket.send(msgspec.json.encode(told), text=True)
