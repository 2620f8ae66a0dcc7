"""Slows down who says too much."""

import asyncio
import time


class Rate:
    """Lets so many through in a second, and a second's worth at once; whoever is beyond that waits."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._left = per_second
        self._at = time.monotonic()

    async def next(self) -> None:
        """Returns when another one may come."""
        now = time.monotonic()
        self._left = min(self._per_second, self._left + (now - self._at) * self._per_second) - 1
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / self._per_second)
