"""The named place where a session's events are published: one source, any number of subscribers.

A channel remembers the last numbered events, so that a late subscriber gets a snapshot and one that
comes back is told what it missed. A subscriber that reads slowly costs bounded memory: of the volatile
events it gets the newest, numbered ones queue to a bound, and beyond that it is dropped.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from .events import (
    Commit,
    Discarded,
    Dropped,
    Ended,
    Event,
    Final,
    Numbered,
    Overload,
    Partial,
    Snapshot,
    Warning,
)
from .metrics import READERS_DROPPED
from .publication import Publication

if TYPE_CHECKING:
    from .session import Session

Only = Literal["finals", "commits"]

SNAPSHOT_FINALS = 20
"""How many of the last finals a snapshot holds."""

SELECTED: dict[Only, type[Event]] = {"finals": Final, "commits": Commit}
"""What a subscriber gets that wants only some events."""
MOST_DIGITS = 18
"""Of a number that SQLite can hold."""


class Cursor(NamedTuple):
    """A place in a channel: the last numbered event that a subscriber has seen; see ``BEGINNING``."""

    session: str
    seq: int

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """The cursor of ``SESSION:SEQ``; ``ValueError`` says what it should look like."""
        session, colon, seq = text.rpartition(":")
        is_number = seq.isascii() and seq.isdigit() and len(seq) <= MOST_DIGITS
        if not colon or not is_number or not (session or seq == "0"):
            raise ValueError(f"a cursor is SESSION:SEQ, not {text!r}")
        return cls(session, int(seq))

    def __str__(self) -> str:
        return f"{self.session}:{self.seq}"


BEGINNING = Cursor("", 0)
"""Before all that was ever told in a channel."""


class Subscription:
    """One subscriber's queue. Iterate it for what is to be sent; it ends after a ``dropped`` or ``close``."""

    def __init__(self, bound: int, only: Only | None = None) -> None:
        """``bound``: numbered events that may wait."""
        self._bound = bound
        self._selected = SELECTED[only] if only else Event
        self._queue: deque[Publication] = deque()
        self._partial: Publication | None = None
        self._closed = False
        self._changed = asyncio.Event()

    def offer(self, publication: Publication) -> None:
        """Queues an event that the subscriber wants; drops the subscriber if too much is waiting."""
        event = publication.event
        if self._closed:
            return
        if isinstance(event, Numbered):
            self._partial = None  # what it shows is older than this event
        if not isinstance(event, self._selected):
            return
        if isinstance(event, Partial):
            self._partial = publication
        elif isinstance(event, Overload | Warning) and len(self._queue) >= self._bound // 2:
            return  # the rest of the queue is for what must not be lost
        else:
            self._append(publication)
        self._changed.set()

    def send(self, event: Event) -> None:
        """Queues an event for this subscriber alone, whatever it selected."""
        if not self._closed:
            self._append(Publication(event))
            self._changed.set()

    def drop(self, reason: Literal["slow", "shutdown"]) -> None:
        """What waits (nothing, of one who is too slow), then ``dropped``, then the end."""
        READERS_DROPPED.labels(reason).inc()
        if reason == "slow":
            self._queue.clear()
        self._partial = None
        self._queue.append(Publication(Dropped(reason)))
        self.close()

    def _append(self, publication: Publication) -> None:
        if len(self._queue) >= self._bound:
            self.drop("slow")
        else:
            self._queue.append(publication)

    def close(self) -> None:
        """The end, after what waits."""
        self._closed = True
        self._changed.set()

    async def __aiter__(self) -> AsyncGenerator[Publication, None]:
        while True:
            while self._queue:
                yield self._queue.popleft()
            if self._partial is not None:
                partial, self._partial = self._partial, None
                yield partial
            elif self._closed:
                return
            else:
                self._changed.clear()
                await self._changed.wait()


