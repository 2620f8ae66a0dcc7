"""What tests share: the real engine with the real whisper-base model, a hub on it, and a daemon."""

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import pytest_asyncio
from stenod._native import Model
from stenod.engine import Engine
from stenod.hub import Hub
from stenod.models import convert, resolve

from .golden.parakeet_cases import FOLDER
from .streams import hub_on
from .threaded_daemon import Running, threaded_daemon

os.environ["STENOD_JOURNAL__ENABLED"] = "false"
"""Nothing that tests say is kept, but where a test asks for it."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A script's background jobs ignore it, and so would every program that tests start and interrupt."""


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
def running_daemon(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon that runs in a thread of this process, and keeps a journal."""
    journal = {"enabled": True, "folder": tmp_path_factory.mktemp("journal")}
    with threaded_daemon(model_path, journal=journal) as running:
        yield running


@pytest.fixture(scope="session")
def daemon(running_daemon: Running) -> str:
    """The address of that daemon."""
    return running_daemon.address
