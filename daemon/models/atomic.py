"""Files that appear whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import NotWritten


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Gives a path beside ``target`` to write to; on success it becomes ``target``, else it is removed.

    Raises NotWritten where the file system refuses (no room, no permission, no such folder), or where
    ``target`` is a folder or a device.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        if target.exists() and not target.is_file():
            raise NotWritten(target, "is there already and is no file", "choose another name")
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        unfinished.replace(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        with suppress(OSError):  # where it could not even be looked for, it was not written either
            unfinished.unlink()


def cannot_write(path: Path, error: OSError) -> NotWritten:
    """The error to raise where the file system refused to write ``path``."""
    missing = isinstance(error, FileNotFoundError)
    remedy = "make the folder, or choose another" if missing else "check the folder and the room on its disk"
    return NotWritten(path, f"cannot be written ({error.strerror or error})", remedy)


def require_room(folder: Path, size: int) -> None:
    """Raises NotWritten where the disk of ``folder`` has no room for ``size`` bytes."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise cannot_write(folder, error) from error
    if free < size:
        fault = f"{size / 1e6:.0f} MB are to be written, and its disk has {free / 1e6:.0f} MB left"
        raise NotWritten(folder, fault, "free some room, or set STENOD_MODELS_DIR to another disk")
