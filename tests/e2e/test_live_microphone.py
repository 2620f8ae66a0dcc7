"""From a microphone to text: through a daemon's channel, and in the terminal, with and without a daemon."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from stenod.clients import follow
from stenod.events import Final

from tests import recordings
from tests.streams import OTHER_CLIP, OTHER_SAID, plain
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
