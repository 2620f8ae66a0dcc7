"""Transcripts as txt, json, srt and vtt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .events import Word
from .transcript import CharacterDecoder, join, words_of

if TYPE_CHECKING:
    from ._native import Segment

Format = Literal["txt", "json", "srt", "vtt"]
FORMATS: tuple[Format, ...] = ("txt", "json", "srt", "vtt")

CUE_CHARACTERS = 80
CUE_S = 7.0
"""A caption is at most so long."""
SENTENCE_ENDS = tuple(".?!\u3002\uff1f\uff01")


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


def captions(spoken: Iterable[tuple[list[Word], str | None]], form: Literal["srt", "vtt"]) -> str:
    """Captions of what was spoken; each stretch of it is its words and its language."""
    texts = [(cue, _caption(cue, language)) for words, language in spoken for cue in _cues(words, language)]
    if form == "srt":
        return "".join(f"{n}\n{_span(cue, ',')}\n{text}\n\n" for n, (cue, text) in enumerate(texts, 1))
    return "WEBVTT\n\n" + "".join(f"{_span(cue, '.')}\n{text}\n\n" for cue, text in texts)


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


def _cues(words: Iterable[Word], language: str | None) -> Iterator[list[Word]]:
    """The words of each caption: no longer than can be read, and broken at a sentence's end."""
    cue: list[Word] = []
    for word in words:
        if cue and (
            len(_caption([*cue, word], language)) > CUE_CHARACTERS or word.end - cue[0].start > CUE_S
        ):
            yield cue
            cue = []
        cue.append(word)
        if word.text.endswith(SENTENCE_ENDS):
            yield cue
            cue = []
    if cue:
        yield cue


def _caption(words: list[Word], language: str | None) -> str:
    return join((word.text for word in words), language)


def _span(words: list[Word], point: str) -> str:
    return f"{_clock(words[0].start, point)} --> {_clock(max(words[-1].end, words[0].start + 0.001), point)}"


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"
