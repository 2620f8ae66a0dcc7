"""Which streams step next, on which inference thread: earliest deadline first, in common batches.

A session owns a ``Lane``: its native stream as the scheduler sees it. Everything here runs on the event
loop and never blocks it; what computes runs on the engine's threads.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ._native import (
    Aborted,
    BackendError,
    NativeError,
    OutOfMemory,
    Stream,
    StreamOptions,
)
from .context import Context
from .engine import Engine, InferenceThread
from .events import Overload
from .overload import Ladder, Rung

if TYPE_CHECKING:
    from ._native import StepResult

logger = logging.getLogger(__name__)

WATCH_S = 0.5
"""How often the lag is measured."""
LEAD_S = 5.0
"""How far a lane that sends faster than real time can fall behind the others in line."""


class EngineFailed(Exception):
    """The engine could not go on with a stream; the message says why."""


def next_deadline(now: float, previous: float, step_s: float, *, waited: bool) -> float:
    """When a step should be done; ``waited``: it was due already while the one before it was made.

    Steps are owed at the pace of real time: audio that comes faster (a file, a burst after a stall) is
    worked on whenever there is time, but does not push aside those who are speaking, and is no lag.
    """
    owed = min(previous + step_s, now + LEAD_S)
    return owed if waited else max(now, owed)


class Lane:
    """One session's native stream. Push audio, take results; the scheduler does the steps."""

    def __init__(self, scheduler: Scheduler, stream: Stream, step_s: float) -> None:
        self.stream = stream
        self.deadline = 0.0
        self.stepping = False
        self.alone = False
        """True: to be stepped in a batch of its own, because a batch with it failed."""
        self._scheduler = scheduler
        self._step_s = step_s
        self._finishing = False
        self._results: list[StepResult] = []
        self._failure: EngineFailed | None = None
        self._changed = asyncio.Event()

    @property
    def rung(self) -> Rung:
        """The stage of overload that holds now."""
        return self._scheduler.ladder.rung

    @property
    def pace_s(self) -> float:
        """Seconds from this step's deadline to the next one's; the final step is owed at once."""
        return 0.0 if self._finishing else self.step_s

    @property
    def tells_end_of_turn(self) -> bool:
        """Whether the model can hear that the speaker has finished."""
        return self._scheduler.tells_end_of_turn

    @property
    def step_s(self) -> float:
        """Seconds of audio from step to step, as they are now."""
        return self.stream.step_s

    @property
    def behind(self) -> bool:
        """Whether another step of this stream is waiting."""
        return self.stream.due() > 0

    def push(self, samples: NDArray[np.float32]) -> None:
        """Copies audio in: mono float32 [n] at 16 kHz."""
        self.stream.push(samples)
        self._scheduler.consider(self)

    def finish(self, samples: int | None = None) -> None:
        """The utterance ends here, or after ``samples`` of it: what is beyond is forgotten."""
        self._finishing = True
        self.stream.finish(samples)
        self._scheduler.consider(self)

    async def reset(
        self,
        *,
        language: str | None,
        language_guessed: bool,
        task: str,
        prompt: str,
        phrases: Sequence[str],
        lookahead_ms: int | None,
        context: Context | None,
    ) -> None:
        """Forgets the utterance, and what was to come of it; the next one may begin.

        What is chosen is as of ``StreamOptions``.
        """
        while self.stepping:
            await self._change()
        self._results.clear()
        self._finishing = False
        options = StreamOptions(
            language=language,
            language_guessed=language_guessed,
            task=task,
            prompt=prompt,
            phrases=phrases,
            lookahead_ms=lookahead_ms,
            context=(context.samples, context.tokens) if context else None,
            step_s=self._step_s,
        )
        self.stream.reset(options)
        self.stream.coarsen(self.rung.grid)

    @property
    def context(self) -> tuple[bytes, list[int]] | None:
        """Of the utterance that is finished: as of ``Stream``."""
        return self.stream.context

    async def results(self) -> AsyncIterator[StepResult]:
        """Every step's result, for as long as the lane is open. Raises ``EngineFailed``."""
        while True:
            while not self._results:
                self._raise_failure()
                await self._change()
            yield self._results[0]
            if self._results:
                del self._results[0]
            self._changed.set()

    async def caught_up(self) -> None:
        """Returns when every due step is done and its result dealt with. Raises ``EngineFailed``."""
        while self.stepping or self._results or self.stream.due():
            self._raise_failure()
            await self._change()
        self._raise_failure()

    def deliver(self, result: StepResult) -> None:
        """A step was done."""
        self._results.append(result)
        self._changed.set()

    def fail(self, reason: str) -> None:
        """Nothing more will come of this stream."""
        self._failure = EngineFailed(reason)
        self._changed.set()

    def close(self) -> None:
        """No more steps; one that runs is aborted."""
        self.fail("the stream was closed")
        self._scheduler.forget(self)
        if self.stepping:
            self.stream.abort()

    @property
    def failed(self) -> bool:
        """Whether it failed or was closed."""
        return self._failure is not None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class Scheduler:
    """Steps all lanes. ``run`` it as one task."""

    def __init__(
        self, engine: Engine, batch: int, decode_deadline_s: float, ladder: Ladder | None = None
    ) -> None:
        self.ladder = ladder or Ladder()
        self.on_overload: Callable[[Overload], None] = lambda event: None
        """Called on the loop when the stage of overload changes."""
        self._engine = engine
        self._batch = batch
        self._decode_deadline_s = decode_deadline_s
        self._lanes: set[Lane] = set()
        self._line: list[tuple[float, int, Lane]] = []
        self._waiting: set[Lane] = set()
        self._tickets = 0
        self._due = asyncio.Event()
        self.running = True
        """False once the scheduler stopped: no stream will be stepped any more."""

    @property
    def tells_end_of_turn(self) -> bool:
        """As of ``Model``."""
        return self._engine.model.tells_end_of_turn

    def open(self, step_s: float) -> Lane:
        """A lane for a new session; ``reset`` it before the first utterance."""
        stream = Stream(self._engine.model, StreamOptions(step_s=step_s))
        lane = Lane(self, stream, step_s)
        self._lanes.add(lane)
        return lane

    def forget(self, lane: Lane) -> None:
        """The lane was closed."""
        self._lanes.discard(lane)

    def consider(self, lane: Lane, *, waited: bool = False) -> None:
        """Puts a lane in line if a step of it is due; ``waited`` as of ``next_deadline``."""
        if lane.stepping or lane in self._waiting or lane.failed or not lane.behind:
            return
        lane.deadline = next_deadline(time.monotonic(), lane.deadline, lane.pace_s, waited=waited)
        self._tickets += 1
        heapq.heappush(self._line, (lane.deadline, self._tickets, lane))
        self._waiting.add(lane)
        self._due.set()

    @property
    def lag_s(self) -> float:
        """How late the most overdue step is."""
        now = time.monotonic()
        owed = (lane.deadline for lane in self._lanes if lane.stepping or lane in self._waiting)
        return max(0.0, now - min(owed, default=now))

    async def run(self) -> None:
        """Serves the lanes until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for thread in self._engine.threads:
                    group.create_task(self._serve(thread))
                group.create_task(self._watch())
        except Exception:
            logger.exception("the scheduler failed")
            raise
        finally:
            self.running = False
            for lane in self._lanes:
                lane.fail("the scheduler stopped")

    async def _serve(self, thread: InferenceThread) -> None:
        while True:
            batch = self._take()
            if not batch:
                self._due.clear()
                await self._due.wait()
                continue
            results = await self._step(thread, batch)
            for lane, result in zip(batch, results, strict=True):
                lane.stepping = False
                if isinstance(result, NativeError):
                    self._failed(lane, result, len(batch))
                else:
                    lane.alone = False
                    lane.deliver(result)
                self.consider(lane, waited=True)

    def _take(self) -> list[Lane]:
        """The lanes whose deadlines are nearest, at most a batch of them."""
        batch: list[Lane] = []
        while self._line and len(batch) < self._batch:
            lane = self._line[0][2]
            if lane.alone and batch:
                break
            heapq.heappop(self._line)
            self._waiting.discard(lane)
            if lane.failed or not lane.behind:
                continue
            lane.stepping = True
            batch.append(lane)
            if lane.alone:
                break
        return batch

    async def _step(self, thread: InferenceThread, batch: Sequence[Lane]) -> list[StepResult | NativeError]:
        """One step of every lane of the batch; one that takes too long is aborted."""
        streams = [lane.stream for lane in batch]
        work = asyncio.wrap_future(thread.submit(lambda worker: worker.step(streams)))
        done, _ = await asyncio.wait({work}, timeout=self._decode_deadline_s)
        if not done:
            logger.error("a decode of %d streams is stuck and is aborted", len(streams))
            for stream in streams:
                stream.abort()
        try:
            results = await work
        except NativeError as error:
            return [error] * len(batch)
        if any(isinstance(result, BackendError) for result in results):
            thread.rebuild()
        return results

    def _failed(self, lane: Lane, error: NativeError, width: int) -> None:
        """A failure of the whole batch is tried again alone: the fault may be another stream's."""
        if isinstance(error, BackendError | OutOfMemory) and width > 1:
            lane.alone = True
            return
        if not (isinstance(error, Aborted) and lane.failed):
            logger.error("a stream failed: %s", error)
            lane.fail(str(error))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            grid = self.ladder.rung.grid
            event = self.ladder.update(self.lag_s, time.monotonic(), idle=not self._lanes)
            if event is None:
                continue
            logger.warning("overload: %s, %.1f s behind", event.action, event.lag_s)
            if self.ladder.rung.grid != grid:
                for lane in self._lanes:
                    lane.stream.coarsen(self.ladder.rung.grid)
            self.on_overload(event)
