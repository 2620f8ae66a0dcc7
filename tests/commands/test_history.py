"""``stenod history`` on a journal that is known."""

import json
from pathlib import Path

import pytest
from stenod.cli import main
from stenod.journal.store import Store

from ..journal.test_store import WORDS, conversation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store.open(tmp_path)
    store.write(conversation("aa1") + conversation("ab2", "Quite another thing.", channel=None))
    store.close()
    return tmp_path


def history(folder: Path, *arguments: str) -> int:
    return main(["history", *arguments, "--journal", str(folder)])


def test_list(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert history(folder, "list") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[0] == "aa1"
    assert first.split()[-1] == "room"
    assert second.split()[0] == "ab2"


@pytest.mark.parametrize(("arguments", "listed"), [(["--channel", "room"], "aa1"), (["-n", "1"], "ab2")])
def test_list_a_part(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], listed: str):
    assert history(folder, "list", *arguments) == 0
    said = capsys.readouterr()
    [line] = said.out.splitlines()
    assert line.split()[0] == listed
    assert ("older ones are not shown" in said.err) == ("-n" in arguments)


def test_show(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert history(folder, "show", "aa") == 0
    assert capsys.readouterr().out.endswith("  Good morning, Zoë.\n")


def test_search(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert history(folder, "search", "another thi") == 0
    [line] = capsys.readouterr().out.splitlines()
    assert (line.split()[0], line.endswith("Quite another thing.")) == ("ab2", True)


def test_export_as_text_and_captions(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert history(folder, "export", "aa1") == 0
    assert capsys.readouterr().out == "Good morning, Zoë.\n"
    assert history(folder, "export", "aa1", "--format", "srt") == 0
    assert capsys.readouterr().out == "1\n00:00:01,000 --> 00:00:02,300\nGood morning, Zoë.\n\n"
    assert history(folder, "export", "aa1", "--format", "vtt") == 0
    assert capsys.readouterr().out == "WEBVTT\n\n00:00:01.000 --> 00:00:02.300\nGood morning, Zoë.\n\n"


def test_export_as_json_into_a_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    output = tmp_path / "out.json"
    assert history(folder, "export", "last", "--format", "json", "-o", str(output)) == 0
    assert capsys.readouterr().out == ""
    whole = json.loads(output.read_text())
    assert (whole["session"], whole["reason"], whole["complete"]) == ("ab2", "finished", True)
    [utterance] = whole["utterances"]
    assert utterance["text"] == "Quite another thing."
    assert [word["text"] for word in utterance["words"]] == [word.text for word in WORDS]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "zz"], 2, "stenod: zz: no session of that name is kept; `stenod history list` shows them"),
        (["show", "a"], 2, "stenod: a: several sessions begin so; give more of the name"),
        (["export", "aa1", "-o", "/nowhere/x"], 1, "stenod: /nowhere/x: cannot be written: No such file or"),
    ],
)
def test_what_goes_wrong_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
):
    assert history(folder, *arguments) == code
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(said)


def test_without_a_journal_it_says_who_writes_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert history(tmp_path, "list") == 2
    assert "stenod serve" in capsys.readouterr().err
