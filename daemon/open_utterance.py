"""The sound of the utterance that is open, and the best place to cut it when it grows too long."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .audio.resample import SAMPLE_RATE

SHORTEST_PAUSE = SAMPLE_RATE // 10
"""Samples without speech that make a pause: 100 ms."""
_QUIET_PIECES = 5
"""Length of the stretch that is compared to find the quietest: 100 ms of frames."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A stretch of sound, at most a frame long, and whether it is speech."""

    samples: NDArray[np.float32]
    speech: bool


@dataclass
class OpenUtterance:
    """An utterance from its start to the last piece heard. Positions are samples of audio time."""

    start: int
    cuttable: bool
    """False: it may grow without end, and its sound is not kept."""
    length: int = 0
    silence: int = 0
    """Samples since the last speech."""
    pieces: list[Piece] = field(default_factory=list)
    """All its sound, if it is cuttable."""

    @property
    def end(self) -> int:
        """Where the sound ends so far."""
        return self.start + self.length

    def append(self, piece: Piece) -> None:
        """Adds the sound that follows."""
        if self.cuttable:
            self.pieces.append(piece)
        self.length += len(piece.samples)
        self.silence = 0 if piece.speech else self.silence + len(piece.samples)

    def beyond(self, position: int) -> list[Piece]:
        """The pieces from ``position`` on; the first one may be cut."""
        return [
            Piece(piece.samples[max(0, position - start) :], piece.speech)
            for piece, start in zip(self.pieces, self._starts(), strict=True)
            if start + len(piece.samples) > position
        ]

    def best_cut(self, not_before: int | None) -> int:
        """The position to cut at: in the later half, and not before ``not_before``, where words end for good.

        The middle of the longest pause; if there is none, ``not_before``; else the quietest place.
        """
        half = self.start + self.length // 2
        earliest = min(max(half, not_before or 0), self.end)
        pauses = self._pauses(earliest)
        if pauses:
            begin, end = max(pauses, key=lambda pause: (pause[1] - pause[0], pause[1]))
            return (begin + end) // 2
        if not_before is not None and not_before >= half:
            return earliest
        return self._quietest(half)

    def _starts(self) -> list[int]:
        ends = np.cumsum([len(piece.samples) for piece in self.pieces], dtype=np.int64) + self.start
        return [self.start, *ends[:-1].tolist()]

    def _pauses(self, earliest: int) -> list[tuple[int, int]]:
        """Begin and end of every pause, as far as it lies beyond ``earliest``."""
        silences = []
        begin = earliest
        for piece, start in zip(self.pieces, self._starts(), strict=True):
            if piece.speech:
                silences.append((begin, start))
                begin = max(earliest, start + len(piece.samples))
        silences.append((begin, self.end))
        return [(begin, end) for begin, end in silences if end - begin >= SHORTEST_PAUSE]

    def _quietest(self, earliest: int) -> int:
        """The middle of the quietest stretch that begins at ``earliest`` or later."""
        powers = [float(np.dot(piece.samples, piece.samples)) / len(piece.samples) for piece in self.pieces]
        stretches = np.convolve(powers, np.ones(_QUIET_PIECES), "valid")
        starts = np.array(self._starts())
        stretches[starts[: len(stretches)] < earliest] = np.inf
        return int(starts[np.argmin(stretches) + _QUIET_PIECES // 2])
