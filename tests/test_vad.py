"""The detector hears quiet and overdriven speech alike, and notices when it has gone deaf."""

import numpy as np
import pytest
from numpy.typing import NDArray
from stenod.vad import FRAME, VoiceDetector

from tests import recordings


def share_of_speech(samples: NDArray[np.float32]) -> float:
    detector = VoiceDetector(2)
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    return float(np.mean([detector.is_speech(frame) for frame in frames]))


@pytest.mark.parametrize("gain_db", [-50, -30, 0, 14])
def test_speech_is_heard_at_any_level(gain_db: float) -> None:
    samples = recordings.load("en_read/ljspeech/LJ001-0004.flac") * np.float32(10 ** (gain_db / 20))
    assert share_of_speech(samples) > 0.8


@pytest.mark.parametrize("level_db", [-80, -60, -40])
def test_steady_noise_is_not_speech_for_long(level_db: float) -> None:
    noise = np.random.default_rng(0).normal(0, 10 ** (level_db / 20), 160000).astype(np.float32)
    assert share_of_speech(noise) < 0.1


def test_silence_is_not_speech() -> None:
    assert share_of_speech(np.zeros(160000, np.float32)) == 0


def hears_nothing_of(samples: NDArray[np.float32]) -> bool:
    detector = VoiceDetector(2)
    for frame in samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME):
        detector.is_speech(frame)
        if detector.reset_if_deaf():
            return True
    return False


def test_deafness_is_unheard_foreground_sound_for_ten_seconds() -> None:
    shrill = (0.1 * np.sin(2 * np.pi * 7000 * np.arange(160000 + 10 * FRAME) / 16000)).astype(np.float32)
    quiet = np.zeros(16000, np.float32)
    assert hears_nothing_of(np.concatenate([quiet, shrill]))
    assert not hears_nothing_of(np.concatenate([quiet, shrill[:150000], quiet]))
    assert not hears_nothing_of(recordings.load("en_long/sonnet_001.flac"))
