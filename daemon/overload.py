"""What is done when the machine cannot keep up: a ladder, climbed by lag, every rung told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .events import Overload, OverloadAction


@dataclass(frozen=True)
class Rung:
    """One stage. From ``lag_s`` on it holds; it is left again when the lag stays under half of that."""

    lag_s: float
    action: OverloadAction
    partials: Literal["all", "newest", "none"]
    """``newest``: only from a stream's last due step."""
    grid: int
    """Factor on the step grid; above 1 what is committed may depend on the load."""
    refusing: bool = False
    """New sessions are refused."""


LADDER = (
    Rung(0.0, "recovered", "all", 1),
    Rung(1.0, "fewer_partials", "newest", 1),
    Rung(2.0, "fewer_partials", "newest", 2),
    Rung(4.0, "no_partials", "none", 4),
    Rung(6.0, "refusing_sessions", "none", 4, refusing=True),
)

CALM_S = 5.0
"""How long the lag must have been small before the ladder is climbed down by one rung."""


class Ladder:
    """Where on the ladder the machine stands. Pure: time and lag are given to it."""

    def __init__(self, rungs: Sequence[Rung] = LADDER) -> None:
        """``rungs``: from none to the most that may be done."""
        self._rungs = rungs
        self._level = 0
        self._busy_at = float("-inf")

    @property
    def rung(self) -> Rung:
        """The stage that holds now."""
        return self._rungs[self._level]

    def update(self, lag_s: float, now: float, *, idle: bool = False) -> Overload | None:
        """Takes a measurement; returns what is to be told, if the stage changes.

        ``idle``: nobody is served, so that there is nothing to be late with.
        """
        reached = max(level for level, rung in enumerate(self._rungs) if lag_s >= rung.lag_s)
        if lag_s >= self.rung.lag_s / 2:
            self._busy_at = now
        if reached > self._level:
            self._level = reached
        elif self._level and idle:
            self._level = 0
        elif self._level and now - self._busy_at >= CALM_S:
            self._level -= 1
            self._busy_at = now
        else:
            return None
        return Overload(round(lag_s, 3), self.rung.action)
