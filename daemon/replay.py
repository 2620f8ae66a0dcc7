"""Events from a cursor on: from the journal as far as the channel does not remember them, then live."""

import logging
from collections.abc import AsyncGenerator, Callable

from .channel import SELECTED, SNAPSHOT_FINALS, Channel, Cursor, Only, Subscription
from .events import Event, Final, Numbered, decode
from .journal import Journal, JournalError, Reader
from .publication import Publication

logger = logging.getLogger(__name__)

PAGE = 256
"""Events that are read from the journal at once."""

Pages = Callable[[Cursor], Callable[[Reader], list[bytes] | None]]


def of_channel(channel: Channel) -> Pages:
    """All that was told in a channel."""

    def after(cursor: Cursor) -> Callable[[Reader], list[bytes] | None]:
        name = channel.name or ""
        return lambda reader: reader.events_after(name, cursor.session, cursor.seq, PAGE)

    return after


def of_session(cursor: Cursor) -> Callable[[Reader], list[bytes] | None]:
    """What one session told."""
    return lambda reader: reader.session_events(cursor.session, cursor.seq, PAGE)


async def recall(channel: Channel, journal: Journal | None) -> None:
    """Lets a channel know what was told in it before it was made; once, and as far as the disk allows."""
    name = channel.name
    if journal is None or name is None or channel.recalled:
        return
    try:
        last, finals = await journal.read(
            lambda reader: (reader.last_event(name), reader.last_finals(name, SNAPSHOT_FINALS))
        )
    except JournalError as error:
        logger.error("what was told in channel %s before is not known: %s", name, error)
        return
    event = decode(last) if last is not None else None
    channel.recall(
        event if isinstance(event, Numbered) else None,
        [final for final in map(decode, finals) if isinstance(final, Final)],
    )


async def follow(
    channel: Channel,
    journal: Journal | None,
    pages: Pages,
    since: Cursor | None,
    only: Only | None = None,
    attached: Callable[[Subscription], object] | None = None,
) -> AsyncGenerator[Publication, None]:
    """The numbered events after ``since`` and then whatever comes; a snapshot first, if they are not known.

    ``attached`` is called with the subscription when there is nothing more to catch up with. Close it in the
    end. Raises ``JournalError`` if the disk fails.
    """
    await recall(channel, journal)
    subscription = read = None
    while subscription is None:
        if since is None:
            subscription = channel.subscribe(only)
        elif (subscription := channel.resume(since, only)) is None:
            published = channel.published
            page = await journal.read(pages(since)) if journal is not None else None
            for json in page or ():
                event = decode(json)
                assert isinstance(event, Numbered)
                since = read = Cursor(event.session, event.seq)
                if only is None or isinstance(event, SELECTED[only]):
                    yield Publication(event)
            if page is None:
                since = None
            elif not page and channel.published == published:  # else something came while we were reading
                subscription = channel.attach(only)
    try:
        if attached is not None:
            attached(subscription)
        async for publication in subscription:
            if not _is_known(publication.event, read):
                yield publication
    finally:
        channel.unsubscribe(subscription)


def _is_known(event: Event, read: Cursor | None) -> bool:
    """Whether it was read from the journal, before it was published."""
    return (
        read is not None
        and isinstance(event, Numbered)
        and event.session == read.session
        and event.seq <= read.seq
    )
