"""Any file gives its audio, or one clear line; nothing hangs, and nothing is silently empty."""

import io
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from stenod.audio.files import AudioFileError, open_audio

from tests import recordings

SPEECH = recordings.SHIPPED / "en_read/ljspeech/LJ001-0004.flac"
ODD = recordings.SHIPPED / "odd"
SECONDS = 5.139

needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")


def read(source: Path | str) -> tuple[NDArray[np.float32], str | None]:
    with open_audio(str(source)) as audio:
        blocks = list(audio)
        assert all(block.dtype == np.float32 and block.ndim == 1 and len(block) for block in blocks)
        return np.concatenate(blocks), audio.problem


def refusal(source: Path | str) -> str:
    with pytest.raises(AudioFileError) as error, open_audio(str(source)):
        pass
    message = str(error.value)
    assert str(source) in message
    assert "\n" not in message
    return message


def wav(samples: NDArray[np.generic], rate: int = 16000) -> bytearray:
    subtype = {"int16": "PCM_16", "float32": "FLOAT", "float64": "DOUBLE"}[samples.dtype.name]
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype=subtype)
    return bytearray(file.getvalue())


@pytest.fixture(scope="module")
def speech() -> NDArray[np.int16]:
    samples: NDArray[np.int16] = soundfile.read(SPEECH, dtype="int16")[0]
    return samples


def test_a_plain_file_is_read_exactly(speech: NDArray[np.int16]) -> None:
    with open_audio(str(SPEECH)) as audio:
        assert audio.duration_s == pytest.approx(SECONDS, abs=1e-3)
        np.testing.assert_array_equal(np.concatenate(list(audio)), speech / np.float32(32768))
        assert audio.problem is None


@pytest.mark.parametrize("name", ["ima_adpcm_16k.wav", "tel_8k_gsm.wav"])
def test_libsndfile_formats(name: str) -> None:
    samples, problem = read(ODD / name)
    assert len(samples) / 16000 == pytest.approx(SECONDS, abs=0.07)
    assert problem is None


@needs_ffmpeg
@pytest.mark.parametrize("name", ["aac.aac", "mp3_vbr_16k.mp3"])
def test_ffmpeg_formats(name: str) -> None:
    samples, problem = read(ODD / name)
    assert len(samples) / 16000 == pytest.approx(SECONDS, abs=0.07)
    assert problem is None


def test_a_browser_recording() -> None:
    samples, problem = read(ODD / "orig_kerstin_48k_opus.webm")
    assert len(samples) / 16000 == pytest.approx(6.854, abs=0.01)
    assert problem is None


@pytest.mark.parametrize("rate", [8000, 11025, 44100, 48000])
def test_rates_and_channels_are_converted(tmp_path: Path, rate: int) -> None:
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(3 * rate) / rate)
    file = tmp_path / "stereo.wav"
    soundfile.write(file, np.stack([tone, 0 * tone], axis=1), rate)
    samples, _ = read(file)
    assert len(samples) == 3 * 16000
    expected = 0.25 * np.sin(2 * np.pi * 440 * np.arange(3 * 16000) / 16000)
    np.testing.assert_allclose(samples[1000:-1000], expected[1000:-1000], atol=2e-3)


def test_one_sample_is_audio() -> None:
    assert len(read(ODD / "one_sample.wav")[0]) == 1


def test_not_a_number_becomes_silence(tmp_path: Path) -> None:
    file = tmp_path / "nan.wav"
    file.write_bytes(wav(np.array([0.5, np.nan, np.inf, -np.inf, 0.25], np.float32)))
    np.testing.assert_array_equal(read(file)[0], np.array([0.5, 0, 0, 0, 0.25], np.float32))


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF])
def test_a_streamed_wav_without_a_length_is_whole(
    tmp_path: Path, speech: NDArray[np.int16], length: int
) -> None:
    file = tmp_path / "streamed.wav"
    data = wav(speech)
    data[40:44] = struct.pack("<I", length)
    file.write_bytes(data)
    samples, problem = read(file)
    assert (len(samples), problem) == (len(speech), None)


@needs_ffmpeg
def test_a_wav_that_announces_no_audio_is_read_all_the_same(
    tmp_path: Path, speech: NDArray[np.int16]
) -> None:
    file = tmp_path / "zero.wav"
    data = wav(speech)
    data[40:44] = bytes(4)
    file.write_bytes(data)
    np.testing.assert_allclose(read(file)[0], speech / np.float32(32768))


@pytest.mark.parametrize(
    ("name", "seconds", "problem"),
    [
        ("bad_truncated_half.wav", 2.569, "cut short, 50% of the audio that its header announces is there"),
        ("bad_truncated.ogg", 2.014, None),
        pytest.param(
            "bad_truncated.flac", 2.560, "damaged, only a part could be decoded", marks=needs_ffmpeg
        ),
        pytest.param(
            "bad_corrupt_middle.mp3", 4.99, "damaged, only a part could be decoded", marks=needs_ffmpeg
        ),
    ],
)
def test_damaged_files_give_what_is_there_and_say_so(name: str, seconds: float, problem: str | None) -> None:
    samples, told = read(ODD / name)
    assert len(samples) / 16000 == pytest.approx(seconds, abs=0.1)
    assert told is None if problem is None else told and problem in told


@pytest.mark.parametrize("name", ["header_cut_20.wav", "random_bytes.wav", "text_named.wav"])
def test_what_is_no_audio_is_refused(name: str) -> None:
    assert re.search("cannot be read as audio|needs ffmpeg", refusal(ODD / name))


