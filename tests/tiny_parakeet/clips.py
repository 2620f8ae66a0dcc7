"""Recorded and synthetic speech as the training keeps it: 16 kHz samples, and where each word lies."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SAMPLE_RATE = 16000
Words = list[tuple[str, int, int]]
"""Each word with its first sample and the one after its last; both -1 where they are not known."""


@dataclass(frozen=True)
class Clip:
    """Something said by one voice without a long pause."""

    voice: str
    samples: np.ndarray
    """Float32, 16 kHz; in memory for long: int16 would do, but mixing wants floats."""
    words: Words

    @property
    def text(self) -> str:
        return " ".join(word for word, _, _ in self.words)

    def one_word(self, number: int) -> "Clip":
        """A word of it, with half of the gaps beside it; all of it where the places are not known."""
        word, start, end = self.words[number]
        if len(self.words) == 1 or end < 0:
            return self
        before = self.words[number - 1][2] if number else 0
        after = self.words[number + 1][1] if number + 1 < len(self.words) else len(self.samples)
        first, last = (before + start) // 2, (end + after) // 2
        return Clip(self.voice, self.samples[first:last], [(word, start - first, end - first)])


def write_clips(path: Path, clips: Iterable[Clip]) -> None:
    """All clips in one compressed file; it appears when it is complete."""
    held = list(clips)
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.savez_compressed(
            file,
            voices=np.array([clip.voice for clip in held]),
            lengths=np.array([len(clip.samples) for clip in held]),
            samples=np.concatenate(
                [np.round(clip.samples * 32767).clip(-32768, 32767) for clip in held]
            ).astype("<i2"),
            texts=np.array([clip.text for clip in held]),
            spans=np.array([span[1:] for clip in held for span in clip.words], np.int64).reshape(-1, 2),
        )
    partial.rename(path)


def read_clips(path: Path) -> list[Clip]:
    """What `write_clips` wrote."""
    with np.load(path) as stored:
        pieces = np.split(stored["samples"], np.cumsum(stored["lengths"])[:-1])
        spans = iter(stored["spans"].tolist())
        return [
            Clip(
                str(voice),
                piece.astype(np.float32) / 32768,
                [(word, *next(spans)) for word in str(text).split()],
            )
            for voice, piece, text in zip(stored["voices"], pieces, stored["texts"], strict=True)
        ]
