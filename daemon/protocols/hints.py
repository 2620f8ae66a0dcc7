"""Phrases that a client says are likely."""

from collections.abc import Iterable
from contextlib import suppress

from ..engine import Unsupported
from ..hub import Hub


def usable(hub: Hub, phrases: Iterable[str]) -> tuple[str, ...]:
    """Those that the model can spell. Clients give hints without knowing the model: others are no fault."""
    found = []
    for phrase in phrases:
        with suppress(Unsupported):
            hub.engine.check(None, "transcribe", (phrase,))
            found.append(phrase)
    return tuple(found)