@pytest.mark.parametrize(
    ("offset", "value"), [(24, struct.pack("<I", 0)), (22, struct.pack("<H", 0)), (20, struct.pack("<H", 0))]
)
def test_impossible_headers_are_refused(
    tmp_path: Path, speech: NDArray[np.int16], offset: int, value: bytes
) -> None:
    file = tmp_path / "header.wav"
    data = wav(speech)
    data[offset : offset + len(value)] = value
    file.write_bytes(data)
    refusal(file)


def test_an_unbelievable_rate_is_refused(tmp_path: Path, speech: NDArray[np.int16]) -> None:
    file = tmp_path / "rate.wav"
    data = wav(speech)
    data[24:28] = struct.pack("<I", 2_000_000_000)
    file.write_bytes(data)
    assert "2000000000 Hz cannot be right" in refusal(file)


def test_empty_missing_folder(tmp_path: Path) -> None:
    empty = tmp_path / "empty.wav"
    empty.touch()
    assert "is empty (0 bytes)" in refusal(empty)
    assert "No such file" in refusal(tmp_path / "missing.wav")
    assert "is a folder" in refusal(tmp_path)


def test_a_wav_without_samples_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "header_only.wav"
    file.write_bytes(wav(np.zeros(0, np.int16)))
    refusal(file)


@needs_ffmpeg
@pytest.mark.parametrize(
    "playlist",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:5,\n{other}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {other}\n",
    ],
)
def test_a_playlist_is_refused_as_the_recordings_that_it_names_were_not_sent(
    tmp_path: Path, playlist: str
) -> None:
    other = tmp_path / "other.ts"
    subprocess.run(["ffmpeg", "-v", "error", "-i", SPEECH, "-c:a", "aac", other], check=True)
    assert len(read(other)[0])
    (tmp_path / "playlist.m4a").write_text(playlist.format(other=other))
    message = refusal(tmp_path / "playlist.m4a")
    assert "Format not one that holds audio itself" in message


@pytest.mark.parametrize("name", ["aac.aac", "bad_corrupt_middle.mp3", "text_named.wav"])
def test_without_ffmpeg(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PATH", "")
    if name.endswith(".mp3"):
        samples, problem = read(ODD / name)
        assert len(samples) > 16000
        assert problem is not None
        assert "damaged" in problem
    else:
        assert "needs ffmpeg, which is not installed" in refusal(ODD / name)


def test_a_long_file_is_streamed_in_bounded_memory(tmp_path: Path) -> None:
    file = tmp_path / "hour.wav"
    header = wav(np.zeros(1, np.int16), 48000)[:44]
    size = 2 * 48000 * 3600
    header[4:8], header[40:44] = struct.pack("<I", size + 36), struct.pack("<I", size)
    with file.open("wb") as sparse:
        sparse.write(header)
        sparse.truncate(44 + size)
    tracemalloc.start()
    try:
        with open_audio(str(file)) as audio:
            assert audio.duration_s == 3600
            for _, _ in zip(audio, range(100), strict=False):
                pass
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@needs_ffmpeg
def test_a_named_pipe_is_read_as_it_comes(tmp_path: Path, speech: NDArray[np.int16]) -> None:
    pipe = tmp_path / "pipe.wav"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(bytes(wav(speech)),))
    writer.start()
    samples, _ = read(pipe)
    writer.join()
    np.testing.assert_allclose(samples, speech / np.float32(32768))


def count_standard_input(data: bytes | None, file: BinaryIO | None) -> str:
    script = (
        "from stenod.audio.files import open_audio\n"
        "with open_audio('-') as audio: print(audio.name, sum(map(len, audio)))"
    )
    command = [sys.executable, "-c", script]
    return subprocess.run(command, input=data, stdin=file, stdout=subprocess.PIPE, check=True).stdout.decode()


@needs_ffmpeg
def test_standard_input_piped() -> None:
    assert count_standard_input(SPEECH.read_bytes(), None) == "standard input 82220\n"


def test_standard_input_from_a_file() -> None:
    with SPEECH.open("rb") as file:
        assert count_standard_input(None, file) == "standard input 82220\n"


@needs_ffmpeg
def test_leaving_early_ends_ffmpeg(tmp_path: Path) -> None:
    pipe = tmp_path / "endless.wav"
    os.mkfifo(pipe)
    header = wav(np.zeros(0, np.int16))
    header[4:8] = header[40:44] = b"\xff\xff\xff\xff"
    nobody_reads = threading.Event()

    def write_without_end() -> None:
        try:
            with pipe.open("wb") as file:
                file.write(header)
                while True:
                    file.write(bytes(1 << 16))
        except BrokenPipeError:
            nobody_reads.set()

    writer = threading.Thread(target=write_without_end, daemon=True)
    writer.start()
    with open_audio(str(pipe)) as audio:
        next(iter(audio))
    writer.join(timeout=10)
    assert nobody_reads.is_set()


@pytest.mark.skipif(not recordings.manifest(), reason="TEST_RECORDINGS is not set")
@needs_ffmpeg
def test_every_odd_recording_decodes_to_its_length_or_is_refused() -> None:
    refused = set()
    for recording in (row for row in recordings.manifest() if row.folder == "odd"):
        path = recordings.find(recording.path)
        assert path is not None, recording.path
        try:
            samples, problem = read(path)
        except AudioFileError:
            refused.add(path.name)
            continue
        if problem is None and recording.duration:
            assert len(samples) / 16000 == pytest.approx(recording.duration, abs=0.07), path
    assert refused == {
        "bad_channels_0.wav",
        "bad_fmt_tag_0.wav",
        "bad_rate_0.wav",
        "header_cut_20.wav",
        "random_bytes.wav",
        "text_named.wav",
    }
