"""Parakeet's speed and memory at the true 0.6B shape, beside CrispASR (PyPI) and whisper.cpp's engine.

    python -m tests.bench.parakeet --threads 1 --folder MODELS --whisper-cpp PATH/parakeet-cli

The weights are random (``parakeet_model.py``), the same for all; 7.5 GB of files are made in ``--folder``
unless they are there. Each measurement has a process of its own, all systems take turns, and medians are
shown with the least and the greatest. Times are the processor's, so that other programs matter little: with
one thread they are what passes on a machine that does nothing else. CrispASR tells no times of its parts: its
encoder's is the time of a run in which the model finds nothing, and the decoder's what a run takes longer
that finds something.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import TypeVar

import gguf
import numpy as np
import soundfile
from numpy.typing import NDArray

from ..recordings import SAMPLE_RATE, load
from .common import parser
from .parakeet_model import TOKENS, write
from .systems import peak_memory

Samples = NDArray[np.float32]
Result = TypeVar("Result")
CLIP = "en_read/jfk.flac"
TOGETHER, TOGETHER_S = 8, 3
"""Recordings that are decoded together, and their length."""
LOOK_AHEADS_MS = (0, 80, 480, 1040)
"""Of streams: chunks are one frame of 80 ms longer."""


@dataclass(frozen=True)
class Outcome:
    """One run over the clip. Times in seconds of the processor."""

    encode: float
    decode: float
    tokens: int
    peak_bytes: int
    per_token_together: float | None = None
    """Of the decoder, where several recordings are decoded together."""


def stenod(model: Path, threads: int, samples: Samples) -> Outcome:
    from stenod._native import Model, TranscribeOptions, Worker

    worker = Worker(Model(str(model)), threads)
    worker.transcribe(samples, TranscribeOptions())
    before, began, cpu_began = worker.timings, time.perf_counter(), time.process_time()
    segments = worker.transcribe(samples, TranscribeOptions())["segments"]
    busy = (time.process_time() - cpu_began) / (time.perf_counter() - began)
    spent = {stage: busy * (seconds - before[stage]) for stage, seconds in worker.timings.items()}
    tokens = sum(len(segment["tokens"]) for segment in segments)
    peak = peak_memory()
    clips = np.array_split(np.resize(samples, TOGETHER * TOGETHER_S * SAMPLE_RATE), TOGETHER)
    before, began, cpu_began = worker.timings, time.perf_counter(), time.process_time()
    transcriptions = worker.transcribe_batch(clips, TranscribeOptions())
    busy = (time.process_time() - cpu_began) / (time.perf_counter() - began)
    found = sum(len(segment["tokens"]) for one in transcriptions for segment in one["segments"])
    together = busy * (worker.timings["decode"] - before["decode"]) / max(1, found)
    return Outcome(spent["encode"], spent["decode"], tokens, peak, together)


def crispasr(model: Path, threads: int, samples: Samples) -> Outcome:
    """All of the run is called encoding: see ``measure_crispasr``."""
    from crispasr import Parakeet

    engine = Parakeet(str(model), n_threads=threads)
    engine.transcribe(samples)
    began = time.process_time()
    tokens = len(engine.transcribe(samples)["tokens"])
    return Outcome(time.process_time() - began, 0, tokens, peak_memory())


@contextmanager
def finding_nothing(model: Path) -> Iterator[None]:
    """A GGUF file for CrispASR whose model says blank for as long as it can, always."""
    [bias] = [tensor for tensor in gguf.GGUFReader(model).tensors if tensor.name == "joint.out.bias"]
    values = np.array(bias.data)
    silent = values.copy()
    silent[TOKENS], silent[-1] = 1e4, 1e4

    def store(numbers: NDArray[np.float32]) -> None:
        with model.open("r+b") as file:
            file.seek(int(bias.data_offset))
            file.write(numbers.tobytes())

    store(silent)
    try:
        yield
    finally:
        store(values)


def measure_crispasr(model: Path, threads: int, samples: Samples) -> Outcome:
    whole = in_own_process(crispasr, model, threads, samples)
    if whole.tokens == 0:
        raise RuntimeError(f"{model} finds nothing: a run that was killed has left it so; remove it")
    with finding_nothing(model):
        silent = in_own_process(crispasr, model, threads, samples)
    return Outcome(silent.encode, whole.encode - silent.encode, whole.tokens, whole.peak_bytes)


def whisper_cpp(cli: Path, model: Path, threads: int, samples: Samples) -> Outcome:
    """What two runs in one process take longer than one; shared among the parts as it tells."""
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.wav"
        soundfile.write(clip, samples, SAMPLE_RATE, subtype="FLOAT")
        command = [cli, "-m", model, "-t", str(threads), "-f", clip]
        cpu = [_processor_s_of_children()]
        for further in ([], ["-f", clip]):
            told = subprocess.run(
                [*command, *further], check=True, capture_output=True, text=True, errors="replace"
            ).stderr
            cpu.append(_processor_s_of_children())
    spent = {}
    for stage in ("mel", "encode", "decode", "predict", "sample"):
        first, second = map(float, re.findall(rf"{stage} time = +([0-9.]+) ms", told))
        spent[stage] = second - first
    busy = ((cpu[2] - cpu[1]) - (cpu[1] - cpu[0])) / sum(spent.values())
    runs = [int(count) for count in re.findall(r"sample time = +[0-9.]+ ms / +(\d+) runs", told)]
    decode = busy * (spent["decode"] + spent["predict"] + spent["sample"])
    peak = getrusage(RUSAGE_CHILDREN).ru_maxrss * 1024
    return Outcome(busy * spent["encode"], decode, runs[1] - runs[0], peak)


def _processor_s_of_children() -> float:
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def stream(model: Path, threads: int, samples: Samples) -> tuple[list[float], int]:
    """The processor's seconds for one of audio, for each look-ahead, one stream alone; the peak memory."""
    from stenod._native import Model, Stream, StreamOptions, Worker

    loaded = Model(str(model))
    worker, factors = Worker(loaded, threads), []
    for lookahead_ms in LOOK_AHEADS_MS:
        following = Stream(loaded, StreamOptions(lookahead_ms=lookahead_ms))
        began = 0.0
        for start in range(0, len(samples), SAMPLE_RATE):
            if start == SAMPLE_RATE:  # the first second builds the graphs
                began = time.process_time()
            following.push(samples[start : start + SAMPLE_RATE])
            while following.due():
                worker.step([following])
        factors.append((time.process_time() - began) / (len(samples) / SAMPLE_RATE - 1))
    return factors, peak_memory()


