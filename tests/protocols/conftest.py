"""Where adapters are spoken to: at a small model for most, which takes little time, and at Whisper."""

from collections.abc import Iterator

import pytest

from ..recordings import SHIPPED
from ..streams import clip
from ..threaded_daemon import threaded_daemon
from .speech import Speech, one_turn, two_turns

SMALL = SHIPPED / "parakeet-tiny.gguf"


@pytest.fixture(scope="session")
def small_daemon() -> Iterator[str]:
    """The address of a daemon with the small Parakeet, which knows digits."""
    with threaded_daemon(SMALL, journal={"enabled": False}) as address:
        yield address


@pytest.fixture
def failing_daemon() -> Iterator[str]:
    """The address of a daemon whose computations are all stopped at once."""
    engine = {"model": str(SMALL), "threads": 1, "decode_deadline_s": 1e-6}
    with threaded_daemon(SMALL, engine=engine, journal={"enabled": False}) as address:
        yield address


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
