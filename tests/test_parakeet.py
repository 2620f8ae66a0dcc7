"""Parakeet's streams: what is found depends on the audio alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, takewhile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stenod._native import BadArgument, Model, NativeError, Stream, StreamOptions, Worker

from .golden.parakeet_cases import CLIPS
from .parakeet import committed_tokens, due_steps, steps_of, transcribed

SPEECH = CLIPS["long"]
WINDOWS = {"left_s": 0.8, "chunk_s": 0.4, "lookahead_s": 0.24}
"""Of a model without caches: short ones, so that a short clip has several."""

every_kind = pytest.mark.parametrize("name", ["streaming", "tdt", "rnnt", "ctc"])


def options(**fields: object) -> StreamOptions:
    return StreamOptions(**WINDOWS, **fields)


def cut(samples: NDArray[np.float32], places: list[int]) -> list[NDArray[np.float32]]:
    return [samples[begin:end] for begin, end in pairwise([0, *sorted(places), len(samples)])]


@every_kind
@settings(max_examples=15, deadline=None)
@given(
    places=st.lists(st.integers(0, len(SPEECH)), max_size=12),
    length=st.integers(0, len(SPEECH)),
    beam_size=st.sampled_from([1, 3]),
)
def test_any_split_gives_the_same_steps(
    name: str, places: list[int], length: int, beam_size: int, parakeet: Callable[[str], Model]
) -> None:
    model = parakeet(name)
    worker = Worker(model, 1)
    chosen = options(beam_size=beam_size if name != "ctc" else 1)
    samples = SPEECH[:length]
    whole = steps_of(worker, Stream(model, chosen), [samples])
    assert steps_of(worker, Stream(model, chosen), cut(samples, [p for p in places if p < length])) == whole
    assert whole[-1]["final"] and not any(result["final"] for result in whole[:-1])


@pytest.mark.parametrize("lookahead_ms", [None, 480, 80, 0])
def test_a_cache_aware_stream_finds_what_a_transcription_finds(
    lookahead_ms: int | None, parakeet: Callable[[str], Model]
) -> None:
    """With the default look-ahead; with others, what the same audio at once gives."""
    model = parakeet("streaming")
    worker = Worker(model, 1)
    found = committed_tokens(
        worker, Stream(model, StreamOptions(lookahead_ms=lookahead_ms)), cut(SPEECH, [5000, 5001, 30000])
    )
    if lookahead_ms is None:
        assert found == transcribed(worker, SPEECH)
    at_once = Stream(model, StreamOptions(lookahead_ms=lookahead_ms))
    at_once.coarsen(100)
    assert found == committed_tokens(worker, at_once, [SPEECH])


@every_kind
@settings(max_examples=8, deadline=None)
@given(lengths=st.lists(st.integers(0, len(SPEECH)), min_size=2, max_size=5), seed=st.integers(0, 1000))
def test_streams_stepped_together_get_what_each_gets_alone(
    name: str, lengths: list[int], seed: int, parakeet: Callable[[str], Model]
) -> None:
    model = parakeet(name)
    worker = Worker(model, 1)
    clips = [SPEECH[len(SPEECH) - length :] for length in lengths]
    alone = [steps_of(worker, Stream(model, options()), [clip]) for clip in clips]
    streams = [Stream(model, options()) for _ in clips]
    told: list[list[object]] = [[] for _ in clips]
    sent = [0] * len(clips)
    unfinished = set(range(len(clips)))
    random = np.random.default_rng(seed)
    while unfinished:
        for i in sorted(unfinished):
            end = sent[i] + int(random.integers(0, 9000))
            streams[i].push(clips[i][sent[i] : end])
            sent[i] = end
            if end >= len(clips[i]):
                streams[i].finish()
                unfinished.remove(i)
        while due := [i for i, stream in enumerate(streams) if stream.due()]:
            for i, result in zip(due, worker.step([streams[i] for i in due]), strict=True):
                assert not isinstance(result, NativeError)
                told[i].append(result)
    assert told == alone


@every_kind
def test_what_is_committed_ends_with_a_word(name: str, parakeet: Callable[[str], Model]) -> None:
    model = parakeet(name)
    results = steps_of(Worker(model, 1), Stream(model, options()), np.array_split(SPEECH, 20))
    turn = takewhile(lambda result: not result["end_of_turn"], results)
    for result in turn:
        if result["committed"] and result["tentative"]:
            assert result["tentative"][0]["text"].startswith(b" ")
    assert results[-1]["tentative"] == []


def test_options_that_cannot_be_followed_are_refused_by_name(parakeet: Callable[[str], Model]) -> None:
    model = parakeet("tdt")
    for fields in (
        {"task": "translate"},
        {"beam_size": 0},
        {"phrases": ["\u4f60\u597d"]},
        {"lookahead_ms": -1},
        {"chunk_s": float("nan")},
    ):
        [name] = fields
        with pytest.raises(BadArgument, match=name.removesuffix("_size")):
            Stream(model, StreamOptions(**fields))


def test_a_coarser_grid_changes_steps_but_no_token(parakeet: Callable[[str], Model]) -> None:
    model = parakeet("streaming")
    worker = Worker(model, 1)
    stream = Stream(model, StreamOptions(lookahead_ms=0))
    assert stream.step_s == pytest.approx(0.08)
    fine = committed_tokens(worker, stream, [SPEECH])
    stream.reset()
    stream.coarsen(4)
    assert stream.step_s == pytest.approx(0.32)
    stream.push(SPEECH)
    results = due_steps(worker, stream)
    stream.finish()
    results += due_steps(worker, stream)
    assert [token for result in results for token in result["committed"]] == fine
