"""``stenod doctor``: a line for each thing looked at, and a remedy for each that is wrong."""

import socket
from pathlib import Path

import pytest
from stenod.cli import main
from stenod.journal.store import Store


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STENOD_JOURNAL__ENABLED", "true")
    monkeypatch.setenv("STENOD_JOURNAL__FOLDER", str(tmp_path))
    return tmp_path


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, str]]:
    code = main(["doctor", *arguments])
    lines = capsys.readouterr().out.splitlines()
    return code, {line[8:20].strip(): line[:8].strip() for line in lines if line[:8].strip()}


def test_where_all_is_well(model_path: Path, capsys: pytest.CaptureFixture[str]):
    code, found = doctor(capsys, "--model", str(model_path), "--port", "0")
    assert code == 0
    assert set(found.values()) == {"ok"}
    assert set(found) >= {
        "build",
        "processor",
        "model",
        "models",
        "journal",
        "address",
        "access",
        "microphones",
    }


def test_what_is_wrong_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STENOD_SERVER__TOKENS", str(tmp_path / "nowhere.json"))
    monkeypatch.setenv("STENOD_JOURNAL__FOLDER", "/proc/nowhere")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, found = doctor(capsys, "--model", "nothing.gguf", "--port", port)
    assert code == 1
    assert {what for what, verdict in found.items() if verdict == "PROBLEM"} >= {
        "model",
        "journal",
        "address",
        "access",
    }


def test_a_running_daemon_is_no_problem_of_its_address(
    daemon: str, model_path: Path, capsys: pytest.CaptureFixture[str]
):
    code, found = doctor(capsys, "--model", str(model_path), "--port", daemon.rpartition(":")[2])
    assert (code, found["address"]) == (0, "ok")


def test_a_running_daemon_is_no_problem_of_its_journal(
    journal: Path, model_path: Path, capsys: pytest.CaptureFixture[str]
):
    daemon = Store.open(journal)
    code, found = doctor(capsys, "--model", str(model_path), "--port", "0")
    daemon.close()
    assert (code, found["journal"]) == (0, "ok")
