"""What the Whisper goldens cover, and how arrays are reduced to be kept: for their maker and their test."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..recordings import load, manifest

Floats = NDArray[np.float32]

HOP = 160
"""Samples of 16 kHz audio in one mel frame; two frames make one encoder position."""

BUCKETS = (256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1408, 1500)
"""Encoder lengths, in positions of 20 ms."""

SPEECH = "en_read/jfk.flac"
OTHER_SPEECH = "en_read/ljspeech/LJ001-0001.flac"
FULL_WINDOWS = (SPEECH, OTHER_SPEECH)
"""Clips whose encoder output and decoder logits are kept."""

LANGUAGES = (
    SPEECH,
    "multi/de/kerstin/de_rhasspy-0155.flac",
    "multi/zh/firered_BAC009S0764W0121.flac",
    "multi/ko/picovoice_leopard_test_ko.flac",
)
"""Clips whose language probabilities are kept."""

SKETCH_DIRECTIONS = 4
VOCABULARY_STRIDE = 101
TOP = 10


def greedy_clips() -> list[str]:
    """Clips under 30 s whose greedy text is kept: all of read English, and those of other languages above."""
    read = [clip.path for clip in manifest() if clip.folder == "en_read" and clip.duration < 30]
    return [*read, *(clip for clip in LANGUAGES if clip not in read)]


def language_of(clip: str) -> str:
    """The language that is forced."""
    folder, language, *_ = clip.split("/")
    return language if folder == "multi" else "en"


def mel_inputs() -> Mapping[str, tuple[Floats, int]]:
    """Name to samples and frames: speech, silence, less than one FFT window, and windows of other lengths."""
    speech = load(SPEECH)
    return {
        "speech": (speech, 3000),
        "other_speech": (load(OTHER_SPEECH), 3000),
        "shorter_than_one_fft": (speech[16000:16100], 3000),
        "one_sample": (speech[16000:16001], 3000),
        "silence": (np.zeros(16000, np.float32), 3000),
        "quiet": (speech * np.float32(1e-4), 3000),
        "full_window": (long_speech(), 3000),
        "short_window": (speech[: 300 * HOP], 512),
        "filled_short_window": (speech[: 512 * HOP], 512),
    }


def long_speech() -> Floats:
    """30 s of speech: the clip over and over."""
    return np.resize(load(SPEECH), 3000 * HOP)


def mel_columns(frames: int) -> NDArray[np.intp]:
    """The kept frames of a log-mel: both ends whole, every 29th between."""
    return np.unique(np.r_[0:6, 6:frames:29, frames - 6 : frames])


def sketch(matrix: Floats) -> dict[str, Floats]:
    """A few rows of ``matrix`` [rows, columns], and projections of all rows: any wrong one shows."""
    rows, columns = matrix.shape
    phases = np.outer(np.arange(columns) ** 2, 1 + np.arange(SKETCH_DIRECTIONS))
    directions = np.cos(phases).astype(np.float32)
    return {
        "rows": matrix[:: max(1, rows // 8)].astype(np.float32),
        "projections": (matrix @ directions).astype(np.float32),
    }


def logits_sketch(logits: Floats) -> dict[str, NDArray[np.float32] | NDArray[np.int32]]:
    """Of logits [tokens, vocabulary]: every 101st column, and the best ids of each row with their values."""
    best = np.argsort(-logits, axis=1, kind="stable")[:, :TOP]
    return {
        "columns": logits[:, ::VOCABULARY_STRIDE].astype(np.float32),
        "best_ids": best.astype(np.int32),
        "best_logits": np.take_along_axis(logits, best, axis=1).astype(np.float32),
    }
