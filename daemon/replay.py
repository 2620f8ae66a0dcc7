"""Events from a cursor on: from the journal as far as the channel does not remember them, then live."""

from collections.abc import AsyncGenerator, Callable

from .channel import SELECTED, Channel, Cursor, Only, Subscription
from .events import Numbered, decode
from .journal import Journal, Reader
from .publication import Publication

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
    subscription = None
    while subscription is None:
        if since is None:
            subscription = channel.subscribe(only)
        elif (subscription := channel.resume(since, only)) is None:
            published = channel.published
            page = await journal.read(pages(since)) if journal is not None else None
            for json in page or ():
                event = decode(json)
                assert isinstance(event, Numbered)
                since = Cursor(event.session, event.seq)
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
            yield publication
    finally:
        channel.unsubscribe(subscription)
