"""The folder in which models are kept, and how a name becomes a file in it."""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from .catalog import CATALOG, CatalogEntry
from .errors import ModelError
from .file_types import DEFAULT_FILE_TYPE, FILE_TYPES, file_type
from .gguf_read import MAGIC


@dataclass(frozen=True)
class ListedModel:
    """A model of the catalogue, or a file that somebody put into the folder."""

    name: str
    parameters: int | None
    """In millions; None: not in the catalogue."""
    files: dict[str, Path]
    """The files that are here, by type (a file that is not in the catalogue has the type "")."""


def models_folder() -> Path:
    """Where models are kept: ``STENOD_MODELS_DIR``, or a folder in the user's cache. It may not exist yet."""
    chosen = os.environ.get("STENOD_MODELS_DIR")
    return Path(chosen) if chosen else platformdirs.user_cache_path("stenod") / "models"


def split_name(name: str) -> tuple[CatalogEntry, str]:
    """``NAME`` or ``NAME:TYPE`` as catalogue entry and type. Raises ModelError where either is unknown."""
    base, colon, type = name.partition(":")
    if base not in CATALOG:
        similar = difflib.get_close_matches(base, CATALOG, n=1)
        remedy = f"did you mean {similar[0]}?" if similar else "`stenod models list` shows all names"
        raise ModelError(name or "an empty name", "is no model of the catalogue", remedy)
    return CATALOG[base], file_type(type).name if colon else DEFAULT_FILE_TYPE


def path_of(entry: CatalogEntry, type: str) -> Path:
    """Where the file of a model and type is kept, whether it is there or not."""
    return models_folder() / f"{entry.name}-{type}.gguf"


def is_path(name_or_path: str | Path) -> bool:
    """Whether a file is meant, and no name of the catalogue."""
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or os.sep in text or text.endswith(".gguf"):
        return True
    return text.partition(":")[0] not in CATALOG and Path(text).is_file()


def resolve(name_or_path: str | Path) -> Path:
    """The model file that is meant by a catalogue name (``whisper-base``, ``whisper-base:q8_0``) or a path.

    Raises ModelError, telling what to do, where there is no such file.
    """
    if is_path(name_or_path):
        return _require_gguf(Path(name_or_path).expanduser())
    text = str(name_or_path)
    entry, type = split_name(text)
    path = path_of(entry, type)
    if not path.exists():
        raise ModelError(text, "is not on this machine yet", f"run `stenod models pull {text}`")
    return _require_gguf(path)


def list_models() -> list[ListedModel]:
    """All models of the catalogue with their files, then other GGUF files of the folder."""
    folder = models_folder()
    present = {path.name: path for path in sorted(folder.glob("*.gguf"))} if folder.is_dir() else {}
    listed = []
    for entry in CATALOG.values():
        names = {type: path_of(entry, type).name for type in FILE_TYPES}
        files = {type: present.pop(name) for type, name in names.items() if name in present}
        listed.append(ListedModel(entry.name, entry.parameters, files))
    return listed + [ListedModel(path.name, None, {"": path}) for path in present.values()]


def _require_gguf(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except FileNotFoundError as error:
        remedy = "check the path, or give a name that `stenod models list` shows"
        raise ModelError(path, "is not there", remedy) from error
    except OSError as error:
        raise ModelError(path, f"cannot be read ({error})", "check the file and its permissions") from error
    if magic != MAGIC:
        raise ModelError(path, "is not a GGUF file", "convert it with `stenod models convert`")
    return path
