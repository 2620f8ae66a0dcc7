"""The Python client against a real daemon."""

import asyncio
from contextlib import ExitStack

import pytest
from stenod.clients import SessionOver, follow, send
from stenod.events import Ended, Error, Event, Final, Flushed, Snapshot

from ..protocols.conftest import SMALL
from ..streams import SAID, clip, finals, pcm, plain
from ..threaded_daemon import threaded_daemon


async def test_sending_and_following(daemon: str):
    async def read() -> list[Event]:
        told: list[Event] = []
        async for event in follow(daemon, "client"):
            told.append(event)
            if isinstance(event, Snapshot):
                reading.set()
            if isinstance(event, Ended):
                return told
        raise AssertionError("dropped")

    reading = asyncio.Event()
    reader = asyncio.create_task(read())
    await reading.wait()
    async with send(daemon, channel="client", language="en", words=True) as sender:
        await sender.audio(pcm(clip()))
        await sender.flush("one")
        told: list[Event] = []
        async for event in sender:
            told.append(event)
            if event == Flushed("one"):
                await sender.configure(words=False)
                await sender.gap(16000)
                await sender.clear()
                await sender.finish()
    [final] = finals(told)
    assert plain(final.text) == SAID
    assert final.words
    assert isinstance(told[-1], Ended)
    assert finals(await reader) == [final]


async def test_a_cursor_brings_what_was_missed(daemon: str):
    async with send(daemon, channel="missed", language="en") as sender:
        await sender.audio(pcm(clip()))
        await sender.finish()
        told = [event async for event in sender]
    [final] = finals(told)
    missed = follow(daemon, "missed", only="finals", since=f"{final.session}:1")
    assert isinstance(await anext(missed), Final)
    await missed.aclose()  # type: ignore[attr-defined]


async def test_a_refusal_is_an_event(daemon: str):
    async with send(daemon, encoding="mp3") as sender:
        [error] = [event async for event in sender]
    assert isinstance(error, Error)
    assert error.code == "unsupported_audio"


async def test_sound_for_a_daemon_that_was_stopped_is_refused():
    with ExitStack() as running:
        address = running.enter_context(threaded_daemon(SMALL, journal={"enabled": False})).address
        async with send(address) as sender:
            told = [await anext(aiter(sender))]
            await asyncio.to_thread(running.close)
            told += [event async for event in sender]
            assert isinstance(told[-1], Ended)
            with pytest.raises(SessionOver, match="shutdown"):
                await sender.audio(bytes(3200))
