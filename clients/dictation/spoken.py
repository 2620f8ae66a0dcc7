"""Words and spoken commands in a stream of committed text.

A command counts only once all its words, and whatever would make it another one, are committed; until then
they wait. Everything else passes at once. However the text is cut into pieces, the same comes out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

MARKS = ".,;:!?…。、，！？"  # noqa: RUF001
"""Punctuation at a word's end. It waits for the next word, which may be a mark that takes its place."""


@dataclass(frozen=True)
class Word:
    """A word or a part of one; ``new``: it begins one."""

    text: str
    new: bool


@dataclass(frozen=True)
class Mark:
    """Punctuation that was spoken; ``opens``: it stands before a word, else behind one."""

    text: str
    opens: bool = False


@dataclass(frozen=True)
class Break:
    """The end of a line, or with 2 ``lines``, of a paragraph."""

    lines: int


@dataclass(frozen=True)
class Scratch:
    """Take back what was said last."""


Command = Mark | Break | Scratch
Piece = Word | Command
Table = Mapping[str, Command]

TABLES: dict[str, Table] = {
    "en": {
        "comma": Mark(","),
        "full stop": Mark("."),
        "period": Mark("."),
        "question mark": Mark("?"),
        "exclamation mark": Mark("!"),
        "exclamation point": Mark("!"),
        "colon": Mark(":"),
        "semicolon": Mark(";"),
        "open bracket": Mark("(", opens=True),
        "close bracket": Mark(")"),
        "open quote": Mark("“", opens=True),
        "close quote": Mark("”"),
        "new line": Break(1),
        "newline": Break(1),
        "new paragraph": Break(2),
        "scratch that": Scratch(),
    },
    "de": {
        "komma": Mark(","),
        "punkt": Mark("."),
        "fragezeichen": Mark("?"),
        "ausrufezeichen": Mark("!"),
        "doppelpunkt": Mark(":"),
        "strichpunkt": Mark(";"),
        "semikolon": Mark(";"),
        "klammer auf": Mark("(", opens=True),
        "klammer zu": Mark(")"),
        "anführungszeichen auf": Mark("„", opens=True),
        "anführungszeichen zu": Mark("“"),
        "neue zeile": Break(1),
        "neuer absatz": Break(2),
        "streich das": Scratch(),
    },
}
"""The commands of each language, in small letters."""


def table_of(language: str | None) -> Table:
    """The commands of a language; None: it is not known before, so those of all."""
    if language is None:
        return {phrase: command for table in TABLES.values() for phrase, command in table.items()}
    return TABLES.get(language, {})


class _Found(NamedTuple):
    """What a text begins with: a command that ends at ``end``; or with ``waits``, it is too early to say."""

    command: Command | None
    end: int
    waits: bool = False

    @property
    def takes_place(self) -> bool:
        """Whether it stands for the punctuation before it."""
        return isinstance(self.command, Mark) and self.command.text in MARKS


class SpokenText:
    """One utterance: ``feed`` it what is committed, then ``end`` it."""

    def __init__(self, table: Table) -> None:
        self._commands = {tuple(phrase.split()): command for phrase, command in table.items()}
        self._longest = max(map(len, self._commands), default=1)
        self._pending = ""
        self._inside = False
        """Whether the pending text begins inside a word, or at its end."""

    def feed(self, text: str) -> Iterator[Piece]:
        """What is certain with this text."""
        self._pending += text
        return self._pieces(over=False)

    def end(self) -> Iterator[Piece]:
        """What waited."""
        return self._pieces(over=True)

    def _pieces(self, over: bool) -> Iterator[Piece]:
        while self._pending:
            word, rest = _first_word(self._pending)
            if self._inside and (letters := word.rstrip(MARKS)) and self._pending.startswith(word):
                yield Word(self._cut(len(letters)), new=False)
            elif self._inside:
                marks = word if self._pending.startswith(word) else ""
                found = self._find(self._pending[len(marks) :], over)
                if found.waits or (marks and not rest and not over):
                    return
                self._cut(len(marks))
                self._inside = False
                if marks and not found.takes_place:
                    yield Word(marks, new=False)
            else:
                found = self._find(self._pending, over)
                if found.waits:
                    return
                self._cut(found.end)
                if found.command is not None:
                    yield found.command
                elif word:
                    yield Word(self._cut(max(len(word.rstrip(MARKS)), 1)), new=True)
                    self._inside = True

    def _cut(self, length: int) -> str:
        cut, self._pending = self._pending[:length], self._pending[length:]
        return cut

    def _find(self, text: str, over: bool) -> _Found:
        """The longest command that ``text`` begins with; if none, ``end`` is where its first word begins."""
        found = islice(re.finditer(r"\S+", text), self._longest)
        words = [(word[0].casefold(), word.end()) for word in found]
        best, length = _Found(None, len(text) - len(text.lstrip()), waits=not words and not over), 0
        if not words:
            return best
        complete = len(words) if over or words[-1][1] < len(text) else len(words) - 1
        for phrase, command in self._commands.items():
            said = [word for word, _ in words[: len(phrase)]]
            if len(said) == len(phrase):
                said[-1] = said[-1].rstrip(MARKS)
            known = min(complete, len(said))
            if said[:known] != list(phrase[:known]):
                continue
            if known == len(phrase):
                if known > length:
                    best, length = _Found(command, words[known - 1][1]), known
            elif not over and (known == len(said) or phrase[known].startswith(said[known])):
                return _Found(None, 0, waits=True)
        return best


def _first_word(text: str) -> tuple[str, str]:
    """The first word, and all that comes after it."""
    words = text.split(maxsplit=1)
    if not words:
        return "", ""
    return words[0], text[text.index(words[0]) + len(words[0]) :]
