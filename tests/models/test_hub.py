"""Fetching from the hub: resumed, checked, and given up soon where nobody answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from stenod.models import ModelError, download, hf, hub
from stenod.models.catalog import HubSource
from stenod.models.progress import silent

from .full_disk import full_disk
from .hub_server import HubServer, serving
from .small_models import small_model, write_hf

SOURCE = HubSource("openai/whisper-base")
LARGE = "model.safetensors"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hf(tmp_path_factory.mktemp("published"), small_model())


@pytest.fixture
def server(published: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with serving(published) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        yield server


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as error:
        hub.fetch(SOURCE, folder, silent)
    return str(error.value)


def test_all_files_come(server: HubServer, published: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    hub.fetch(SOURCE, tmp_path, lambda *step: told.append(step))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in published.iterdir()
    }
    hf.read(tmp_path).require_sound()
    total = sum(path.stat().st_size for path in published.iterdir())
    assert told[-1] == (total, total, "fetching openai/whisper-base")
    assert told == sorted(told)


def test_what_is_there_is_not_fetched_again(server: HubServer, tmp_path: Path) -> None:
    hub.fetch(SOURCE, tmp_path, silent)
    server.requests.clear()
    hub.fetch(SOURCE, tmp_path, silent)
    assert {method for method, _, _ in server.requests} == {"HEAD"}


def test_what_the_hub_has_changed_is_fetched_again(
    server: HubServer, published: Path, tmp_path: Path
) -> None:
    hub.fetch(SOURCE, tmp_path, silent)
    (tmp_path / "config.json").write_text("what the hub had before")
    hub.fetch(SOURCE, tmp_path, silent)
    assert (tmp_path / "config.json").read_bytes() == (published / "config.json").read_bytes()


def test_a_broken_connection_is_resumed(server: HubServer, published: Path, tmp_path: Path) -> None:
    for name in ("config.json", "generation_config.json", "vocab.json"):
        (tmp_path / name).write_bytes((published / name).read_bytes())
    server.breaks_after = 1_000_000
    hub.fetch(SOURCE, tmp_path, silent)
    assert server.ranges == ["bytes=0-", "bytes=1000000-"]
    assert (tmp_path / LARGE).read_bytes() == (published / LARGE).read_bytes()


def test_an_interrupted_download_is_gone_on_with(server: HubServer, published: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int, label: str) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hub.fetch(SOURCE, tmp_path, interrupt)
    assert not (tmp_path / LARGE).exists()
    (unfinished,) = tmp_path.glob("*.unfinished")
    have = unfinished.stat().st_size
    hub.fetch(SOURCE, tmp_path, silent)
    assert server.ranges[-1] == f"bytes={have}-"
    assert (tmp_path / LARGE).read_bytes() == (published / LARGE).read_bytes()
    assert not unfinished.exists()


def test_damage_on_the_way_is_told_and_forgotten(server: HubServer, tmp_path: Path) -> None:
    server.damages = True
    assert "its checksum is wrong; try again" in refusal(tmp_path)
    assert not list(tmp_path.glob(f"{LARGE}*"))
    server.damages = False
    hub.fetch(SOURCE, tmp_path, silent)


def test_without_a_checksum_nothing_is_taken(server: HubServer, tmp_path: Path) -> None:
    server.hides_checksums = True
    assert "tells no size and checksum for model.safetensors" in refusal(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_missing_file(server: HubServer, tmp_path: Path) -> None:
    server.folder = tmp_path
    assert "cannot be reached (Not Found)" in refusal(tmp_path)


def test_a_hub_that_does_not_answer_is_given_up(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.is_silent = True
    monkeypatch.setattr(hub, "_PATIENCE_S", 0.1)
    assert "no answer within 0 s" in refusal(tmp_path)


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "Connection refused" in refusal(tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "nonsense")
    assert "unknown url type" in refusal(tmp_path)


def test_full_disk(server: HubServer, tmp_path: Path) -> None:
    with full_disk():
        assert "cannot be written" in refusal(tmp_path)


def test_a_server_that_keeps_breaking_off(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_ATTEMPTS", 1)
    server.breaks_after = 100
    assert "broke off (after 100 of" in refusal(tmp_path)
