"""What whisper.cpp's ggml ``.bin`` files of all model families have in common."""

from .binary import BinaryReader
from .errors import ModelError
from .file_types import stored_size
from .stored_tensor import BLOCK_TYPES, MAX_RANK, checked_type, stored_tensor
from .tensor import Tensor

MAGIC = 0x67676D6C
_QUANTISATION_VERSION = 2
"""Of blocks as gguf knows them; those of older versions are laid out differently."""


def read_strings(reader: BinaryReader, count: int) -> list[bytes]:
    """``count`` strings, each after its length. Raises ModelError."""
    return [reader.read(reader.number("I", "a token's length"), "a token") for _ in range(count)]


def read_tensors(reader: BinaryReader, quantisation_version: int) -> dict[str, Tensor]:
    """All tensors up to the end of the file; they are read when they are asked for. Raises ModelError."""
    tensors: dict[str, Tensor] = {}
    while reader.remaining:
        name, tensor = _read_tensor(reader, quantisation_version)
        tensors[name] = tensor
    return tensors


def _read_tensor(reader: BinaryReader, quantisation_version: int) -> tuple[str, Tensor]:
    rank, name_length, type_number = reader.numbers("3i", "a tensor's header")
    if not 0 < rank <= MAX_RANK:
        raise reader.fault(f"a tensor has {rank} dimensions")
    shape = reader.numbers(f"{rank}i", "a tensor's shape")[::-1]
    name = reader.read(name_length, "a tensor's name").decode("utf-8", "backslashreplace")
    stored = checked_type(reader, name, type_number, shape)
    if stored.name in BLOCK_TYPES and quantisation_version != _QUANTISATION_VERSION:
        raise ModelError(
            reader.path,
            f"is quantised in a way that is no longer used (version {quantisation_version})",
            "get its f16 file instead, or quantise it again",
        )
    offset = reader.skip(stored_size(shape, stored), name)
    return name, stored_tensor(reader.path, offset, shape, stored)
