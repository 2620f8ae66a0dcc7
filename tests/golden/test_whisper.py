"""The native Whisper engine against `transformers` with the same weights (see ``make_whisper.py``)."""

import json
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from stenod._native import Model, TranscribeOptions, Worker

from ..recordings import SAMPLE_RATE, SHIPPED, find, load
from . import whisper_cases as cases

if TYPE_CHECKING:
    from stenod._native import Transcription

HERE = Path(__file__).parent
ARRAYS = np.load(HERE / "whisper.npz")
CLIPS: dict[str, Any] = json.loads((HERE / "whisper.json").read_text())
TIMESTAMP_BEGIN = 50364

ENCODER_ERROR = {"f32": 1e-4, "f16": 2e-3, "q8_0": 6e-2}
"""Largest norm of the difference, as a part of the reference's norm, by the file's type."""
LOGITS_ERROR = {"f32": 5e-3, "f16": 0.5, "q8_0": 1.5}
"""Largest difference of a logit; the reference's lie between -10 and 45."""
PROBABILITY_ERROR = {"f32": 1e-5, "f16": 2e-3, "q8_0": 1e-2}
TOKENS_DIFFERENT = {"f16": 0.005, "q8_0": 0.02}
"""Largest part of all greedy tokens that may differ from the reference's."""
LOGPROB_ERROR = {"timestamps": 5e-4, "plain": 5e-3}
"""Without timestamps the reference still leaves them some probability; the engine does not."""
TIME_ERROR = 0.001
"""Seconds; times are whole positions of the encoder, of 0.02 s."""
EXACT = "f32"
TYPES = list(ENCODER_ERROR)

ModelOf = Callable[[str], Model]
WorkerOf = Callable[[str], Worker]
Transcribe = Callable[[str, str, str | None, str], "Transcription"]

RUNS = [
    pytest.param(clip, language, mode, id=f"{Path(clip).stem}-{language}-{mode}")
    for clip, told in CLIPS.items()
    for language, modes in told["runs"].items()
    for mode in modes
]


def recording(clip: str) -> cases.Floats:
    """The clip's samples; skips the test where the recording is absent."""
    if find(clip) is None:
        pytest.skip(f"{clip} is not among the shipped recordings")
    return load(clip)


def relative_error(got: cases.Floats, expected: cases.Floats) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def expect_sketch(output: cases.Floats, prefix: str, tolerance: float) -> None:
    for key, value in cases.sketch(output).items():
        assert relative_error(value, ARRAYS[f"{prefix}/{key}"]) < tolerance


