"""Interleaved frames at any rate in, mono at 16 kHz out."""

import math
from typing import NamedTuple

import numpy as np
import soxr
from numpy.typing import NDArray

SAMPLE_RATE = 16000
"""The rate of all audio inside the daemon, in Hz."""

_BLOCK_S = 0.04
"""Audio that is resampled together; longer where a rate has no block so short that is whole samples too."""
_CONTEXT_S = 0.016
"""Audio before and after a block that what comes out depends on: soxr's filters reach less far."""
_LIMIT = 32768.0
"""Far louder than any sound: integers sent as floats stay usable, and squares stay finite."""


def finite(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """``samples`` with NaN and infinities as silence, and absurd values bounded. Any shape."""
    return np.clip(np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0), -_LIMIT, _LIMIT)


class ResumePoint(NamedTuple):
    """Where another resampler goes on as if it were this one, if it is given the same frames again."""

    frames: int
    """Frames before the first that has to be given again, skipped ones included."""
    context: int
    """Of those given again, the first ones, which only surround others: their samples came out before."""


class MonoResampler:
    """Mixes the channels down and resamples to ``SAMPLE_RATE``.

    What comes out depends on the samples alone, not on how they were cut into calls: a block follows from
    itself and what surrounds it.
    """

    def __init__(self, sample_rate: int) -> None:
        self.received = 0
        """Frames taken, skipped ones included."""
        self._rate = sample_rate
        period = sample_rate // math.gcd(sample_rate, SAMPLE_RATE)
        self._block = period * math.ceil(_BLOCK_S * sample_rate / period)
        self._around = period * math.ceil(_CONTEXT_S * sample_rate / period)
        self._frames = np.zeros(0, np.float32)
        self._context = 0
        """As of ``ResumePoint``."""

    @property
    def resume_point(self) -> ResumePoint:
        """Where another resampler goes on as this one would."""
        return ResumePoint(self.received - len(self._frames), self._context)

    def go_on(self, point: ResumePoint) -> None:
        """Goes on for another resampler. Call it before anything else."""
        self.received, self._context = point

    def feed(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """Takes frames [n, channels]; returns mono samples [m]; the newest ones may be held back."""
        mono = frames[:, 0] if frames.shape[1] == 1 else frames.mean(axis=1, dtype=np.float32)
        self.received += len(mono)
        if self._rate == SAMPLE_RATE:
            return mono
        held = np.concatenate([self._frames, mono])
        resampled = [np.zeros(0, np.float32)]
        while len(held) >= self._context + self._block + self._around:
            end = self._context + self._block
            resampled.append(self._resampled(held[: end + self._around], self._samples(self._block)))
            held, self._context = held[end - self._around :], self._around
        self._frames = held
        return np.concatenate(resampled)

    def flush(self) -> NDArray[np.float32]:
        """Returns the samples [m] still held back. The next ``feed`` begins a fresh signal."""
        if (heard := self.received - len(self._frames) + self._context) > self.received:
            self._context = heard - self.received
            tail = np.zeros(0, np.float32)
        else:
            tail = self._resampled(self._frames, self._samples(self.received) - self._samples(heard))
            self._context = 0
        self._frames = np.zeros(0, np.float32)
        return tail

    def skip(self, frames: int) -> int:
        """Counts ``frames`` that are missing; returns how many samples they are. Call ``flush`` before."""
        heard = self.received + self._context
        self.received += frames
        self._context = max(0, heard - self.received)
        return max(0, self._samples(self.received) - self._samples(heard))

    def _resampled(self, frames: NDArray[np.float32], samples: int) -> NDArray[np.float32]:
        """So many samples of what follows the context."""
        if samples == 0:
            return np.zeros(0, np.float32)
        skipped = self._samples(self._context)
        resampled: NDArray[np.float32] = soxr.resample(frames, self._rate, SAMPLE_RATE)[skipped:][:samples]
        return np.pad(resampled, (0, samples - len(resampled)))

    def _samples(self, frames: int) -> int:
        """Samples in so many frames, rounded."""
        return (2 * frames * SAMPLE_RATE + self._rate) // (2 * self._rate)
