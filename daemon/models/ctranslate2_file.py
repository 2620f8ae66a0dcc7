"""The container of CTranslate2's models: named arrays in ``model.bin``."""

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .binary import BinaryReader, read_array, reading
from .errors import ModelError

_VERSIONS = range(4, 7)
_ITEM_TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "bfloat16")
_ITEM_SIZES = (4, 1, 2, 4, 2, 2)
_MAX_RANK = 4


@dataclass(frozen=True)
class Variable:
    """One named array; its bytes are known to be in the file."""

    path: Path
    shape: tuple[int, ...]
    """Row-major; empty for a single number."""
    type_number: int
    offset: int

    @property
    def is_integer(self) -> bool:
        """Whether it is a single whole number."""
        return not self.shape and "i" in _ITEM_TYPES[self.type_number]

    def rows(self, start: int, stop: int) -> "Variable":
        """Part of the array along its first dimension."""
        row_size = prod(self.shape[1:]) * _ITEM_SIZES[self.type_number]
        return replace(self, shape=(stop - start, *self.shape[1:]), offset=self.offset + start * row_size)

    def load(self) -> NDArray[np.float32]:
        """Reads the numbers as they are stored, without the scale of a quantised array. Raises ModelError."""
        kind = _ITEM_TYPES[self.type_number]
        if kind == "bfloat16":
            upper_halves = read_array(self.path, self.offset, self.shape, "<u2").astype(np.uint32)
            return (upper_halves << 16).view(np.float32)
        return read_array(self.path, self.offset, self.shape, kind).astype(np.float32)


def read_variables(path: Path) -> dict[str, Variable]:
    """All arrays of a Whisper model by name, aliases included. Raises ModelError."""
    with reading(path) as reader:
        _read_header(reader)
        variables: dict[str, Variable] = {}
        for _ in range(reader.number("I", "the header")):
            name = _read_string(reader)
            variables[name] = _read_variable(reader, name)
        for _ in range(reader.number("I", "the list of aliases")):
            alias, target = _read_string(reader), _read_string(reader)
            if target not in variables:
                raise reader.fault(f"the alias {alias!r} stands for {target!r}, which is not there")
            variables[alias] = variables[target]
        if reader.remaining:
            raise reader.fault(f"something follows its end at byte {reader.position}")
    return variables


def _read_header(reader: BinaryReader) -> None:
    version = reader.number("I", "the header")
    if version not in _VERSIONS:
        fault = f"has version {version} of CTranslate2's format, not {_VERSIONS[0]} to {_VERSIONS[-1]}"
        raise ModelError(reader.path, fault, "export the model again with a current CTranslate2")
    specification = _read_string(reader)
    if specification != "WhisperSpec":
        raise ModelError(reader.path, f"holds a {specification!r}", "choose a Whisper model")
    reader.number("I", "the header")  # the specification's revision, which changes nothing for us


def _read_string(reader: BinaryReader) -> str:
    data = reader.read(reader.number("H", "a name's length"), "a name")
    if not data.endswith(b"\0"):
        raise reader.fault("a name does not end where it says")
    return data[:-1].decode("utf-8", "backslashreplace")


def _read_variable(reader: BinaryReader, name: str) -> Variable:
    rank = reader.number("B", f"the rank of {name}")
    if rank > _MAX_RANK:
        raise reader.fault(f"{name} has {rank} dimensions")
    shape = reader.numbers(f"{rank}I", f"the shape of {name}")
    type_number = reader.number("B", f"the type of {name}")
    if type_number >= len(_ITEM_TYPES):
        raise reader.fault(f"{name} has the unknown type {type_number}")
    size = reader.number("I", f"the size of {name}")
    if size != prod(shape) * _ITEM_SIZES[type_number]:
        raise reader.fault(f"{name} has {size} bytes, which do not make the shape {list(shape)}")
    return Variable(reader.path, shape, type_number, reader.skip(size, name))
