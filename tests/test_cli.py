"""The command line as a whole."""

import subprocess
import sys
from pathlib import Path

import pytest
from stenod.cli import COMMANDS, main

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


def test_a_public_address_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--host", "0.0.0.0"]) == 2
    assert "allow_public" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error():
    done = subprocess.run(f"{STENOD} models list | true", shell=True, capture_output=True, text=True)
    assert done.stderr == ""
