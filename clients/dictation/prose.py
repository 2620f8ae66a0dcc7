"""What exactly is typed for a piece: spaces between words and utterances, and capitals."""

import unicodedata
from typing import NamedTuple

from ...settings import DictationRule
from .spoken import MARKS, Break, Mark, Word

SENTENCE_ENDS = ".!?…"
OPENING = "([{„“«"
WITHOUT_SPACES = (
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "IDEOGRAPHIC",
    "FULLWIDTH",
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
)
"""How Unicode's names of those characters begin between which no space is written."""


class Edit(NamedTuple):
    """Delete so many characters before the cursor, then type the text."""

    erase: int
    text: str


class Prose:
    """Follows one utterance in one window. ``before``: what was dictated there just before it."""

    def __init__(self, rule: DictationRule, before: str) -> None:
        self._rule = rule
        self._before = before
        self._boundary = True
        """Whether the next word follows an utterance's beginning, or a command."""

    def edit(self, piece: Word | Mark | Break) -> Edit:
        """What to do for the next piece."""
        match piece:
            case Word(text, new):
                edit = Edit(0, self._word(text) if new else self._cased(text))
            case Mark(text, opens):
                edit = Edit(0, self._spaced(text)) if opens else self._mark(text)
            case Break(lines):
                edit = Edit(0, "" if self._rule.newline == "space" else "\n" * lines)
        self._boundary = not isinstance(piece, Word)
        self._before = self._before[: len(self._before) - edit.erase] + edit.text
        return edit

    def _word(self, text: str) -> str:
        ended = self._before.rstrip()[-1:] in tuple(SENTENCE_ENDS) or self._before.endswith("\n")
        if self._boundary and ended:
            text = text[0].upper() + text[1:]
        return self._spaced(self._cased(text))

    def _cased(self, text: str) -> str:
        # One by one: what a letter becomes must not depend on how the text was cut.
        return text if self._rule.capitals else "".join(letter.lower() for letter in text)

    def _spaced(self, text: str) -> str:
        before = self._before[-1:]
        if not before or before.isspace() or _opens(self._before):
            return text
        if self._boundary and (_joined(before) or _joined(text[0])):
            return text
        return " " + text

    def _mark(self, text: str) -> Edit:
        """A mark takes the place of the one that the model wrote at a pause."""
        before = self._before[-1:]
        if before == text:
            return Edit(0, "")
        return Edit(int(bool(before) and before in MARKS and text in MARKS), text)


def _opens(text: str) -> bool:
    """Whether a text ends with an opening bracket or quote (some are closing ones in other languages)."""
    return text[-1] in OPENING and (text[-1] in "([{" or not text[:-1] or not text[-2].isalnum())


def _joined(character: str) -> bool:
    return unicodedata.name(character, "").startswith(WITHOUT_SPACES)
