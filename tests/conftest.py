"""What tests share: the real engine with the real whisper-base model, a hub on it, and a daemon."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from stenod._native import Model
from stenod.engine import Engine
from stenod.hub import Hub
from stenod.models import resolve
from stenod.server.app import Daemon
from stenod.settings import load

from .streams import hub_on


@pytest.fixture(scope="session")
def model_path() -> Path:
    """``STENOD_TEST_MODEL``, else whisper-base as ``stenod models pull`` keeps it."""
    return Path(os.environ.get("STENOD_TEST_MODEL") or resolve("whisper-base"))


@pytest.fixture(scope="session")
def engine(model_path: Path) -> Iterator[Engine]:
    engine = Engine(Model(str(model_path)), workers=1, threads=1)
    yield engine
    engine.close()


@pytest_asyncio.fixture
async def hub(engine: Engine) -> AsyncIterator[Hub]:
    """A hub with default settings."""
    async with hub_on(engine) as hub:
        yield hub


@pytest_asyncio.fixture
async def daemon(model_path: Path) -> AsyncIterator[str]:
    """The address of a daemon that runs in this process."""
    running = Daemon(load({"server": {"port": 0}, "engine": {"model": str(model_path)}}))
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(running.run(listening.set_result))
    await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
    if not listening.done():
        await task
    yield listening.result()
    running.stop()
    await task
