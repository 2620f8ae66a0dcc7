"""Transcripts as txt, json, srt and vtt."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .captions import HEADERS, CaptionFormat, CueMaker, written
from .events import Word
from .transcript import CharacterDecoder, join, words_of

if TYPE_CHECKING:
    from ._native import Segment

Format = Literal["txt", "json", "srt", "vtt"]
FORMATS: tuple[Format, ...] = ("txt", "json", "srt", "vtt")


@dataclass(frozen=True)
class Transcript:
    """What was said in one recording; segments in order, times from its start."""

    file: str
    duration: float
    language: str | None
    segments: list[Segment]

    @property
    def text(self) -> str:
        """All of it as one line."""
        return join((segment_text(segment) for segment in self.segments), self.language)


def segment_text(segment: Segment) -> str:
    """The text of one segment, without white space around it."""
    return b"".join(token["text"] for token in segment["tokens"]).decode(errors="replace").strip()


def formatted(transcript: Transcript, form: Format) -> str:
    """The transcript in a format; it ends with a line feed."""
    match form:
        case "txt":
            return "".join(f"{segment_text(segment)}\n" for segment in transcript.segments)
        case "json":
            return _json(transcript) + "\n"
        case "srt" | "vtt":
            spoken = (_words(segment, transcript.language) for segment in transcript.segments)
            return captions(((words, transcript.language) for words in spoken), form)


def captions(spoken: Iterable[tuple[list[Word], str | None]], form: CaptionFormat) -> str:
    """Captions of what was spoken; each stretch of it is its words and its language."""
    maker = CueMaker()
    cues = (cue for words, language in spoken for cue in maker.cues(words, language))
    return HEADERS[form] + "".join(written(cue, number, form) for number, cue in enumerate(cues, 1))


def _json(transcript: Transcript) -> str:
    language = transcript.language
    segments = [
        {
            "start": round(segment["start"], 3),
            "end": round(segment["end"], 3),
            "text": segment_text(segment),
            "avg_logprob": segment["avg_logprob"],
            "no_speech_prob": segment["no_speech_prob"],
            "temperature": segment["temperature"],
            "tokens": [
                token | {"text": token["text"].decode(errors="replace")} for token in segment["tokens"]
            ],
            "words": [
                {"text": word.text, "start": word.start, "end": word.end, "confidence": word.confidence}
                for word in _words(segment, language)
            ],
        }
        for segment in transcript.segments
    ]
    whole = {
        "file": transcript.file,
        "text": transcript.text,
        "language": language,
        "duration": round(transcript.duration, 3),
        "segments": segments,
    }
    return json.dumps(whole, ensure_ascii=False)


def _words(segment: Segment, language: str | None) -> list[Word]:
    return words_of(CharacterDecoder().decode(segment["tokens"]), language)
