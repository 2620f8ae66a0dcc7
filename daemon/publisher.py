"""Numbers a session's events and publishes them, those to be kept once they are.

A session that is taken up after the daemon was killed tells again what it told before: that is compared with
what is kept, and told to nobody.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from . import events
from .channel import Channel, Subscription
from .events import Word
from .journal import Journal
from .metrics import EVENTS, WARNINGS
from .publication import Publication


class Diverged(Exception):
    """What is told again is not what was told before."""


class Publisher:
    """The only one that gives out a session's ``seq``: from 1 on, without holes.

    What is told comes out in its order: behind a numbered event that the journal has yet to confirm,
    everything waits.
    """

    def __init__(self, session: str, channel: Channel, journal: Journal | None = None) -> None:
        self.session = session
        self.channel = channel
        self.seq = 0
        """The last number given out."""
        self._journal = journal
        self._told_before: deque[events.Numbered] = deque()
        self._waiting: deque[tuple[Publication, Subscription | None]] = deque()
        self._told = asyncio.Event()

    @property
    def repeating(self) -> bool:
        """Whether what is told now was told before."""
        return bool(self._told_before)

    @property
    def last_seq(self) -> int:
        """The number of the last event that was ever told."""
        return self._told_before[-1].seq if self._told_before else self.seq

    def repeat(self, seq: int, told: Sequence[events.Numbered]) -> None:
        """``told`` was told after ``seq``, and will be told again."""
        self.seq = seq
        self._told_before.extend(told)

    def skip(self) -> None:
        """Nothing is told again: what was told before stands as it is."""
        if self._told_before:
            self.seq = self._told_before[-1].seq
            self._told_before.clear()

    def tell(
        self,
        kind: type[events.Numbered],
        *,
        heard: Sequence[Word] = (),
        token: bytes | None = None,
        frames: int | None = None,
        **fields: object,
    ) -> None:
        """Publishes a numbered event. ``heard``, ``token``, ``frames``: what the journal keeps with it.

        Raises ``Diverged``, and tells nothing, where another event was told before.
        """
        event = kind(session=self.session, seq=self.seq + 1, **fields)
        if self._told_before:
            if not _same(event, self._told_before[0]):
                raise Diverged(f"event {event.seq}")
            self._told_before.popleft()
            self.seq += 1
            return
        self.seq += 1
        EVENTS.labels(event.__struct_config__.tag).inc()
        publication = Publication(event)
        if self._journal is None:
            self.channel.publish(publication)
        else:
            self._waiting.append((publication, None))
            self._journal.keep(publication, self._kept, words=heard, token=token, frames=frames)

    def show(self, event: events.Event, to: Subscription | None = None) -> None:
        """Publishes a volatile event, or sends it ``to`` one reader alone."""
        if isinstance(event, events.Partial) and self._waiting and self._is_partial(self._waiting[-1][0]):
            self._waiting.pop()
        self._waiting.append((Publication(event), to))
        self._publish_volatile()

    def warn(self, code: events.WarningCode, message: str) -> None:
        """Publishes a warning."""
        WARNINGS.labels(code).inc()
        self.show(events.Warning(code, message))

    async def finished(self) -> None:
        """Returns when all that was told is published."""
        while self._waiting:
            self._told.clear()
            await self._told.wait()

    def _kept(self) -> None:
        """The oldest numbered event that waits is in the journal."""
        self._publish_first()
        self._publish_volatile()
        self._told.set()

    def _publish_volatile(self) -> None:
        while self._waiting and not isinstance(self._waiting[0][0].event, events.Numbered):
            self._publish_first()

    def _publish_first(self) -> None:
        publication, to = self._waiting.popleft()
        if to is None:
            self.channel.publish(publication)
        else:
            to.send(publication.event)

    @staticmethod
    def _is_partial(publication: Publication) -> bool:
        return isinstance(publication.event, events.Partial)


_VARYING = ("confidence", "words", "language")
"""Fields in which a repetition may differ by a rounding, and nobody be misled."""


def _same(one: events.Numbered, other: events.Numbered) -> bool:
    return type(one) is type(other) and all(
        getattr(one, name) == getattr(other, name) for name in one.__struct_fields__ if name not in _VARYING
    )