class Channel:
    """Publishes one source's events at a time, and remembers the last ones."""

    def __init__(self, name: str | None, remembered: int, subscriber_queue: int) -> None:
        """``name`` None: a session's own channel that nobody else can find."""
        self.name = name
        self.source: Session | None = None
        self._subscriber_queue = subscriber_queue
        self._subscriptions: set[Subscription] = set()
        self._readers = 0
        self._told: deque[tuple[Numbered, Publication]] = deque(maxlen=remembered)
        self._finals: deque[Final] = deque(maxlen=SNAPSHOT_FINALS)
        self._partial: Partial | None = None
        self.published = 0
        """How many numbered events were published, in all."""
        self.recalled = False
        """Whether it knows of what was published before it was made, which the journal has."""

    @property
    def subscribers(self) -> int:
        """How many read it now, or are catching up."""
        return self._readers

    @property
    def in_use(self) -> bool:
        """Whether anybody speaks into it or reads it."""
        return self.source is not None or bool(self._readers or self._subscriptions)

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Counts a subscriber, for as long as it reads."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    def recall(self, last: Numbered | None, finals: Sequence[Final]) -> None:
        """What was told last, and the last finals, by sessions that spoke before this channel was made."""
        if self.recalled:
            return
        self.recalled = True
        known = {event.session for event, _ in self._told}
        if self.source is not None:
            known.add(self.source.id)
        if last is not None and last.session not in known:
            self._told = deque([(last, Publication(last)), *self._told], self._told.maxlen)
        before = [final for final in finals if final.session not in known]
        self._finals = deque([*before, *self._finals], SNAPSHOT_FINALS)

    def publish(self, publication: Publication) -> None:
        """Tells an event to every subscriber; never waits for one."""
        event = publication.event
        if isinstance(event, Partial):
            self._partial = event
        elif isinstance(event, Final | Discarded | Ended):
            self._partial = None
        if isinstance(event, Numbered):
            self._told.append((event, publication))
            self.published += 1
        if isinstance(event, Final):
            self._finals.append(event)
        for subscription in self._subscriptions:
            subscription.offer(publication)

    def attach(self, only: Only | None = None) -> Subscription:
        """A subscription to what comes from now on, as a sender has to its own events."""
        subscription = Subscription(self._subscriber_queue, only)
        self._subscriptions.add(subscription)
        return subscription

    def subscribe(self, only: Only | None = None) -> Subscription:
        """A subscription that begins with a snapshot."""
        subscription = Subscription(self._subscriber_queue, only)
        subscription.send(self.snapshot(only))
        self._subscriptions.add(subscription)
        return subscription

    def resume(self, since: Cursor, only: Only | None = None) -> Subscription | None:
        """A subscription that begins with the numbered events after ``since``.

        None if they are not remembered: it was too long ago, or never.
        """
        missed = self._after(since)
        if missed is None:
            return None
        subscription = Subscription(self._subscriber_queue + len(missed), only)
        for publication in missed:
            subscription.offer(publication)
        if self._partial is not None:
            subscription.offer(Publication(self._partial))
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forgets a subscriber."""
        self._subscriptions.discard(subscription)

    def snapshot(self, only: Only | None = None) -> Snapshot:
        """The last finals, the open utterance, and the cursor of the last numbered event."""
        return Snapshot(tuple(self._finals), self._cursor(), None if only else self._partial)

    def drop_subscribers(self) -> None:
        """The daemon shuts down."""
        for subscription in self._subscriptions:
            subscription.drop("shutdown")

    def _cursor(self) -> str:
        if not self._told:
            return str(BEGINNING)
        last, _ = self._told[-1]
        return str(Cursor(last.session, last.seq))

    def _after(self, since: Cursor) -> list[Publication] | None:
        """What was told after a cursor; None if that is not known any more."""
        all_of_it = len(self._told) == self.published and not self.recalled
        start = 0 if since == BEGINNING and all_of_it else None
        for i, (event, _) in enumerate(self._told):
            if event.session == since.session and event.seq in (since.seq, since.seq + 1):
                start = i + 1 if event.seq == since.seq else i
                break
        return None if start is None else [publication for _, publication in list(self._told)[start:]]
