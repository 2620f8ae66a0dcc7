"""What a client of OpenAI's Realtime protocol may say, and the settings of a transcription session."""

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..audio.pcm import AudioFormat
from ..hub import Hub, Refused
from ..segmenter import Endpointing
from ..utterance import Configuration
from .exchange import audio_format
from .hints import usable
from .parsing import Phrases, Text, language_of, parsed

DEFAULT_RATE = 24000
G711_RATE = 8000
ENCODINGS = {"audio/pcm": "s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
OLD_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
EAGERNESS_MS = {"low": 1200, "high": 300}
"""Silence that ends a turn of ``semantic_vad`` whose model does not tell; others: as the settings say."""


class Format(Struct):
    """How the samples of ``input_audio_buffer.append`` are encoded."""

    type: str = "audio/pcm"
    rate: int | None = None


class Transcription(Struct):
    """Hints. A ``model`` that the daemon does not have means the one that it has."""

    model: str | None = None
    language: str | UnsetType | None = UNSET
    prompt: Text | UnsetType | None = UNSET
    keywords: Phrases | UnsetType | None = UNSET


class ServerVad(Struct, tag="server_vad"):
    """A turn ends with silence."""

    silence_duration_ms: int | None = None


class SemanticVad(Struct, tag="semantic_vad"):
    """A turn ends where the model hears its end, or with silence."""

    eagerness: Literal["low", "medium", "high", "auto"] | None = None


TurnDetection = ServerVad | SemanticVad | None


class Input(Struct):
    """``session.audio.input``."""

    format: Format | None = None
    transcription: Transcription | None = None
    turn_detection: TurnDetection | UnsetType = UNSET


class Audio(Struct):
    """``session.audio``."""

    input: Input = msgspec.field(default_factory=Input)


class SessionFields(Struct):
    """``session``, in the present form and, with flat names, in the older one."""

    audio: Audio = msgspec.field(default_factory=Audio)
    input_audio_format: str | None = None
    input_audio_transcription: Transcription | None = None
    turn_detection: TurnDetection | UnsetType = UNSET

    @property
    def input(self) -> Input:
        """What it says of the input, in the present form."""
        given, old = self.audio.input, self.input_audio_format
        return Input(
            format=given.format or (Format(OLD_FORMATS.get(old, old)) if old else None),
            transcription=given.transcription or self.input_audio_transcription,
            turn_detection=self.turn_detection if given.turn_detection is UNSET else given.turn_detection,
        )


class FromClient(Struct):
    """Any message."""

    event_id: str | None = None
    """An error that the message causes names it."""


class Update(FromClient, tag="session.update"):
    """Changes what it names."""

    session: SessionFields = msgspec.field(default_factory=SessionFields)


class OldUpdate(FromClient, tag="transcription_session.update"):
    """The same, as it was before."""

    session: SessionFields = msgspec.field(default_factory=SessionFields)


class Append(FromClient, tag="input_audio_buffer.append", kw_only=True):
    """Audio in base64."""

    audio: str

    @property
    def data(self) -> bytes:
        """The audio. Raises ``Refused``."""
        try:
            return base64.b64decode(self.audio, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Refused("bad_field", f"audio: is no base64: {error}", "audio") from error


class CommitAudio(FromClient, tag="input_audio_buffer.commit"):
    """The turn ends here."""


class ClearAudio(FromClient, tag="input_audio_buffer.clear"):
    """Forget what was not committed."""


Message = Update | OldUpdate | Append | CommitAudio | ClearAudio

TYPES = ", ".join(kind.__struct_config__.tag for kind in get_args(Message))

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_any_decoder: msgspec.json.Decoder[FromClient] = msgspec.json.Decoder(FromClient)


def parse(text: str | bytes) -> Message:
    """The message of a text frame. Raises ``Refused``."""
    return parsed(_decoder, text, TYPES)


def event_id_of(text: str | bytes) -> str | None:
    """The ``event_id`` of a message that may be wrong in other ways."""
    try:
        return _any_decoder.decode(text).event_id
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


@dataclass(frozen=True)
class Setup:
    """The settings of one client's session."""

    audio: AudioFormat
    configuration: Configuration
    turn_detection: TurnDetection

    @classmethod
    def of(cls, hub: Hub) -> "Setup":
        """What holds for a client that says nothing: turns are found as the daemon's settings say."""
        return cls(
            AudioFormat("s16le", DEFAULT_RATE),
            replace(hub.defaults, partials=False, words=False),
            ServerVad(),
        )

    def updated(self, given: Input, hub: Hub) -> "Setup":
        """With what a client changes. Raises ``Refused``, naming the field."""
        turns = self.turn_detection if given.turn_detection is UNSET else given.turn_detection
        configuration = replace(_hinted(self.configuration, given, hub), endpointing=_endpointing(turns, hub))
        hub.check(configuration)
        return Setup(_audio(given.format) if given.format else self.audio, configuration, turns)

    def told(self, identity: str, hub: Hub) -> dict[str, Any]:
        """The session object of ``session.created`` and ``session.updated``."""
        spoken = {encoding: name for name, encoding in ENCODINGS.items()}[self.audio.encoding]
        told_format: dict[str, Any] = {"type": spoken}
        if spoken == "audio/pcm":
            told_format["rate"] = self.audio.sample_rate
        return {
            "id": identity,
            "object": "realtime.transcription_session",
            "type": "transcription",
            "audio": {
                "input": {
                    "format": told_format,
                    "transcription": self._transcription(hub),
                    "turn_detection": self._turns(hub),
                    "noise_reduction": None,
                }
            },
        }

    def told_as_before(self, identity: str, hub: Hub) -> dict[str, Any]:
        """The same in the older form."""
        old = {ENCODINGS[name]: old for old, name in OLD_FORMATS.items()}
        return {
            "id": identity,
            "object": "realtime.transcription_session",
            "input_audio_format": old[self.audio.encoding],
            "input_audio_transcription": self._transcription(hub),
            "turn_detection": self._turns(hub),
            "input_audio_noise_reduction": None,
        }

    def _transcription(self, hub: Hub) -> dict[str, Any]:
        chosen = self.configuration
        told = {"model": hub.engine.model.name, "language": chosen.language, "prompt": chosen.prompt}
        return {name: value for name, value in told.items() if value}

    def _turns(self, hub: Hub) -> dict[str, Any] | None:
        endpointing = self.configuration.endpointing
        match self.turn_detection:
            case ServerVad() if endpointing is not None:
                return {
                    "type": "server_vad",
                    "prefix_padding_ms": hub.settings.segmentation.preroll_ms,
                    "silence_duration_ms": endpointing.silence_ms,
                }
            case SemanticVad(eagerness=eagerness):
                return {"type": "semantic_vad", "eagerness": eagerness or "auto"}
        return None


def _hinted(configuration: Configuration, given: Input, hub: Hub) -> Configuration:
    hints = given.transcription
    if hints is None:
        return configuration
    changes: dict[str, Any] = {}
    if hints.language is not UNSET:
        changes["language"] = language_of(hints.language)
    if hints.prompt is not UNSET:
        changes["prompt"] = hints.prompt or ""
    if hints.keywords is not UNSET:
        changes["phrases"] = usable(hub, hints.keywords or ())
    return replace(configuration, **changes)


def _audio(given: Format) -> AudioFormat:
    if given.type not in ENCODINGS:
        raise Refused(
            "bad_field",
            f"format: {given.type!r} is not one of {', '.join(ENCODINGS)}",
            "session.audio.input.format",
        )
    usual = DEFAULT_RATE if given.type == "audio/pcm" else G711_RATE
    return audio_format(ENCODINGS[given.type], given.rate or usual)


def _endpointing(turns: TurnDetection, hub: Hub) -> Endpointing | None:
    usual = hub.defaults.endpointing
    match turns:
        case ServerVad(silence_duration_ms=int(wanted)) if usual is not None:
            return usual.after_silence(wanted)
        case SemanticVad(eagerness=str(eagerness)) if usual is not None and eagerness in EAGERNESS_MS:
            return usual.after_silence(EAGERNESS_MS[eagerness])
        case None:
            return None
    return usual
