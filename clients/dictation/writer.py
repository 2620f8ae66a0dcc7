"""Types what is committed into the focused window, by its rule; remembers what, and takes it back."""

import asyncio
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from unicodedata import normalize

import regex

from ...settings import DictationRule
from .errors import CannotUndo
from .focus import Focus, Window
from .prose import Prose
from .spoken import Piece, Scratch, SpokenText, Table
from .typists import Typist

MOST_REMEMBERED = 50
"""Utterances that can be taken back, one after the other."""
TERMINAL = DictationRule(
    window=".*(term|konsole|kitty|alacritty|foot|ghostty|rxvt|tilix|guake|yakuake|ptyxis).*",
    newline="space",
)
"""A new line would run what stands there as a command."""
ANY = DictationRule(window=".*")


@dataclass
class Typed:
    """What stands in a window of one utterance; ``window`` is None where the desktop does not tell."""

    dictation: int
    window: Window | None
    text: str = ""


class Writer:
    """Give it the commits of utterances; ``begin`` and ``finish`` enclose those of one dictation."""

    def __init__(
        self, typist: Typist, focus: Focus, rules: tuple[DictationRule, ...], commands: Table
    ) -> None:
        self._typist = typist
        self._focus = focus
        self._rules = (*rules, TERMINAL, ANY)
        self._commands = commands
        self._dictation = 0
        self._typed: deque[Typed] = deque(maxlen=MOST_REMEMBERED)
        self._spoken: SpokenText | None = None
        """The open utterance."""
        self._prose: Prose | None = None
        self._open = Typed(0, None)
        """What ``_prose`` is about."""
        self._one_at_a_time = asyncio.Lock()

    def begin(self) -> None:
        """A dictation begins; what stands before the cursor is not known."""
        self._dictation += 1
        self._spoken = self._prose = None

    async def commit(self, text: str) -> None:
        """Types what is committed, as far as it is certain. Raises ``CannotType`` and ``CannotUndo``."""
        async with self._one_at_a_time:
            window = await self._focus()
            if self._spoken is None:
                self._spoken = SpokenText(self._commands if self._rule(window).commands else {})
            # A letter and its accent as one: programs delete the two at once or one by one.
            await self._write(self._spoken.feed(normalize("NFC", text)), window)

    async def end(self) -> None:
        """The utterance is over: types what waited. Raises as ``commit`` does."""
        async with self._one_at_a_time:
            spoken, self._spoken = self._spoken, None
            if spoken is not None:
                await self._write(spoken.end(), await self._focus())
            self._prose = None

    async def finish(self) -> None:
        """The dictation is over: whoever types on needs a space. Raises ``CannotType``."""
        async with self._one_at_a_time:
            window = await self._focus()
            if self._rule(window).trailing_space and self._before(window)[-1:].strip():
                self._open = self._typed[-1]
                await self._type(" ")

    async def undo(self) -> None:
        """Deletes the last utterance, or what there is of it. Raises ``CannotType`` and ``CannotUndo``."""
        async with self._one_at_a_time:
            await self._undo(await self._focus())

    async def _write(self, pieces: Iterator[Piece], window: Window | None) -> None:
        waiting, refusal = "", None
        for piece in pieces:
            if isinstance(piece, Scratch):
                await self._type(waiting)
                waiting = ""
                try:
                    await self._undo(window)
                except CannotUndo as error:  # what comes after it is typed all the same
                    refusal = error
                continue
            if self._prose is None or self._open.window != window:
                self._prose = Prose(self._rule(window), self._before(window))
                self._open = Typed(self._dictation, window)
            edit = self._prose.edit(piece)
            if edit.erase and window is not None:
                await self._type(waiting)
                waiting = ""
                await self._erase_mark()
            waiting += edit.text
        await self._type(waiting)
        if refusal is not None:
            raise refusal

    async def _type(self, text: str) -> None:
        newline = self._rule(self._open.window).newline
        for part in re.findall(r"\n|[^\n]+", text):
            if part != "\n":
                await self._typist.type(part)
            elif newline != "space":
                await self._typist.press("Return" if newline == "return" else "shift+Return")
            self._open.text += part
            if not self._typed or self._typed[-1] is not self._open:
                self._typed.append(self._open)

    async def _erase_mark(self) -> None:
        await self._typist.press("BackSpace")
        self._typed[-1].text = self._typed[-1].text[:-1]

    async def _undo(self, window: Window | None) -> None:
        if not self._typed:
            raise CannotUndo("nothing is left to take back")
        last = self._typed[-1]
        if window is None or last.window is None:
            raise CannotUndo("this desktop does not tell which window has the focus: nothing is deleted")
        if window != last.window:
            raise CannotUndo("another window has the focus than the one that was typed into")
        # Programs delete at least what a reader takes for one character: never more than was typed.
        await self._typist.press("BackSpace", len(regex.findall(r"\X", last.text)))
        self._typed.pop()
        self._prose = None

    def _before(self, window: Window | None) -> str:
        """What this dictation left before the cursor."""
        last = self._typed[-1] if self._typed else self._open
        return last.text if (last.dictation, last.window) == (self._dictation, window) else ""

    def _rule(self, window: Window | None) -> DictationRule:
        kind = window.kind if window is not None else ""
        return next(rule for rule in self._rules if re.fullmatch(rule.window, kind, re.IGNORECASE))
