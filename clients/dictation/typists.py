"""The programs that type, behind one protocol. Each types a text exactly, or raises ``CannotType``."""

import asyncio
import time
from collections.abc import Mapping
from shutil import which
from typing import Literal, Protocol

from .errors import CannotType
from .programs import run
from .xdotool import XdoTool

Key = Literal["BackSpace", "Return", "shift+Return", "shift+Insert"]

PASTED_WITHIN_S = 0.3
"""A program has fetched what it was told to paste after so long; only then the clipboard may change."""


class Typist(Protocol):
    """Types into the window that has the focus."""

    async def type(self, text: str) -> None:
        """Types one line."""

    async def press(self, key: Key, times: int = 1) -> None:
        """Presses a key so many times."""


class Wtype:
    """Wayland, where the compositor lets programs be a keyboard: sway, Hyprland, river and their kin.

    Each run is a new keyboard: keys are lost that come before the others have seen it, or as it goes.
    """

    _PACE = ("-s", "50", "-d", "4")
    _LINGER = ("-s", "50")

    async def type(self, text: str) -> None:
        """Types one line."""
        for start in range(0, len(text), 100):  # it needs a key of its keymap for each character
            await run("wtype", *self._PACE, "-", *self._LINGER, text=text[start : start + 100])

    async def press(self, key: Key, times: int = 1) -> None:
        """Presses a key so many times."""
        shift, name = key.startswith("shift+"), key.removeprefix("shift+")
        for start in range(0, times, 100):
            keys = ["-k", name] * min(100, times - start)
            keys = ["-M", "shift", *keys, "-m", "shift"] if shift else keys
            await run("wtype", *self._PACE, *keys, *self._LINGER)


class Ydotool:
    """Any desktop, through the kernel; needs the service ydotoold (ydotool 1.0 or newer)."""

    _CODES: Mapping[Key, tuple[int, ...]] = {
        "BackSpace": (14,),
        "Return": (28,),
        "shift+Return": (42, 28),
        "shift+Insert": (42, 110),
    }

    async def type(self, text: str) -> None:
        """Types one line."""
        _check_us("ydotool", text)
        await run("ydotool", "type", "--key-delay", "2", "--file", "-", text=text)

    async def press(self, key: Key, times: int = 1) -> None:
        """Presses a key so many times."""
        codes = self._CODES[key]
        strokes = [f"{code}:1" for code in codes] + [f"{code}:0" for code in reversed(codes)]
        await run("ydotool", "key", "--key-delay", "2", *strokes * times)


class Dotool:
    """Any desktop, through the kernel; needs the right to write ``/dev/uinput``."""

    _NAMES: Mapping[Key, str] = {
        "BackSpace": "backspace",
        "Return": "enter",
        "shift+Return": "shift+enter",
        "shift+Insert": "shift+insert",
    }

    async def type(self, text: str) -> None:
        """Types one line."""
        _check_us("dotool", text)
        await run("dotool", text=f"type {text}\n")

    async def press(self, key: Key, times: int = 1) -> None:
        """Presses a key so many times."""
        await run("dotool", text=f"key {self._NAMES[key]}\n" * times)


def _check_us(program: str, text: str) -> None:
    beyond = next((character for character in text if not " " <= character <= "~"), None)
    if beyond is not None:
        raise CannotType(
            f"{program} types what is on a US keyboard, and {beyond!r} is not; use dictation.typist = "
            '"auto", with xdotool (X11), wtype (Wayland), or wl-copy or xclip to paste'
        )


class Paste:
    """Any text, through the clipboard, whose content it replaces."""

    def __init__(self, copiers: tuple[tuple[str, ...], ...], keys: Typist) -> None:
        self._copiers = copiers
        self._keys = keys
        self._free_at = 0.0

    async def type(self, text: str) -> None:
        """Types one line."""
        await asyncio.sleep(self._free_at - time.monotonic())
        for copier in self._copiers:
            await run(*copier, text=text)
        # Terminals and forms agree on this key alone. It may take the primary selection: both are set.
        await self._keys.press("shift+Insert")
        self._free_at = time.monotonic() + PASTED_WITHIN_S

    async def press(self, key: Key, times: int = 1) -> None:
        """Presses a key so many times."""
        await asyncio.sleep(self._free_at - time.monotonic())
        await self._keys.press(key, times)


async def choose(wanted: str, environment: Mapping[str, str]) -> Typist:
    """The typist of that name; ``auto``: the first that types any text here. Raises ``CannotType``."""
    reasons = []
    wayland = "WAYLAND_DISPLAY" in environment
    for name in (("wtype", "paste") if wayland else ("xdotool", "paste")) if wanted == "auto" else (wanted,):
        try:
            return await _make(name, wayland, environment)
        except CannotType as error:
            reasons.append(str(error))
    raise CannotType("nothing can type here: " + "; ".join(reasons))


async def _make(name: str, wayland: bool, environment: Mapping[str, str]) -> Typist:
    match name:
        case "xdotool":
            if not environment.get("DISPLAY"):
                raise CannotType("xdotool needs X11, and DISPLAY is not set")
            _need("xdotool", "xmodmap", "xprop")
            return XdoTool()
        case "wtype":
            _need("wtype")
            await run("wtype", "")  # fails where the compositor does not let it
            return Wtype()
        case "ydotool":
            _need("ydotool")
            return Ydotool()
        case "dotool":
            _need("dotool")
            return Dotool()
    return await _make_paste(wayland, environment)


async def _make_paste(wayland: bool, environment: Mapping[str, str]) -> Paste:
    copier = "wl-copy" if wayland else "xclip"
    if not wayland and not environment.get("DISPLAY"):
        raise CannotType(f"{copier} needs X11, and DISPLAY is not set")
    _need(copier)
    selections = ([], ["--primary"]) if wayland else (["-selection", "clipboard"], ["-selection", "primary"])
    for name in ("wtype" if wayland else "xdotool", "dotool", "ydotool"):
        try:
            keys = await _make(name, wayland, environment)
        except CannotType:
            continue
        return Paste(tuple((copier, *selection) for selection in selections), keys)
    raise CannotType(f"{copier} needs wtype, xdotool, dotool or ydotool to press the key that pastes")


def _need(*programs: str) -> None:
    for program in programs:
        if which(program) is None:
            raise CannotType(f"{program} is not installed")
