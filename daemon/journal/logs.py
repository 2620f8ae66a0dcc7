"""Small files beside the journal, one a session that is not over. Every call blocks and may be repeated."""

import os
from pathlib import Path
from typing import NamedTuple

FOLDER_NAME = "sessions"
ENDING = ".log"


class LogWrite(NamedTuple):
    """A piece of a file; see ``Logs.write``."""

    name: str
    offset: int | None
    data: bytes


class Logs:
    """The files of one folder, those that grow kept open."""

    def __init__(self, folder: Path) -> None:
        """Raises ``OSError``."""
        self._folder = folder / FOLDER_NAME
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._open: dict[str, int] = {}

    def paths(self) -> list[Path]:
        """The files there are; the name of each, without its ending, is its session's."""
        return sorted(self._folder.glob(f"*{ENDING}"))

    def write(self, name: str, offset: int | None, data: bytes) -> None:
        """Puts ``data`` at ``offset``; None: it replaces the file, whole or not at all; empty: removes it."""
        if offset is None:
            self._replace(name, data)
            return
        if name not in self._open:
            self._open[name] = os.open(self._path(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while data:
            written = os.pwrite(self._open[name], data, offset)
            data, offset = data[written:], offset + written

    def sync(self) -> None:
        """What was written survives a power cut."""
        for descriptor in self._open.values():
            os.fdatasync(descriptor)

    def close(self) -> None:
        """Closes the files."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _replace(self, name: str, data: bytes) -> None:
        if (descriptor := self._open.pop(name, None)) is not None:
            os.close(descriptor)
        path = self._path(name)
        if not data:
            path.unlink(missing_ok=True)
            return
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
        except BaseException:
            os.close(descriptor)
            raise
        new.rename(path)
        self._open[name] = descriptor

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{ENDING}"
