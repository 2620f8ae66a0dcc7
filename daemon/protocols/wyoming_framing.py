"""How Wyoming's messages lie on the wire: a line of JSON, more JSON, a payload; each within a bound."""

import asyncio
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

HEADER_BYTES = 1 << 16
"""The longest line."""
DATA_BYTES = 1 << 18
"""The most JSON that may follow it."""

Length = Annotated[int, Meta(ge=0)]


class BadMessage(Exception):
    """What came is no message; where the next one begins cannot be known."""


class Message(NamedTuple):
    """One message."""

    type: str
    data: dict[str, Any]
    payload: bytes


class _Header(Struct):
    type: str
    data: dict[str, Any] | None = None
    data_length: Length | None = None
    payload_length: Length | None = None


_header: msgspec.json.Decoder[_Header] = msgspec.json.Decoder(_Header)
_data: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


async def read(reader: asyncio.StreamReader, most_payload: int) -> Message | None:
    """The next message; None: the peer has left. ``most_payload``: bytes of its payload, at most.

    The reader's limit has to be ``HEADER_BYTES``. Raises ``BadMessage``.
    """
    try:
        header = _header.decode(await reader.readuntil(b"\n"))
        data = header.data or {}
        if header.data_length:
            _check("data_length", header.data_length, DATA_BYTES)
            data |= _data.decode(await reader.readexactly(header.data_length))
        _check("payload_length", header.payload_length or 0, most_payload)
        return Message(header.type, data, await reader.readexactly(header.payload_length or 0))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None  # a message that was cut off says nothing
    except asyncio.LimitOverrunError as error:
        raise BadMessage(f"a line is longer than {HEADER_BYTES} bytes") from error
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise BadMessage(f"not a message of Wyoming: {error}") from error


def _check(field: str, length: int, most: int) -> None:
    if length > most:
        raise BadMessage(f"{field}: {length} bytes are too many; at most {most} are taken")


def encoded(kind: str, data: dict[str, Any]) -> bytes:
    """A message without payload."""
    body = msgspec.json.encode(data)
    return msgspec.json.encode({"type": kind, "data_length": len(body)}) + b"\n" + body
