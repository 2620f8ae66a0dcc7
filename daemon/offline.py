"""Recordings to text: cut into utterances as the daemon does, and decoded in common batches.

Memory is bounded however long the recording is: a batch of utterances at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import segmenter, settings
from ._native import TranscribeOptions
from .audio.resample import SAMPLE_RATE
from .engine import Engine
from .segmenter import Endpointing, Segmenter
from .utterance import CERTAIN_LANGUAGE_CONFIDENCE, CERTAIN_LANGUAGE_S

if TYPE_CHECKING:
    from ._native import Segment, Transcription

BATCH = 8
"""Utterances decoded together."""
SILENCE_MS = 2000
"""Silence that ends an utterance: more than in live speech, as nobody waits and context helps Whisper."""

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Utterance:
    """Mono samples [n] at 16 kHz, which begin ``start_s`` into the recording."""

    start_s: float
    samples: Samples


@dataclass(frozen=True)
class Choices:
    """How a recording is decoded; fields as of ``TranscribeOptions``."""

    language: str | None
    task: str
    prompt: str
    beam_size: int


def utterances(blocks: Iterable[Samples], cut: settings.Segmentation) -> Iterator[Utterance]:
    """The utterances of a recording, in order; each holds at most ``max_utterance_s``."""
    cutter = Segmenter(Endpointing(SILENCE_MS, cut.max_utterance_s), cut.preroll_ms, cut.vad_mode)
    start, pieces = 0, list[Samples]()
    for event in _events(cutter, blocks):
        match event:
            case segmenter.Opened(at):
                start, pieces = at, []
            case segmenter.Audio(_, samples):
                pieces.append(samples)
            case segmenter.Closed(end, _):
                yield Utterance(start / SAMPLE_RATE, np.concatenate(pieces)[: end - start])


def _events(cutter: Segmenter, blocks: Iterable[Samples]) -> Iterator[segmenter.Event]:
    for block in blocks:
        waiting = cutter.feed(block)
        while waiting:
            yield from waiting
            waiting = cutter.cut() if isinstance(waiting[-1], segmenter.MaxLengthReached) else []
    yield from cutter.finish()


def transcribe_utterances(
    engine: Engine, blocks: Iterable[Samples], cut: settings.Segmentation, choices: Choices
) -> Iterator[tuple[Utterance, Transcription]]:
    """Every utterance of a recording with its transcription, times counted from the recording's start.

    A language that was detected with confidence is kept. Blocks. Raises ``NativeError``.
    """
    found = utterances(blocks, cut)
    while batch := list(islice(found, BATCH)):
        options = _options(choices, timestamps=True)
        clips = [utterance.samples for utterance in batch]
        work = engine.threads[0].submit(lambda worker: worker.transcribe_batch(clips, options))  # noqa: B023
        for utterance, transcription in zip(batch, work.result(), strict=True):
            transcription["segments"] = [
                shifted(segment, utterance.start_s) for segment in transcription["segments"]
            ]
            if choices.language is None:
                choices = replace(choices, language=certain_language(transcription))
            yield utterance, transcription


def transcribe_whole(
    engine: Engine, samples: Samples, choices: Choices, progress: Callable[[float], None]
) -> Transcription:
    """A whole recording by the engine's own long-form decoding; ``progress`` gets the seconds done.

    Blocks. Raises ``NativeError``.
    """
    options = _options(choices, timestamps=True)
    return engine.threads[0].submit(lambda worker: worker.transcribe(samples, options, progress)).result()


def certain_language(transcription: Transcription) -> str | None:
    """The language that was detected, if enough was said with enough certainty."""
    probabilities = [token["p"] for segment in transcription["segments"] for token in segment["tokens"]]
    certain = probabilities and fmean(probabilities) >= CERTAIN_LANGUAGE_CONFIDENCE
    return transcription["language"] if certain and transcription["duration"] >= CERTAIN_LANGUAGE_S else None


def shifted(segment: Segment, seconds: float) -> Segment:
    """The segment as much later."""
    later = segment.copy()
    later["start"] += seconds
    later["end"] += seconds
    later["tokens"] = [token.copy() for token in segment["tokens"]]
    for token in later["tokens"]:
        token["start"] += seconds
        token["end"] += seconds
    return later


def _options(choices: Choices, *, timestamps: bool) -> TranscribeOptions:
    return TranscribeOptions(**vars(choices), timestamps=timestamps)
