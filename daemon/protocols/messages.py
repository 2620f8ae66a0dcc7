"""What a client of the native protocol may say."""

from dataclasses import replace
from typing import Annotated, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ..events import Error
from ..hub import Refused
from ..segmenter import Endpointing
from ..settings import CHANNEL_NAME, LONGEST_SILENCE_MS, SHORTEST_SILENCE_MS, Task
from ..utterance import Configuration
from .parsing import Phrases, Text, parsed


class AudioFields(Struct):
    """What binary frames hold; what is left out is as the settings say."""

    encoding: str | UnsetType = UNSET
    sample_rate: int | UnsetType = UNSET
    channels: int | UnsetType = UNSET


class EndpointingFields(Struct):
    """Where utterances end by themselves."""

    silence_ms: Annotated[int, Meta(ge=SHORTEST_SILENCE_MS, le=LONGEST_SILENCE_MS)] | UnsetType = UNSET
    max_utterance_s: Annotated[float, Meta(ge=5, le=28)] | UnsetType = UNSET


class Choices(Struct):
    """What ``start`` and ``configure`` have in common."""

    language: str | UnsetType | None = UNSET
    task: Task | UnsetType = UNSET
    prompt: Text | UnsetType = UNSET
    phrases: Phrases | UnsetType = UNSET
    words: bool | UnsetType = UNSET
    partials: bool | UnsetType = UNSET
    endpointing: EndpointingFields | UnsetType | None = UNSET


class Start(Choices, tag="start"):
    """Opens a session."""

    audio: AudioFields = msgspec.field(default_factory=AudioFields)
    model: str | None = None
    channel: Annotated[str, Meta(pattern=CHANNEL_NAME)] | None = None
    take_over: bool = False
    token: Annotated[str, Meta(min_length=16, max_length=200)] | None = None
    """Another ``start`` with it comes back to the same session."""
    lookahead_ms: Annotated[int, Meta(ge=0, le=10000)] | None = None


class Configure(Choices, tag="configure"):
    """Holds from the next utterance on."""


class FlushMessage(Struct, tag="flush"):
    """End the utterance now."""

    id: str | int | None = None


class ClearMessage(Struct, tag="clear"):
    """Forget the open utterance."""


class GapMessage(Struct, tag="gap"):
    """The client lost so many sample frames."""

    samples: Annotated[int, Meta(ge=1)]


class FinishMessage(Struct, tag="finish"):
    """No more audio."""


class Resume(Struct, tag="resume"):
    """Go on with a session after the connection was lost."""

    session: str
    last_seq: Annotated[int, Meta(ge=0)]
    token: str


Message = Start | Configure | FlushMessage | ClearMessage | GapMessage | FinishMessage | Resume

TYPES = ", ".join(kind.__struct_config__.tag for kind in get_args(Message))
"""Of all messages, as they are told to a client."""

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def parse(text: str) -> Message:
    """The message of a text frame. Raises ``Refused`` with ``bad_json``, ``bad_message`` or ``bad_field``."""
    return parsed(_decoder, text, TYPES)


def configured(old: Configuration, default: Configuration, choices: Choices) -> Configuration:
    """``old`` with what ``choices`` changes; ``default`` completes an ``endpointing`` given in part."""
    names = ("language", "task", "prompt", "phrases", "words", "partials")
    changes = {name: value for name in names if (value := getattr(choices, name)) is not UNSET}
    endpointing = old.endpointing
    if choices.endpointing is None:
        endpointing = None
    elif choices.endpointing is not UNSET:
        usual = old.endpointing or default.endpointing
        given = msgspec.structs.asdict(choices.endpointing)
        chosen = {name: value for name, value in given.items() if value is not UNSET}
        endpointing = replace(usual, **chosen) if usual else Endpointing(**chosen)
    return replace(old, endpointing=endpointing, **changes)


def error_of(refused: Refused, *, fatal: bool) -> Error:
    """The ``error`` that tells a refusal."""
    return Error(refused.code, refused.message, fatal, refused.field)
