"""How long to wait before a connection is tried again."""

import random
import time

FIRST_S = 0.2
LONGEST_S = 10.0


class Backoff:
    """Waits twice as long each time, and at random, so that many clients do not come back at once."""

    def __init__(self, give_up_after_s: float) -> None:
        """``give_up_after_s``: seconds without a connection after which there is no other try."""
        self._give_up_after_s = give_up_after_s
        self._wait_s = FIRST_S
        self._since: float | None = None

    def connected(self) -> None:
        """A connection works."""
        self._wait_s = FIRST_S
        self._since = None

    def next_wait_s(self) -> float | None:
        """Seconds to wait before the next try; None: it has taken too long."""
        now = time.monotonic()
        self._since = self._since if self._since is not None else now
        if now - self._since >= self._give_up_after_s:
            return None
        wait_s = self._wait_s * random.uniform(0.5, 1.0)
        self._wait_s = min(2 * self._wait_s, LONGEST_S)
        return wait_s
