"""Vocabularies of sources that tell less than SentencePiece's own files."""

import re
from collections.abc import Iterable, Mapping

from .checkpoint import Piece

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
"""Types of pieces, numbered alike by SentencePiece and GGUF."""
_BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")


def pieces_in_order(texts: Iterable[str], types: Mapping[str, int]) -> list[Piece]:
    """Pieces by number; those not in ``types`` have the type that their text shows.

    A byte-pair vocabulary is in the order of its merges, which is all that its scores tell.
    """
    return [Piece(text, -float(number), _type(text, types)) for number, text in enumerate(texts)]


def _type(text: str, types: Mapping[str, int]) -> int:
    if text == "<unk>":
        return UNKNOWN
    return BYTE if _BYTE_PIECE.fullmatch(text) else types.get(text, NORMAL)
