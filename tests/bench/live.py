"""How a live text is judged: when each word of a reference first appeared, and when it was committed.

A word's appearance is the first moment whose text, aligned by least edit distance with a prefix of the
reference, contains it; its commitment the first whose committed text does. Delays count from the word's end.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from stenod.events import Word


@dataclass(frozen=True)
class Moment:
    """What is shown from ``time`` on, in seconds since the first sample: the whole text so far."""

    time: float
    committed: str
    tentative: str


@dataclass
class Report:
    """Delays in seconds, one a word; pooled over clips by ``+=``."""

    words: int = 0
    appearance: list[float] = field(default_factory=list)
    commitment: list[float] = field(default_factory=list)
    revised: int = 0
    """Shown words that a later moment changed or took away."""
    committed_revised: int = 0
    final_delays: list[float] = field(default_factory=list)

    def __iadd__(self, other: "Report") -> "Report":
        self.words += other.words
        self.revised += other.revised
        self.committed_revised += other.committed_revised
        self.appearance += other.appearance
        self.commitment += other.commitment
        self.final_delays += other.final_delays
        return self

    @property
    def never_appeared(self) -> int:
        return self.words - len(self.appearance)

    @property
    def never_committed(self) -> int:
        return self.words - len(self.commitment)


def plain_words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))


def judge(moments: Sequence[Moment], reference: Sequence[Word]) -> Report:
    """Judges one clip."""
    spoken = [plain_words(word.text) for word in reference]
    words = [(piece, word.end) for pieces, word in zip(spoken, reference, strict=True) for piece in pieces]
    appeared: dict[int, float] = {}
    committed: dict[int, float] = {}
    report = Report(words=len(words))
    texts = [word for word, _ in words]
    shown_before: list[str] = []
    committed_before: list[str] = []
    for moment in moments:
        shown = plain_words(moment.committed + moment.tentative)
        settled = plain_words(moment.committed)
        if shown != shown_before:
            _note(appeared, contained(shown, texts), moment.time)
        if settled != committed_before:
            _note(committed, contained(settled, texts), moment.time)
        report.revised += _lost(shown_before, shown)
        report.committed_revised += _lost(committed_before, settled)
        shown_before, committed_before = shown, settled
    report.appearance = [time - words[index][1] for index, time in appeared.items()]
    report.commitment = [time - words[index][1] for index, time in committed.items()]
    return report


def _note(first: dict[int, float], indices: Iterable[int], time: float) -> None:
    for index in indices:
        first.setdefault(index, time)


def _lost(before: Sequence[str], after: Sequence[str]) -> int:
    """Words of ``before`` that are not at their place in ``after``."""
    return sum(old != new for old, new in zip(before, after, strict=False)) + max(0, len(before) - len(after))


def contained(text: Sequence[str], reference: Sequence[str]) -> list[int]:
    """Which words of ``reference`` are in ``text``, aligned with the prefix of least edit distance."""
    distance = np.zeros((len(text) + 1, len(reference) + 1), np.int32)
    columns = np.arange(len(reference) + 1, dtype=np.int32)
    distance[0] = columns
    unequal = np.array([[word != other for other in reference] for word in text], np.int32)
    for row in range(1, len(text) + 1):
        best = distance[row - 1] + 1
        best[1:] = np.minimum(best[1:], distance[row - 1, :-1] + unequal[row - 1])
        distance[row] = np.minimum.accumulate(best - columns) + columns  # insertions, in one sweep
    row, column = len(text), len(reference) - int(np.argmin(distance[-1, ::-1]))  # of equals the longest
    found = []
    while row and column:
        if distance[row, column] == distance[row - 1, column - 1] + unequal[row - 1, column - 1]:
            row, column = row - 1, column - 1
            if not unequal[row, column]:
                found.append(column)
        elif distance[row, column] == distance[row - 1, column] + 1:
            row -= 1
        else:
            column -= 1
    return found[::-1]


def figures(values: Sequence[float]) -> str:
    """Mean, p50, p95 and p99 in seconds, as cells of a table."""
    if not values:
        return "- | - | - | -"
    middle = np.percentile(values, [50, 95, 99])
    return " | ".join(f"{value:.2f}" for value in (float(np.mean(values)), *middle))
