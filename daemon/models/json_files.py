"""Reading the JSON files that lie beside a model's weights."""

import json
from pathlib import Path
from typing import Any

from .errors import REMEDY, ModelError


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises ModelError where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(path, "is missing", REMEDY) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(path, f"cannot be read as JSON ({error})", REMEDY) from error


def read_object(path: Path) -> dict[str, Any]:
    """The content of a JSON file that holds an object. Raises ModelError."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ModelError(path, "does not hold a JSON object", REMEDY)
    return content


def object_in(content: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    """An object that must be there under ``key``. Raises ModelError."""
    value = content.get(key)
    if not isinstance(value, dict):
        raise ModelError(path, f"has no object in {key!r}", REMEDY)
    return value


def string_list(path: Path) -> list[str]:
    """The content of a JSON file that holds a list of strings. Raises ModelError."""
    content = read_json(path)
    if not isinstance(content, list) or not all(isinstance(item, str) for item in content):
        raise ModelError(path, "does not hold a JSON list of strings", REMEDY)
    return content


def integer(content: dict[str, Any], key: str, path: Path) -> int:
    """A positive whole number that must be there."""
    value = content.get(key)
    if type(value) is not int or value <= 0:
        raise ModelError(path, f"says {value!r} for {key!r}, which is not a positive whole number", REMEDY)
    return value


def integer_list(content: dict[str, Any], key: str, path: Path) -> list[int] | None:
    """A list of whole numbers from 0; None where there is none, or it is null."""
    value = content.get(key)
    if value is not None and not _is_integer_list(value):
        raise ModelError(path, f"has no list of whole numbers in {key!r}", REMEDY)
    return value


def integer_pairs(content: dict[str, Any], key: str, path: Path) -> list[tuple[int, int]] | None:
    """A list of pairs of whole numbers from 0; None where there is none, or it is null."""
    value = content.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(_is_integer_list(pair) and len(pair) == 2 for pair in value):
        raise ModelError(path, f"has no list of pairs of whole numbers in {key!r}", REMEDY)
    return [(first, second) for first, second in value]


def _is_integer_list(value: object) -> bool:
    return isinstance(value, list) and all(type(number) is int and 0 <= number < 2**31 for number in value)
