"""Who may open a session or a channel, and when the daemon is ready."""

import asyncio
from dataclasses import replace

import pytest
from stenod.audio.pcm import AudioFormat
from stenod.engine import Engine
from stenod.events import Ended, Overload, SessionStarted
from stenod.hub import Hub, Refused
from stenod.overload import Ladder
from stenod.scheduler import Scheduler
from stenod.settings import load

from .streams import events_until, open_session


async def test_ready_after_an_inference_while_there_is_room(hub: Hub):
    """field-failures: "ready" means that inference worked lately, not that the port answers."""
    assert await hub.ready()
    assert hub.engine.succeeded_at is not None


async def test_a_full_daemon_refuses_and_is_not_ready(hub: Hub):
    """field-failures: over the limit: a clear refusal with the reason."""
    hub.settings = load({"limits": {"sessions": 1}})
    with hub.slot():
        assert not await hub.ready()
        with pytest.raises(Refused) as refused, hub.slot():
            pass
        assert refused.value.code == "too_many_sessions"
    with hub.slot():
        pass


async def test_an_overloaded_daemon_refuses(hub: Hub):
    hub.scheduler.ladder = Ladder()
    hub.scheduler.ladder.update(lag_s=60, now=0)
    refusal = hub.refusal()
    assert refusal is not None
    assert refusal.code == "too_many_sessions"


async def test_a_daemon_that_shuts_down_refuses(hub: Hub):
    await hub.drain("shutdown", 1)
    refusal = hub.refusal()
    assert refusal is not None
    assert refusal.code == "shutting_down"


async def test_without_a_scheduler_nothing_is_accepted(engine: Engine):
    scheduler = Scheduler(engine, 1, 60)
    scheduler.running = False
    refusal = Hub(load({}), engine, scheduler).refusal()
    assert refusal is not None
    assert refusal.code == "engine_failed"


async def test_an_unknown_language_is_refused_with_those_there_are(hub: Hub):
    with pytest.raises(Refused, match=r"it knows .*de.*en") as refused:
        await hub.open(AudioFormat(), replace(hub.defaults, language="xx"), None)
    assert (refused.value.code, refused.value.field) == ("bad_field", "language")


async def test_one_source_a_channel(hub: Hub):
    session, _ = await open_session(hub, channel="room")
    with pytest.raises(Refused) as refused:
        await hub.open(AudioFormat(), hub.defaults, "room")
    assert refused.value.code == "channel_busy"
    session.finish()
    await hub.ended(session)
    await open_session(hub, channel="room")


async def test_taking_over_ends_the_old_session_first(hub: Hub):
    reader = hub.channel("room").attach()
    await open_session(hub, channel="room")
    new = await hub.open(AudioFormat(), hub.defaults, "room", take_over=True)
    hub.start(new)
    old = await events_until(reader, Ended)
    assert isinstance(old[-1], Ended)
    assert old[-1].reason == "expired"
    started = (await events_until(reader, SessionStarted))[-1]
    assert isinstance(started, SessionStarted)
    assert started.session == new.id


async def test_a_source_that_is_yet_to_be_started_can_be_taken_over(hub: Hub):
    opened = await hub.open(AudioFormat(), hub.defaults, "room")
    taking_over = asyncio.create_task(hub.open(AudioFormat(), hub.defaults, "room", take_over=True))
    await asyncio.sleep(0)
    hub.start(opened)
    hub.start(await taking_over)
    assert opened.end_reason == "expired"


async def test_a_source_that_is_about_to_end_is_waited_for(hub: Hub):
    ending, _ = await open_session(hub, channel="room")
    ending.finish()
    await open_session(hub, channel="room")
    assert ending.end_reason == "finished"


async def test_only_channels_that_nobody_uses_make_room(hub: Hub):
    hub.settings = load({"limits": {"channels": 2}})
    used = hub.channel("used")
    used.attach()
    hub.channel("idle")
    hub.channel("new").attach()
    assert list(hub.channels) == ["used", "new"]
    with pytest.raises(Refused):
        hub.channel("one more")


async def test_overload_is_told_to_every_session(hub: Hub):
    """field-failures: a machine that is too slow says so."""
    senders = [(await open_session(hub))[1] for _ in range(2)]
    hub.scheduler.on_overload(Overload(1.5, "fewer_partials"))
    for sender in senders:
        assert (await events_until(sender, Overload))[-1] == Overload(1.5, "fewer_partials")
