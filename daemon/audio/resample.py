"""Interleaved frames at any rate in, mono at 16 kHz out."""

import numpy as np
import soxr
from numpy.typing import NDArray

SAMPLE_RATE = 16000
"""The rate of all audio inside the daemon, in Hz."""

_LIMIT = 32768.0
"""Far louder than any sound: integers sent as floats stay usable, and squares stay finite."""


def finite(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """``samples`` with NaN and infinities as silence, and absurd values bounded. Any shape."""
    return np.clip(np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0), -_LIMIT, _LIMIT)


class MonoResampler:
    """Mixes the channels down and resamples to ``SAMPLE_RATE``.

    What comes out depends on the samples alone, not on how they were cut into calls.
    """

    def __init__(self, sample_rate: int) -> None:
        same = sample_rate == SAMPLE_RATE
        self._stream = None if same else soxr.ResampleStream(sample_rate, SAMPLE_RATE, num_channels=1)
        # The resampler always sees blocks of one size, so that a caller's cuts cannot change its arithmetic.
        self._block = sample_rate // 50
        self._pending = np.zeros(0, np.float32)

    def feed(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """Takes frames [n, channels]; returns mono samples [m]; the newest ones may be held back."""
        mono = frames[:, 0] if frames.shape[1] == 1 else frames.mean(axis=1, dtype=np.float32)
        if self._stream is None:
            return mono
        self._pending = np.concatenate([self._pending, mono])
        whole = len(self._pending) - len(self._pending) % self._block
        blocks = self._pending[:whole].reshape(-1, self._block)
        self._pending = self._pending[whole:]
        return _joined([self._stream.resample_chunk(block) for block in blocks])

    def flush(self) -> NDArray[np.float32]:
        """Returns the samples [m] still held back. The next ``feed`` begins a fresh signal."""
        if self._stream is None:
            return np.zeros(0, np.float32)
        tail: NDArray[np.float32] = self._stream.resample_chunk(self._pending, last=True)
        self._stream.clear()
        self._pending = np.zeros(0, np.float32)
        return tail


def _joined(pieces: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
