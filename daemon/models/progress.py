"""How long work tells what it has done."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with bytes done, bytes in all (0: not known), and what is being done."""


def silent(done: int, total: int, label: str) -> None:
    """Tells nobody."""
