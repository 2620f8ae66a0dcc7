"""A daemon that runs beside the tests."""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from stenod.overload import LADDER, Ladder
from stenod.server.app import Daemon
from stenod.settings import load

PORTS = ("wyoming", "vosk", "whisperlive", "rest")
"""Protocols that have one of their own."""


class Running(NamedTuple):
    """Where a daemon listens."""

    address: str
    ports: Mapping[str, int]
    """Of protocols that have one of their own, by name."""


@contextmanager
def threaded_daemon(model_path: Path, **settings: Any) -> Iterator[Running]:
    """A daemon that runs in a thread of this process, and speaks all protocols.

    It never sheds load, so that what it tells does not depend on how busy the machine is.
    """
    chosen = {
        "engine": {"model": str(model_path), "threads": 1},
        "session": {"step_ms": 800},
        "server": {"port": 0} | settings.pop("server", {}),
        "protocols": dict.fromkeys(PORTS, True) | {f"{name}_port": 0 for name in PORTS},
        **settings,
    }
    address: Future[str] = Future()
    loop: Future[asyncio.AbstractEventLoop] = Future()
    running = Daemon(load(chosen))

    async def run() -> None:
        loop.set_result(asyncio.get_running_loop())
        await running.run(address.set_result)

    with (
        ThreadPoolExecutor(1) as executor,
        patch("stenod.scheduler.Ladder", lambda: Ladder(LADDER[:1])),
    ):
        done = executor.submit(asyncio.run, run())
        wait({address, done}, return_when=FIRST_COMPLETED)
        if done.done():
            done.result()  # it failed to start
        try:
            yield Running(address.result(), running.ports)
        finally:
            if not done.done():
                loop.result().call_soon_threadsafe(running.stop)
            done.result()
