"""Recordings cut into utterances and decoded in batches."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from stenod import settings
from stenod.engine import Engine
from stenod.offline import Choices, transcribe_utterances, utterances

from . import recordings
from .streams import OTHER_CLIP, OTHER_SAID, SAID, SILENCE, clip, plain

PAUSE = np.tile(SILENCE, 3)
CUT = settings.Segmentation()
CHOICES = Choices(language="en", task="transcribe", prompt="", beam_size=1)


def blocks(samples: NDArray[np.float32], size: int) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(samples), size):
        yield samples[start : start + size]


@pytest.mark.parametrize("size", [160, 5000, 10**7])
def test_the_same_utterances_however_the_recording_is_read(size: int):
    speech = np.concatenate([clip(), PAUSE, clip(OTHER_CLIP)])
    first, second = utterances(blocks(speech, size), CUT)
    assert first.start_s == 0
    assert second.start_s == pytest.approx((len(clip()) + len(PAUSE)) / 16000, abs=0.4)
    start = round(second.start_s * 16000)
    np.testing.assert_array_equal(second.samples, speech[start : start + len(second.samples)])


def test_a_long_stretch_is_cut_and_no_sample_lost_or_doubled():
    speech = recordings.load("en_long/lj001_0001-0013.flac")
    cut = settings.Segmentation(max_utterance_s=6)
    pieces = list(utterances(blocks(speech, 4096), cut))
    assert len(pieces) > 10
    position = round(pieces[0].start_s * 16000)
    for piece in pieces:
        assert len(piece.samples) <= 6 * 16000
        assert round(piece.start_s * 16000) == position
        position += len(piece.samples)
    joined = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_array_equal(joined, speech[position - len(joined) : position])
    assert position == len(speech)


def test_times_count_from_the_recordings_start(engine: Engine):
    speech = np.concatenate([SILENCE, SILENCE, clip(), PAUSE, clip(OTHER_CLIP)])
    [(_, first), (_, second)] = transcribe_utterances(engine, blocks(speech, 4096), CUT, CHOICES)
    said = [
        plain(b"".join(t["text"] for s in one["segments"] for t in s["tokens"]).decode())
        for one in (first, second)
    ]
    assert said == [SAID, OTHER_SAID]
    word = first["segments"][0]["tokens"][0]
    assert word["start"] == pytest.approx(3.3, abs=0.4)
    assert second["segments"][0]["start"] > first["segments"][-1]["end"]


def test_nothing_is_transcribed_of_silence(engine: Engine):
    assert list(transcribe_utterances(engine, blocks(np.tile(SILENCE, 5), 4096), CUT, CHOICES)) == []
