"""The engine's streaming decode on real speech."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray
from stenod._native import BadArgument, Model, NativeError, Stream, StreamOptions, Worker

from .recordings import SAMPLE_RATE, load
from .streams import plain

if TYPE_CHECKING:
    from stenod._native import StepResult

STEP = SAMPLE_RATE * 2 // 5


def hypotheses(worker: Worker, stream: Stream, samples: NDArray[np.float32]) -> "Iterator[StepResult]":
    """All results of audio that is pushed step by step."""
    for start in range(0, len(samples), STEP):
        stream.push(samples[start : start + STEP])
        while stream.due():
            yield step(worker, stream)
    stream.finish()
    while not (result := step(worker, stream))["final"]:
        yield result
    yield result


def step(worker: Worker, stream: Stream) -> "StepResult":
    """One step; raises what it fails with."""
    [result] = worker.step([stream])
    if isinstance(result, NativeError):
        raise result
    return result


def committed(results: "list[StepResult]") -> str:
    """All that was committed."""
    return b"".join(token["text"] for result in results for token in result["committed"]).decode()


def test_every_token_has_a_probability_and_nothing_loops(model_path: Path) -> None:
    """Here a pass is longer than the one before that used its graph: memory must be planned for that."""
    model = Model(str(model_path))
    stream = Stream(model, StreamOptions())
    results = list(hypotheses(Worker(model, 1), stream, load("multi/de/kerstin/de_rhasspy-0155.flac")))
    tokens = [token for result in results for token in result["committed"] + result["tentative"]]
    assert all(0 < token["p"] <= 1 for token in tokens)
    assert not any(result["looping"] for result in results)
    assert plain(committed(results)).startswith("der wirbel um die ausstellung")


@pytest.mark.parametrize("pause_s", [3, 9])
def test_what_is_said_after_a_long_pause_is_not_lost(model_path: Path, pause_s: float) -> None:
    """The model may take the text for complete, or the pause for noise that can be forgotten."""
    model = Model(str(model_path))
    stream = Stream(model, StreamOptions(language="en"))
    pause = np.zeros(int(pause_s * SAMPLE_RATE), np.float32)
    clips = [load("en_read/jfk.flac")[: 4 * SAMPLE_RATE], pause, load("en_read/speechbrain/spk1_snt3.flac")]
    text = plain(committed(list(hypotheses(Worker(model, 1), stream, np.concatenate(clips)))))
    assert text.startswith("and so my fellow americans")
    assert text.endswith("at that high level the air is pure")


def test_an_utterance_may_end_before_noise_that_was_forgotten(model_path: Path) -> None:
    model = Model(str(model_path))
    stream, worker = Stream(model, StreamOptions()), Worker(model, 1)
    noise = np.random.default_rng(1).normal(0, 0.02, 10 * SAMPLE_RATE).astype(np.float32)
    stream.push(noise)
    while stream.due():
        step(worker, stream)
    stream.finish(4 * SAMPLE_RATE)
    result = step(worker, stream)
    assert result["final"]
    assert result["no_speech"]


def test_a_committed_timestamp_does_not_hold_back_what_follows(model_path: Path) -> None:
    """It is forced, and may become improbable; what is said behind it is none the less certain for that."""
    model = Model(str(model_path))
    stream = Stream(model, StreamOptions(language="en"))
    speech = load("telephone_8k/en/demo-echotest.flac")[: 24 * SAMPLE_RATE]
    shown: list[float] = []
    for result in hypotheses(Worker(model, 1), stream, speech):
        told = result["committed"] + result["tentative"]
        if len(told) >= 8 and np.mean(np.log([token["p"] for token in told])) > -0.3:
            shown.append(result["avg_logprob"])
    assert shown
    assert min(shown) > -0.7


def test_what_was_said_before_is_heard_again_and_not_told_again(model_path: Path) -> None:
    model = Model(str(model_path))
    worker, speech = Worker(model, 1), load("en_read/jfk.flac")
    first = Stream(model, StreamOptions(language="en"))
    assert first.context is None
    said = plain(committed(list(hypotheses(worker, first, speech[: 3 * SAMPLE_RATE]))))
    assert said == "and so my fellow americans"
    context = first.context
    assert context is not None
    assert words_of(model, context[1]) == said

    second = Stream(model, StreamOptions(language="en", context=context))
    told = list(hypotheses(worker, second, speech[3 * SAMPLE_RATE :]))
    assert plain(committed(told)) == (
        "ask not what your country can do for you ask what you can do for your country"
    )
    tokens = [token for result in told for token in result["committed"] + result["tentative"]]
    assert all(0 <= token["start"] <= token["end"] <= 8.1 for token in tokens)
    assert second.context is not None
    samples, words = second.context
    assert 6 * SAMPLE_RATE <= len(samples) / 2 <= 8.1 * SAMPLE_RATE
    assert words_of(model, words).endswith("your country")
    second.reset()
    assert second.context is None


def words_of(model: Model, tokens: list[int]) -> str:
    """Without timestamps."""
    return plain(model.detokenize([token for token in tokens if token < 50257]).decode())


@pytest.mark.parametrize("level", [0.0, 0.02])
@pytest.mark.parametrize("speech_s", [3, 11])
def test_after_speech_noise_is_still_noise(model_path: Path, speech_s: int, level: float) -> None:
    """With words before it, the model would go on with them."""
    model = Model(str(model_path))
    worker, first = Worker(model, 1), Stream(model, StreamOptions(language="en"))
    list(hypotheses(worker, first, load("en_read/jfk.flac")[: speech_s * SAMPLE_RATE]))
    sound = np.random.default_rng(1).normal(0, level, 12 * SAMPLE_RATE).astype(np.float32)
    assert first.context is not None
    second = Stream(model, StreamOptions(language="en", context=first.context))
    results = list(hypotheses(worker, second, sound))
    assert committed(results) == ""
    assert results[-1]["no_speech"]
    assert second.context is None


def test_a_context_of_another_model_is_refused(model_path: Path) -> None:
    stream = Stream(Model(str(model_path)), StreamOptions())
    for context in [(b"", [1_000_000]), (b"", [-1]), (bytes(2 * 31 * SAMPLE_RATE), [1]), (b"", [1] * 300)]:
        with pytest.raises(BadArgument, match="context"):
            stream.reset(StreamOptions(language="en", context=context))


@pytest.mark.parametrize("guessed", [False, True])
def test_what_is_not_understood_in_a_guessed_language_is_heard_in_another(
    model_path: Path, guessed: bool
) -> None:
    model = Model(str(model_path))
    stream = Stream(model, StreamOptions(language="ja", language_guessed=guessed))
    for _ in range(2):
        results = list(hypotheses(Worker(model, 1), stream, load("en_read/speechbrain/spk1_snt3.flac")))
        assert plain(committed(results)) == ("at that high level the air is pure" if guessed else "")
        assert results[-1]["language"] == ("en" if guessed else "ja")
        stream.reset()
