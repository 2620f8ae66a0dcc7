"""``stenod models``, as a person runs it."""

from pathlib import Path

import pytest
from stenod import cli
from stenod.models import info

from tests.models.small_models import small_model, write_ctranslate2


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STENOD_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "models"


def test_convert_quantize_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_ctranslate2(tmp_path / "small", small_model())
    first, second = tmp_path / "first.gguf", tmp_path / "second.gguf"
    assert cli.main(["models", "convert", str(source), "-o", str(first)]) == 0
    output = capsys.readouterr()
    assert output.out == f"{first}\n"
    assert output.err == "writing first.gguf\n"
    assert cli.main(["models", "quantize", str(first), "-o", str(second), "--type", "q8_0"]) == 0
    assert info(second).type == "q8_0"
    capsys.readouterr()
    assert cli.main(["models", "info", str(second)]) == 0
    shown = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert shown["type"].strip() == "q8_0"
    assert shown["decoder head count"].strip() == "2"
    assert shown["languages"].split()[:2] == ["en", "zh"]


def test_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    (folder / "whisper-base-q8_0.gguf").write_bytes(bytes(2_000_000))
    (folder / "mine.gguf").write_bytes(bytes(1_000_000))
    assert cli.main(["models", "list"]) == 0
    output = capsys.readouterr()
    lines = [line.split() for line in output.out.splitlines()]
    assert ["whisper-base", "73", "M", "q8_0", "(2", "MB)"] in lines
    assert ["whisper-tiny", "38", "M"] in lines
    assert ["mine.gguf", "(1", "MB)"] in lines
    assert str(folder) in output.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pull", "whisper-tiny"], "whisper-tiny: cannot be fetched"),
        (["pull", "whisper-bass"], "did you mean whisper-base?"),
        (["info", "whisper-base"], "run `stenod models pull whisper-base`"),
        (["info", ""], "an empty name: is no model of the catalogue"),
        (["info", "missing.gguf"], "missing.gguf: is not there"),
        (["convert", "missing", "-o", "out.gguf"], "missing: is not there"),
        (["quantize", "missing.gguf", "-o", "out.gguf", "--type", "f16"], "missing.gguf: is not there"),
    ],
)
def test_model_errors_are_one_line_and_exit_code_3(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["models", *arguments]) == 3
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("stenod: ") and told in output.err
    assert output.err.count("\n") == 1


def test_a_place_that_cannot_be_written_has_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_ctranslate2(tmp_path / "small", small_model())
    assert cli.main(["models", "convert", str(source), "-o", f"{tmp_path}/none/a.gguf"]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == (
        f"stenod: {tmp_path}/none: cannot be written (No such file or directory); "
        "make the folder, or choose another"
    )


@pytest.mark.parametrize(
    "arguments", [[], ["pull"], ["pull", "whisper-base", "--type", "q3"], ["convert", "folder"], ["melt"]]
)
def test_usage_errors_have_exit_code_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        cli.main(["models", *arguments])
    assert error.value.code == 2
