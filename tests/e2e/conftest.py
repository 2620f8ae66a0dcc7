"""What end-to-end tests need of the machine."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.virtual_microphone import VirtualMicrophone, virtual_microphone


@pytest.fixture
def microphone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualMicrophone]:
    """A virtual microphone that this process and its children capture from."""
    if shutil.which("pulseaudio") is None:
        pytest.skip("pulseaudio is not installed")
    with virtual_microphone(tmp_path) as plugged_in:
        for name, value in plugged_in.environment.items():
            monkeypatch.setenv(name, value)
        yield plugged_in
