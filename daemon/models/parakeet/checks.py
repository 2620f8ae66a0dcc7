"""Refusing what the engine does not know, in one way for all formats."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ModelError


def foreign(path: Path, key: str, value: object, known: str) -> ModelError:
    """The error to raise where a model says ``value`` for ``key``, and only ``known`` ones can be used."""
    fault = f"says {value!r} for {key!r}, which is not supported (known: {known})"
    return ModelError(path, fault, "choose a Parakeet model")


def require_known(content: Mapping[str, object], known: Mapping[str, object], path: Path) -> None:
    """Raises ModelError where ``content`` has another value than the known one; it may lack the key."""
    for key, value in known.items():
        found = content.get(key)
        if found is not None and not _same(found, value):
            raise foreign(path, key, found, str(value))


def one_of(known: tuple[Any, ...], value: object, key: str, path: Path) -> Any:
    """``value``, which must be one of ``known``. Raises ModelError."""
    if value not in known:
        raise foreign(path, key, value, ", ".join(map(str, known)))
    return value


def _same(found: object, known: object) -> bool:
    if isinstance(found, float) and isinstance(known, float):
        return math.isclose(found, known, rel_tol=1e-6)  # it may have been an f32 on its way
    return found == known
