"""The Python face of the native engine: one model, and the threads that compute with it."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self, TypeVar

import numpy as np

from . import settings
from ._native import (
    BackendError,
    BadArgument,
    BadModel,
    Model,
    NativeError,
    Stream,
    StreamOptions,
    TranscribeOptions,
    Worker,
)
from .models import ModelError, is_path, resolve

Result = TypeVar("Result")

PROBE_S = 1.0
"""Seconds of silence that a probe transcribes."""


class Unsupported(Exception):
    """The model cannot do what is chosen; ``field`` is ``language``, ``task`` or ``phrases``."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class InferenceThread:
    """One thread with one native worker. Work is queued to it and never blocks the caller."""

    def __init__(self, model: Model, compute_threads: int) -> None:
        self._model = model
        self._compute_threads = compute_threads
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inference")
        self._worker: Worker | None = None
        self.succeeded_at: float | None = None
        """``time.monotonic()`` of the last work that went well."""

    def submit(self, work: Callable[[Worker], Result]) -> "Future[Result]":
        """Runs ``work`` on the thread. After a ``BackendError`` the next work gets a new native worker."""
        return self._executor.submit(self._run, work)

    def abort(self) -> None:
        """A ``Worker.transcribe`` that runs ends with ``Aborted`` within a layer's time."""
        if self._worker is not None:
            self._worker.abort()

    def rebuild(self) -> None:
        """The next work gets a new native worker: this one's state is not to be trusted."""
        self._worker = None

    def close(self) -> None:
        """Waits for the work that runs, and forgets the work that waits. Blocks."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _run(self, work: Callable[[Worker], Result]) -> Result:
        if self._worker is None:
            self._worker = Worker(self._model, self._compute_threads)
        try:
            result = work(self._worker)
        except BackendError:
            self.rebuild()
            raise
        self.succeeded_at = time.monotonic()
        return result


class Engine:
    """A loaded model and its inference threads."""

    def __init__(self, model: Model, workers: int, threads: int) -> None:
        """``threads`` 0: what the process may use, divided among ``workers``."""
        self.model = model
        share = threads or (0 if workers == 1 else max(1, len(os.sched_getaffinity(0)) // workers))
        self.threads = tuple(InferenceThread(model, share) for _ in range(workers))

    @classmethod
    def load(cls, chosen: settings.Engine, session: settings.Session) -> Self:
        """Loads the model that the settings name. Blocks.

        Raises ``ModelError``, and ``SettingsError`` if the model cannot do what ``session`` asks.
        """
        engine = cls(_load(chosen.model), chosen.workers, chosen.threads)
        try:
            engine.check(session.language, session.task)
        except Unsupported as error:
            raise settings.SettingsError(f"session.{error.field}: {error}") from error
        return engine

    def check(self, language: str | None, task: settings.Task, phrases: Sequence[str] = ()) -> None:
        """Raises ``Unsupported`` if the model cannot do this."""
        languages = self.model.languages
        if language is not None and language not in (languages or ["en"]):
            known = ", ".join(sorted(languages)) or "en"
            raise Unsupported("language", f"language {language!r} is unknown to the model; it knows {known}")
        if task == "translate" and not languages:
            raise Unsupported("task", "an English-only model does not translate")
        try:
            Stream(self.model, StreamOptions(language=language, task=task, phrases=phrases))
        except BadArgument as error:
            field, _, message = str(error).partition(": ")
            raise Unsupported(field, message) from error

    @property
    def succeeded_at(self) -> float | None:
        """``time.monotonic()`` of the last inference that went well, on any thread."""
        return max((at for thread in self.threads if (at := thread.succeeded_at) is not None), default=None)

    async def probe(self) -> bool:
        """Whether a short inference succeeds on the first thread, after the work that waits there."""
        silence = np.zeros(int(PROBE_S * self.model.sample_rate), np.float32)
        options = TranscribeOptions(temperatures=[0.0], full_window=False)
        try:
            await asyncio.wrap_future(
                self.threads[0].submit(lambda worker: worker.transcribe(silence, options))
            )
        except NativeError:
            return False
        return True

    def abort(self) -> None:
        """Every ``Worker.transcribe`` that runs ends with ``Aborted``."""
        for thread in self.threads:
            thread.abort()

    def close(self) -> None:
        """Ends the threads. Blocks until the work that runs is done."""
        for thread in self.threads:
            thread.close()


def _load(name: str) -> Model:
    path = resolve(name)
    try:
        return Model(str(path))
    except BadModel as error:
        again = "fetch or convert it again"
        remedy = again if is_path(name) else f"remove it and run `stenod models pull {name}`"
        raise ModelError(path, str(error).removeprefix(f"{path}: "), remedy) from error
