"""Voice activity: which 20 ms of sound are speech, and whether the detector has gone deaf."""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import webrtcvad
from numpy.typing import NDArray

from .audio.resample import SAMPLE_RATE

FRAME = SAMPLE_RATE // 50
"""Samples of one frame: 20 ms."""


def _decibels(value: float) -> float:
    return 10 ** (value / 10)


_STANDS_OUT = _decibels(12)
"""Power of a foreground sound, relative to the noise floor."""
_FADING = _decibels(1) ** (1 / 50)
"""By how much the floor rises, and the memory of the loudest sound fades, in a frame: 1 dB a second."""
_FAINTEST = _decibels(-75)
"""Power below which nothing counts as sound; full scale is 1."""
_COMFORTABLE = _decibels(-25)
"""Power to which the loudest sounds of a quiet source are raised for the detector."""
_MOST_GAIN = _decibels(40)
_DEAF_AFTER = 10 * 50
"""Frames of unheard foreground sound after which the detector counts as deaf."""
_REMEMBERED = 5 * 50
"""Frames that a renewed detector is made to hear first: it adapts within less."""


@dataclass(frozen=True)
class DetectorState:
    """What a renewed detector's judgement of later sound depends on."""

    heard: bytes
    """The last frames as the detector got them."""
    floor: float
    loudest: float
    unheard: float


class _Loudness:
    """Follows the noise floor and the loudest sounds of a source, in power per sample."""

    def __init__(self) -> None:
        self.floor = math.inf
        self.loudest = 0.0
        self.power = 0.0

    def feed(self, frame: NDArray[np.float32]) -> None:
        """Takes the next FRAME samples."""
        self.power = float(np.dot(frame, frame)) / len(frame)
        self.floor = max(min(self.power, self.floor * _FADING), _FAINTEST / _STANDS_OUT)
        self.loudest = max(self.power, self.loudest / _FADING)

    @property
    def stands_out(self) -> bool:
        """Whether the frame is foreground."""
        return self.power > self.floor * _STANDS_OUT

    @property
    def gain(self) -> float:
        """The amplification that a quiet source needs; 1 while there is nothing but background."""
        if self.loudest <= self.floor * _STANDS_OUT:
            return 1.0
        return math.sqrt(min(max(_COMFORTABLE / self.loudest, 1.0), _MOST_GAIN))


class VoiceDetector:
    """WebRTC's detector, which adapts to the noise of one source, made to hear quiet sources too.

    ``mode`` 0: everything may be speech; 3: only what certainly is.
    """

    def __init__(self, mode: int) -> None:
        self._detector = webrtcvad.Vad(mode)
        self._mode = mode
        self._heard: deque[bytes] = deque(maxlen=_REMEMBERED)
        self._loudness = _Loudness()
        self._unheard = 0.0
        """Frames of foreground sound since the last speech, less half of the background's."""

    def is_speech(self, frame: NDArray[np.float32]) -> bool:
        """Judges the next FRAME samples, nominally in [-1, 1]; louder ones count as full scale."""
        self._loudness.feed(frame)
        pcm = np.clip(frame * (32768 * self._loudness.gain), -32768, 32767).astype("<i2")
        heard = pcm.tobytes()
        self._heard.append(heard)
        speech = bool(self._detector.is_speech(heard, SAMPLE_RATE))
        # Pauses are part of talking: they take back less than sound adds.
        change = 1.0 if self._loudness.stands_out else -0.5
        self._unheard = 0.0 if speech else max(0.0, self._unheard + change)
        return speech

    def reset_if_deaf(self) -> bool:
        """If a foreground sound went on and on, and none of it was found to be speech, starts afresh."""
        deaf = self._unheard >= _DEAF_AFTER
        if deaf:
            self._detector = webrtcvad.Vad(self._mode)
            self._heard.clear()
            self._unheard = 0.0
        return deaf

    def renew(self) -> DetectorState:
        """From now on only the last sounds count, which the state holds: it can be gone on from elsewhere."""
        self._detector = webrtcvad.Vad(self._mode)
        for heard in self._heard:
            self._detector.is_speech(heard, SAMPLE_RATE)
        loudness = self._loudness
        return DetectorState(b"".join(self._heard), loudness.floor, loudness.loudest, self._unheard)

    def restore(self, state: DetectorState) -> None:
        """Goes on from a state that ``renew`` returned."""
        size = 2 * FRAME
        self._heard.clear()
        self._heard.extend(state.heard[i : i + size] for i in range(0, len(state.heard), size))
        self._loudness.floor, self._loudness.loudest = state.floor, state.loudest
        self._unheard = state.unheard
        self.renew()
