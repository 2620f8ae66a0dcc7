"""Files appear whole or not at all."""

import os
from pathlib import Path

import pytest
from stenod.models import ModelError
from stenod.models.atomic import replacing, require_room

from .full_disk import full_disk


def test_success_replaces(tmp_path: Path) -> None:
    target = tmp_path / "model.gguf"
    target.write_bytes(b"old")
    with replacing(target) as unfinished:
        unfinished.write_bytes(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_failure_leaves_nothing(error: type[BaseException], tmp_path: Path) -> None:
    with pytest.raises(error), replacing(tmp_path / "model.gguf") as unfinished:
        unfinished.write_bytes(b"half")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_what_the_file_system_refuses_is_told(tmp_path: Path) -> None:
    target = tmp_path / "model.gguf"
    told = r"model\.gguf: cannot be written .*; check the folder and the room"
    with full_disk(), pytest.raises(ModelError, match=told), replacing(target) as unfinished:
        unfinished.write_bytes(bytes(2000))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("parent", ["missing", "file"])
def test_folder_that_is_none(parent: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ModelError, match="cannot be written"),
        replacing(tmp_path / parent / "x") as unfinished,
    ):
        unfinished.write_bytes(b"data")


def test_devices_are_left_alone(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="is no file"), replacing(pipe):
        pass
    assert pipe.is_fifo()


def test_room(tmp_path: Path) -> None:
    require_room(tmp_path, 1)
    with pytest.raises(ModelError, match=r"disk has \d+ MB left; free some room, or set STENOD_MODELS_DIR"):
        require_room(tmp_path, 2**62)
    with pytest.raises(ModelError, match="cannot be written"):
        require_room(tmp_path / "missing", 1)
