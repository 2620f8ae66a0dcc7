"""Sessions as tests run them: audio in, all events out."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from stenod.audio.pcm import AudioFormat
from stenod.channel import Subscription
from stenod.context import Context
from stenod.engine import Engine
from stenod.events import Commit, Ended, Event, Final, Numbered
from stenod.hub import Hub
from stenod.journal import Journal
from stenod.overload import LADDER, Ladder
from stenod.scheduler import Lane, Scheduler
from stenod.session import Session
from stenod.settings import load as load_settings
from stenod.utterance import Configuration

from .recordings import load

CLIP = "en_read/speechbrain/spk1_snt3.flac"
"""2.7 s."""
SAID = "at that high level the air is pure"
OTHER_CLIP = "telephone_8k/en/conf-getpin.flac"
OTHER_SAID = "please enter the conference pin number"
SILENCE = np.zeros(24000, np.float32)


@asynccontextmanager
async def hub_on(
    engine: Engine, decode_deadline_s: float = 60, journal: Journal | None = None
) -> AsyncIterator[Hub]:
    """A hub that never sheds load, so that what it tells does not depend on how busy the machine is."""
    scheduler = Scheduler(engine, 8, decode_deadline_s, Ladder(LADDER[:1]))
    stepping = asyncio.create_task(scheduler.run())
    hub = Hub(load_settings({"session": {"step_ms": 800}}), engine, scheduler, journal)
    try:
        yield hub
    finally:
        await hub.drain("shutdown", 60)
        stepping.cancel()
        await asyncio.wait({stepping})


def pcm(samples: NDArray[np.float32]) -> bytes:
    """As ``s16le``."""
    return (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def clip(path: str = CLIP) -> NDArray[np.float32]:
    """A recording between two stretches of silence, of which the second ends its utterance."""
    return np.concatenate([SILENCE[:4000], load(path), SILENCE])


async def open_session(
    hub: Hub, configuration: Configuration | None = None, channel: str | None = None
) -> tuple[Session, Subscription]:
    """A session that runs, and its events."""
    session = await hub.open(AudioFormat(), configuration or hub.defaults, channel)
    sender = session.attach_sender()
    hub.start(session)
    return session, sender


async def events_until(sender: Subscription, last: type[Event] = Ended) -> list[Event]:
    """The events up to the first of a kind."""
    events = []
    async for publication in sender:
        events.append(publication.event)
        if isinstance(publication.event, last):
            break
    return events


def contexts_given(monkeypatch: pytest.MonkeyPatch) -> list[Context | None]:
    """Filled with the context that each utterance is begun with, from now on."""
    given: list[Context | None] = []
    reset = Lane.reset

    async def noting(lane: Lane, **chosen: Any) -> None:
        given.append(chosen["context"])
        await reset(lane, **chosen)

    monkeypatch.setattr(Lane, "reset", noting)
    return given


async def transcribe(
    hub: Hub,
    samples: NDArray[np.float32],
    chunks: Sequence[int] = (1600,),
    configuration: Configuration | None = None,
    before_finish: Callable[[Session], None] = lambda session: None,
    channel: str | None = None,
) -> list[Event]:
    """All events of a session that is sent ``samples`` in ``chunks`` of so many bytes, over and over."""
    session, sender = await open_session(hub, configuration, channel)
    gathering = asyncio.create_task(events_until(sender))
    data, position, turn = pcm(samples), 0, 0
    while position < len(data):
        size = chunks[turn % len(chunks)]
        await session.feed(data[position : position + size])
        position, turn = position + size, turn + 1
    before_finish(session)
    session.finish()
    return await gathering


def numbered(events: Sequence[Event]) -> list[Numbered]:
    """The numbered events."""
    return [event for event in events if isinstance(event, Numbered)]


def finals(events: Sequence[Event]) -> list[Final]:
    """The finals."""
    return [event for event in events if isinstance(event, Final)]


def committed(events: Sequence[Event], utterance: int) -> str:
    """All that was committed of an utterance, as it was told."""
    return "".join(
        event.text for event in events if isinstance(event, Commit) and event.utterance == utterance
    )


def told(events: Sequence[Event]) -> list[dict[str, object]]:
    """The numbered events without what differs from session to session, and without probabilities."""
    varying = ("session", "started_at", "confidence")
    return [
        {"type": type(event).__name__}
        | {name: getattr(event, name) for name in event.__struct_fields__ if name not in varying}
        for event in numbered(events)
    ]


def plain(text: str) -> str:
    """A text's words, without case and punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))
