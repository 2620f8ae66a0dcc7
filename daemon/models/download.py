"""Downloads one file over HTTP: resumed, checked, and never half there."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.request import Request, urlopen

from .atomic import cannot_write
from .errors import ModelError

_STALL_S = 30.0
"""How long a download may stand still."""
_ATTEMPTS = 3
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class RemoteFile:
    """A file of a server, as the server describes it."""

    address: str
    name: str
    size: int
    digest: str
    """In hex. 64 digits: SHA-256. 40 digits: git's SHA-1 of a blob, which is all that the hub tells of small
    files; it proves that nothing was damaged on the way, not who wrote the file."""


def download(file: RemoteFile, folder: Path, progress: Callable[[int], None]) -> None:
    """Puts ``file`` into ``folder`` unless it is there; what an earlier try left is gone on with. Blocks.

    ``progress`` gets the bytes that are there. Raises ModelError where the server breaks off for good, the
    checksum differs, or the disk is full.
    """
    target = folder / file.name
    if target.is_file() and _digest(target, file) == file.digest:
        return
    unfinished = folder / f"{file.name}.{file.digest}.unfinished"
    for _ in range(_ATTEMPTS):
        failure = _continue(file, unfinished, progress)
        if failure is None:
            break
    else:
        raise ModelError(file.address, f"broke off ({failure})", "try again: it goes on where it stopped")
    if _digest(unfinished, file) != file.digest:
        unfinished.unlink()
        raise ModelError(file.address, "was damaged on its way: its checksum is wrong", "try again")
    unfinished.replace(target)


def _continue(file: RemoteFile, unfinished: Path, progress: Callable[[int], None]) -> str | None:
    """Fetches what is missing; returns what went wrong, or None where nothing is missing any more."""
    done = unfinished.stat().st_size if unfinished.exists() else 0
    if done >= file.size:
        return None
    request = Request(file.address, headers={"Range": f"bytes={done}-", "Accept-Encoding": "identity"})
    try:
        with urlopen(request, timeout=_STALL_S) as answer:
            is_rest = answer.status == 206
            done = done if is_rest else 0
            with unfinished.open("ab" if is_rest else "wb") as output:
                while done < file.size and (chunk := answer.read(_CHUNK_BYTES)):
                    _write(output, chunk, unfinished)
                    done += len(chunk)
                    progress(done)
    except (OSError, HTTPException) as error:
        return str(error) or type(error).__name__
    return None if done >= file.size else f"after {done} of {file.size} bytes"


def _write(output: BinaryIO, chunk: bytes, path: Path) -> None:
    """A full disk is no fault of the network: it is told at once."""
    try:
        output.write(chunk)
        output.flush()
    except OSError as error:
        raise cannot_write(path, error) from error


def _digest(path: Path, file: RemoteFile) -> str:
    """The digest of what was fetched, of the same kind as ``file``'s."""
    is_sha256 = len(file.digest) == 64
    algorithm = hashlib.sha256() if is_sha256 else hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            algorithm.update(chunk)
    return algorithm.hexdigest()
