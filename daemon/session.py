"""One source's life: audio in, events out, drain.

Whatever a source asks is queued behind the audio it sent before, so what is told depends on the audio and
the requests alone, not on how the audio was cut or how busy the machine was. Two tasks run: one takes the
queue through the segmenter into the stream, the other takes the stream's hypotheses to the channel.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import events, segmenter
from ._native import NativeError
from .audio.level import LevelMonitor
from .audio.pcm import AudioFormat, PcmDecoder
from .audio.resample import SAMPLE_RATE
from .channel import Channel, Subscription
from .journal import Journal
from .publisher import Publisher
from .scheduler import EngineFailed, Lane
from .segmenter import Segmenter
from .utterance import Configuration, Utterance

logger = logging.getLogger(__name__)

PREVIOUS_TEXT_AS_PROMPT = False
"""Whether an utterance's text conditions the next one: it spreads mistakes and loops, so only if measured."""
SLOW_INPUT_S = 2.0
"""So long without audio inside an utterance is worth a warning."""
MOST_REQUESTS = 1024
"""Frames and other requests that may wait, besides the bound on audio."""
PIECE = SAMPLE_RATE
"""Samples that are segmented at once, before the event loop gets its turn."""

_LEVEL_MESSAGES = {
    "silent_input": "nothing but digital silence comes in: check that the microphone is on and not muted",
    "clipping": "the input is too loud and is cut off: turn the gain down",
}


@dataclass(frozen=True)
class Flush:
    """End the utterance now, then answer."""

    id: str | int | None


@dataclass(frozen=True)
class Clear:
    """Forget the open utterance."""


@dataclass(frozen=True)
class Missing:
    """So many samples at 16 kHz were lost."""

    samples: int
    reason: events.GapReason


@dataclass(frozen=True)
class Finish:
    """No more audio."""

    reason: events.EndReason


Request = NDArray[np.float32] | Configuration | Flush | Clear | Missing | Finish


