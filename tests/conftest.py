"""What tests share: the real engine with the real whisper-base model, a hub on it, and a daemon."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
import pytest_asyncio
from stenod._native import Model
from stenod.engine import Engine
from stenod.hub import Hub
from stenod.models import convert, resolve
from stenod.overload import LADDER, Ladder
from stenod.server.app import Daemon
from stenod.settings import load

from .golden.parakeet_cases import FOLDER
from .streams import hub_on

os.environ["STENOD_JOURNAL__ENABLED"] = "false"
"""Nothing that tests say is kept, but where a test asks for it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=3, help="how many runs each test in tests/faults makes")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds")))


@pytest.fixture(scope="session")
def model_path() -> Path:
    """``STENOD_TEST_MODEL``, else whisper-base as ``stenod models pull`` keeps it."""
    return Path(os.environ.get("STENOD_TEST_MODEL") or resolve("whisper-base"))


@pytest.fixture(scope="session")
def engine(model_path: Path) -> Iterator[Engine]:
    engine = Engine(Model(str(model_path)), workers=1, threads=1)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def parakeet(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    """The small random Parakeets of the goldens, by name."""
    folder = tmp_path_factory.mktemp("parakeet")

    @cache
    def load(name: str) -> Model:
        convert(FOLDER / f"{name}.nemo", folder / f"{name}.gguf", "f32")
        return Model(str(folder / f"{name}.gguf"))

    return load


@pytest_asyncio.fixture
async def hub(engine: Engine) -> AsyncIterator[Hub]:
    """A hub with default settings."""
    async with hub_on(engine) as hub:
        yield hub


@pytest.fixture(scope="session")
def daemon(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a daemon that runs in a thread of this process, and keeps a journal.

    It never sheds load, so that what it tells does not depend on how busy the machine is.
    """
    journal = {"enabled": True, "folder": tmp_path_factory.mktemp("journal")}
    engine = {"model": str(model_path), "threads": 1}
    address: Future[str] = Future()

    async def run() -> None:
        chosen = {"server": {"port": 0}, "engine": engine, "session": {"step_ms": 800}, "journal": journal}
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
