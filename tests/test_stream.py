"""The engine's streaming decode on real speech."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stenod._native import Model, NativeError, Stream, StreamOptions, Worker

from .recordings import SAMPLE_RATE, load

if TYPE_CHECKING:
    from stenod._native import StepResult

STEP = SAMPLE_RATE * 2 // 5


def hypotheses(worker: Worker, stream: Stream, clip: str) -> "Iterator[StepResult]":
    """All results of a clip that is pushed step by step."""
    samples = load(clip)
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


def test_every_token_has_a_probability_and_nothing_loops(model_path: Path) -> None:
    """Here a pass is longer than the one before that used its graph: memory must be planned for that."""
    model = Model(str(model_path))
    stream = Stream(model, StreamOptions())
    results = list(hypotheses(Worker(model, 1), stream, "multi/de/kerstin/de_rhasspy-0155.flac"))
    tokens = [token for result in results for token in result["committed"] + result["tentative"]]
    assert all(0 < token["p"] <= 1 for token in tokens)
    assert not any(result["looping"] for result in results)
    text = b"".join(token["text"] for result in results for token in result["committed"]).decode()
    assert text.startswith(" Der Wirbel um die Ausstellung")
