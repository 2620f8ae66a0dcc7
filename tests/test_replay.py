"""What a reader is told of the past: from the channel's memory, from the journal, and both together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio
from stenod import settings
from stenod.channel import Channel, Cursor
from stenod.events import Event, Snapshot
from stenod.journal import Journal
from stenod.journal.store import Store
from stenod.publication import Publication
from stenod.replay import follow, of_channel

from .journal.test_store import conversation

TOLD = [told.event for told in conversation()]


@pytest_asyncio.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """That of a daemon that was started when all was told, long ago."""
    store = Store.open(tmp_path)
    store.write(conversation())
    store.close()
    journal = await Journal.open(settings.Journal(folder=tmp_path, keep_days=0))
    yield journal
    await journal.close()


@pytest.fixture
def channel() -> Channel:
    return Channel("room", 16, 16)


async def read(channel: Channel, journal: Journal, since: Cursor | None, count: int) -> list[Event]:
    heard = list[Event]()
    async with aclosing(follow(channel, journal, of_channel(channel), since)) as told:
        while len(heard) < count:
            heard.append((await anext(told)).event)
    return heard


async def test_after_a_restart_a_snapshot_shows_what_was_before(channel: Channel, journal: Journal):
    [snapshot] = await read(channel, journal, None, 1)
    assert snapshot == Snapshot((TOLD[5],), "a1:7")  # type: ignore[arg-type]
    assert await read(channel, journal, Cursor.parse(":0"), 7) == TOLD
    assert await read(Channel("elsewhere", 16, 16), journal, None, 1) == [Snapshot((), ":0")]


async def test_from_the_beginning_is_all_of_it_also_before_the_restart(channel: Channel, journal: Journal):
    later = [told.event for told in conversation("b2")]
    for event in later:
        channel.publish(Publication(event))
    assert await read(channel, journal, Cursor.parse(":0"), 14) == TOLD + later


async def test_after_an_event_that_nobody_knows_a_snapshot_comes_first(channel: Channel, journal: Journal):
    """Whoever was told more than was kept must not take the rest for all that came since."""
    beyond = Cursor("a1", TOLD[-1].seq + 1)
    assert await read(channel, journal, beyond, 1) == [Snapshot((TOLD[5],), "a1:7")]  # type: ignore[arg-type]
    for event in (told.event for told in conversation("b2")):
        channel.publish(Publication(event))
    for cursor in (beyond, Cursor("b2", 8)):
        [snapshot] = await read(channel, journal, cursor, 1)
        assert isinstance(snapshot, Snapshot)


async def test_what_is_read_from_the_journal_before_it_is_published_is_told_once(
    channel: Channel, journal: Journal
):
    """The disk knows an event a moment before those who listen do."""
    later = [told.event for told in conversation("b2")]
    attached = asyncio.Event()
    pages = of_channel(channel)
    told = follow(channel, journal, pages, Cursor("a1", 4), attached=lambda _: attached.set())
    async with aclosing(told):
        heard = [(await anext(told)).event for _ in TOLD[4:]]
        following = asyncio.ensure_future(anext(told))
        await attached.wait()
        for event in [*TOLD[4:], *later]:
            channel.publish(Publication(event))
        heard += [(await following).event, *[(await anext(told)).event for _ in later[1:]]]
    assert heard == TOLD[4:] + later
