"""Text frames to messages: what is wrong with one is told in the same words in every protocol."""

import re
from typing import TypeVar

import msgspec

from ..hub import Refused

T = TypeVar("T")

_LONE_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def parsed(decoder: msgspec.json.Decoder[T], text: str | bytes, types: str) -> T:
    """The message of a text frame; ``types`` are told to a client whose ``type`` there is not.

    Raises ``Refused`` with ``bad_json``, ``bad_message`` or ``bad_field``.
    """
    if isinstance(text, bytes):
        raise Refused("bad_message", "messages are text frames here")
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        field = path.strip(".`").replace("...", "")
        missing = re.search(r"missing required field `(\w+)`", problem)
        if missing and not field:
            field = missing[1]
        if field == "type":
            raise Refused("bad_message", f"type: {problem}; it is one of {types}", field) from error
        if not field:
            raise Refused("bad_message", problem) from error
        raise Refused("bad_field", f"{field}: {problem}", field) from error
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        problem = "half of a surrogate pair is no text" if _LONE_SURROGATE.search(text) else str(error)
        raise Refused("bad_json", f"a text frame is a JSON object: {problem}") from error


def language_of(tag: str | None) -> str | None:
    """The language of a tag such as ``en-US``; None where none is named."""
    return tag.replace("_", "-").partition("-")[0].lower() or None if tag else None
