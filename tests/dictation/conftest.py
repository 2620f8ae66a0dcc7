"""A desktop without a screen, and text fields in it."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

FIELD = Path(__file__).with_name("field.py")
SYSTEM_PYTHON = "/usr/bin/python3"
DEADLINE_S = 60


class Field:
    """A window that had the focus when it was opened."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.text = ""

    async def until(self, wanted: Callable[[str], bool]) -> str:
        """Its text, once it is as wanted."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not wanted(self.text):
                    await self.next()
        except TimeoutError:
            raise AssertionError(f"it holds {self.text!r}") from None
        return self.text

    async def next(self) -> None:
        """Waits for a change."""
        assert self._process.stdout is not None
        self.text = json.loads(await self._process.stdout.readline())


@asynccontextmanager
async def open_field(kind: str = "Field") -> AsyncIterator[Field]:
    """Opens a window of a class; it takes the focus."""
    process = await asyncio.create_subprocess_exec(
        SYSTEM_PYTHON, FIELD, kind, stdout=asyncio.subprocess.PIPE, env=os.environ | {"LC_ALL": "C.UTF-8"}
    )
    try:
        field = Field(process)
        async with asyncio.timeout(DEADLINE_S):
            await field.next()
        yield field
    finally:
        process.kill()
        await process.wait()


OpenField = Callable[..., AbstractAsyncContextManager[Field]]


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """The name of an X server that nobody sees."""
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed")
    reading, writing = os.pipe()
    # -noreset: else the keyboard's layout is forgotten when the last window closes.
    command = ["Xvfb", "-displayfd", str(writing), "-noreset", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL) as server:
        os.close(writing)
        with os.fdopen(reading) as told:
            yield f":{told.readline().strip()}"
        server.terminate()


@pytest.fixture
def field(display: str, monkeypatch: pytest.MonkeyPatch) -> OpenField:
    """Opens text fields on a desktop that this process and its children use."""
    monkeypatch.setenv("DISPLAY", display)
    for name in ("WAYLAND_DISPLAY", "SWAYSOCK", "HYPRLAND_INSTANCE_SIGNATURE"):
        monkeypatch.delenv(name, raising=False)
    return open_field
