"""The small models that NeMo saved, and what is in their files as Python's own libraries read it."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ...golden.parakeet_cases import CASES, FOLDER

MODELS = tuple(CASES)


def nemo_file(name: str) -> Path:
    """The ``.nemo`` file of a model."""
    return FOLDER / f"{name}.nemo"


@cache
def members(name: str) -> dict[str, bytes]:
    """The files in it."""
    with tarfile.open(nemo_file(name)) as archive:
        files = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {key.removeprefix("./"): file.read() for key, file in files.items() if file}


def pack(files: dict[str, bytes]) -> bytes:
    """A tar archive of them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def repacked(content: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """A zip archive with its files changed, not compressed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()
