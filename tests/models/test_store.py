"""Names become files."""

from pathlib import Path

import pytest
from stenod.models import ModelError, list_models, models_folder, resolve
from stenod.models.catalog import CATALOG


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STENOD_MODELS_DIR", str(tmp_path))
    return tmp_path


def put(path: Path) -> Path:
    path.write_bytes(b"GGUF, and more")
    return path


def test_folder_is_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STENOD_MODELS_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert models_folder() == tmp_path / "stenod" / "models"


def test_names(folder: Path) -> None:
    f16, q8_0 = put(folder / "whisper-base-f16.gguf"), put(folder / "whisper-base-q8_0.gguf")
    assert resolve("whisper-base") == f16
    assert resolve("whisper-base:f16") == f16
    assert resolve("whisper-base:q8_0") == q8_0


def test_paths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(folder / "mine.gguf")
    assert resolve(path) == path
    assert resolve(str(path)) == path
    monkeypatch.chdir(folder)
    assert resolve("mine.gguf") == Path("mine.gguf")
    monkeypatch.setenv("HOME", str(folder))
    assert resolve("~/mine.gguf") == path


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("whisper-base", "not on this machine yet; run `stenod models pull whisper-base`"),
        ("whisper-base:q4_0", "run `stenod models pull whisper-base:q4_0`"),
        ("whisper-bass", "no model of the catalogue; did you mean whisper-base?"),
        ("?", "`stenod models list` shows all names"),
        ("whisper-base:q3", "choose one of f32, f16"),
        ("whisper-base:", "choose one of f32, f16"),
        ("", "an empty name: is no model of the catalogue"),
        ("missing.gguf", "is not there; check the path"),
        ("/", "cannot be read"),
    ],
)
def test_what_is_not_there_is_told(name: str, told: str, folder: Path) -> None:
    with pytest.raises(ModelError) as error:
        resolve(name)
    assert told in str(error.value)


def test_foreign_files_are_refused(folder: Path) -> None:
    (folder / "whisper-base-f16.gguf").write_text("an error page")
    with pytest.raises(ModelError, match="is not a GGUF file"):
        resolve("whisper-base")


def test_a_file_that_is_there_is_no_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "README.md").write_text("about")
    with pytest.raises(ModelError, match=r"^README\.md: is not a GGUF file"):
        resolve("README.md")
    (folder / "whisper-base").write_text("not what the name means")
    meant = put(folder / "whisper-base-f16.gguf")
    assert resolve("whisper-base") == meant


def test_list(folder: Path) -> None:
    assert [model.name for model in list_models()] == list(CATALOG)
    base, mine = put(folder / "whisper-base-q8_0.gguf"), put(folder / "mine.gguf")
    listed = {model.name: model for model in list_models()}
    assert listed["whisper-base"].files == {"q8_0": base}
    assert listed["whisper-base.en"].files == {}
    assert listed["mine.gguf"].files == {"": mine}


def test_list_without_a_folder(folder: Path) -> None:
    folder.rmdir()
    assert len(list_models()) == len(CATALOG)
