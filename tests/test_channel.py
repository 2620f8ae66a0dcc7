"""One source, many subscribers: snapshot, replay, selection, and what a slow one costs."""

import asyncio

import pytest
from stenod.channel import BEGINNING, Channel, Cursor, Subscription
from stenod.events import (
    Commit,
    Dropped,
    Event,
    Final,
    Numbered,
    Partial,
    SessionStarted,
    Snapshot,
    Warning,
)
from stenod.publication import Publication


def started(session: str = "a") -> SessionStarted:
    return SessionStarted(session=session, seq=1, model="m", started_at=0.0)


def commit(seq: int, text: str = "word", session: str = "a") -> Commit:
    return Commit(session=session, seq=seq, utterance=1, text=text)


def final(seq: int, text: str = "word", session: str = "a") -> Final:
    return Final(
        session=session, seq=seq, utterance=1, start=0.0, end=1.0, text=text, language="en", confidence=1.0
    )


def partial(seq: int, rev: int) -> Partial:
    return Partial(utterance=1, seq=seq, rev=rev, start=0.0, end=1.0, committed="", tentative="word")


async def waiting(subscription: Subscription) -> list[Event]:
    """What is queued for a subscriber now."""
    subscription.close()
    return [publication.event async for publication in subscription]


@pytest.fixture
def channel() -> Channel:
    return Channel("room", remembered=8, subscriber_queue=16)


async def test_everybody_is_told_and_each_event_is_encoded_once(channel: Channel):
    first, second = channel.attach(), channel.attach()
    channel.publish(Publication(started()))
    [one] = [publication async for publication in closed(first)]
    [other] = [publication async for publication in closed(second)]
    assert one is other
    assert one.json is other.json


async def test_a_late_subscriber_gets_the_last_finals_the_open_utterance_and_a_cursor(channel: Channel):
    for event in (started(), commit(2), final(3), partial(3, 1)):
        channel.publish(Publication(event))
    [snapshot] = await waiting(channel.subscribe())
    assert snapshot == Snapshot((final(3),), "a:3", partial(3, 1))


async def test_a_subscriber_before_the_first_source_gets_an_empty_snapshot_and_what_comes(channel: Channel):
    subscription = channel.subscribe()
    channel.publish(Publication(started()))
    assert await waiting(subscription) == [Snapshot((), ":0"), started()]


async def test_finals_only(channel: Channel):
    subscription = channel.subscribe(only="finals")
    for event in (started(), commit(2), partial(2, 1), final(3)):
        channel.publish(Publication(event))
    assert await waiting(subscription) == [Snapshot((), ":0"), final(3)]


async def test_commits_only(channel: Channel):
    subscription = channel.subscribe(only="commits")
    for event in (started(), commit(2), partial(2, 1), final(3)):
        channel.publish(Publication(event))
    assert await waiting(subscription) == [Snapshot((), ":0"), commit(2)]


@pytest.mark.parametrize(
    ("since", "told"),
    [("a:0", [1, 2, 3]), ("a:2", [3]), ("a:3", [])],
)
async def test_replay_after_a_cursor(channel: Channel, since: str, told: list[int]):
    for event in (started(), commit(2), final(3)):
        channel.publish(Publication(event))
    events = await waiting(resumed(channel, Cursor.parse(since)))
    assert [event.seq for event in events if isinstance(event, Numbered)] == told


async def test_replay_goes_on_into_later_sessions(channel: Channel):
    for event in (started("a"), final(2), started("b")):
        channel.publish(Publication(event))
    assert await waiting(resumed(channel, Cursor("a", 1))) == [final(2), started("b")]


async def test_the_cursor_of_an_empty_channel_brings_all_that_came_since(channel: Channel):
    snapshot = channel.snapshot()
    told = [started("a"), final(2), started("b")]
    for event in told:
        channel.publish(Publication(event))
    assert await waiting(resumed(channel, Cursor.parse(snapshot.cursor))) == told
    for seq in range(3, 20):
        channel.publish(Publication(commit(seq)))
    assert channel.resume(BEGINNING) is None


async def test_what_was_told_before_comes_before_what_is_told_now(channel: Channel):
    channel.publish(Publication(started("b")))
    channel.recall(final(9), [final(3), final(9)])
    channel.recall(final(9), [final(9)])
    assert channel.snapshot() == Snapshot((final(3), final(9)), "b:1")
    assert await waiting(resumed(channel, Cursor("a", 8))) == [final(9), started("b")]
    assert channel.resume(BEGINNING) is None


async def test_a_cursor_that_is_not_remembered_is_told_so(channel: Channel):
    for seq in range(1, 20):
        channel.publish(Publication(commit(seq)))
    assert channel.resume(Cursor("a", 3)) is None
    assert channel.resume(Cursor("b", 3)) is None
    assert channel.resume(Cursor("a", 20)) is None


def resumed(channel: Channel, since: Cursor) -> Subscription:
    subscription = channel.resume(since)
    assert subscription is not None
    return subscription


@pytest.mark.parametrize("text", ["", "a", ":3", "a:", "a:x", "a:-1", "a:²", "a:" + 30 * "9"])
def test_a_malformed_cursor_is_refused(text: str):
    with pytest.raises(ValueError, match="SESSION:SEQ"):
        Cursor.parse(text)


async def test_partials_coalesce_to_the_newest(channel: Channel):
    """field-failures: of one who does not read, partials are coalesced."""
    subscription = channel.attach()
    for rev in range(1, 100):
        channel.publish(Publication(partial(0, rev)))
    assert await waiting(subscription) == [partial(0, 99)]


async def test_a_partial_older_than_a_commit_is_not_sent_after_it(channel: Channel):
    subscription = channel.attach()
    channel.publish(Publication(partial(0, 1)))
    channel.publish(Publication(commit(1)))
    assert await waiting(subscription) == [commit(1)]


async def test_a_slow_subscriber_is_dropped_with_the_reason_and_nobody_else_notices(channel: Channel):
    """field-failures: a subscriber that stops reading costs bounded memory, and is closed with the reason."""
    slow, quick = channel.attach(), channel.attach()
    received = []
    for seq in range(1, 20):
        channel.publish(Publication(commit(seq)))
        quick_event = await anext(aiter(quick))
        received.append(quick_event.event)
    assert [event.event async for event in slow] == [Dropped("slow")]
    assert received == [commit(seq) for seq in range(1, 20)]


async def test_warnings_do_not_crowd_out_what_is_numbered(channel: Channel):
    subscription = channel.attach()
    for _ in range(100):
        channel.publish(Publication(Warning("clipping", "too loud")))
    channel.publish(Publication(started()))
    events = await waiting(subscription)
    assert events[-1] == started()
    assert len(events) == 9


async def test_shutdown_tells_what_waits_then_dropped(channel: Channel):
    subscription = channel.attach()
    channel.publish(Publication(started()))
    channel.drop_subscribers()
    assert [p.event async for p in subscription] == [started(), Dropped("shutdown")]


async def test_a_waiting_subscriber_is_woken(channel: Channel):
    subscription = channel.attach()
    waiter = asyncio.ensure_future(anext(aiter(subscription)))
    await asyncio.sleep(0)
    channel.publish(Publication(started()))
    assert (await waiter).event == started()


def closed(subscription: Subscription) -> Subscription:
    subscription.close()
    return subscription


def test_a_publication_is_the_events_json():
    assert (
        Publication(commit(2)).json == b'{"type":"commit","session":"a","seq":2,"utterance":1,"text":"word"}'
    )
