"""`stenod dictate` as a whole: a recording that a microphone hears ends up in a text field."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
import soundfile
from stenod.cli import main
from stenod.clients.dictation.control import ask, folder, only_one
from stenod.clients.dictation.errors import CannotControl
from stenod.clients.dictation.hotkey import DOWN, UP, Hotkey, pressing
from stenod.clients.dictation.sounds import NOTE_S, NOTES, Sounds

from tests.recordings import SHIPPED
from tests.streams import OTHER_CLIP, OTHER_SAID, plain
from tests.virtual_microphone import DEVICE, virtual_microphone

from .conftest import DEADLINE_S, OpenField

STENOD = Path(sys.executable).with_name("stenod")


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_path: Path) -> Path:
    """A runtime folder of our own, and settings that do not depend on the machine."""
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("STENOD_ENGINE__MODEL", str(model_path))
    monkeypatch.setenv("STENOD_ENGINE__THREADS", "1")
    monkeypatch.setenv("STENOD_SESSION__LANGUAGE", "en")
    return folder()


@asynccontextmanager
async def dictating(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """``stenod dictate`` that waits to be told; stopped as Ctrl-C does."""
    process = await asyncio.create_subprocess_exec(
        STENOD, "dictate", *arguments, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        assert b"waits to be told" in await process.stderr.readline()
        yield process
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def states(place: Path) -> AsyncIterator[str]:
    while True:
        yield await ask(place, "status")
        await asyncio.sleep(0.02)


async def reached(place: Path, beginning: str) -> str:
    """The state, once it begins so."""
    async with asyncio.timeout(DEADLINE_S):
        async for state in states(place):
            if state.startswith(beginning):
                return state
    raise AssertionError("it never ends")


async def test_what_a_microphone_hears_is_typed_and_taken_back(
    field: OpenField, daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    with virtual_microphone(tmp_path / "home") as microphone:
        for name, value in microphone.environment.items():
            monkeypatch.setenv(name, value)
        place, port = folder(), daemon.rpartition(":")[2]
        async with field() as window, dictating("--mic", DEVICE, "--port", port) as process:
            assert await ask(place, "start") == "starting"
            await reached(place, "listening")
            player = await asyncio.create_subprocess_exec(*microphone.player(SHIPPED / OTHER_CLIP))
            await player.wait()
            process.send_signal(signal.SIGUSR2)
            text = await window.until(lambda text: text.endswith(" ") and plain(text) == OTHER_SAID)
            await reached(place, "off")
            assert text.strip() == text[:-1]
            assert await ask(place, "undo") == "off"
            await window.until(lambda text: text == "")
            assert await ask(place, "undo") == "error: nothing is left to take back"


async def test_it_is_told_by_commands_of_its_user_alone(
    field: OpenField, runtime: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with field(), dictating("--port", "1", "--mic", "none") as process:  # no daemon is there
        mode = (runtime / "dictate.sock").stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
        assert await asyncio.to_thread(main, ["dictate", "status"]) == 0
        assert await ask(runtime, "cancel") == "off"
        process.send_signal(signal.SIGUSR1)
        state = await reached(runtime, "error: ")
        assert "microphone" in state
        assert (runtime / "dictation").read_text() == f"{state}\n"
        reader, writer = await asyncio.open_unix_connection(runtime / "dictate.sock")
        writer.write(b"sing\n")
        assert (await reader.readline()).startswith(b"error: 'sing' is none of toggle, start")
        writer.close()
        with pytest.raises(CannotControl, match="dictation runs already"), only_one(runtime):
            pass
    assert not (runtime / "dictate.sock").exists()
    assert not (runtime / "dictation").exists()
    assert await asyncio.to_thread(main, ["dictate", "toggle"]) == 5
    told = capsys.readouterr()
    assert told.out == "off\n"
    assert told.err == "stenod: dictation does not run; start it with `stenod dictate`\n"


def test_a_runtime_folder_of_others_is_refused(runtime: Path) -> None:
    runtime.chmod(0o777)
    with pytest.raises(CannotControl, match="others may use it"):
        folder()


@pytest.mark.parametrize(
    ("key", "reason"), [("PAUSE", "PAUSE is no key"), ("KEY_PAUSE", "there is no keyboard in")]
)
def test_why_a_hotkey_cannot_be(key: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(CannotControl, match=reason):
        Hotkey(key, print, tmp_path)


class Ordered:
    """Notes what it is told, and whether it may type then."""

    def __init__(self) -> None:
        self.may_type = asyncio.Event()
        self.may_type.set()
        self.orders: list[tuple[str, bool]] = []

    def order(self, command: str) -> None:
        self.orders.append((command, self.may_type.is_set()))


@pytest.mark.parametrize(
    ("key", "mode", "orders"),
    [
        ("KEY_PAUSE", "hold", [("start", True), ("stop", True)]),
        ("KEY_RIGHTCTRL", "hold", [("start", False), ("stop", True)]),
        ("KEY_RIGHTCTRL", "toggle", [("toggle", True)]),
    ],
)
async def test_what_a_hotkey_does(
    key: str, mode: Literal["hold", "toggle"], orders: list[tuple[str, bool]]
) -> None:
    ordered = Ordered()
    press = pressing(ordered, key, mode)
    press(DOWN)
    press(UP)
    assert ordered.orders == orders


def test_keyboards_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "event0").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read all
    with pytest.raises(CannotControl, match="usermod -aG input"):
        Hotkey("KEY_PAUSE", print, tmp_path)


def test_tones_are_short_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "paplay").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    Sounds(tmp_path, on=True)
    for name, notes in NOTES.items():
        samples, rate = soundfile.read(tmp_path / f"{name}.wav")
        assert len(samples) / rate == pytest.approx(len(notes) * NOTE_S)
        assert 0.1 < abs(samples).max() < 0.3
