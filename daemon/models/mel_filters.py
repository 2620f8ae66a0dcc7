"""The mel filterbanks that the models were trained with."""

import numpy as np
from numpy.typing import NDArray

from .tensor import Tensor

FILTERBANKS = {"whisper": "mel.filters", "parakeet": "fb"}
"""What the filterbank is called in our files of each model family."""

SAMPLE_RATE = 16000

# Slaney's scale: linear up to 1000 Hz (15 mel), logarithmic above.
_HERTZ_PER_MEL = 200.0 / 3.0
_BREAK_MEL = 15.0
_LOG_STEP = np.log(6.4) / 27.0


def _mel_to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    logarithmic = 1000.0 * np.exp(_LOG_STEP * (mel - _BREAK_MEL))
    return np.where(mel < _BREAK_MEL, _HERTZ_PER_MEL * mel, logarithmic)


def mel_filters(bands: int, fft_length: int) -> NDArray[np.float32]:
    """Triangles of equal area, [bands, fft_length / 2 + 1], evenly spaced in mel from 0 to 8000 Hz."""
    top = _BREAK_MEL + np.log(SAMPLE_RATE / 2 / 1000.0) / _LOG_STEP
    edges = _mel_to_hertz(np.linspace(0.0, top, bands + 2))
    bins = np.linspace(0.0, SAMPLE_RATE / 2, fft_length // 2 + 1)
    widths = np.diff(edges)[:, np.newaxis]
    rising = (bins - edges[:-2, np.newaxis]) / widths[:-1]
    falling = (edges[2:, np.newaxis] - bins) / widths[1:]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    areas = 2.0 / (edges[2:] - edges[:-2])
    return (triangles * areas[:, np.newaxis]).astype(np.float32)


def mel_filters_tensor(bands: int, fft_length: int) -> Tensor:
    """``mel_filters`` as a tensor to write into a file."""
    return Tensor((bands, fft_length // 2 + 1), lambda: mel_filters(bands, fft_length))
