"""The systems that are compared, each named ``KIND:PATH`` (its model), and a child process that runs one:

python -m tests.bench.systems KIND:PATH < job.json > outcome.json
"""

import asyncio
import json
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..recordings import find, load

Samples = NDArray[np.float32]


class System(ABC):
    """A loaded system."""

    @abstractmethod
    def transcribe(self, path: str, samples: Samples, language: str) -> str:
        """The text of a recording: greedy, language forced, no temperature fallback, no voice detection."""

    def stages(self) -> dict[str, float]:
        """Seconds spent per stage so far, where the system tells."""
        return {}


class Stenod(System):
    """Our engine, given the whole file, always with the 30 s window that the model was trained on."""

    full_window = True

    def __init__(self, model: str, threads: int) -> None:
        from stenod._native import Model, Worker

        self.worker = Worker(Model(model), threads)

    def transcribe(self, path: str, samples: Samples, language: str) -> str:
        from stenod._native import TranscribeOptions

        result = self.worker.transcribe(
            samples,
            TranscribeOptions(
                language=language,
                timestamps=True,
                temperatures=[0.0],
                condition_on_previous_text=False,
                full_window=self.full_window,
                speech_evidence=False,
            ),
        )
        text = b"".join(token["text"] for segment in result["segments"] for token in segment["tokens"])
        return text.decode(errors="replace")

    def stages(self) -> dict[str, float]:
        return self.worker.timings


class StenodBucketed(Stenod):
    """Our engine with the encoder's length cut to a bucket that fits the audio."""

    full_window = False


class StenodCommand(System):
    """``stenod transcribe`` as users get it: cut into utterances by the voice detector."""

    def __init__(self, model: str, threads: int) -> None:
        self.model, self.threads = model, threads

    def transcribe(self, path: str, samples: Samples, language: str) -> str:
        command = [str(Path(sys.executable).with_name("stenod")), "transcribe", "--format", "json"]
        settings = ["--model", self.model, "--threads", str(self.threads), "--language", language]
        done = subprocess.run([*command, *settings, str(find(path))], check=True, stdout=subprocess.PIPE)
        return str(json.loads(done.stdout)["text"])


class StenodStreaming(System):
    """Our daemon, fed over the websocket as fast as it takes the audio."""

    def __init__(self, model: str, threads: int) -> None:
        from .daemon import play, serving

        self._play = play
        self._running = ExitStack()
        self.address = self._running.enter_context(serving(model, threads))

    def transcribe(self, path: str, samples: Samples, language: str) -> str:
        return asyncio.run(self._play(self.address, samples, language, real_time=False)).text

    def __del__(self) -> None:
        self._running.close()


class FasterWhisper(System):
    """faster-whisper (CTranslate2)."""

    compute_type = "float32"

    def __init__(self, model: str, threads: int) -> None:
        from faster_whisper import WhisperModel

        self.model = WhisperModel(model, device="cpu", compute_type=self.compute_type, cpu_threads=threads)

    def transcribe(self, path: str, samples: Samples, language: str) -> str:
        segments, _ = self.model.transcribe(
            samples, language=language, beam_size=1, best_of=1, temperature=0.0,
            condition_on_previous_text=False, vad_filter=False,
        )  # fmt: skip
        return "".join(segment.text for segment in segments)


class FasterWhisperInt8(FasterWhisper):
    """faster-whisper with weights quantised to 8 bits."""

    compute_type = "int8"


class WhisperCpp(System):
    """whisper.cpp, by pywhispercpp."""

    def __init__(self, model: str, threads: int) -> None:
        from pywhispercpp.model import Model

        self.model = Model(
            model, n_threads=threads, redirect_whispercpp_logs_to=None, print_progress=False,
            temperature=0.0, temperature_inc=0.0, no_context=True,
        )  # fmt: skip

    def transcribe(self, path: str, samples: Samples, language: str) -> str:
        return " ".join(segment.text for segment in self.model.transcribe(samples, language=language))


KINDS: dict[str, Callable[[str, int], System]] = {
    "stenod": Stenod,
    "stenod-bucketed": StenodBucketed,
    "stenod-segmented": StenodCommand,
    "stenod-streaming": StenodStreaming,
    "faster-whisper-float32": FasterWhisper,
    "faster-whisper-int8": FasterWhisperInt8,
    "whisper.cpp": WhisperCpp,
}


@dataclass(frozen=True)
class Job:
    """What the child process is asked."""

    clips: list[tuple[str, str]]
    """Recordings, by their path, with their language."""
    threads: int
    warm_up: bool = False
    """Transcribe the first clip once more before anything is measured."""


@dataclass
class Outcome:
    """What the child process answers."""

    texts: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """Spent transcribing: without loading the model or reading files."""
    stages: dict[str, float] = field(default_factory=dict)
    peak_bytes: int = 0


def run(system: str, job: Job) -> Outcome:
    """Runs a system on a job in a child process of its own. Raises CalledProcessError if that fails."""
    child = subprocess.run(
        [sys.executable, "-m", f"{__package__}.systems", system],
        input=json.dumps(asdict(job)), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return Outcome(**json.loads(child.stdout.splitlines()[-1]))


def perform(system: str, job: Job) -> Outcome:
    """Runs a system on a job in this process."""
    kind, _, model = system.partition(":")
    loaded = KINDS[kind](model, job.threads)
    outcome = Outcome()
    clips = [(path, load(path), language) for path, language in job.clips]
    if job.warm_up:
        loaded.transcribe(*clips[0])
    before = loaded.stages()
    for path, samples, language in clips:
        began = time.perf_counter()
        outcome.texts[path] = loaded.transcribe(path, samples, language).strip()
        outcome.seconds += time.perf_counter() - began
    outcome.stages = {stage: spent - before[stage] for stage, spent in loaded.stages().items()}
    outcome.peak_bytes = peak_memory()
    return outcome


def peak_memory() -> int:
    """The most memory, in bytes, that this process has had."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(asdict(perform(sys.argv[1], Job(**json.load(sys.stdin))))))
