"""Numbers a session's events and publishes them, those to be kept once they are."""

import asyncio
from collections import deque
from collections.abc import Sequence

from . import events
from .channel import Channel, Subscription
from .journal import Journal
from .publication import Publication


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
        self._waiting: deque[tuple[Publication, Subscription | None]] = deque()
        self._told = asyncio.Event()

    def tell(
        self, kind: type[events.Numbered], *, heard: Sequence[events.Word] = (), **fields: object
    ) -> None:
        """Publishes a numbered event. ``heard``: its words, which the journal keeps in any case."""
        self.seq += 1
        publication = Publication(kind(session=self.session, seq=self.seq, **fields))
        if self._journal is None:
            self.channel.publish(publication)
        else:
            self._waiting.append((publication, None))
            self._journal.keep(publication, heard, self._kept)

    def show(self, event: events.Event, to: Subscription | None = None) -> None:
        """Publishes a volatile event, or sends it ``to`` one reader alone."""
        if isinstance(event, events.Partial) and self._waiting and self._is_partial(self._waiting[-1][0]):
            self._waiting.pop()
        self._waiting.append((Publication(event), to))
        self._publish_volatile()

    def warn(self, code: events.WarningCode, message: str) -> None:
        """Publishes a warning."""
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
