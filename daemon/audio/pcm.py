"""PCM as a sender declares it, decoded to what the engine hears: mono float32 at 16 kHz."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .resample import SAMPLE_RATE, MonoResampler, ResumePoint, finite

LOWEST_RATE, HIGHEST_RATE = 8000, 192000
MOST_CHANNELS = 8


class UnsupportedAudio(ValueError):
    """A declared audio format cannot be used; names the field, what is wrong, and what is accepted."""

    def __init__(self, field: str, fault: str, accepted: str) -> None:
        super().__init__(f"{field}: {fault}; accepted: {accepted}")
        self.field = field


def _linear(dtype: str, full_scale: float) -> Callable[[bytes], NDArray[np.float32]]:
    def decode(data: bytes) -> NDArray[np.float32]:
        return np.frombuffer(data, dtype).astype(np.float32) / np.float32(full_scale)

    return decode


def _s24le(data: bytes) -> NDArray[np.float32]:
    widened = np.zeros((len(data) // 3, 4), np.uint8)
    widened[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
    return _linear("<i4", 2**31)(widened.tobytes())


def _f32le(data: bytes) -> NDArray[np.float32]:
    return finite(np.frombuffer(data, "<f4"))


def _u8(data: bytes) -> NDArray[np.float32]:
    return (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(128)


def _mulaw_table() -> NDArray[np.float32]:
    """The 256 values of ITU-T G.711 mu-law: inverted bits, then sign, exponent (3), mantissa (4)."""
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4 & 7).astype(np.int32), (code & 15).astype(np.int32)
    magnitude = ((2 * mantissa + 33) << exponent + 2) - 132
    return _signed(magnitude, negative=code & 128 != 0)


def _alaw_table() -> NDArray[np.float32]:
    """The 256 values of ITU-T G.711 A-law: even bits inverted, then sign, exponent (3), mantissa (4)."""
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code >> 4 & 7).astype(np.int32), (code & 15).astype(np.int32)
    leading = np.where(exponent > 0, 33, 1)
    magnitude = (2 * mantissa + leading) << np.maximum(exponent, 1) + 2
    return _signed(magnitude, negative=code & 128 == 0)


def _signed(magnitude: NDArray[np.int32], negative: NDArray[np.bool_]) -> NDArray[np.float32]:
    table: NDArray[np.float32] = np.where(negative, -magnitude, magnitude).astype(np.float32)
    return table / np.float32(2**15)


def _companded(table: NDArray[np.float32]) -> Callable[[bytes], NDArray[np.float32]]:
    def decode(data: bytes) -> NDArray[np.float32]:
        return table[np.frombuffer(data, np.uint8)]

    return decode


_DECODERS: dict[str, tuple[int, Callable[[bytes], NDArray[np.float32]]]] = {
    "s16le": (2, _linear("<i2", 2**15)),
    "s24le": (3, _s24le),
    "s32le": (4, _linear("<i4", 2**31)),
    "f32le": (4, _f32le),
    "u8": (1, _u8),
    "mulaw": (1, _companded(_mulaw_table())),
    "alaw": (1, _companded(_alaw_table())),
}
"""Encoding: bytes a sample, and how whole samples become floats in [-1, 1]."""

_COMPRESSED = frozenset(
    {"aac", "adpcm", "amr", "flac", "g722", "g726", "g729", "gsm", "m4a", "mp3", "mp4", "ogg", "ogg-opus"}
    | {"opus", "speex", "vorbis", "webm", "wma"}
)


@dataclass(frozen=True)
class AudioFormat:
    """How a sender's PCM is laid out: little-endian samples, channels interleaved.

    Raises ``UnsupportedAudio`` for what the daemon does not take.
    """

    encoding: str = "s16le"
    sample_rate: int = SAMPLE_RATE
    channels: int = 1

    def __post_init__(self) -> None:
        if self.encoding not in _DECODERS:
            fault = "is compressed, decode it first" if self.encoding in _COMPRESSED else "is unknown"
            raise UnsupportedAudio("encoding", f"{self.encoding!r} {fault}", ", ".join(_DECODERS))
        if not LOWEST_RATE <= self.sample_rate <= HIGHEST_RATE:
            fault = f"{self.sample_rate} Hz is out of range"
            raise UnsupportedAudio("sample_rate", fault, f"{LOWEST_RATE} to {HIGHEST_RATE}")
        if not 1 <= self.channels <= MOST_CHANNELS:
            fault = f"{self.channels} is out of range"
            raise UnsupportedAudio("channels", fault, f"1 to {MOST_CHANNELS}")

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of every channel."""
        return _DECODERS[self.encoding][0] * self.channels


class PcmDecoder:
    """Decodes a stream of PCM bytes, cut anywhere, to mono float32 at 16 kHz.

    The samples that come out depend on the bytes alone, not on where they were cut.
    """

    def __init__(self, audio_format: AudioFormat) -> None:
        self.format = audio_format
        self._carried = b""
        self._resampler = MonoResampler(audio_format.sample_rate)

    @property
    def received_frames(self) -> int:
        """Sample frames received at the declared rate, skipped ones included."""
        return self._resampler.received

    @property
    def resume_point(self) -> ResumePoint:
        """Where another decoder goes on as this one would."""
        return self._resampler.resume_point

    def go_on(self, point: ResumePoint) -> None:
        """Goes on for another decoder. Call it before anything else."""
        self._resampler.go_on(point)

    def feed(self, data: bytes) -> NDArray[np.float32]:
        """Returns the samples [n] that ``data`` completes; a frame cut at its end waits for the next call."""
        data = self._carried + data
        whole = len(data) - len(data) % self.format.frame_bytes
        self._carried = data[whole:]
        _, decode = _DECODERS[self.format.encoding]
        return self._resampler.feed(decode(data[:whole]).reshape(-1, self.format.channels))

    def realign(self) -> None:
        """Forgets a frame that was cut: what follows begins with a whole one."""
        self._carried = b""

    def flush(self) -> NDArray[np.float32]:
        """Returns the samples [n] still held back by the resampler; a frame that was cut goes on waiting."""
        return self._resampler.flush()

    def skip(self, frames: int) -> int:
        """Counts ``frames`` that the sender lost; returns how many samples at 16 kHz they are.

        Call ``flush`` first: what came before the hole belongs before it.
        """
        return self._resampler.skip(frames)
