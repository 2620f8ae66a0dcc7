"""From a microphone to text: through a daemon's channel, and in the terminal, with and without a daemon."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from stenod.audio import microphone as capture
from stenod.audio.microphone import Overflow
from stenod.clients import follow
from stenod.events import Final, Gap, SessionStarted
from stenod.hub import Hub
from stenod.server import microphone as server_microphone
from stenod.settings import load

from tests import recordings
from tests.streams import OTHER_CLIP, OTHER_SAID, events_until, plain
from tests.virtual_microphone import DEVICE, VirtualMicrophone

STENOD = Path(sys.executable).with_name("stenod")
CLIP = recordings.SHIPPED / OTHER_CLIP


@pytest.fixture(autouse=True)
def settings(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STENOD_ENGINE__MODEL", str(model_path))
    monkeypatch.setenv("STENOD_ENGINE__THREADS", "1")
    monkeypatch.setenv("STENOD_SESSION__LANGUAGE", "en")
    monkeypatch.setenv("STENOD_SERVER__PORT", "8799")


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """``stenod`` with arguments, stopped as Ctrl-C does."""
    process = await asyncio.create_subprocess_exec(
        STENOD, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def daemon(*arguments: str) -> AsyncIterator[str]:
    """A daemon's address."""
    async with running("serve", "--port", "0", *arguments) as process:
        assert process.stderr is not None
        yield (await process.stderr.readline()).split()[-1].decode()


async def said(microphone: VirtualMicrophone, text: Coroutine[None, None, str]) -> str:
    """The text that comes while something is said, again and again: nothing tells when a listener listens."""
    coming = asyncio.create_task(text)
    while not coming.done():
        player = await asyncio.create_subprocess_exec(*microphone.player(CLIP))
        assert await player.wait() == 0
        await asyncio.wait({coming}, timeout=5)
    return plain(await coming)


async def test_a_daemon_captures_the_microphone_into_a_channel(microphone: VirtualMicrophone) -> None:
    async def final(address: str) -> str:
        async for event in follow(address, "desk"):
            if isinstance(event, Final):
                return event.text
        raise AssertionError("the daemon dropped us")

    async with daemon("--mic", DEVICE, "--channel", "desk") as address:
        assert await said(microphone, final(address)) == OTHER_SAID


async def test_a_daemon_without_its_microphone_runs_on_until_it_comes_back(
    microphone: VirtualMicrophone, hub: Hub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """field-failures: no device is one line; unplugged is told; overflow is a gap, the clock goes on."""
    monkeypatch.setattr(server_microphone, "RETRY_S", 0.05)
    hub.settings = load({"microphone": {"device": DEVICE}})
    reader = hub.channel("mic").attach()
    microphone.unplug()
    capturing = asyncio.create_task(server_microphone.capture(hub))
    try:
        while not caplog.records:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert not hub.sessions
        microphone.plug_in()
        await events_until(reader, SessionStarted)
        [session] = hub.sessions.values()
        while not session.audio_s:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        microphone.unplug()
        while len(caplog.records) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        microphone.plug_in()
        lost = (await events_until(reader, Gap))[-1]
        await server_microphone.take(session, Overflow(1600))
        overflow = (await events_until(reader, Gap))[-1]
    finally:
        capturing.cancel()
        await asyncio.gather(capturing, return_exceptions=True)
    assert isinstance(lost, Gap)
    assert isinstance(overflow, Gap)
    assert (lost.reason, overflow.reason) == ("device_lost", "overflow")
    assert lost.end - lost.start > capture.LOST_AFTER_S / 2
    assert overflow.end - overflow.start == pytest.approx(0.1)
    first, *_ = [record.getMessage() for record in caplog.records]
    assert first.startswith("microphone: pulse: cannot be opened")
    assert "\n" not in first


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode()


async def test_listening_in_process(microphone: VirtualMicrophone) -> None:
    async with running("listen", "--mic", DEVICE) as process:
        assert await said(microphone, line(process)) == OTHER_SAID


async def test_listening_through_a_daemon(microphone: VirtualMicrophone) -> None:
    async with (
        daemon() as address,
        running("listen", "--mic", DEVICE, "--port", address.rpartition(":")[2]) as process,
    ):
        assert await said(microphone, line(process)) == OTHER_SAID
