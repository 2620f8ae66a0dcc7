"""A tensor of a model that is being converted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Tensor:
    """A tensor that is read when it is needed, so that a model larger than the memory can be converted."""

    shape: tuple[int, ...]
    load: Callable[[], NDArray[np.float32]]
    """Reads and decodes the data; blocks. Raises ModelError where the source turns out to be damaged."""

    def reshaped(self, shape: tuple[int, ...]) -> "Tensor":
        """The same numbers in another shape, which must have as many of them."""
        return Tensor(shape, lambda: self.load().reshape(shape))
