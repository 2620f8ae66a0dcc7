"""Reads the vocabulary out of SentencePiece's ``.model`` files.

They are protocol buffers; of all that is in them, three fields of each piece are needed.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from ..errors import REMEDY, ModelError
from .checkpoint import Piece

_NORMAL = 1
_TYPES = range(1, 7)
_PIECE_FIELD = 1
_TEXT_FIELD, _SCORE_FIELD, _TYPE_FIELD = 1, 2, 3
_VARINT, _EIGHT_BYTES, _LENGTH_DELIMITED, _FOUR_BYTES = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


def read_pieces(content: bytes, path: Path | str) -> list[Piece]:
    """The pieces in the order of their numbers. Raises ModelError, about ``path``, for anything else."""
    try:
        pieces = [_piece(value) for field, value in _fields(content) if field == _PIECE_FIELD]
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise ModelError(path, f"is no SentencePiece model ({error})", REMEDY) from error
    if not pieces:
        raise ModelError(path, "holds no pieces", REMEDY)
    return pieces


def _piece(message: bytes | int) -> Piece:
    if not isinstance(message, bytes):
        raise TypeError("a piece is a number")
    fields = dict(_fields(message))
    text, score, type = (
        fields.get(_TEXT_FIELD),
        fields.get(_SCORE_FIELD, bytes(4)),
        fields.get(_TYPE_FIELD, 1),
    )
    if not isinstance(text, bytes) or not isinstance(score, bytes) or type not in _TYPES:
        raise TypeError("a piece lacks its text, score or type")
    return Piece(text.decode(), struct.unpack("<f", score)[0], int(type))


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Number and value of each field; those of a fixed size and those with a length are bytes."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            value, position = _varint(message, position)
            yield tag >> 3, value
            continue
        if wire_type == _LENGTH_DELIMITED:
            size, position = _varint(message, position)
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if wire_type == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if size > len(message) - position:
            raise ValueError("it is cut short")
        yield tag >> 3, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """The number at ``position``, and where it ends."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        byte = message[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ValueError("a number does not end")
