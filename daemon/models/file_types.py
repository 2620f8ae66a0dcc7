"""The number formats in which a model's matrices can be stored."""

from dataclasses import dataclass
from math import prod

import gguf
from gguf.constants import GGMLQuantizationType, LlamaFileType

from .errors import ModelError


@dataclass(frozen=True)
class FileType:
    """One number format, as ``stenod`` names it and as GGUF numbers it."""

    name: str
    general: LlamaFileType
    """The value of ``general.file_type``."""
    matrix: GGMLQuantizationType
    """How linear weights and the token embedding are stored."""
    convolution: GGMLQuantizationType
    """How convolutions over several frames are stored."""


FILE_TYPES = {
    "f32": FileType("f32", LlamaFileType.ALL_F32, GGMLQuantizationType.F32, GGMLQuantizationType.F32),
    "f16": FileType("f16", LlamaFileType.MOSTLY_F16, GGMLQuantizationType.F16, GGMLQuantizationType.F16),
    "q8_0": FileType("q8_0", LlamaFileType.MOSTLY_Q8_0, GGMLQuantizationType.Q8_0, GGMLQuantizationType.F16),
    "q5_0": FileType("q5_0", LlamaFileType.MOSTLY_Q5_0, GGMLQuantizationType.Q5_0, GGMLQuantizationType.F16),
    "q4_0": FileType("q4_0", LlamaFileType.MOSTLY_Q4_0, GGMLQuantizationType.Q4_0, GGMLQuantizationType.F16),
}
"""By name, the most precise first."""

DEFAULT_FILE_TYPE = "f16"


def file_type(name: str) -> FileType:
    """The format of that name. Raises ModelError for an unknown one."""
    if name not in FILE_TYPES:
        raise ModelError(name, "is not a type of model file", f"choose one of {', '.join(FILE_TYPES)}")
    return FILE_TYPES[name]


def stored_shape(shape: tuple[int, ...], chosen: FileType) -> tuple[int, ...]:
    """A tensor's shape in a file of the ``chosen`` type.

    A convolution over one frame is quantised as the matrix that it is: its own rows have one number.
    """
    is_quantised = chosen.matrix != chosen.convolution
    return shape[:2] if is_quantised and len(shape) == 3 and shape[2] == 1 else shape


def tensor_type(name: str, shape: tuple[int, ...], chosen: FileType) -> GGMLQuantizationType:
    """How a tensor of that ``stored_shape`` is stored in a file of the ``chosen`` type.

    Vectors, positions, the mel filters, two-dimensional and depthwise convolutions are small and sensitive:
    always f32. Rows that cannot be cut into whole blocks keep f16.
    """
    is_weight = name.endswith((".weight", ".Wx", ".Wh"))
    if not is_weight or len(shape) in (1, 4) or ".depthwise." in name:
        return GGMLQuantizationType.F32
    if len(shape) == 3:
        return chosen.convolution
    block_length, _ = gguf.GGML_QUANT_SIZES[chosen.matrix]
    return chosen.matrix if shape[-1] % block_length == 0 else GGMLQuantizationType.F16


def stored_size(shape: tuple[int, ...], stored: GGMLQuantizationType) -> int:
    """Bytes that a tensor of ``shape`` takes in a file."""
    block_length, block_bytes = gguf.GGML_QUANT_SIZES[stored]
    return prod(shape) // block_length * block_bytes
