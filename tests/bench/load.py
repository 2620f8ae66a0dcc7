"""What many connections cost a daemon that has nothing to transcribe, and whether it answers while it does.

    python -m tests.bench.load [--sessions 100] [--readers 1000] [--stalled 100]

Prints CPU of the daemon over some seconds of silence, its memory, and how long pongs and ``/healthz``
take while the engine is saturated. Linux: it reads /proc.
"""

import argparse
import asyncio
import os
import time
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from stenod.models import resolve
from websockets.asyncio.client import ClientConnection, connect

from ..faults.test_kill import MortalDaemon
from ..recordings import load
from ..streams import pcm

SILENT_S = 10.0
BUSY_S = 10.0
SPEECH = "en_read/jfk.flac"


def cpu_s(process: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def timed(work: Callable[[], Awaitable[object]], seconds: float) -> list[float]:
    """How long ``work`` took, over and over, in milliseconds."""
    taken, end = list[float](), time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        await work()
        taken.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(0.02)
    return taken


async def measure(sessions: int, readers: int, stalled: int) -> None:
    with TemporaryDirectory() as journal:
        settings = {
            "STENOD_LIMITS__SESSIONS": str(sessions + 8),
            "STENOD_LIMITS__SUBSCRIBERS": str(readers + 8),
        }
        daemon = MortalDaemon(resolve("whisper-base"), Path(journal), settings)
        await daemon.start()
        process = daemon.process_id
        print(f"alone: {memory_mb(process):.0f} MB")
        async with AsyncExitStack() as stack:

            async def opened(path: str) -> ClientConnection:
                return await stack.enter_async_context(connect(daemon.address + path, max_queue=None))

            sources = [await opened("/v1/stream") for _ in range(sessions)]
            for source in sources:
                await source.send('{"type":"start"}')
            followers = [await opened("/v1/channels/room") for _ in range(readers)]
            await asyncio.gather(*(one.recv() for one in (*sources, *followers)))
            await asyncio.sleep(2)
            before = cpu_s(process)
            await asyncio.sleep(SILENT_S)
            share = (cpu_s(process) - before) / SILENT_S
            print(f"{sessions} silent sessions, {readers} readers: {100 * share:.1f} % of a core")
            print(f"then: {memory_mb(process):.0f} MB")
            for follower in followers[:stalled]:
                follower.transport.pause_reading()
            await saturate(daemon.address, opened)
            print(f"after speech with {stalled} readers stalled: {memory_mb(process):.0f} MB")
            for one in (*sources, *followers):
                one.transport.abort()  # a polite end would take each of the stalled ones ten seconds
        await daemon.kill()


async def saturate(address: str, opened: Callable[[str], Awaitable[ClientConnection]]) -> None:
    """Speaks faster than can be heard, and asks for pongs and the page meanwhile."""
    busy, other = await opened("/v1/stream"), await opened("/v1/channels/other")
    await busy.send('{"type":"start","channel":"room","language":"en"}')
    speaking = asyncio.create_task(busy.send(pcm(np.tile(load(SPEECH), 3))))

    async def pong() -> None:
        await (await other.ping())

    def page() -> None:
        urllib.request.urlopen(f"{address.replace('ws', 'http')}/healthz", timeout=30).read()

    for name, work in (("pong", pong), ("/healthz", lambda: asyncio.to_thread(page))):
        taken = np.array(await timed(work, BUSY_S))
        print(f"{name} while busy: median {np.median(taken):.1f} ms, p99 {np.percentile(taken, 99):.1f} ms")
    speaking.cancel()
    await asyncio.gather(speaking, return_exceptions=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--stalled", type=int, default=100)
    options = parser.parse_args()
    asyncio.run(measure(options.sessions, options.readers, options.stalled))
