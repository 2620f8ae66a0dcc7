"""What a source asks of its session, in order; audio among it."""

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from .events import EndReason, GapReason
from .utterance import Configuration


class Samples(msgspec.Struct, frozen=True, tag="samples"):
    """Mono audio at 16 kHz, as it is kept on disk; nothing is lost by it."""

    encoding: Literal["s16", "f32"]
    data: bytes

    @classmethod
    def of(cls, samples: NDArray[np.float32]) -> "Samples":
        """``samples`` [n], in the smaller encoding if they were such integers before."""
        scaled = samples * np.float32(32768)
        integers = np.rint(scaled)
        if np.array_equal(integers, scaled) and np.all((integers >= -32768) & (integers <= 32767)):
            return cls("s16", integers.astype("<i2").tobytes())
        return cls("f32", samples.astype("<f4").tobytes())

    @property
    def samples(self) -> NDArray[np.float32]:
        """The samples [n]."""
        if self.encoding == "s16":
            return np.frombuffer(self.data, "<i2").astype(np.float32) / np.float32(32768)
        return np.frombuffer(self.data, "<f4").astype(np.float32)


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    """Holds from the next utterance on."""

    configuration: Configuration


class Flush(msgspec.Struct, frozen=True, tag="flush"):
    """End the utterance now, then answer."""

    id: str | int | None


class Clear(msgspec.Struct, frozen=True, tag="clear"):
    """Forget the open utterance."""


class Missing(msgspec.Struct, frozen=True, tag="missing"):
    """So many samples at 16 kHz were lost."""

    samples: int
    reason: GapReason


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """No more audio."""

    reason: EndReason


Request = NDArray[np.float32] | Configure | Flush | Clear | Missing | Finish
