"""Whatever the network does, each event arrives once, and the text is the same. ``--seeds N``: more runs."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest
from stenod.clients import Sender, blocking, follow, send
from stenod.events import Ended, Error, Event, Flushed, Numbered, Started

from ..streams import clip, committed, finals, numbered, pcm, told
from .proxy import proxy

SPEECH = clip()


async def speak(sender: Sender) -> None:
    audio = pcm(SPEECH)
    for start in range(0, len(audio), 3200):
        await sender.audio(audio[start : start + 3200])
        await asyncio.sleep(0.005)
    await sender.flush("end")
    await sender.finish()


async def conversation(address: str, channel: str | None = None) -> list[Event]:
    async with send(address, language="en", channel=channel) as sender:
        speaking = asyncio.create_task(speak(sender))
        events: list[Event] = [event async for event in sender]
        await speaking
    return events


@pytest.fixture(scope="module")
def undisturbed(daemon: str) -> list[Event]:
    return asyncio.run(conversation(daemon))


def assert_undisturbed(events: Sequence[Event], undisturbed: Sequence[Event]) -> None:
    assert [event.seq for event in numbered(events)] == list(range(1, len(numbered(events)) + 1))
    assert told(events) == told(undisturbed)
    assert isinstance(events[-1], Ended)
    assert not [event for event in events if isinstance(event, Error)]


async def test_a_sender_on_a_bad_network(daemon: str, undisturbed: list[Event], seed: int):
    """field-failures: after a dropped connection a client resumes: no gap, no duplicate."""
    async with proxy(daemon, seed) as (network, address):
        events = await conversation(address)
    started = [event for event in events if isinstance(event, Started)]
    assert len(started) == 1
    assert_undisturbed(events, undisturbed)
    assert [event for event in events if isinstance(event, Flushed)] == [Flushed("end")]
    print(f"{network.broken} connections were broken")


async def test_a_reader_on_a_bad_network(daemon: str, undisturbed: list[Event], seed: int):
    room = uuid4().hex

    async def read(address: str) -> list[Event]:
        heard: list[Event] = []
        async for event in follow(address, room):
            heard.append(event)
            reading.set()
            if isinstance(event, Ended):
                break
        return heard

    reading = asyncio.Event()
    async with proxy(daemon, seed) as (_, address):
        reader = asyncio.create_task(read(address))
        await reading.wait()
        await conversation(daemon, room)
        heard = await reader
    sequence = [event for event in heard if isinstance(event, Numbered)]
    assert [event.seq for event in sequence] == list(range(1, len(sequence) + 1))
    assert committed(sequence, 1) == committed(undisturbed, 1)
    assert [final.text for final in finals(sequence)] == [final.text for final in finals(undisturbed)]


async def test_a_program_without_an_event_loop_on_a_bad_network(daemon: str, undisturbed: list[Event]):
    def speak_and_read(address: str) -> list[Event]:
        with blocking.send(address, language="en") as sender:
            sender.audio(pcm(SPEECH))
            sender.flush("end")
            sender.finish()
            return list(sender)

    async with proxy(daemon, seed=1) as (_, address):
        events = await asyncio.to_thread(speak_and_read, address)
    assert_undisturbed(events, undisturbed)
