"""Small random Parakeets against NeMo: mel, encoder, and what is found, offline and as a stream."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray
from stenod._native import Model, Stream, StreamOptions, TranscribeOptions, Worker

from ..parakeet import FRAME_S, steps_of, transcribed
from .parakeet_cases import CASES, CLIPS, FOLDER, HOP, LOOK_AHEADS, MEL_STRIDE

if TYPE_CHECKING:
    from stenod._native import Token

Floats = NDArray[np.float32]
Models = Callable[[str], Model]
Workers = Callable[[str], Worker]

ENDS_OF_TURN = {1, 2}
"""``<EOU>`` and ``<EOB>`` of the streaming model."""
ALL = tuple((name, clip) for name, case in CASES.items() for clip in case.clips)
OFFLINE = tuple((name, clip) for name, clip in ALL if not CASES[name].is_streaming)
STREAMED = tuple((clip, right) for clip in CASES["streaming"].clips for right in LOOK_AHEADS)


@cache
def golden(name: str) -> dict[str, Floats]:
    with np.load(FOLDER / f"{name}.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def worker_of(parakeet: Models) -> Workers:
    return cache(lambda name: Worker(parakeet(name), threads=1))


def check_tokens(found: "list[Token]", expected: dict[str, Floats], where: str, ends: set[int]) -> None:
    """What ends a turn is no text; punctuation has no time of its own; a token lasts a frame at least."""
    tokens = expected[f"{where}/tokens"]
    told = ~np.isin(tokens, list(ends))
    assert [token["id"] for token in found] == tokens[told].tolist()
    own = np.array([any(map(str.isalnum, token["text"].decode())) for token in found], bool)
    starts = np.array([round(token["start"] / FRAME_S) for token in found], int)
    assert starts[own].tolist() == expected[f"{where}/frames"][told][own].tolist()
    if f"{where}/durations" in expected:
        durations = np.array([round(token["end"] / FRAME_S) for token in found], int) - starts
        assert durations[own].tolist() == np.maximum(expected[f"{where}/durations"], 1)[told][own].tolist()


@pytest.mark.parametrize(("name", "clip"), ALL)
def test_mel_is_nemos(name: str, clip: str, parakeet: Models) -> None:
    """Where a band is all but silent, NeMo's own rounding is an error of up to 4e-4."""
    expected = golden(name)[f"{clip}/mel"]
    mel = parakeet(name).log_mel(CLIPS[clip])
    if len(expected) < len(mel):
        mel = mel[::MEL_STRIDE]
    assert mel.shape == expected.shape
    difference = np.abs(mel - expected)
    assert difference.max() < 5e-4
    assert np.mean(difference > 1e-4) < 0.005


@pytest.mark.parametrize(("name", "clip"), OFFLINE)
def test_encoder_is_nemos(name: str, clip: str, parakeet: Models, worker_of: Workers) -> None:
    model, worker = parakeet(name), worker_of(name)
    expected = golden(name)[f"{clip}/encoder"]
    encoded = worker.encode(model.log_mel(CLIPS[clip]))
    assert encoded.shape == expected.shape
    assert np.abs(encoded - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(("clip", "right"), STREAMED)
def test_encoder_with_look_ahead_is_nemos(
    clip: str, right: int, parakeet: Models, worker_of: Workers
) -> None:
    """The stream's chunks equal this run to the bit: see the native tests."""
    model, worker = parakeet("streaming"), worker_of("streaming")
    expected = golden("streaming")[f"{clip}/{right}/encoder"]
    encoded = worker.encode(model.log_mel(CLIPS[clip]), lookahead_ms=80 * right)
    assert encoded.shape == expected.shape
    assert np.abs(encoded - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(("name", "clip"), OFFLINE)
def test_tokens_are_nemos(name: str, clip: str, parakeet: Models, worker_of: Workers) -> None:
    check_tokens(transcribed(worker_of(name), CLIPS[clip]), golden(name), clip, set())


@pytest.mark.parametrize(("clip", "right"), STREAMED)
def test_a_streams_tokens_are_nemos(clip: str, right: int, parakeet: Models, worker_of: Workers) -> None:
    model, worker = parakeet("streaming"), worker_of("streaming")
    stream = Stream(model, StreamOptions(lookahead_ms=80 * right))
    results = steps_of(worker, stream, np.array_split(CLIPS[clip], 7))
    found = [token for result in results for token in result["committed"]]
    check_tokens(found, golden("streaming"), f"{clip}/{right}", ENDS_OF_TURN)
    ends = np.isin(golden("streaming")[f"{clip}/{right}/tokens"], list(ENDS_OF_TURN))
    assert any(result["end_of_turn"] for result in results) == ends.any()


@pytest.mark.parametrize("name", ["tdt", "rnnt"])
def test_a_window_is_heard_as_if_it_were_all(name: str, parakeet: Models, worker_of: Workers) -> None:
    """The first chunk's tokens are those of its window alone, which is chunk and look-ahead."""
    model, worker = parakeet(name), worker_of(name)
    chunk, lookahead = 10, 6
    stream = Stream(
        model, StreamOptions(left_s=0.0, chunk_s=chunk * FRAME_S, lookahead_s=lookahead * FRAME_S)
    )
    samples = CLIPS["long"]
    window = samples[: (chunk + lookahead) * 8 * HOP]
    stream.push(samples)
    [result] = worker.step([stream])
    assert not isinstance(result, Exception)
    told = [token["id"] for token in result["committed"] + result["tentative"]]
    assert told == [token["id"] for token in transcribed(worker, window)]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case.clips) > 1])
def test_clips_together_give_what_each_gives_alone(name: str, parakeet: Models, worker_of: Workers) -> None:
    worker = worker_of(name)
    clips = [CLIPS[clip] for clip in CASES[name].clips]
    together = worker.transcribe_batch(clips, TranscribeOptions())
    assert together == [worker.transcribe(clip, TranscribeOptions()) for clip in clips]
