"""What is told: the one vocabulary between the engine, the channels and the wire protocols.

Every event is a frozen ``msgspec`` struct whose wire form is a JSON object with a ``type``.
All times are audio time: seconds since the session's first sample, gaps included.
Optional fields that are not set are left out of the JSON.
"""

from typing import Literal

import msgspec

SpeechEndReason = Literal["silence", "max_length", "flush", "finish", "end_of_turn"]
DiscardReason = Literal["no_words", "client"]
GapReason = Literal["overflow", "device_lost", "client", "restart"]
EndReason = Literal["finished", "idle", "expired", "engine_failed", "limit", "shutdown"]
OverloadAction = Literal["fewer_partials", "no_partials", "refusing_sessions", "recovered"]
WarningCode = Literal[
    "silent_input",
    "looping",
    "vad_reset",
    "slow_input",
    "clipping",
    "no_words_in_speech",
    "journal_failed",
]
ErrorCode = Literal[
    "bad_json",
    "bad_message",
    "bad_field",
    "unsupported_audio",
    "unknown_model",
    "model_failed",
    "unauthorized",
    "forbidden",
    "too_many_sessions",
    "channel_busy",
    "buffer_overflow",
    "not_resumable",
    "engine_failed",
    "shutting_down",
]


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """One word (a grapheme where a language writes no spaces); ``confidence`` lies in [0, 1]."""

    text: str
    start: float
    end: float
    confidence: float
    committed: bool | None = None
    """Only in a ``partial``: whether the word is committed."""


class Event(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Base of everything that is told."""


class Numbered(Event, frozen=True):
    """A durable event: ``seq`` starts at 1 and rises by 1 in its session, without holes."""

    session: str
    seq: int


class SessionStarted(Numbered, frozen=True, tag="session_started"):
    """A source was opened; ``started_at`` is wall-clock time, seconds since the epoch."""

    model: str
    started_at: float
    language: str | None = None
    channel: str | None = None


class SpeechStarted(Numbered, frozen=True, tag="speech_started"):
    """An utterance begins; nothing of the next one is told before this one's ``final`` or ``discarded``."""

    utterance: int
    start: float


class Commit(Numbered, frozen=True, tag="commit"):
    """``text`` is added to the utterance's committed text, for good."""

    utterance: int
    text: str
    words: tuple[Word, ...] | None = None


class SpeechEnded(Numbered, frozen=True, tag="speech_ended"):
    """The endpoint is known; the last decode follows."""

    utterance: int
    end: float
    reason: SpeechEndReason


class Final(Numbered, frozen=True, tag="final"):
    """The whole utterance; ``text`` begins with all that was committed."""

    utterance: int
    start: float
    end: float
    text: str
    language: str | None
    confidence: float
    words: tuple[Word, ...] | None = None


class Discarded(Numbered, frozen=True, tag="discarded"):
    """Instead of ``final``: the utterance had no words, or its sender withdrew it."""

    utterance: int
    reason: DiscardReason


class Gap(Numbered, frozen=True, tag="gap"):
    """Audio that is missing between two moments."""

    start: float
    end: float
    reason: GapReason


class Ended(Numbered, frozen=True, tag="ended"):
    """The last event of a session."""

    reason: EndReason
    audio_s: float
    utterances: int


class Partial(Event, frozen=True, tag="partial"):
    """The open utterance as it looks now; what to show is exactly ``committed + tentative``."""

    utterance: int
    seq: int
    """The last numbered event before this one."""
    rev: int
    start: float
    end: float
    committed: str
    tentative: str
    words: tuple[Word, ...] | None = None


class Overload(Event, frozen=True, tag="overload"):
    """The machine is ``lag_s`` behind; what is being done about it."""

    lag_s: float
    action: OverloadAction


class Warning(Event, frozen=True, tag="warning"):
    """Something about the input or the recognition that a person should look at."""

    code: WarningCode
    message: str


class Limits(msgspec.Struct, frozen=True):
    """What a sender may do."""

    frame_bytes: int
    buffer_s: float
    max_utterance_s: float | None


class Started(Event, frozen=True, tag="started"):
    """To the sender: the session is open. ``resume_for_s`` 0: it cannot be resumed."""

    session: str
    token: str
    resume_for_s: float
    limits: Limits


class Resumed(Event, frozen=True, tag="resumed"):
    """To the sender: audio goes on from this sample frame."""

    received_samples: int


class Ack(Event, frozen=True, tag="ack"):
    """To the sender: sample frames received, at the declared rate, gaps included."""

    received_samples: int


class Flushed(Event, frozen=True, tag="flushed"):
    """To the sender: everything before its ``flush`` has been told."""

    id: str | int | None = None


class Error(Event, frozen=True, tag="error"):
    """To one client: what it asked cannot be done; after a ``fatal`` one the connection closes."""

    code: ErrorCode
    message: str
    fatal: bool
    field: str | None = None


class Snapshot(Event, frozen=True, tag="snapshot"):
    """To a new subscriber: the last finals, the open utterance, and the cursor ``SESSION:SEQ``."""

    utterances: tuple[Final, ...]
    cursor: str
    partial: Partial | None = None


class Dropped(Event, frozen=True, tag="dropped"):
    """To a subscriber, before its connection closes."""

    reason: Literal["slow", "shutdown"]


AnyEvent = (
    SessionStarted
    | SpeechStarted
    | Commit
    | SpeechEnded
    | Final
    | Discarded
    | Gap
    | Ended
    | Partial
    | Overload
    | Warning
    | Started
    | Resumed
    | Ack
    | Flushed
    | Error
    | Snapshot
    | Dropped
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """The event as UTF-8 JSON, keys in declared order."""
    return _encoder.encode(event)


def decode(message: bytes | str) -> AnyEvent:
    """The event of a JSON message; ``msgspec.DecodeError`` if it is none. Unknown fields are ignored."""
    return _decoder.decode(message)
