"""Captions for films and streams: words as timed cues that can be read, and cues as SRT and WebVTT.

A cue has at most two lines of 42 columns, stays at least a second and at most seven, is shown long enough to
be read, and never overlaps the next: where speech is faster than that, cues come up to two seconds late.
A cue depends on nothing that comes after it, so that a file of them can grow while people speak.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from unicodedata import combining, east_asian_width

from .events import Word
from .transcript import Character, join, words_of

CaptionFormat = Literal["srt", "vtt"]

LINE_COLUMNS = 42
"""Ideographs take two columns."""
LINES = 2
READ_COLUMNS_PER_S = 20.0
SHORTEST_S = 1.0
LONGEST_S = 7.0
MOST_LATE_S = 2.0
"""A cue that comes later than that is shown no longer than need be, so that the next ones catch up."""
SENTENCE_ENDS = tuple(".?!\u3002\uff1f\uff01")

HEADERS: dict[CaptionFormat, str] = {"srt": "", "vtt": "WEBVTT\n\n"}
"""What a file begins with."""


@dataclass(frozen=True)
class Cue:
    """Lines that are shown from ``start`` to ``end``, in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]


class CueMaker:
    """Makes cues of what is said, one stretch of speech after the other."""

    def __init__(self) -> None:
        self._end = 0.0

    def cues(self, words: Iterable[Word], language: str | None, base: float = 0.0) -> Iterator[Cue]:
        """The cues of an utterance, which comes after all others; ``base`` is added to the words' times."""
        for group in _groups([piece for word in words for piece in _pieces(word)], language):
            yield self._timed(_lines(group, language), base + group[0].start, base + group[-1].end)

    def _timed(self, lines: tuple[str, ...], said: float, end: float) -> Cue:
        start = max(said, self._end)
        to_read = sum(map(columns, lines)) / READ_COLUMNS_PER_S
        least = max(SHORTEST_S, to_read) if start - said < MOST_LATE_S else SHORTEST_S
        self._end = min(max(end, start + least), start + LONGEST_S)
        return Cue(start, self._end, lines)


def spread(text: str, start: float, end: float, language: str | None) -> list[Word]:
    """The words of a text whose times are not known, as if each character took as long as any other."""
    share = (end - start) / max(1, len(text))
    return words_of(
        [Character(one, start + share * i, start + share * (i + 1), 1.0) for i, one in enumerate(text)],
        language,
    )


def written(cue: Cue, number: int, form: CaptionFormat) -> str:
    """A cue as a block of a file; ``number`` counts from 1."""
    if form == "srt":
        return f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n" + _block(cue.lines)
    text = [line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for line in cue.lines]
    return f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n" + _block(text)


def columns(text: str) -> int:
    """How wide a text is."""
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def wrapped(words: Sequence[str], language: str | None) -> tuple[str, ...]:
    """Words as lines of at most ``LINE_COLUMNS``, each as full as can be."""
    lines: list[list[str]] = []
    for word in words:
        if lines and columns(join([*lines[-1], word], language)) <= LINE_COLUMNS:
            lines[-1].append(word)
        else:
            lines.append([word])
    return tuple(join(line, language) for line in lines)


def _pieces(word: Word) -> list[Word]:
    """A word, cut if it is longer than a line."""
    if columns(word.text) <= LINE_COLUMNS:
        return [word]
    size = LINE_COLUMNS // 2
    texts = [word.text[i : i + size] for i in range(0, len(word.text), size)]
    share = (word.end - word.start) / len(texts)
    return [
        Word(text, word.start + share * i, word.start + share * (i + 1), word.confidence)
        for i, text in enumerate(texts)
    ]


def _groups(words: Iterable[Word], language: str | None) -> Iterator[list[Word]]:
    """The words of each cue: as many as fit, or up to the end of a sentence that is not too short."""
    group: list[Word] = []
    for word in words:
        if group and (
            len(wrapped([one.text for one in [*group, word]], language)) > LINES
            or word.end - group[0].start > LONGEST_S
        ):
            yield group
            group = []
        group.append(word)
        if word.text.endswith(SENTENCE_ENDS) and word.end - group[0].start >= SHORTEST_S:
            yield group
            group = []
    if group:
        yield group


def _lines(words: Sequence[Word], language: str | None) -> tuple[str, ...]:
    """One line if it suffices, else two that are about as long."""
    texts = [word.text for word in words]
    whole = join(texts, language)
    if columns(whole) <= LINE_COLUMNS:
        return (whole,)
    pairs = [(join(texts[:i], language), join(texts[i:], language)) for i in range(1, len(texts))]
    return min(pairs, key=lambda pair: (max(map(columns, pair)), -columns(pair[1])))


def _block(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n\n"


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"
