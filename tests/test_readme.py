"""README.md and docs/protocol.md tell the truth: commands and programs run, tables are complete."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from pydantic import BaseModel
from stenod import cli
from stenod.events import AnyEvent, ErrorCode, Numbered
from stenod.settings import Settings

from .models.small_models import small_model, write_hf
from .recordings import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")
PROTOCOL = (PROJECT / "docs" / "protocol.md").read_text(encoding="utf-8")
LISTENS = "stenod listens on "

CAPTIONS = [line for line in README.splitlines() if line.startswith("stenod captions ")]
HISTORY = [line for line in README.splitlines() if line.startswith("stenod history ")]
DICTATE = [line for line in README.splitlines() if line.startswith("stenod dictate")]
RUN_ELSEWHERE = {
    "make demo": "by .ci/run",
    "make test": "by .ci/run",
    "pip install .": "by .ci/run, in an environment of its own",
    "stenod doctor": "by tests/commands, as what it finds depends on the machine",
    "stenod devices": "by tests/e2e, which have a microphone",
    "stenod listen": "by tests/e2e, which have a microphone",
    "stenod serve": "by the fixture `serving`",
    **dict.fromkeys(CAPTIONS, "by tests/commands, while somebody speaks"),
    **dict.fromkeys(DICTATE, "by tests/dictation, which have a microphone and a window"),
    **dict.fromkeys(HISTORY, "by `test_history`, after something was said"),
    ". .venv/bin/activate": "the tests' environment is active",
}


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language in the README."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without back-ticks; not its head."""
    section = text.split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n?)+", section, re.MULTILINE)
    assert table is not None
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").replace("`", "").split(" | ")] for line in lines]


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the checkout, with room for what the commands write, and a model to convert."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "tests").mkdir()
    (folder / "tests" / "data").symlink_to(PROJECT / "tests" / "data")
    (folder / "configs").symlink_to(PROJECT / "configs")
    write_hf(folder / "my-whisper", small_model())
    return folder


@pytest.fixture(scope="module")
def environment(workplace: Path, model_path: Path) -> dict[str, str]:
    """What a shell has whose environment is active; settings and models are kept in the workplace."""
    models = workplace / "models"
    models.mkdir()
    (models / "whisper-base-f16.gguf").symlink_to(model_path)
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(workplace),
        "XDG_CONFIG_HOME": str(workplace / ".config"),
        "STENOD_MODELS_DIR": str(models),
        "STENOD_JOURNAL__ENABLED": "true",
        "XDG_DATA_HOME": str(workplace / ".local" / "share"),
    }


@pytest.fixture(scope="module")
def serving(workplace: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of ``stenod serve`` on a free port; it ends well when it is told to."""
    command = ["stenod", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=workplace, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith(LISTENS), said + process.stderr.read()
        yield said.removeprefix(LISTENS).strip()
        process.terminate()
        process.stderr.read()
    assert process.returncode == 0


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in RUN_ELSEWHERE])
def test_command(command: str, workplace: Path, environment: dict[str, str]) -> None:
    shell = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(shell, cwd=workplace, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_commands_that_run_elsewhere_are_still_there() -> None:
    assert set(RUN_ELSEWHERE) <= set(COMMANDS)


@pytest.mark.parametrize("program", blocks("python"))
def test_program(program: str, serving: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:8790", serving.removeprefix("ws://"))],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "modern" in done.stdout


def test_history(serving: str, workplace: Path, environment: dict[str, str]) -> None:
    test_program(blocks("python")[0], serving, environment)
    for command in HISTORY:
        test_command(command, workplace, environment)
    assert "modern" in (workplace / "last.srt").read_text()


def test_all_settings_with_their_defaults() -> None:
    told = {
        key: None if default == "none" else tomllib.loads(f"value = {default}")["value"]
        for key, default, _ in rows(README, "### Settings")
    }
    assert told == flat(Settings.model_construct())


@pytest.mark.parametrize("example", blocks("toml"))
def test_settings_that_are_shown(example: str) -> None:
    Settings(**tomllib.loads(example))


def flat(settings: BaseModel) -> dict[str, Any]:
    """Values by ``section.key``; tuples as the lists that TOML has."""
    return {
        f"{section}.{key}": list(value) if isinstance(value, tuple) else value
        for section, values in settings.model_dump().items()
        for key, value in values.items()
    }


def test_all_commands() -> None:
    told = {shlex.split(command)[1] for command, _ in rows(README, "### Commands")}
    assert told == {command.__name__.rpartition(".")[2] for command in cli.COMMANDS}


def test_all_exit_codes() -> None:
    told = {int(code) for code, _ in rows(README, "### Exit codes")}
    assert told == {0, cli.INTERRUPTED, *cli.EXIT_CODES.values()}


def test_all_events_with_their_fields() -> None:
    told: dict[str, set[str]] = {}
    for heading in ("## Events", "Others can be missed without harm:"):
        for name, fields, _ in rows(PROTOCOL, heading):
            told[name] = set(fields.split(", "))
    numbered = {"session", "seq"}  # told once for all of them
    existing = {}
    for event in get_args(AnyEvent):
        kind = msgspec.inspect.type_info(event)
        fields = {field.encode_name for field in kind.fields}
        existing[kind.tag] = fields - numbered if issubclass(event, Numbered) else fields
    assert told == existing


def test_all_error_codes() -> None:
    section = PROTOCOL.split("\nError codes: ", 1)[1].split("\n\n", 1)[0]
    assert tuple(re.findall(r"`(\w+)`", section)) == get_args(ErrorCode)