def in_own_process(function: Callable[..., Result], *arguments: object) -> Result:
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        return executor.submit(function, *arguments).result()


def spread(values: list[float], digits: int) -> str:
    """Median, least and greatest."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def report(outcomes: dict[str, list[Outcome]]) -> str:
    lines = [
        "| | encoder, s | times slower | decoder, ms a token | times slower | tokens | peak MB |",
        "|---" * 7 + "|",
    ]
    ours = outcomes["stenod"]
    for name, runs in outcomes.items():
        per_token = [[1000 * run.decode / run.tokens for run in of] for of in (runs, ours)]
        slower = [theirs.encode / own.encode for theirs, own in zip(runs, ours, strict=True)]
        slower_decoder = [theirs / own for theirs, own in zip(*per_token, strict=True)]
        peak = median(run.peak_bytes for run in runs) / 1e6
        lines.append(
            f"| {name} | {spread([run.encode for run in runs], 2)} | {spread(slower, 2)} "
            f"| {spread(per_token[0], 2)} | {spread(slower_decoder, 2)} | {runs[0].tokens} | {peak:.0f} |"
        )
    together = [1000 * run.per_token_together for run in ours if run.per_token_together is not None]
    return "\n".join([*lines, "", f"stenod, {TOGETHER} at once: {spread(together, 2)} ms a token"])


def report_streams(runs: list[tuple[list[float], int]]) -> str:
    lines = ["| chunk, ms | processor s for one of audio |", "|---|---|"]
    for index, lookahead_ms in enumerate(LOOK_AHEADS_MS):
        lines.append(f"| {lookahead_ms + 80} | {spread([factors[index] for factors, _ in runs], 3)} |")
    return "\n".join([*lines, "", f"peak {max(peak for _, peak in runs) / 1e6:.0f} MB"])


def offline(folder: Path, type: str, rounds: int, threads: int, samples: Samples, cli: Path | None) -> str:
    systems: dict[str, Callable[[], Outcome]] = {
        "stenod": partial(in_own_process, stenod, write(folder, "stenod", type), threads, samples),
        "CrispASR": partial(measure_crispasr, write(folder, "crispasr", type), threads, samples),
    }
    if cli:
        model = write(folder, "whisper.cpp", type)
        systems["whisper.cpp"] = partial(in_own_process, whisper_cpp, cli, model, threads, samples)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in systems}
    for turn in range(rounds):
        for name in list(systems)[:: 1 if turn % 2 == 0 else -1]:
            outcomes[name].append(systems[name]())
            print(f"{type}, round {turn + 1}: {name}: {outcomes[name][-1]}", flush=True)
    return report(outcomes)


def streams(folder: Path, type: str, rounds: int, threads: int, samples: Samples) -> str:
    model = write(folder, "stream", type)
    return report_streams([in_own_process(stream, model, threads, samples) for _ in range(rounds)])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, help="default: a temporary one")
    options.add_argument("--whisper-cpp", type=Path, metavar="PARAKEET_CLI", help="default: left out")
    options.add_argument("--types", nargs="+", default=["f16", "q8_0"])
    options.add_argument("--parts", nargs="+", default=["offline", "streams"])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=20)
    arguments = options.parse_args()
    clip = load(CLIP)
    samples = np.resize(clip, round(arguments.seconds * SAMPLE_RATE))
    rounds, threads = arguments.rounds, arguments.threads
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        for type in arguments.types:
            print(f"## {type}, {arguments.seconds:g} s of audio, {threads} threads", flush=True)
            if "offline" in arguments.parts:
                print(offline(folder, type, rounds, threads, samples, arguments.whisper_cpp), flush=True)
            if "streams" in arguments.parts:
                print(streams(folder, type, rounds, threads, samples), flush=True)


if __name__ == "__main__":
    main()
