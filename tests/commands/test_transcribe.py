"""``stenod transcribe`` as it is typed: what it writes, where, and how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from stenod.cli import main

from ..recordings import SHIPPED
from ..streams import CLIP, OTHER_CLIP, OTHER_SAID, SAID, plain

CLIP_FILE, OTHER_FILE = str(SHIPPED / CLIP), str(SHIPPED / OTHER_CLIP)


@pytest.fixture(autouse=True)
def settings(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STENOD_ENGINE__MODEL", str(model_path))
    monkeypatch.setenv("STENOD_ENGINE__THREADS", "1")


def test_text_of_many_files_in_their_order(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", CLIP_FILE, OTHER_FILE]) == 0
    out, err = capsys.readouterr()
    assert [plain(line) for line in out.splitlines()] == [SAID, OTHER_SAID]
    assert err == ""


def test_json_is_an_object_a_file_a_line(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "--format", "json", "--language", "en", CLIP_FILE, OTHER_FILE]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["file"], plain(first["text"]), first["language"], first["duration"]) == (
        CLIP_FILE,
        SAID,
        "en",
        2.72,
    )
    assert plain(second["text"]) == OTHER_SAID
    words = [word for segment in first["segments"] for word in segment["words"]]
    assert plain(" ".join(word["text"] for word in words)) == SAID
    assert all(0 <= word["start"] <= word["end"] <= 2.8 for word in words)


def test_a_folder_gets_a_file_a_recording(tmp_path: Path):
    assert (
        main(["transcribe", "--format", "srt", "-o", f"{tmp_path}/out/", CLIP_FILE, OTHER_FILE, CLIP_FILE])
        == 0
    )
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["conf-getpin.srt", "spk1_snt3-2.srt", "spk1_snt3.srt"]
    assert "-->" in (tmp_path / "out" / "conf-getpin.srt").read_text()


def test_several_recordings_are_no_single_subtitle_file(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "--format", "vtt", CLIP_FILE, OTHER_FILE]) == 2
    assert "folder" in capsys.readouterr().err


def test_what_is_played_live_is_written_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "--live", "-o", str(tmp_path / "file"), CLIP_FILE]) == 2
    assert "--output" in capsys.readouterr().err


def test_what_cannot_be_read_is_one_line_and_the_rest_is_done(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", str(SHIPPED / "odd/random_bytes.wav"), CLIP_FILE, "missing.wav"]) == 1
    out, err = capsys.readouterr()
    assert plain(out) == SAID
    bad, missing = err.splitlines()
    assert "random_bytes.wav" in bad
    assert "missing.wav" in missing


@pytest.mark.parametrize("name", ["odd/text_named.wav", "odd/header_cut_20.wav"])
def test_nothing_that_can_be_read_is_exit_code_4(name: str, capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", str(SHIPPED / name)]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "name", ["odd/one_sample.wav", "odd/short_20ms.wav", "nonspeech/gen_digital_silence_30s.flac"]
)
def test_audio_without_speech_gives_no_words(name: str, capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", str(SHIPPED / name)]) == 0
    assert capsys.readouterr().out == ""


def test_a_damaged_recording_gives_what_is_there_and_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", str(SHIPPED / "odd/bad_truncated_half.wav")]) in (1, 4)
    out, err = capsys.readouterr()
    assert out
    assert "cut short" in err


def test_the_whole_recording_without_the_voice_detector(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "--no-vad", CLIP_FILE]) == 0
    assert plain(capsys.readouterr().out) == SAID


def test_standard_input():
    command = [Path(sys.executable).with_name("stenod"), "transcribe", "--format", "json", "-"]
    done = subprocess.run(command, input=Path(CLIP_FILE).read_bytes(), capture_output=True)
    assert done.returncode == 0
    assert plain(json.loads(done.stdout)["text"]) == SAID


def test_live_plays_it_through_the_live_path(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "--live", OTHER_FILE]) == 0
    assert plain(capsys.readouterr().out) == OTHER_SAID


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").touch()
    assert main(["transcribe", "-o", f"{tmp_path}/file/text", CLIP_FILE]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "cannot be written" in line


def test_a_folder_that_is_missing_is_not_made_for_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "-o", f"{tmp_path}/none/text.txt", CLIP_FILE]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert f"there is no folder {tmp_path}/none; make it" in line
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "-o", "/dev/full", CLIP_FILE]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == "stenod: /dev/full: cannot be written: No space left on device"


def test_a_missing_model_is_exit_code_3(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "--model", "/none.gguf", CLIP_FILE]) == 3
    assert "/none.gguf" in capsys.readouterr().err


def test_a_name_that_is_empty_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", ""]) == 4
    assert "the name of a recording is empty" in capsys.readouterr().err


def test_an_unknown_language_is_exit_code_2_before_a_file_is_read(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "--language", "xx", "missing.wav"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("stenod: session.language: ")
    assert "'xx'" in line


def test_wrong_settings_are_exit_code_2_and_named(capsys: pytest.CaptureFixture[str]):
    assert main(["transcribe", "--task", "sing", "--threads", "-1", CLIP_FILE]) == 2
    err = capsys.readouterr().err
    assert "session.task" in err
    assert "engine.threads" in err
