"""Where adapters are spoken to: at a small model for most, which takes little time, and at Whisper."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ..recordings import SHIPPED
from ..streams import clip
from ..threaded_daemon import Running, threaded_daemon
from .speech import Speech, one_turn, two_turns

SMALL = SHIPPED / "parakeet-tiny.gguf"


@pytest.fixture(scope="session")
def small_running_daemon() -> Iterator[Running]:
    """A daemon with the small Parakeet, which knows digits."""
    changed = {"journal": {"enabled": False}, "limits": {"upload_mb": 1}}
    with threaded_daemon(SMALL, **changed) as running:
        yield running


@pytest.fixture(scope="session")
def small_daemon(small_running_daemon: Running) -> str:
    """The address of that daemon."""
    return small_running_daemon.address


@pytest.fixture(scope="session")
def ports(running_daemon: Running) -> Mapping[str, int]:
    """Where the daemon with Whisper speaks the protocols that have a port of their own."""
    return running_daemon.ports


@pytest.fixture(scope="session")
def small_ports(small_running_daemon: Running) -> Mapping[str, int]:
    """The same of the small one."""
    return small_running_daemon.ports


@pytest.fixture
def failing_running_daemon(model_path: Path) -> Iterator[Running]:
    """A daemon whose computations, which take long, are all stopped at once."""
    engine = {"model": str(model_path), "threads": 1, "decode_deadline_s": 1e-6}
    with threaded_daemon(model_path, engine=engine, journal={"enabled": False}) as running:
        yield running


@pytest.fixture
def failing_daemon(failing_running_daemon: Running) -> str:
    """The address of that daemon."""
    return failing_running_daemon.address


@pytest.fixture
def digits(small_daemon: str) -> Speech:
    """One turn."""
    return Speech(small_daemon, one_turn())


@pytest.fixture
def dialogue(small_daemon: str) -> Speech:
    """Two turns."""
    return Speech(small_daemon, two_turns())


@pytest.fixture(params=["parakeet", "whisper"])
def speech(request: pytest.FixtureRequest) -> Speech:
    """Two turns of digits for Parakeet, a sentence for Whisper."""
    if request.param == "parakeet":
        return Speech(request.getfixturevalue("small_daemon"), two_turns())
    return Speech(request.getfixturevalue("daemon"), clip())