@pytest.mark.parametrize("name", [key.removeprefix("mel/") for key in ARRAYS if key.startswith("mel/")])
def test_log_mel(model_of: ModelOf, name: str) -> None:
    samples, frames = cases.mel_inputs()[name]
    mel = model_of(EXACT).log_mel(samples, frames)
    assert mel.shape == (80, frames)
    np.testing.assert_allclose(mel[:, cases.mel_columns(frames)], ARRAYS[f"mel/{name}"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("clip", cases.FULL_WINDOWS)
def test_encoder_full_window(worker_of: WorkerOf, model_of: ModelOf, kind: str, clip: str) -> None:
    output = worker_of(kind).encode(model_of(kind).log_mel(load(clip)))
    assert output.shape == (1500, 512)
    expect_sketch(output, f"encoder/{clip}", ENCODER_ERROR[kind])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("positions", cases.BUCKETS)
def test_encoder_bucket(worker_of: WorkerOf, model_of: ModelOf, kind: str, positions: int) -> None:
    frames = 2 * positions
    output = worker_of(kind).encode(model_of(kind).log_mel(cases.long_speech()[: frames * cases.HOP], frames))
    assert output.shape == (positions, 512)
    expect_sketch(output, f"bucket/{positions}", ENCODER_ERROR[kind])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("clip", cases.FULL_WINDOWS)
def test_logits_of_forced_tokens(worker_of: WorkerOf, model_of: ModelOf, kind: str, clip: str) -> None:
    tokens = ARRAYS[f"decoder/{clip}/tokens"]
    logits = worker_of(kind).decode(model_of(kind).log_mel(load(clip)), tokens.tolist())
    assert logits.shape == (len(tokens), 51865)
    expected = ARRAYS[f"decoder/{clip}/columns"]
    assert np.abs(logits[:, :: cases.VOCABULARY_STRIDE] - expected).max() < LOGITS_ERROR[kind]
    best_ids, best = ARRAYS[f"decoder/{clip}/best_ids"], ARRAYS[f"decoder/{clip}/best_logits"]
    assert np.abs(np.take_along_axis(logits, best_ids, axis=1) - best).max() < LOGITS_ERROR[kind]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("clip", cases.LANGUAGES)
def test_language_probabilities(worker_of: WorkerOf, kind: str, clip: str) -> None:
    probabilities = worker_of(kind).detect_language(recording(clip))
    assert probabilities == pytest.approx(CLIPS[clip]["languages"], abs=PROBABILITY_ERROR[kind])


@pytest.fixture(scope="session")
def transcribe(worker_of: WorkerOf) -> Transcribe:
    """One greedy pass over one full window, as the reference made it: by type, clip, language and mode."""

    @cache
    def run(kind: str, clip: str, language: str | None, mode: str) -> "Transcription":
        options = TranscribeOptions(
            language=language,
            timestamps=mode == "timestamps",
            temperatures=[0.0],
            no_speech_threshold=1.0,
            full_window=True,
            speech_evidence=False,
        )
        return worker_of(kind).transcribe(recording(clip), options)

    return run


def split_at_timestamps(ids: list[int]) -> list[tuple[float, float | None, list[int]]]:
    """The segments that generated ids mean: start, end and text tokens. One that is not closed has no end."""
    segments: list[tuple[float, float | None, list[int]]] = []
    start, text = 0.0, list[int]()
    for token in ids:
        if token < TIMESTAMP_BEGIN:
            text.append(token)
            continue
        time = round((token - TIMESTAMP_BEGIN) * 0.02, 2)
        if text:
            segments.append((start, time, text))
        start, text = time, []
    return [*segments, (start, None, text)] if text else segments


def ids_of(result: "Transcription") -> list[list[int]]:
    return [[token["id"] for token in segment["tokens"]] for segment in result["segments"]]


@pytest.mark.parametrize(("clip", "language", "mode"), RUNS)
def test_greedy_tokens(transcribe: Transcribe, clip: str, language: str, mode: str) -> None:
    told = CLIPS[clip]
    expected = told["runs"][language][mode]
    segments = split_at_timestamps(expected["ids"])
    result = transcribe(EXACT, clip, language, mode)
    assert ids_of(result) == [text for _, _, text in segments]
    for segment, (start, end, _) in zip(result["segments"], segments, strict=True):
        if mode == "timestamps":
            assert segment["start"] == pytest.approx(start, abs=0.01)
            assert end is None or segment["end"] == pytest.approx(min(end, result["duration"]), abs=0.01)
        assert segment["avg_logprob"] == pytest.approx(expected["avg_logprob"], abs=LOGPROB_ERROR[mode])
        assert segment["no_speech_prob"] == pytest.approx(told["no_speech_prob"], abs=1e-4)


@pytest.mark.parametrize("clip", list(CLIPS))
def test_detected_language_decodes_the_same(transcribe: Transcribe, clip: str) -> None:
    told = CLIPS[clip]
    result = transcribe(EXACT, clip, None, "timestamps")
    assert result["language"] == told["detected"]
    expected = told["runs"][told["detected"]]["timestamps"]["ids"]
    assert ids_of(result) == [text for _, _, text in split_at_timestamps(expected)]


@pytest.mark.parametrize(("clip", "language", "mode"), RUNS)
def test_token_times(transcribe: Transcribe, clip: str, language: str, mode: str) -> None:
    expected = CLIPS[clip]["runs"][language][mode]
    # A token starts where the one before it ends, and that may be a timestamp: those are aligned as well.
    timed = zip(expected["ids"], [0.0, *expected["ends"]], expected["ends"], strict=False)
    starts, ends = zip(*((start, end) for token, start, end in timed if token < TIMESTAMP_BEGIN), strict=True)
    result = transcribe(EXACT, clip, language, mode)
    tokens = [token for segment in result["segments"] for token in segment["tokens"]]
    assert [token["start"] for token in tokens] == pytest.approx(starts, abs=TIME_ERROR)
    assert [token["end"] for token in tokens] == pytest.approx(ends, abs=TIME_ERROR)


@pytest.mark.parametrize("kind", TOKENS_DIFFERENT)
def test_smaller_types_give_nearly_the_same_tokens(transcribe: Transcribe, kind: str) -> None:
    same = total = 0
    for clip, told in CLIPS.items():
        if not (SHIPPED / clip).exists() or len(load(clip)) > 6 * SAMPLE_RATE:
            continue
        ids = told["runs"][told["detected"]]["timestamps"]["ids"]
        expected = [token for token in ids if token < TIMESTAMP_BEGIN]
        got = list(chain.from_iterable(ids_of(transcribe(kind, clip, told["detected"], "timestamps"))))
        same += sum(block.size for block in SequenceMatcher(None, expected, got, False).get_matching_blocks())
        total += max(len(expected), len(got))
    assert 1 - same / total <= TOKENS_DIFFERENT[kind]
