"""What is read of a session's log is what was written of it, however its end was cut or damaged."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from stenod.audio.pcm import AudioFormat
from stenod.audio.resample import ResumePoint
from stenod.context import Context
from stenod.request_log import FORMAT, Checkpoint, Entry, _record, read_log, request_of
from stenod.requests import Clear, Configure, Finish, Flush, Missing, Samples
from stenod.segmenter import Endpointing, SegmenterState
from stenod.utterance import Configuration

CONFIGURATION = Configuration(Endpointing(600, 25.0), language="de", phrases=("Zoë",))
CHECKPOINT = Checkpoint(
    format=FORMAT,
    session="a1",
    token=b"digest",
    channel="room",
    model="m",
    started_at=1.5,
    audio=AudioFormat("f32le", 48000, 2),
    configuration=CONFIGURATION,
    detected_language=None,
    context=Context(b"\x01\x00\xff\x7f", (50364, 440), "en", "transcribe", 1600),
    utterances=3,
    seq=12,
    point=ResumePoint(4800, 256),
    segmenter=SegmenterState.at(1600),
)
ENTRIES = [
    Entry(ResumePoint(4810, 256), Samples.of(np.array([0.5, -1.0, 32767 / 32768], np.float32))),
    Entry(ResumePoint(4820, 256), Samples.of(np.array([0.1, 1.5], np.float32))),
    Entry(ResumePoint(4820, 256), Configure(CONFIGURATION)),
    Entry(ResumePoint(4820, 0), Flush("end")),
    Entry(ResumePoint(4820, 0), Flush(None)),
    Entry(ResumePoint(4820, 0), Clear()),
    Entry(ResumePoint(4900, 0), Missing(27, "client")),
    Entry(ResumePoint(4900, 0), Finish("finished")),
]
WHOLE = b"".join(map(_record, [CHECKPOINT, *ENTRIES]))
ENDS = np.cumsum([len(_record(one)) for one in [CHECKPOINT, *ENTRIES]]).tolist()


def read(tmp_path: Path, data: bytes) -> tuple[Checkpoint, list[Entry], int]:
    path = tmp_path / "a1.log"
    path.write_bytes(data)
    return read_log(path)


def test_what_was_written_is_read(tmp_path: Path):
    assert read(tmp_path, WHOLE) == (CHECKPOINT, ENTRIES, len(WHOLE))


@pytest.mark.parametrize(("samples", "encoding"), [([0.0, 0.5, -1.0], "s16"), ([0.1], "f32"), ([1.0], "f32")])
def test_audio_is_kept_exactly(samples: list[float], encoding: str):
    audio = np.array(samples, np.float32)
    kept = Samples.of(audio)
    assert kept.encoding == encoding
    np.testing.assert_array_equal(request_of(Entry(ResumePoint(1, 0), kept)), audio)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(end=st.integers(ENDS[0], len(WHOLE)))
def test_a_record_that_was_cut_off_ends_it(tmp_path: Path, end: int):
    whole = sum(one <= end for one in ENDS)
    assert read(tmp_path, WHOLE[:end]) == (CHECKPOINT, ENTRIES[: whole - 1], ENDS[whole - 1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(position=st.integers(ENDS[0], len(WHOLE) - 1), flipped=st.integers(1, 255))
def test_a_damaged_record_ends_it(tmp_path: Path, position: int, flipped: int):
    damaged = bytearray(WHOLE)
    damaged[position] ^= flipped
    whole = sum(end <= position for end in ENDS)
    assert read(tmp_path, bytes(damaged)) == (CHECKPOINT, ENTRIES[: whole - 1], ENDS[whole - 1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: WHOLE[: ENDS[0] - 1] + tail))
def test_whatever_else_it_holds_is_refused(tmp_path: Path, data: bytes):
    assume(not data.startswith(WHOLE[: ENDS[0]]))
    with pytest.raises(ValueError, match="it is"):
        read(tmp_path, data)


def test_a_log_of_another_version_is_refused(tmp_path: Path):
    other = Checkpoint(
        **{name: getattr(CHECKPOINT, name) for name in CHECKPOINT.__struct_fields__} | {"format": 99}
    )
    with pytest.raises(ValueError, match="version 99"):
        read(tmp_path, _record(other))
