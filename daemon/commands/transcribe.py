"""``stenod transcribe``: recordings to text."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .._native import NativeError
from ..audio.files import AudioFile, AudioFileError, open_audio
from ..audio.resample import SAMPLE_RATE
from ..engine import Engine
from ..formats import FORMATS, Transcript, segment_text
from ..offline import Choices, transcribe_utterances, transcribe_whole
from ..playback import play
from ..settings import Settings, SettingsError
from .options import add_options, settings_of
from .output import Output

if TYPE_CHECKING:
    from .._native import Segment

SOME_FAILED, NO_AUDIO = 1, 4


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declares the command."""
    parser = subparsers.add_parser("transcribe", help="transcribe recordings", description=__doc__)
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a recording of any kind; '-': standard input"
    )
    parser.add_argument("--format", choices=FORMATS, default="txt", help="what to write (txt)")
    parser.add_argument(
        "-o", "--output", metavar="FILE|DIR", help="where to write; a folder gets one file a recording"
    )
    add_options(parser, "--model", "--threads", "--language", "--task", "--prompt")
    parser.add_argument(
        "--beam-size", type=int, choices=range(1, 9), default=1, metavar="N", help="1 (greedy) to 8"
    )
    parser.add_argument("--no-vad", action="store_true", help="give the engine all of it, silence and all")
    parser.add_argument("--live", action="store_true", help="play it in real time, and watch the text come")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Transcribes every file that can be; exit code 1 if some could not, 4 if none could."""
    settings = settings_of(options)
    if options.live:
        if unused := [name for name, chosen in _not_live(options).items() if chosen]:
            raise SettingsError(f"--live: shows text in the terminal; it has no {unused[0]}")
        failed = asyncio.run(play(settings, options.files))
    else:
        output = Output(options.output, options.format, len(options.files))
        failed = _transcribe_all(settings, options, output)
    if not failed:
        return 0
    return NO_AUDIO if failed == len(options.files) else SOME_FAILED


def _not_live(options: argparse.Namespace) -> dict[str, bool]:
    """What playing a recording cannot heed, and whether it was asked for."""
    return {
        "--output": options.output is not None,
        "--format": options.format != "txt",
        "--beam-size": options.beam_size != 1,
        "--no-vad": options.no_vad,
    }


def _transcribe_all(settings: Settings, options: argparse.Namespace, output: Output) -> int:
    engine = Engine.load(settings.engine, settings.session)
    try:
        transcriber = _Transcriber(engine, settings, options, output)
        return sum(not transcriber.transcribe(file) for file in options.files)
    except KeyboardInterrupt:
        engine.abort()
        raise
    finally:
        engine.close()


class _Transcriber:
    """Transcribes one file after the other."""

    def __init__(
        self, engine: Engine, settings: Settings, options: argparse.Namespace, output: Output
    ) -> None:
        self._engine = engine
        self._cut = settings.segmentation
        self._whole = options.no_vad
        self._output = output
        self._choices = Choices(
            language=settings.session.language,
            task=settings.session.task,
            prompt=settings.session.prompt,
            beam_size=options.beam_size,
        )

    def transcribe(self, file: str) -> bool:
        """Returns False, after one line that says why, if the file could not be read to its end."""
        try:
            with open_audio(file) as audio, _progress(audio) as advance:
                self._output.write(self._transcript(file, audio, advance))
            problem = audio.problem
        except (AudioFileError, NativeError) as error:
            problem = str(error)
        if problem:
            print(f"stenod: {problem}", file=sys.stderr)
        return not problem

    def _transcript(self, file: str, audio: AudioFile, advance: Callable[[float], None]) -> Transcript:
        if self._whole:
            samples = np.concatenate(list(audio))
            whole = transcribe_whole(self._engine, samples, self._choices, advance)
            self._output.show(map(segment_text, whole["segments"]))
            return Transcript(file, whole["duration"], whole["language"], whole["segments"])
        counted = _Counted(audio)
        segments: list[Segment] = []
        language = self._choices.language
        for utterance, said in transcribe_utterances(self._engine, counted, self._cut, self._choices):
            segments += said["segments"]
            language = language or (said["language"] if said["segments"] else None)
            advance(utterance.start_s + said["duration"])
            self._output.show(map(segment_text, said["segments"]))
        return Transcript(file, counted.samples / SAMPLE_RATE, language, segments)


class _Counted:
    """The blocks of a recording, and how many samples they were."""

    def __init__(self, audio: AudioFile) -> None:
        self._audio = audio
        self.samples = 0

    def __iter__(self) -> Iterator[np.ndarray[tuple[int], np.dtype[np.float32]]]:
        for block in self._audio:
            self.samples += len(block)
            yield block


@contextmanager
def _progress(audio: AudioFile) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, if that is a terminal; gives what to call with the seconds that are done."""
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=sys.stdout.isatty(),
    )
    with progress:
        bar = progress.add_task(audio.name, total=audio.duration_s)
        yield lambda seconds: progress.update(bar, completed=seconds)