class Session:
    """A source and its stream. ``run`` it as one task: until ``finish``, a failure, or cancellation."""

    def __init__(
        self,
        *,
        lane: Lane,
        channel: Channel,
        model: str,
        audio: AudioFormat,
        configuration: Configuration,
        preroll_ms: int,
        vad_mode: int,
        buffer_s: float,
        journal: Journal | None = None,
    ) -> None:
        """``buffer_s``: seconds of audio that may wait before ``feed`` makes its caller wait."""
        self.id = secrets.token_hex(8)
        self.channel = channel
        self.configuration = configuration
        """As last asked for."""
        self.sample_rate = audio.sample_rate
        """As declared."""
        self.started_at = time.time()
        self.finishing = False
        self.end_reason: events.EndReason | None = None
        self._lane = lane
        self._model = model
        self._active = configuration
        self._detected_language: str | None = None
        self._decoder = PcmDecoder(audio)
        self._segmenter = Segmenter(configuration.endpointing, preroll_ms, vad_mode)
        self._level = LevelMonitor()
        self._publisher = Publisher(self.id, channel, journal)
        self._utterances = 0
        self._utterance: Utterance | None = None
        self._previous_text = ""
        self._sender: Subscription | None = None
        self._requests: deque[Request] = deque()
        self._buffered = 0
        self._buffer = int(buffer_s * SAMPLE_RATE)
        self._changed = asyncio.Event()

    # For the source.

    @property
    def received_frames(self) -> int:
        """Sample frames received, at the declared rate, gaps included."""
        return self._decoder.received_frames

    @property
    def audio_s(self) -> float:
        """Seconds of audio that were worked through."""
        return self._segmenter.position / SAMPLE_RATE

    @property
    def holding_back(self) -> bool:
        """Whether so much is waiting that the sender has to wait."""
        waiting = self._buffered > self._buffer or len(self._requests) > MOST_REQUESTS
        return waiting and not self.finishing

    def attach_sender(self) -> Subscription:
        """The session's events, and the answers to what its sender asks. Call it before ``run``."""
        self._sender = self.channel.attach()
        return self._sender

    def answer(self, event: events.Event) -> None:
        """Tells the sender alone, after all that was told before."""
        if self._sender is not None:
            self._publisher.show(event, to=self._sender)

    def warn(self, code: events.WarningCode, message: str) -> None:
        """Tells everybody something that is not about the audio."""
        self._publisher.warn(code, message)

    async def feed(self, data: bytes) -> None:
        """Takes audio as declared, cut anywhere. Waits while too much audio is waiting."""
        await self.push(self._decoder.feed(data))

    async def push(self, samples: NDArray[np.float32]) -> None:
        """Takes mono samples [n] at 16 kHz. Waits while too much audio is waiting."""
        self._request(samples)
        await self.room()

    async def room(self) -> None:
        """Waits while too much is waiting."""
        while self.holding_back:
            self._changed.clear()
            await self._changed.wait()

    def flush(self, flush_id: str | int | None = None) -> None:
        """Ends the utterance; ``flushed`` is answered when its final was told."""
        self._request(self._decoder.flush())
        self._request(Flush(flush_id))

    def clear(self) -> None:
        """Forgets the open utterance."""
        self._request(self._decoder.flush())
        self._request(Clear())

    def gap(self, frames: int, reason: events.GapReason = "client") -> None:
        """So many sample frames at the declared rate are missing; the audio clock goes on."""
        self._request(self._decoder.flush())
        self._request(Missing(self._decoder.skip(frames), reason))

    def configure(self, configuration: Configuration) -> None:
        """Holds from the next utterance on."""
        self.configuration = configuration
        self._request(configuration)

    def finish(self, reason: events.EndReason = "finished") -> None:
        """No more audio: what was accepted is transcribed, then the session ends."""
        self._request(self._decoder.flush())
        self._request(Finish(reason))
        self.finishing = True
        self._changed.set()

    # Its own life.

    async def run(self) -> None:
        """Works until the end, which is always told. A cancelled session ends with ``shutdown``."""
        reason: events.EndReason = "engine_failed"
        self._publisher.tell(
            events.SessionStarted,
            model=self._model,
            started_at=self.started_at,
            language=self.configuration.language,
            channel=self.channel.name,
        )
        try:
            reason = await self._live()
        except asyncio.CancelledError:
            reason = "shutdown"
            raise
        finally:
            self._end(reason)
            await self._publisher.finished()

    async def _live(self) -> events.EndReason:
        reason: events.EndReason = "engine_failed"
        try:
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(self._listen())
                reason = await self._work()
                listening.cancel()
        except* (EngineFailed, NativeError) as failures:
            failure = failures.exceptions[0]
            logger.error("session %s: the engine failed: %s", self.id, failure)
            self.answer(events.Error("engine_failed", f"the engine failed: {failure}", fatal=True))
        return reason

    def _end(self, reason: events.EndReason) -> None:
        self.finishing = True
        self.end_reason = reason
        self._lane.close()
        if self._utterance is not None and not self._utterance.concluded:
            self._utterance.abandon(self._segmenter.position)
        self._requests.clear()
        self._changed.set()
        self._publisher.tell(events.Ended, reason=reason, audio_s=self.audio_s, utterances=self._utterances)

    async def _work(self) -> events.EndReason:
        """Answers requests in their order; returns why the session ends."""
        while True:
            match await self._next():
                case np.ndarray() as samples:
                    await self._hear(samples)
                case Flush(flush_id):
                    await self._follow(self._segmenter.flush())
                    self.answer(events.Flushed(flush_id))
                case Clear():
                    await self._clear()
                case Missing(samples, reason):
                    await self._skip(samples, reason)
                case Configuration() as configuration:
                    self._active = configuration
                    self._segmenter.endpointing = configuration.endpointing
                case Finish(reason):
                    await self._follow(self._segmenter.finish())
                    return reason

    async def _next(self) -> Request:
        while not self._requests:
            self._changed.clear()
            try:
                async with asyncio.timeout(SLOW_INPUT_S if self._utterance else None):
                    await self._changed.wait()
            except TimeoutError:
                if self._utterance is not None:
                    self._utterance.warn_once("slow_input", "audio comes in more slowly than it is spoken")
        self._changed.set()
        return self._requests.popleft()

    def _request(self, request: Request) -> None:
        if self.finishing:
            return
        if isinstance(request, np.ndarray):
            if not len(request):
                return
            self._buffered += len(request)
        self._requests.append(request)
        self._changed.set()

    async def _hear(self, samples: NDArray[np.float32]) -> None:
        for start in range(0, len(samples), PIECE):
            piece = samples[start : start + PIECE]
            for fault in self._level.feed(piece):
                self._publisher.warn(fault, _LEVEL_MESSAGES[fault])
            await self._follow(self._segmenter.feed(piece))
            self._buffered -= len(piece)
            self._changed.set()
            await asyncio.sleep(0)

    async def _follow(self, found: list[segmenter.Event]) -> None:
        """What the segmenter found, in order."""
        waiting = deque(found)
        while waiting:
            match waiting.popleft():
                case segmenter.Opened(start):
                    await self._open(start)
                case segmenter.Audio(_, samples):
                    self._lane.push(samples)
                case segmenter.Closed(end, reason):
                    await self._close(end, reason)
                case segmenter.MaxLengthReached():
                    await self._lane.caught_up()
                    committed_end = self._utterance.committed_end if self._utterance else None
                    waiting.extend(self._segmenter.cut(committed_end))
                case segmenter.VadReset():
                    self._publisher.warn("vad_reset", "sound went on unheard: the voice detector was reset")

    async def _open(self, start: int) -> None:
        chosen = self._active
        hints = [
            self._previous_text if PREVIOUS_TEXT_AS_PROMPT else "",
            chosen.prompt,
            ", ".join(chosen.phrases),
        ]
        await self._lane.reset(
            chosen.language or self._detected_language, chosen.task, " ".join(filter(None, hints))
        )
        self._utterances += 1
        self._utterance = Utterance(self._utterances, start, chosen, self._publisher)

    async def _close(self, end: int, reason: events.SpeechEndReason) -> None:
        """The endpoint is known. What can still commit before it is told first: the order never varies."""
        utterance = self._utterance
        if utterance is None:
            return
        await self._lane.caught_up()
        utterance.end(end, reason)
        self._lane.finish(end - utterance.start)
        await self._lane.caught_up()
        self._detected_language = utterance.certain_language or self._detected_language
        self._previous_text = utterance.text
        self._utterance = None

    async def _clear(self) -> None:
        await self._lane.caught_up()
        utterance, self._utterance = self._utterance, None
        self._segmenter.flush()
        if utterance is not None:
            end = self._segmenter.position
            utterance.withdraw(end)
            self._tell_gap(utterance.start, end, "client")

    async def _skip(self, samples: int, reason: events.GapReason) -> None:
        start = self._segmenter.position
        await self._follow(self._segmenter.gap(samples))
        self._tell_gap(start, start + samples, reason)

    def _tell_gap(self, start: int, end: int, reason: events.GapReason) -> None:
        self._publisher.tell(events.Gap, start=start / SAMPLE_RATE, end=end / SAMPLE_RATE, reason=reason)

    async def _listen(self) -> None:
        """Takes hypotheses to the open utterance."""
        async for result in self._lane.results():
            if self._utterance is not None and not self._utterance.concluded:
                self._utterance.take(result, self._lane.rung, self._lane.behind)
