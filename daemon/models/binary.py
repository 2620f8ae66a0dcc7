"""Reading binary model files whose sizes and offsets cannot be trusted."""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .errors import REMEDY, ModelError


class BinaryReader:
    """Reads a little-endian file forward and never beyond its end: it raises ModelError instead."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self.path = path
        self.size = os.fstat(file.fileno()).st_size

    @property
    def position(self) -> int:
        """Bytes from the start of the file."""
        return self._file.tell()

    @property
    def remaining(self) -> int:
        """Bytes that are left to read."""
        return self.size - self.position

    def fault(self, what: str) -> ModelError:
        """The error to raise where the content makes no sense."""
        return ModelError(self.path, f"is damaged: {what}", REMEDY)

    def read(self, size: int, what: str) -> bytes:
        """The next ``size`` bytes; ``what`` they are is told where they are missing."""
        self._require(size, what)
        return self._file.read(size)

    def skip(self, size: int, what: str) -> int:
        """Steps over ``size`` bytes that must be there, and returns where they begin."""
        self._require(size, what)
        start = self.position
        self._file.seek(size, os.SEEK_CUR)
        return start

    def numbers(self, format: str, what: str) -> tuple[Any, ...]:
        """Numbers in ``struct``'s ``format``, without a byte order."""
        layout = struct.Struct("<" + format)
        return layout.unpack(self.read(layout.size, what))

    def number(self, format: str, what: str) -> Any:
        """One number in ``struct``'s ``format``."""
        return self.numbers(format, what)[0]

    def _require(self, size: int, what: str) -> None:
        if not 0 <= size <= self.remaining:
            fault = f"is cut short or damaged: its {self.size} bytes end within {what}"
            raise ModelError(self.path, fault, REMEDY)


@contextmanager
def reading(path: Path) -> Iterator[BinaryReader]:
    """A reader for the file. Raises ModelError where it cannot be opened or read."""
    try:
        with path.open("rb") as file:
            yield BinaryReader(file, path)
    except OSError as error:
        raise ModelError(path, f"cannot be read ({error})", "check the file and its permissions") from error


def read_array(path: Path, offset: int, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """The array that begins at byte ``offset``. Raises ModelError where the file does not hold it."""
    count = prod(shape)
    try:
        values = np.fromfile(path, np.dtype(dtype), count, offset=offset)
    except OSError as error:
        raise ModelError(path, f"cannot be read ({error})", "check the file and its permissions") from error
    if values.size != count:
        raise ModelError(path, "was cut short while it was read", REMEDY)
    return values.reshape(shape)
