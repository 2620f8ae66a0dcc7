"""Reads GGUF files: our own for ``info`` and ``quantize``, and others' for ``convert``.

gguf's reader is not used: it trusts the counts in a file, and may never return from a damaged one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf.constants import GGUF_DEFAULT_ALIGNMENT, GGUFValueType

from .binary import BinaryReader, reading
from .errors import REMEDY, ModelError
from .file_types import stored_size
from .mel_filters import FILTERBANKS
from .stored_tensor import MAX_RANK, checked_type, stored_tensor
from .tensor import Tensor

MAGIC = b"GGUF"
_VERSION = 3
_NUMBER_FORMATS = {
    GGUFValueType.UINT8: "B",
    GGUFValueType.INT8: "b",
    GGUFValueType.UINT16: "H",
    GGUFValueType.INT16: "h",
    GGUFValueType.UINT32: "I",
    GGUFValueType.INT32: "i",
    GGUFValueType.UINT64: "Q",
    GGUFValueType.INT64: "q",
    GGUFValueType.FLOAT32: "f",
    GGUFValueType.FLOAT64: "d",
    GGUFValueType.BOOL: "?",
}


@dataclass(frozen=True)
class Field:
    """A piece of metadata."""

    value: Any
    type: GGUFValueType
    item_type: GGUFValueType | None = None
    """What an array holds."""


@dataclass(frozen=True)
class GgufModel:
    """A model file that was looked at. Its tensors are read when they are asked for."""

    path: Path
    fields: Mapping[str, Field]
    """Metadata by key, in file order."""
    tensors: Mapping[str, Tensor]

    def value(self, key: str) -> Any:
        """A piece of metadata. Raises ModelError where it is not there."""
        if key not in self.fields:
            raise ModelError(self.path, f"lacks {key}", REMEDY)
        return self.fields[key].value


def read_gguf(path: Path) -> GgufModel:
    """Reads all but the tensors' data. Raises ModelError where the file is missing, damaged or foreign."""
    with reading(path) as reader:
        if reader.read(len(MAGIC), "the header") != MAGIC:
            raise ModelError(path, "is not a GGUF file", "convert it with `stenod models convert`")
        version, tensor_count, field_count = reader.numbers("IQQ", "the header")
        if version != _VERSION:
            raise ModelError(
                path, f"has version {version} of GGUF, not {_VERSION}", "convert the model again"
            )
        fields: dict[str, Field] = {}
        for _ in range(field_count):
            key = _read_string(reader)
            fields[key] = _read_field(reader, key)
        tensors = _read_tensors(reader, tensor_count, _alignment(reader, fields))
    model = GgufModel(path, fields, tensors)
    architecture = model.value("general.architecture")
    if architecture not in FILTERBANKS:
        known = ", ".join(FILTERBANKS)
        raise ModelError(path, f"holds a model of the family {architecture!r}", f"choose one of: {known}")
    return model


def read_own_gguf(path: Path) -> GgufModel:
    """``read_gguf`` for a file that must be in our own layout. Raises ModelError where it is another's."""
    model = read_gguf(path)
    if FILTERBANKS[model.value("general.architecture")] not in model.tensors:
        fault = "is a model file of another program, without its filterbank"
        raise ModelError(path, fault, "convert it with `stenod models convert`")
    return model


def _read_string(reader: BinaryReader) -> str:
    data = reader.read(reader.number("Q", "a string's length"), "a string")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise reader.fault(f"a string is not UTF-8 ({error})") from error


def _read_field(reader: BinaryReader, key: str) -> Field:
    type = _read_type(reader, key)
    if type != GGUFValueType.ARRAY:
        return Field(_read_values(reader, key, type, 1)[0], type)
    item_type = _read_type(reader, key)
    count = reader.number("Q", key)
    if count > reader.remaining:
        raise reader.fault(f"{key} has {count} items, more than the file can hold")
    return Field(_read_values(reader, key, item_type, count), type, item_type)


def _read_type(reader: BinaryReader, key: str) -> GGUFValueType:
    number = reader.number("I", key)
    try:
        return GGUFValueType(number)
    except ValueError as error:
        raise reader.fault(f"{key} has the unknown type {number}") from error


def _read_values(reader: BinaryReader, key: str, type: GGUFValueType, count: int) -> list[Any]:
    if type == GGUFValueType.STRING:
        return [_read_string(reader) for _ in range(count)]
    if type not in _NUMBER_FORMATS:
        raise reader.fault(f"{key} is an array of arrays")
    return list(reader.numbers(f"{count}{_NUMBER_FORMATS[type]}", key))


def _alignment(reader: BinaryReader, fields: Mapping[str, Field]) -> int:
    field = fields.get("general.alignment", Field(GGUF_DEFAULT_ALIGNMENT, GGUFValueType.UINT32))
    if field.type != GGUFValueType.UINT32 or field.value == 0:
        raise reader.fault(f"it has the alignment {field.value}")
    alignment: int = field.value
    return alignment


def _read_tensors(reader: BinaryReader, count: int, alignment: int) -> dict[str, Tensor]:
    found = [_read_tensor_header(reader) for _ in range(count)]
    start = -(-reader.position // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for name, shape, type_number, offset in found:
        stored = checked_type(reader, name, type_number, shape)
        if start + offset + stored_size(shape, stored) > reader.size:
            raise reader.fault(f"it is cut short: its {reader.size} bytes end within {name}")
        tensors[name] = stored_tensor(reader.path, start + offset, shape, stored)
    return tensors


def _read_tensor_header(reader: BinaryReader) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape, number of the type, and where its data begins within all data."""
    name = _read_string(reader)
    rank = reader.number("I", name)
    if not 0 < rank <= MAX_RANK:
        raise reader.fault(f"{name} has {rank} dimensions")
    shape = reader.numbers(f"{rank}Q", name)[::-1]
    return name, shape, *reader.numbers("IQ", name)
