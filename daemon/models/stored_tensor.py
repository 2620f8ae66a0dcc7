"""Tensors that lie in a file in one of ggml's number formats."""

from math import prod
from pathlib import Path

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from .binary import BinaryReader, read_array
from .file_types import stored_size
from .tensor import Tensor

MAX_RANK = 4
PLAIN_TYPES = ("F32", "F16", "BF16")
BLOCK_TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
_TYPES = {int(GGMLQuantizationType[name]): GGMLQuantizationType[name] for name in PLAIN_TYPES + BLOCK_TYPES}


def checked_type(
    reader: BinaryReader, name: str, number: int, shape: tuple[int, ...]
) -> GGMLQuantizationType:
    """The format with ggml's ``number``. Raises ModelError where it is unknown or cannot have that shape."""
    if number not in _TYPES:
        raise reader.fault(f"{name} has the unknown type {number}")
    block_length, _ = gguf.GGML_QUANT_SIZES[_TYPES[number]]
    if not 0 < len(shape) <= MAX_RANK or min(shape) <= 0 or shape[-1] % block_length:
        raise reader.fault(f"{name} has the shape {list(shape)}, which {_TYPES[number].name} cannot have")
    return _TYPES[number]


def stored_tensor(path: Path, offset: int, shape: tuple[int, ...], stored: GGMLQuantizationType) -> Tensor:
    """The tensor whose bytes begin at ``offset``; they must be there."""
    rows = prod(shape[:-1])
    row_size = stored_size(shape, stored) // rows

    def load() -> NDArray[np.float32]:
        values: NDArray[np.float32] = gguf.quants.dequantize(
            read_array(path, offset, (rows, row_size), np.uint8), stored
        )
        return values.reshape(shape)

    return Tensor(shape, load)
