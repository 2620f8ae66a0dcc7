"""Reads the tensors that ``torch.save`` wrote, without torch.

Such a file is a zip archive, its entries not compressed: a pickle that tells names, types, shapes and
offsets, and a file for the bytes of each storage. The pickle is untrusted: only the few names that tensors
need are known, and none of them is what it says (nothing of torch, and no code of the file, is ever run).
"""

import collections
import io
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..binary import read_array
from ..errors import REMEDY, ModelError
from ..tensor import Tensor

_NUMBER_TYPES: dict[str, DTypeLike] = {
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "DoubleStorage": "<f8",
    "BFloat16Storage": "<u2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_MAX_PICKLE_BYTES = 64 << 20
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_MAGIC = b"PK\3\4"


@dataclass(frozen=True)
class _StorageKind:
    """What a storage's class stands for."""

    name: str


@dataclass(frozen=True)
class _Storage:
    kind: _StorageKind
    key: str
    """The name of its file in the archive."""


@dataclass(frozen=True)
class _View:
    """A tensor as the pickle describes it. Nothing of it is checked yet."""

    storage: Any
    offset: Any
    shape: Any
    strides: Any


class _TensorBuilder:
    """Stands for torch's function of the same purpose. Has no attributes that a pickle could set."""

    __slots__ = ()

    def __call__(self, storage: object, offset: object, shape: object, strides: object, *_: object) -> _View:
        return _View(storage, offset, shape, strides)


class _ParameterBuilder:
    __slots__ = ()

    def __call__(self, tensor: object, *_: object) -> object:
        return tensor


class _Unpickler(pickle.Unpickler):
    """Knows ordered dictionaries, tensors, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Stands in for the class or function of that name. Raises UnpicklingError for an unknown one."""
        match module, name:
            case "collections", "OrderedDict":
                return collections.OrderedDict
            case "torch._utils", "_rebuild_tensor_v2":
                return _TensorBuilder()
            case "torch._utils", "_rebuild_parameter":
                return _ParameterBuilder()
            case "torch", _ if name in _NUMBER_TYPES:
                return _StorageKind(name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a tensor")

    def persistent_load(self, pid: Any) -> _Storage:
        """What stands for a storage: ("storage", its class, key, device, count)."""
        match pid:
            case ("storage", _StorageKind() as kind, str(key), *_):
                return _Storage(kind, key)
        raise pickle.UnpicklingError(f"{pid!r} is no storage")


def read_tensors(file: IO[bytes], path: Path, start: int) -> dict[str, Tensor]:
    """The tensors of numbers with a point in an archive; they are read when they are asked for.

    ``file`` holds the archive alone; it begins at byte ``start`` of the file ``path``, which must not be
    compressed. Raises ModelError where it is no such archive, or holds more than tensors.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _Archive(archive, file, path, start).tensors()
    except (
        zipfile.BadZipFile,
        pickle.UnpicklingError,
        struct.error,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
        MemoryError,
        NotImplementedError,
        OSError,
        RecursionError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # whatever damaged bytes make of zipfile and pickle
        reason = str(error) or type(error).__name__
        raise ModelError(path, f"has weights that cannot be read ({reason})", REMEDY) from error


class _Archive:
    def __init__(self, archive: zipfile.ZipFile, file: IO[bytes], path: Path, start: int) -> None:
        self._archive = archive
        self._file = file
        self._path = path
        self._start = start
        self._entries = {entry.filename: entry for entry in archive.infolist()}
        pickles = [name for name in self._entries if name.rpartition("/")[2] == "data.pkl"]
        if len(pickles) != 1:
            raise ValueError("it is not what torch.save writes")
        self._root = pickles[0].removesuffix("data.pkl")

    def tensors(self) -> dict[str, Tensor]:
        byte_order = self._root + "byteorder"
        if byte_order in self._entries and self._small_entry(byte_order) != b"little":
            raise ValueError("its numbers are big-endian")
        content = self._small_entry(self._root + "data.pkl")
        _require_modest(content)
        state = _Unpickler(io.BytesIO(content)).load()
        if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
            raise ValueError("it holds no tensors by name")
        found = {name: self._tensor(name, view) for name, view in state.items()}
        return {name: tensor for name, tensor in found.items() if tensor}

    def _small_entry(self, name: str) -> bytes:
        if self._entries[name].file_size > _MAX_PICKLE_BYTES:
            raise ValueError(f"{name} has {self._entries[name].file_size} bytes")
        return self._archive.read(name)

    def _tensor(self, name: str, view: object) -> Tensor | None:
        """None: it holds whole numbers, which only the training needed."""
        if not isinstance(view, _View) or not isinstance(view.storage, _Storage):
            raise ValueError(f"{name} is no tensor")
        shape, strides, offset = view.shape, view.strides, view.offset
        if not _is_sizes(shape) or not _is_sizes(strides) or not _is_sizes((offset,)):
            raise ValueError(f"{name} has the shape {shape}")
        if not _are_contiguous(shape, strides):
            raise ValueError(f"{name} is not contiguous")
        kind = view.storage.kind.name
        dtype = np.dtype(_NUMBER_TYPES[kind])
        entry = self._entries[f"{self._root}data/{view.storage.key}"]
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{entry.filename} is compressed")
        if (offset + prod(shape)) * dtype.itemsize > entry.file_size:
            raise ValueError(f"{name} is larger than its {entry.file_size} bytes")
        if dtype.kind != "f" and kind != "BFloat16Storage":
            return None
        position = self._start + self._content_position(entry) + offset * dtype.itemsize
        return Tensor(shape, lambda: _numbers(read_array(self._path, position, shape, dtype)))

    def _content_position(self, entry: zipfile.ZipInfo) -> int:
        """Where an entry's bytes begin in the archive: after its own header, which has a size of its own."""
        self._file.seek(entry.header_offset)
        magic, *_, name_length, extra_length = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if magic != _LOCAL_MAGIC:
            raise ValueError(f"{entry.filename} has no header")
        position: int = entry.header_offset + _LOCAL_HEADER.size + name_length + extra_length
        if position + entry.file_size > self._file.seek(0, io.SEEK_END):
            raise ValueError(f"it is cut short within {entry.filename}")
        return position


def _require_modest(content: bytes) -> None:
    """Raises ValueError where a pickle is malformed, or would have its reader reserve room without need."""
    for opcode, argument, _ in pickletools.genops(content):
        if "PUT" in opcode.name and isinstance(argument, int) and argument > len(content):
            raise ValueError(f"it memorises something as number {argument}")


def _is_sizes(numbers: object) -> bool:
    return isinstance(numbers, tuple) and all(
        type(number) is int and 0 <= number < 2**40 for number in numbers
    )


def _are_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """A dimension of one has no stride to speak of."""
    return len(shape) == len(strides) and all(
        size == 1 or stride == prod(shape[index + 1 :])
        for index, (size, stride) in enumerate(zip(shape, strides, strict=True))
    )


def _numbers(stored: NDArray[Any]) -> NDArray[np.float32]:
    if stored.dtype.kind == "u":  # the upper half of an f32's bits
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)
