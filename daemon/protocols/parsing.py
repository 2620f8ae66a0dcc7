"""Text frames and addresses to messages: what is wrong is told in the same words in every protocol."""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta

from ..hub import Refused

T = TypeVar("T")

Text = Annotated[str, Meta(max_length=2000)]
"""A prompt, or a phrase."""
Phrases = Annotated[tuple[Text, ...], Meta(max_length=100)]
"""What is likely to be said."""

_LONE_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def parsed(decoder: msgspec.json.Decoder[T], text: str | bytes, types: str = "") -> T:
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


def parsed_query(kind: type[T], query: str, *, lists: Collection[str], impossible: Mapping[str, str]) -> T:
    """The parameters of an address; those of ``lists`` may be repeated, of the others the last one counts.

    ``impossible`` ones would do harm if they were ignored; the text says why they cannot be had.
    Raises ``Refused``, naming the parameter at fault.
    """
    given = parse_qs(query)
    for name, problem in impossible.items():
        if given.get(name, ["false"])[-1].lower() != "false":
            raise Refused("bad_field", f"{name}: cannot be had: {problem}", name)
    flat = {name: values if name in lists else values[-1] for name, values in given.items()}
    try:
        return msgspec.convert(flat, kind, strict=False)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        name = path.strip(".`").replace("[...]", "")
        raise Refused("bad_field", f"{name}: {problem}", name) from error


def language_of(tag: str | None) -> str | None:
    """The language of a tag such as ``en-US``; None where none is named."""
    return tag.replace("_", "-").partition("-")[0].lower() or None if tag else None
