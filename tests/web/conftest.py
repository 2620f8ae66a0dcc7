"""A real browser whose microphone plays recordings."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import BrowserContext, Playwright, sync_playwright

from ..recordings import PROJECT, SAMPLE_RATE, load
from ..streams import SILENCE

PICTURES = PROJECT / "build" / "web"
"""Where screenshots are kept."""
ARGUMENTS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
)
WAIT_MS = 60_000
"""For what has to come; how long it takes depends on what else the machine does."""

Open = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as running:
        yield running


@pytest.fixture
def browser(playwright: Playwright, tmp_path: Path) -> Iterator[Open]:
    """Opens a browser of its own, whose microphone plays recordings once, or only beeps."""

    def open_browser(*recordings: str, arguments: Sequence[str] = ()) -> BrowserContext:
        chosen = [*ARGUMENTS, *arguments]
        if recordings:
            file = tmp_path / "microphone.wav"
            sounds = [sound for recording in recordings for sound in (load(recording), SILENCE)]
            soundfile.write(file, np.concatenate([SILENCE[:8000], *sounds]), SAMPLE_RATE, subtype="PCM_16")
            chosen.append(f"--use-file-for-fake-audio-capture={file}%noloop")
        opened = playwright.chromium.launch_persistent_context(
            tmp_path / f"profile-{len(profiles)}",
            executable_path=shutil.which("chromium"),
            args=chosen,
            chromium_sandbox=False,
            viewport={"width": 1180, "height": 680},
        )
        profiles.append(opened)
        opened.set_default_timeout(WAIT_MS)
        closing.callback(opened.close)
        return opened

    profiles: list[BrowserContext] = []
    PICTURES.mkdir(parents=True, exist_ok=True)
    with ExitStack() as closing:
        yield open_browser
