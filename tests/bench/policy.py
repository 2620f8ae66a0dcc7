"""Latency against word error rate for a grid of streaming policies, faster than real time.

    python -m tests.bench.policy whisper-base-f16.gguf --set step_s=0.3,0.4 --set unsure_distance_s=1.5,2.0

Every ``--set`` is a field of ``StreamOptions``. Clocks are simulated: a hypothesis is there when the audio it
needs has come and the one before is done, plus what computing it took: processor time, shared out among the
threads, so that other work on the machine does not count.
"""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from stenod._native import Model, NativeError, Stream, StreamOptions, Worker
from stenod.context import Context
from stenod.segmenter import Audio, Closed, Endpointing, Event, MaxLengthReached, Opened, Segmenter
from stenod.settings import Segmentation
from stenod.transcript import Transcript

from ..recordings import SAMPLE_RATE, load, manifest
from .common import parser
from .daemon import CHUNK
from .latency import CLIPS
from .live import Moment, Report, judge
from .offline import timed_words
from .scoring import Score

if TYPE_CHECKING:
    from stenod._native import StepResult

COLUMNS = (
    "policy", "WER %", "shown p50", "p95", "committed p50", "p95", "final p95", "revised per word", "compute",
)  # fmt: skip


class Playback:
    """One clip through segmenter and stream, as the daemon does it, on a simulated clock."""

    def __init__(self, worker: Worker, model: Model, **options: Any) -> None:
        """``options``: as of ``StreamOptions``."""
        chosen = Segmentation()
        endpointing = Endpointing(chosen.silence_ms, chosen.max_utterance_s)
        self._segmenter = Segmenter(endpointing, chosen.preroll_ms, chosen.vad_mode)
        self._worker, self._options = worker, options
        self._stream = Stream(model, StreamOptions(**options))
        self._context: Context | None = None
        self._transcript = Transcript(0.0)
        self._opened = 0
        self._heard = 0.0
        self._free_at = 0.0
        self.finals: list[str] = []
        self.moments: list[Moment] = []
        self.final_delays: list[float] = []
        self.computed = 0.0
        """Seconds of computing."""

    def run(self, samples: NDArray[np.float32]) -> None:
        """Plays the clip to its end."""
        for offset in range(0, len(samples), CHUNK):
            chunk = samples[offset : offset + CHUNK]
            self._heard = (offset + len(chunk)) / SAMPLE_RATE
            self._follow(self._segmenter.feed(chunk))
        self._follow(self._segmenter.finish())

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case Opened(start):
                    self._opened = start
                    self._transcript = Transcript(start / SAMPLE_RATE)
                    before = self._context
                    context = (before.samples, before.tokens) if before and before.reaches(start) else None
                    self._stream.reset(StreamOptions(**self._options, context=context))
                case Audio():
                    self._stream.push(event.samples)
                    self._step_while_due()
                case Closed(end):
                    self._stream.finish(end - self._opened)
                    self._step_while_due()
                    said = self._stream.context
                    self._context = Context(said[0], tuple(said[1]), "", "transcribe", end) if said else None
                case MaxLengthReached():
                    settled = self._transcript.committed_end
                    not_before = None if settled is None else int(settled * SAMPLE_RATE)
                    self._follow(self._segmenter.cut(not_before))

    def _step_while_due(self) -> None:
        while self._stream.due():
            began = time.process_time()
            result = self._worker.step([self._stream])[0]
            took = (time.process_time() - began) / self._worker.threads
            if isinstance(result, NativeError):
                raise result
            self.computed += took
            self._free_at = max(self._heard, self._free_at) + took
            self._show(result)

    def _show(self, result: "StepResult") -> None:
        self._transcript.advance(
            result["committed"], result["tentative"], result["language"], final=result["final"]
        )
        before = " ".join(self.finals) + " "
        self.moments.append(
            Moment(self._free_at, before + self._transcript.committed, self._transcript.tentative)
        )
        if result["final"]:
            self.finals.append(self._transcript.committed)
            self.final_delays.append(self._free_at - self._heard)


@dataclass(frozen=True)
class Clip:
    """What a policy is judged by: audio, reference words with their times, and the reference text."""

    samples: NDArray[np.float32]
    words: Sequence[Any]
    reference: str


def row(worker: Worker, model: Model, policy: dict[str, Any], clips: Sequence[Clip]) -> str:
    """Plays all clips under one policy."""
    total, score, computed = Report(), Score(), 0.0
    for clip in clips:
        playback = Playback(worker, model, language="en", **policy)
        playback.run(clip.samples)
        report = judge(playback.moments, clip.words)
        report.final_delays = playback.final_delays
        total += report
        computed += playback.computed
        score.add(clip.reference, " ".join(playback.finals), "en")
    audio = sum(len(clip.samples) for clip in clips) / SAMPLE_RATE
    cells = [
        " ".join(f"{name}={value}" for name, value in policy.items()) or "default",
        f"{score.percent:.2f}",
        *(f"{np.percentile(total.appearance, point):.2f}" for point in (50, 95)),
        *(f"{np.percentile(total.commitment, point):.2f}" for point in (50, 95)),
        f"{np.percentile(total.final_delays, 95):.2f}",
        f"{total.revised / total.words:.2f}",
        f"{computed / audio:.3f}",
    ]
    return "| " + " | ".join(cells) + " |"


def grid(settings: Sequence[str]) -> list[dict[str, Any]]:
    """All combinations of ``NAME=VALUE,VALUE...``."""
    names = [setting.partition("=")[0] for setting in settings]
    values = [[number(value) for value in setting.partition("=")[2].split(",")] for setting in settings]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]


def number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("model", help="GGUF file")
    options.add_argument("clips", nargs="*", default=CLIPS, metavar="RECORDING")
    options.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE,...", dest="settings")
    arguments = options.parse_args()
    references = {clip.path: clip.reference for clip in manifest()}
    words = timed_words(arguments.model, arguments.clips, "en", arguments.threads)
    clips = [Clip(load(path), words[path], references[path]) for path in arguments.clips]
    model = Model(arguments.model)
    worker = Worker(model, arguments.threads)
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    for policy in grid(arguments.settings):
        print(row(worker, model, policy, clips), flush=True)


if __name__ == "__main__":
    main()
