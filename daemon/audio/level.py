"""Watches the level of a source for what a person should be told: no signal at all, or clipping."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .resample import SAMPLE_RATE

Fault = Literal["silent_input", "clipping"]
MESSAGES: dict[Fault, str] = {
    "silent_input": "nothing but digital silence comes in: check that the microphone is on and not muted",
    "clipping": "the input is too loud and is cut off: turn the gain down",
}
"""What to tell a person."""

_SILENT_AFTER = 5 * SAMPLE_RATE
"""Samples of exact zeros after which a source counts as dead: no working microphone is that quiet."""
_WINDOW = SAMPLE_RATE
_CLIPPED_SHARE = 0.01
"""Share of a window's samples at full scale from which on it is called clipping."""
_FULL_SCALE = 0.999


class LevelMonitor:
    """Tells each fault once, and again only after it was gone."""

    def __init__(self) -> None:
        self._zeros = 0
        self._silent = False
        self._window = np.zeros(0, np.float32)
        self._clipping = False

    def feed(self, samples: NDArray[np.float32]) -> list[Fault]:
        """Takes mono samples [n] at 16 kHz; returns the faults that began: ``silent_input``, ``clipping``."""
        return [*self._watch_silence(samples), *self._watch_clipping(samples)]

    def _watch_silence(self, samples: NDArray[np.float32]) -> Iterator[Fault]:
        sounding = np.flatnonzero(samples)
        if len(sounding):
            self._silent = False
            self._zeros = len(samples) - 1 - int(sounding[-1])
        else:
            self._zeros += len(samples)
        if self._zeros >= _SILENT_AFTER and not self._silent:
            self._silent = True
            yield "silent_input"

    def _watch_clipping(self, samples: NDArray[np.float32]) -> Iterator[Fault]:
        self._window = np.concatenate([self._window, samples])
        while len(self._window) >= _WINDOW:
            window, self._window = self._window[:_WINDOW], self._window[_WINDOW:]
            clipping = float(np.mean(np.abs(window) >= _FULL_SCALE)) >= _CLIPPED_SHARE
            if clipping and not self._clipping:
                yield "clipping"
            self._clipping = clipping
