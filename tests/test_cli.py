"""The command line as a whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from stenod.cli import COMMANDS, main

from .recordings import SHIPPED
from .streams import CLIP

CLIP_FILE = SHIPPED / CLIP
STENOD = Path(sys.executable).with_name("stenod")


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert command.__name__.rpartition(".")[2] in text
    for code in ("0 done", "1 some", "2 usage", "3 model", "4 audio", "5 address", "130 interrupted"):
        assert code in " ".join(text.split())


@pytest.mark.parametrize("arguments", [[], ["sing"], ["serve", "--nonsense"], ["transcribe"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_a_settings_file_that_is_missing_is_exit_code_2(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--config", "/none.toml"]) == 2
    assert capsys.readouterr().err == "stenod: /none.toml: no such settings file\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_public_address_is_refused(host: str, capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--host", host]) == 2
    assert f"server.host: {host} may be reached by other machines" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["nope.invalid", "", "a..b"])
def test_a_host_that_is_none_is_told(host: str, capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--host", host]) == 5
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"stenod: {host!r} does not resolve to an address")


@pytest.mark.parametrize("command", ["models list", f"transcribe {CLIP_FILE}"])
def test_a_full_disk_behind_standard_output_is_one_line(command: str, model_path: Path):
    done = subprocess.run(
        f"{STENOD} {command} > /dev/full",
        shell=True,
        capture_output=True,
        text=True,
        env=os.environ | {"STENOD_ENGINE__MODEL": str(model_path), "STENOD_ENGINE__THREADS": "1"},
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line == "stenod: standard output cannot be written: No space left on device"


def test_a_reader_that_leaves_is_no_error():
    done = subprocess.run(f"{STENOD} models list | true", shell=True, capture_output=True, text=True)
    assert done.stderr == ""
