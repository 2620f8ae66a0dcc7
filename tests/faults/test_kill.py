"""A daemon that is killed at any moment, again and again, tells each event once, and the text is the same.

``--seeds N``: more runs.
"""

import asyncio
import os
import random
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from stenod.clients import Sender, follow, send
from stenod.events import Ended, Event, Numbered, Started
from stenod.journal import Reader

from ..recordings import PROJECT
from ..streams import OTHER_CLIP, clip, finals, numbered, pcm, told

SPEECH = np.concatenate([clip(), clip(OTHER_CLIP)])
KILLS = 2


class MortalDaemon:
    """A daemon process that can be killed and started again at its address, on its journal."""

    def __init__(self, model: Path, journal: Path, settings: Mapping[str, str] | None = None) -> None:
        """``settings``: further ones, as variables of the environment."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.address = f"ws://127.0.0.1:{self._port}"
        self._model = model
        self._environment = os.environ | {
            "STENOD_JOURNAL__ENABLED": "true",
            "STENOD_JOURNAL__FOLDER": str(journal),
            "STENOD_SESSION__STEP_MS": "800",
            **(settings or {}),
        }
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process_id(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Returns when it listens."""
        arguments = ["--port", str(self._port), "--model", str(self._model), "--threads", "1"]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.faults.patient_daemon",
            *arguments,
            cwd=PROJECT,
            env=self._environment,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._process.stderr is not None
        said = await self._process.stderr.readline()
        while said and not said.startswith(b"stenod listens"):
            said = await self._process.stderr.readline()
        assert said, "the daemon did not start"

    async def kill(self) -> None:
        """As the kernel does it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def mortal_daemon(model: Path, journal: Path) -> AsyncIterator[MortalDaemon]:
    daemon = MortalDaemon(model, journal)
    await daemon.start()
    try:
        yield daemon
    finally:
        await daemon.kill()


async def speak(sender: Sender, pause_s: float) -> None:
    audio = pcm(SPEECH)
    for start in range(0, len(audio), 3200):
        await sender.audio(audio[start : start + 3200])
        await asyncio.sleep(pause_s)
    await sender.finish()


async def kill_now_and_then(daemon: MortalDaemon, draw: random.Random) -> None:
    for _ in range(KILLS):
        await asyncio.sleep(draw.uniform(0, 3))
        await daemon.kill()
        await daemon.start()


async def converse(address: str, pause_s: float) -> list[Event]:
    async with send(address, language="en", channel="room") as sender:
        speaking = asyncio.create_task(speak(sender, pause_s))
        events: list[Event] = [event async for event in sender]
        await speaking
    return events


async def read(address: str, first: asyncio.Event) -> list[Event]:
    heard: list[Event] = []
    async for event in follow(address, "room"):
        heard.append(event)
        first.set()
        if isinstance(event, Ended):
            break
    return heard


@pytest.fixture(scope="module")
def undisturbed(daemon: str) -> list[Event]:
    return asyncio.run(converse(daemon, 0.0))


async def test_a_daemon_that_is_killed_now_and_then(
    model_path: Path, tmp_path: Path, undisturbed: list[Event], seed: int
):
    """Killed: nothing that was committed is lost or told twice, to its sender as to those who read along."""
    async with mortal_daemon(model_path, tmp_path) as daemon:
        reading = asyncio.Event()
        reader = asyncio.create_task(read(daemon.address, reading))
        await reading.wait()
        conversation = asyncio.create_task(converse(daemon.address, 0.04))
        await kill_now_and_then(daemon, random.Random(seed))
        events = await conversation
        heard = numbered(await reader)
    assert len([event for event in events if isinstance(event, Started)]) == 1
    assert told(events) == told(undisturbed)
    assert told(heard) == told(undisturbed)
    kept = Reader.open(tmp_path)
    [session] = kept.sessions()
    assert [one.text for one in kept.utterances(session.id)] == [one.text for one in finals(undisturbed)]
    assert [event.seq for event in heard if isinstance(event, Numbered)] == list(range(1, len(heard) + 1))
