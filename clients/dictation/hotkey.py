"""A key as the kernel tells it, whatever window has the focus, on X11 and Wayland alike."""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal, Protocol

from .errors import CannotControl

logger = logging.getLogger(__name__)

INPUTS = Path("/dev/input")
LOOK_AGAIN_S = 3.0
"""Keyboards that are plugged in are found within so long."""
MODIFIERS = ("SHIFT", "CTRL", "ALT", "META")
UP, DOWN = 0, 1


class Dictates(Protocol):
    """What a hotkey needs of a dictation."""

    may_type: asyncio.Event

    def order(self, command: Literal["toggle", "start", "stop"]) -> None:
        """Starts or stops it."""


def pressing(dictation: Dictates, name: str, mode: Literal["hold", "toggle"]) -> Callable[[int], None]:
    """What a key does as it goes ``DOWN`` and ``UP``."""

    def press(value: int) -> None:
        if mode == "toggle":
            if value == DOWN:
                dictation.order("toggle")
        elif value == DOWN:
            if name.endswith(MODIFIERS):  # what is typed meanwhile would become shortcuts
                dictation.may_type.clear()
            dictation.order("start")
        else:
            dictation.may_type.set()
            dictation.order("stop")

    return press


class Hotkey:
    """Calls ``on_press`` with ``DOWN`` and ``UP``; what a held key repeats is left out.

    Raises ``CannotControl`` if there is no such key, or the keyboards may not be read.
    """

    def __init__(self, name: str, on_press: Callable[[int], None], inputs: Path = INPUTS) -> None:
        try:
            import evdev
        except ImportError as error:
            raise CannotControl("dictation.hotkey needs evdev: pip install evdev-binary") from error
        code = evdev.ecodes.ecodes.get(name)
        if not name.startswith("KEY_") or not isinstance(code, int):
            raise CannotControl(f"dictation.hotkey: {name} is no key; KEY_PAUSE and KEY_RIGHTCTRL are some")
        _check(inputs)
        self._evdev = evdev
        self._code = code
        self._on_press = on_press
        self._inputs = inputs
        self._watched: dict[str, asyncio.Task[None]] = {}

    async def watch(self) -> None:
        """Watches all keyboards, also those that come later, until cancelled."""
        try:
            while True:
                there = set(self._evdev.list_devices(str(self._inputs)))
                for path in self._watched.keys() - there:
                    self._watched.pop(path).cancel()
                for path in there - self._watched.keys():
                    self._watched[path] = asyncio.create_task(self._watch(path))
                await asyncio.sleep(LOOK_AGAIN_S)
        finally:
            for task in self._watched.values():
                task.cancel()
            await asyncio.gather(*self._watched.values(), return_exceptions=True)

    async def _watch(self, path: str) -> None:
        keys = self._evdev.ecodes.EV_KEY
        try:
            with closing(self._evdev.InputDevice(path)) as device:
                if self._code not in device.capabilities().get(keys, []):
                    return
                async for event in device.async_read_loop():
                    if event.type == keys and event.code == self._code and event.value in (UP, DOWN):
                        self._on_press(event.value)
        except OSError as error:
            logger.info("%s: %s", path, error)


def _check(inputs: Path) -> None:
    devices = list(inputs.glob("event*"))
    if not devices:
        raise CannotControl(f"dictation.hotkey: there is no keyboard in {inputs}")
    if not any(os.access(device, os.R_OK | os.W_OK) for device in devices):
        raise CannotControl(
            f"dictation.hotkey: you may not read {inputs}; `sudo usermod -aG input $USER` and a new login "
            "allow it, to all your programs; or bind `stenod dictate toggle` to a key of your desktop instead"
        )
