"""A daemon that runs beside the tests."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stenod.overload import LADDER, Ladder
from stenod.server.app import Daemon
from stenod.settings import load


@contextmanager
def threaded_daemon(model_path: Path, **settings: Any) -> Iterator[str]:
    """The address of a daemon that runs in a thread of this process.

    It never sheds load, so that what it tells does not depend on how busy the machine is.
    """
    chosen = {
        "engine": {"model": str(model_path), "threads": 1},
        "session": {"step_ms": 800},
        "server": {"port": 0} | settings.pop("server", {}),
        **settings,
    }
    address: Future[str] = Future()

    async def run() -> None:
        running = Daemon(load(chosen))
        stop = asyncio.create_task(asyncio.to_thread(stopping.wait))
        stop.add_done_callback(lambda _: running.stop())
        await running.run(address.set_result)

    stopping = threading.Event()
    with (
        ThreadPoolExecutor(1) as executor,
        patch("stenod.scheduler.Ladder", lambda: Ladder(LADDER[:1])),
    ):
        done = executor.submit(asyncio.run, run())
        wait({address, done}, return_when=FIRST_COMPLETED)
        try:
            if done.done():
                done.result()  # it failed to start
            yield address.result()
        finally:
            stopping.set()
            done.result()
