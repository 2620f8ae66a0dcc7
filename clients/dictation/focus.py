"""Which window has the focus, where the desktop tells."""

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import CannotType
from .programs import run


@dataclass(frozen=True)
class Window:
    """A window; ``kind`` is its class (X11) or app id (Wayland), the same for all windows of a program."""

    id: str
    kind: str


Focus = Callable[[], Awaitable[Window | None]]
"""Asks for the focused window; None: there is none, or the desktop does not tell."""


def focus_of(environment: Mapping[str, str]) -> Focus:
    """How to ask on this desktop."""
    if "SWAYSOCK" in environment:
        return _sway
    if "HYPRLAND_INSTANCE_SIGNATURE" in environment:
        return _hyprland
    if "WAYLAND_DISPLAY" in environment:  # GNOME and KDE do not tell
        return _unknown
    return _x11


async def _unknown() -> Window | None:
    return None


async def _x11() -> Window | None:
    try:
        window = (await run("xdotool", "getwindowfocus")).strip()
        classes = re.findall(r'"([^"]*)"', await run("xprop", "-id", window, "WM_CLASS"))
    except CannotType:  # nothing has the focus, or the window was closed just now
        return None
    return Window(window, classes[-1] if classes else "")


async def _sway() -> Window | None:
    for node in _nodes(json.loads(await run("swaymsg", "-t", "get_tree"))):
        if node.get("focused") and node.get("pid"):
            properties = node.get("window_properties") or {}
            return Window(str(node["id"]), node.get("app_id") or properties.get("class") or "")
    return None


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in (*node.get("nodes", ()), *node.get("floating_nodes", ())):
        yield from _nodes(child)


async def _hyprland() -> Window | None:
    window = json.loads(await run("hyprctl", "activewindow", "-j"))
    return Window(window["address"], window.get("class", "")) if "address" in window else None
