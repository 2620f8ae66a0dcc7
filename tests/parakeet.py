"""Parakeet's streams as tests run them: audio in, all tokens out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from stenod._native import NativeError, Stream, TranscribeOptions, Worker

if TYPE_CHECKING:
    from stenod._native import StepResult, Token

FRAME_S = 0.08


def steps_of(worker: Worker, stream: Stream, pieces: Iterable[NDArray[np.float32]]) -> list[StepResult]:
    """The results of all steps of an utterance that is pushed in pieces."""
    results = []
    for piece in pieces:
        stream.push(piece)
        results += due_steps(worker, stream)
    stream.finish()
    return results + due_steps(worker, stream)


def due_steps(worker: Worker, stream: Stream) -> list[StepResult]:
    """The results of the steps that wait; raises what one fails with."""
    results = []
    while stream.due():
        [result] = worker.step([stream])
        if isinstance(result, NativeError):
            raise result
        results.append(result)
    return results


def committed_tokens(worker: Worker, stream: Stream, pieces: Iterable[NDArray[np.float32]]) -> list[Token]:
    """All that is committed of it."""
    return [token for result in steps_of(worker, stream, pieces) for token in result["committed"]]


def transcribed(worker: Worker, samples: NDArray[np.float32]) -> list[Token]:
    """The tokens of a whole clip."""
    segments = worker.transcribe(samples, TranscribeOptions())["segments"]
    return [token for segment in segments for token in segment["tokens"]]
