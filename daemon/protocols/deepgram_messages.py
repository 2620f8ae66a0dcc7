"""What clients of Deepgram's protocols say, in the address and after it, and how they are let in."""

from dataclasses import replace
from typing import Annotated, Any, TypeVar, get_args
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct
from websockets.datastructures import Headers

from ..audio.pcm import AudioFormat
from ..hub import Hub, Refused
from ..utterance import Configuration
from .endpoint import Admission, Endpoint, bearer, offered
from .exchange import audio_format
from .hints import usable
from .parsing import Phrases, language_of, parsed, parsed_query

ENCODINGS = {"linear16": "s16le", "linear32": "s32le", "mulaw": "mulaw", "alaw": "alaw"}
IMPOSSIBLE = {
    "callback": "results are told on the connection alone",
    "multichannel": "open a connection for each channel",
    "redact": "nothing is redacted here",
}
"""Parameters that cannot be ignored without harm, and what to know or to do."""

Query = TypeVar("Query", bound="AudioQuery")


class AudioQuery(Struct):
    """What both versions have in common."""

    model: str | None = None
    encoding: str | None = None
    sample_rate: int | None = None
    channels: int | None = None
    keyterm: Phrases = ()

    def audio(self, hub: Hub) -> AudioFormat:
        """How the audio is encoded; what is left out is as the settings say. Raises ``Refused``."""
        usual = hub.settings.audio
        return audio_format(
            ENCODINGS.get(self.encoding, self.encoding) if self.encoding else usual.encoding,
            usual.sample_rate if self.sample_rate is None else self.sample_rate,
            usual.channels if self.channels is None else self.channels,
        )

    def configuration(self, hub: Hub) -> Configuration:
        """What the session shall do. Raises ``Refused``."""
        raise NotImplementedError


class ListenQuery(AudioQuery):
    """Version 1."""

    language: str | None = None
    interim_results: bool = False
    punctuate: bool = False
    smart_format: bool = False
    endpointing: int | bool | None = None
    utterance_end_ms: Annotated[int, Meta(ge=0)] | None = None
    vad_events: bool = False
    keywords: Phrases = ()

    @property
    def punctuated(self) -> bool:
        """Whether the transcript has capital letters and punctuation."""
        return self.punctuate or self.smart_format

    def configuration(self, hub: Hub) -> Configuration:
        named = None if self.language == "multi" else language_of(self.language)
        return _checked(
            hub,
            silence_ms=None if isinstance(self.endpointing, bool) else self.endpointing,
            language=named or hub.defaults.language,
            phrases=usable(hub, [*self.keyterm, *(word.partition(":")[0] for word in self.keywords)]),
            partials=self.interim_results,
        )


class TurnsQuery(AudioQuery):
    """Version 2, called Flux."""

    eot_timeout_ms: int | None = None
    language_hint: tuple[str, ...] = ()

    def configuration(self, hub: Hub) -> Configuration:
        english = (self.model or "").endswith("-en")
        named = (
            "en" if english else language_of(self.language_hint[0]) if len(self.language_hint) == 1 else None
        )
        soon, usual = self.eot_timeout_ms, hub.defaults.endpointing
        return _checked(
            hub,
            silence_ms=soon if soon is None or usual is None else min(soon, usual.silence_ms),
            language=named or hub.defaults.language,
            phrases=usable(hub, self.keyterm),
            partials=True,
        )


def parse_query(kind: type[Query], query: str) -> Query:
    """The parameters of an address. Raises ``Refused``, naming the one at fault."""
    return parsed_query(kind, query, lists=("keyterm", "keywords", "language_hint"), impossible=IMPOSSIBLE)


def _checked(hub: Hub, *, silence_ms: int | None, **choices: Any) -> Configuration:
    usual = hub.defaults.endpointing
    if silence_ms is not None and usual is not None:
        choices["endpointing"] = usual.after_silence(silence_ms)
    configuration = replace(hub.defaults, words=True, **choices)
    hub.check(configuration)
    return configuration


class KeepAlive(Struct, tag="KeepAlive"):
    """I am still here."""


class Finalize(Struct, tag="Finalize"):
    """The utterance ends here."""


class ForceEndTurn(Struct, tag="ForceEndTurn"):
    """The same in version 2."""


class CloseStream(Struct, tag="CloseStream"):
    """No more audio."""


class Configure(Struct, tag="Configure"):
    """From the next utterance on other words are likely; None: the same ones."""

    keyterms: Phrases | None = None


Message = KeepAlive | Finalize | ForceEndTurn | CloseStream | Configure

TYPES = ", ".join(kind.__struct_config__.tag for kind in get_args(Message))

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def parse(text: str) -> Message:
    """The message of a text frame. Raises ``Refused``."""
    return parsed(_decoder, text, TYPES)


class DeepgramEndpoint(Endpoint):
    """How clients of both versions bring their key, and how they are refused."""

    subprotocols = ("token", "bearer")
    query: type[AudioQuery]

    def token(self, headers: Headers) -> str | None:
        scheme, *key = offered(headers)
        return (
            bearer(headers, "token")
            or bearer(headers)
            or (key[0] if key and scheme in self.subprotocols else None)
        )

    def check(self, hub: Hub, admission: Admission) -> None:
        super().check(hub, admission)
        query = parse_query(self.query, admission.target.query)
        query.audio(hub)
        query.configuration(hub)

    def refusal(self, refused: Refused) -> bytes:
        code = "INVALID_AUTH" if refused.code == "unauthorized" else refused.code.upper()
        told = {"err_code": code, "err_msg": refused.message, "request_id": str(uuid4())}
        return msgspec.json.encode(told | error_message(code, refused.message))


def error_message(variant: str, description: str) -> dict[str, Any]:
    """An ``Error`` of version 1."""
    return {"type": "Error", "variant": variant, "description": description, "message": description}
