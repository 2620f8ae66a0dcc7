"""Typing on X11 with xdotool, exactly.

Left to itself, xdotool binds each character that the keyboard's layout lacks to the same spare key, one after
the other. Programs look up what a key means when they come to it, and by then it means another character.
So the characters are bound before, each to a spare key of its own, which keeps its meaning until it was
idle for long enough.
"""

import asyncio
import re
import time
from collections.abc import Container, Iterable, Sequence

from .errors import CannotType
from .programs import run

SETTLED_AFTER_S = 0.5
"""A program has come to a key that was pressed so long ago."""
COLUMNS = 4
"""Two groups (layouts) of a keyboard, each with and without Shift."""
MOST_AT_ONCE = 500
"""Characters of one run of xdotool, which takes 2 ms for each."""


class XdoTool:
    """X11."""

    def __init__(self) -> None:
        self._pressed_at: dict[int, float] = {}
        """When a spare key was pressed last."""

    async def type(self, text: str) -> None:
        """Types one line. Raises ``CannotType``."""
        while text:
            text = text[await self._type_beginning(text) :]

    async def press(self, key: str, times: int = 1) -> None:
        """Presses a key, under its X11 name, so many times. Raises ``CannotType``."""
        for start in range(0, times, MOST_AT_ONCE):
            keys = [key] * min(MOST_AT_ONCE, times - start)
            await run("xdotool", "key", "--clearmodifiers", "--delay", "2", *keys)

    async def _type_beginning(self, text: str) -> int:
        """Types as much as there are spare keys for; returns how many characters."""
        keymap = _parse(await run("xmodmap", "-pk"))
        spare = {code: keysyms[0] if keysyms else 0 for code, keysyms in keymap.items() if _is_spare(keysyms)}
        keyboard = {sym for code, keysyms in keymap.items() if code not in spare for sym in keysyms[:2]}
        end, lacking = _beginning(text, keyboard, len(spare))
        if not end:
            raise CannotType(f"xdotool: the keyboard layout has no spare key for {text[0]!r}")
        bound = {keysym: code for code, keysym in spare.items() if keysym in lacking}
        await self._bind([keysym for keysym in lacking if keysym not in bound], spare, bound)
        command = "xdotool", "type", "--clearmodifiers", "--delay", "2", "--file", "-"
        await run(*command, text=text[:end])
        self._pressed_at |= dict.fromkeys(bound.values(), time.monotonic())
        return end

    async def _bind(self, keysyms: list[int], spare: Iterable[int], bound: dict[int, int]) -> None:
        """Gives each keysym a spare key that is not ``bound`` to one that is needed too."""
        if not keysyms:
            return
        taken = set(bound.values())
        idle = sorted((self._pressed_at.get(code, 0.0), code) for code in spare if code not in taken)
        chosen = {keysym: code for keysym, (_, code) in zip(keysyms, idle, strict=False)}
        last_pressed, _ = idle[len(chosen) - 1]
        await asyncio.sleep(last_pressed + SETTLED_AFTER_S - time.monotonic())
        # In all columns: whatever Shift, AltGr and the chosen group are, it is the same character.
        lines = [f"keycode {code} =" + f" 0x{keysym:x}" * COLUMNS for keysym, code in chosen.items()]
        await run("xmodmap", "-", text="\n".join([*lines, ""]))
        bound |= chosen


def _beginning(text: str, keyboard: Container[int], spare: int) -> tuple[int, dict[int, None]]:
    """How many characters can be typed with so many spare keys, and the keysyms of those that need one."""
    lacking: dict[int, None] = {}
    for position, character in enumerate(text[:MOST_AT_ONCE]):
        keysym = _keysym(character)
        if keysym not in keyboard and keysym not in lacking:
            if len(lacking) == spare:
                return position, lacking
            lacking[keysym] = None
    return min(len(text), MOST_AT_ONCE), lacking


def _keysym(character: str) -> int:
    """X11's number for a character: Latin 1 as it is, all others by their code point."""
    code = ord(character)
    return code if code < 0x7F or 0xA0 <= code <= 0xFF else 0x01000000 | code


def _is_spare(keysyms: Sequence[int]) -> bool:
    """Whether a key means nothing, or one character everywhere, as only we bind it."""
    return not any(keysyms) or (
        len(keysyms) >= COLUMNS
        and len(set(keysyms[:COLUMNS])) == 1
        and (0x20 < keysyms[0] <= 0xFF or keysyms[0] >> 24 == 1)
    )


def _parse(keymap: str) -> dict[int, list[int]]:
    """Keycodes and their keysyms, as ``xmodmap -pk`` prints them."""
    return {
        int(code): [int(keysym, 16) for keysym in re.findall(r"0x([0-9a-f]+) \(", keysyms)]
        for code, keysyms in re.findall(r"^ +(\d+)\b(.*)$", keymap, re.MULTILINE)
    }
