"""One source's life: audio in, events out, drain.

Whatever a source asks is queued behind the audio it sent before, so what is told depends on the audio and
the requests alone, not on how the audio was cut or how busy the machine was. Two tasks run: one takes the
queue through the segmenter into the stream, the other takes the stream's hypotheses to the channel.

A session does not need a connection: its sender may leave and come back, and if the daemon was killed in
between, it is taken up where its log begins (``request_log``).
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from functools import partial
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from . import events, segmenter
from ._native import NativeError
from .audio.level import MESSAGES, LevelMonitor
from .audio.pcm import AudioFormat
from .audio.resample import SAMPLE_RATE
from .channel import Channel, Subscription
from .context import Context
from .intake import Intake
from .journal import Journal
from .metrics import REPETITIONS_GIVEN_UP, SESSIONS_ENDED
from .publisher import Diverged, Publisher
from .recovery import TakenUp, conclude, last_configuration
from .request_log import FORMAT, Checkpoint, RequestLog
from .requests import Clear, Configure, Finish, Flush, Missing, Request
from .scheduler import EngineFailed, Lane
from .segmenter import Segmenter, SegmenterState
from .utterance import Configuration, Utterance
from .vad import FRAME

logger = logging.getLogger(__name__)

SLOW_INPUT_S = 2.0
"""So long without audio inside an utterance is worth a warning."""
REMEMBERED_FLUSHES = 16
"""Answered flushes that a sender is told of again when it comes back."""
REMEMBERED_CONNECTIONS = 64
PIECE = SAMPLE_RATE
"""Samples that are segmented at once, before the event loop gets its turn."""


class Session(Intake):
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
        taken_up: TakenUp | None = None,
    ) -> None:
        """``buffer_s``: as of ``Intake``. With ``taken_up``, it is that session, and goes on from there."""
        self.id = taken_up.checkpoint.session if taken_up else secrets.token_hex(8)
        self._id = {"session": self.id}
        """For the log."""
        log = RequestLog(journal, self.id) if journal is not None else None
        super().__init__(audio, configuration, buffer_s, log)
        self.channel = channel
        self.started_at = time.time()
        self.end_reason: events.EndReason | None = None
        self.over = asyncio.Event()
        """Set when it does nothing more, and its channel has room for another."""
        self.token: bytes | None = None
        """Digest of the token that its sender comes back with; None: it cannot."""
        self.held_by: deque[str] = deque(maxlen=REMEMBERED_CONNECTIONS)
        """The keys of the connections that its sender spoke through, the last of them."""
        self.claimed = False
        """Whether its sender is known to have the token."""
        self._lane = lane
        self._model = model
        self._active = configuration
        self._detected_language: str | None = None
        self._context: Context | None = None
        """Of the utterance before."""
        self._segmenter = Segmenter(configuration.endpointing, preroll_ms, vad_mode)
        self._restored = partial(Segmenter.restored, preroll_ms=preroll_ms, vad_mode=vad_mode)
        self._level = LevelMonitor()
        self._publisher = Publisher(self.id, channel, journal)
        self._utterances = 0
        self._utterance: Utterance | None = None
        self._sender: Subscription | None = None
        self._flushes: deque[str | int | None] = deque(maxlen=REMEMBERED_FLUSHES)
        self._unsegmented: NDArray[np.float32] = np.zeros(0, np.float32)
        """Of the audio that is being worked through, what the segmenter has yet to get."""
        self._taken_up = taken_up
        if taken_up is not None:
            self._take_up(taken_up)

    def _take_up(self, taken: TakenUp) -> None:
        checkpoint = taken.checkpoint
        self.token, self.started_at = checkpoint.token, checkpoint.started_at
        self.claimed = True
        self.configuration = last_configuration(taken.requests, checkpoint.configuration)
        self._active = checkpoint.configuration
        self._detected_language = checkpoint.detected_language
        if checkpoint.model == self._model:
            self._context = checkpoint.context
        self._segmenter = self._restored(self._active.endpointing, state=checkpoint.segmenter)
        self._publisher.repeat(checkpoint.seq, taken.told)
        self._utterances = checkpoint.utterances
        self._go_on_at(taken.point)
        for request in taken.requests:
            self._queue(request)
        self.later = taken.later
        if self._log is not None:
            self._log.goes_on(taken.point, taken.log_bytes)

    @property
    def audio_s(self) -> float:
        """Seconds of audio that were worked through."""
        return self._segmenter.position / SAMPLE_RATE

    @property
    def last_seq(self) -> int:
        """The number of the last numbered event that it told."""
        return self._publisher.last_seq

    @property
    def flushes(self) -> tuple[str | int | None, ...]:
        """The ids of the last flushes that were answered."""
        return tuple(self._flushes)

    def issue_token(self, chosen: str | None = None) -> str:
        """The token that its sender comes back with, which it may have ``chosen``. Call it before ``run``."""
        token = chosen or secrets.token_urlsafe(24)
        self.token, self.claimed = digest(token), chosen is not None
        return token

    def attach_sender(self, subscription: Subscription | None = None) -> Subscription:
        """The session's events, and the answers to what its sender asks. Call it before ``run``.

        A sender that comes back has its ``subscription`` already, and is told its last flushes again.
        """
        self._sender = subscription or self.channel.attach()
        if subscription is not None:
            for flush_id in self._flushes:
                self.answer(events.Flushed(flush_id))
        return self._sender

    def detach_sender(self) -> None:
        """The sender is gone; it may come back."""
        if self._sender is not None:
            self.channel.unsubscribe(self._sender)
            self._sender = None

    def answer(self, event: events.Event) -> None:
        """Tells the sender alone, after all that was told before."""
        if self._sender is not None:
            self._publisher.show(event, to=self._sender)

    def warn(self, code: events.WarningCode, message: str) -> None:
        """Tells everybody something that is not about the audio."""
        self._publisher.warn(code, message)

    async def run(self) -> None:
        """Works until the end, which is always told. A cancelled session ends with ``shutdown``."""
        reason: events.EndReason = "engine_failed"
        if self._taken_up is None:
            self._publisher.tell(
                events.SessionStarted,
                token=self.token,
                model=self._model,
                started_at=self.started_at,
                language=self.configuration.language,
                channel=self.channel.name,
            )
            self._keep(self._segmenter.rest())
        try:
            reason = await self._live()
        except asyncio.CancelledError:
            reason = "shutdown"
            raise
        finally:
            self._end(reason)
            await self._publisher.finished()

    async def _live(self) -> events.EndReason:
        while True:
            reason: events.EndReason | None = "engine_failed"
            try:
                async with asyncio.TaskGroup() as group:
                    listening = group.create_task(self._listen())
                    reason = await self._work()
                    listening.cancel()
            except* Diverged as differences:
                logger.warning("goes on without a repetition: %s", differences.exceptions[0], extra=self._id)
                REPETITIONS_GIVEN_UP.inc()
                reason = None
            except* (EngineFailed, NativeError) as failures:
                failure = failures.exceptions[0]
                logger.error("the engine failed: %s", failure, extra=self._id)
                self.answer(events.Error("engine_failed", f"the engine failed: {failure}", fatal=True))
            if reason is not None:
                return reason
            self._go_on()

    def _go_on(self) -> None:
        """What was told stands, and is not told again: see ``recovery``."""
        taken = self._taken_up
        assert taken is not None
        self._publisher.skip()
        self._utterance = self._context = None
        there = taken.going_on
        self._utterances = there.utterances
        conclude(self._publisher, there, taken.open_words)
        requests, self._active = taken.beyond(there.position)
        self._segmenter = self._restored(self._active.endpointing, state=SegmenterState.at(there.position))
        self._forget_requests()
        self._unsegmented = np.zeros(0, np.float32)
        for request in requests:
            self._queue(request)
        self._keep(self._segmenter.rest())

    def _keep(self, state: SegmenterState) -> None:
        """The log begins here: ``state``, and what was asked and not worked through yet."""
        if self._log is None:
            return
        checkpoint = Checkpoint(
            format=FORMAT,
            session=self.id,
            token=self.token,
            channel=self.channel.name,
            model=self._model,
            started_at=self.started_at,
            audio=self.audio,
            configuration=self._active,
            detected_language=self._detected_language,
            context=self._context,
            utterances=self._utterances,
            seq=self._publisher.seq,
            point=self._decoder.resume_point,
            segmenter=state,
        )
        self._log.restart(checkpoint, [self._unsegmented, *self._requests])

    def _end(self, reason: events.EndReason) -> None:
        self.finishing = True
        self.end_reason = reason
        self._lane.close()
        SESSIONS_ENDED.labels(reason).inc()
        if self._publisher.repeating and self._taken_up is not None:
            self._publisher.skip()
            conclude(self._publisher, self._taken_up.going_on, self._taken_up.open_words)
        else:
            self._give_up()
        self._forget_requests()
        self._publisher.tell(
            events.Ended,
            frames=self.received_frames,
            reason=reason,
            audio_s=self.audio_s,
            utterances=self._utterances,
        )
        if self._log is not None:
            self._log.remove()

    def _give_up(self) -> None:
        """What was committed is the text; accepted sound that was not heard to its end is told as missing."""
        lost_from = self._segmenter.position
        if self._utterance is not None and not self._utterance.concluded:
            lost_from = self._utterance.committed_end or self._utterance.start
            self._utterance.abandon(lost_from)
        waiting = [self._unsegmented, *(one for one in self._requests if isinstance(one, np.ndarray))]
        end = self._segmenter.position + sum(map(len, waiting))
        if end > lost_from:
            self._tell_gap(lost_from, end, "overflow")

    async def _work(self) -> events.EndReason:
        """Answers requests in their order; returns why the session ends."""
        while True:
            match await self._next():
                case np.ndarray() as samples:
                    await self._hear(samples)
                case Flush(flush_id):
                    await self._follow(self._segmenter.flush())
                    self._flushes.append(flush_id)
                    self.answer(events.Flushed(flush_id))
                case Clear():
                    await self._clear()
                case Missing(samples, reason):
                    await self._skip(samples, reason)
                case Configure(configuration):
                    self._active = configuration
                    self._segmenter.endpointing = configuration.endpointing
                case Finish(reason):
                    await self._follow(self._segmenter.finish())
                    return reason

    async def _next(self) -> Request:
        if not self._publisher.repeating:
            self.later = None
        while True:
            try:
                async with asyncio.timeout(SLOW_INPUT_S if self._utterance else None):
                    return await self._next_request()
            except TimeoutError:
                if self._utterance is not None:
                    self._utterance.warn_once("slow_input", "audio comes in more slowly than it is spoken")

    async def _hear(self, samples: NDArray[np.float32]) -> None:
        size = FRAME if self._lane.tells_end_of_turn else PIECE
        for start in range(0, len(samples), size):
            piece = samples[start : start + size]
            self._unsegmented = samples[start + size :]
            for fault in self._level.feed(piece):
                self._publisher.warn(fault, MESSAGES[fault])
            await self._follow(self._segmenter.feed(piece))
            await self._heed_turn()
            self._worked(len(piece))
            await asyncio.sleep(0)

    async def _heed_turn(self) -> None:
        """Nothing further is heard before the model is asked: where a turn ends hangs on the audio alone."""
        if not self._lane.tells_end_of_turn or not self._lane.behind:
            return
        await self._lane.caught_up()
        if self._utterance is not None and self._utterance.turn_ended:
            await self._follow(self._segmenter.end_turn())

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
                case segmenter.Resting(state):
                    if self._context and not self._context.reaches(state.heard):
                        self._context = None
                    self._keep(state)
                case segmenter.VadReset():
                    self._publisher.warn("vad_reset", "sound went on unheard: the voice detector was reset")

    async def _open(self, start: int) -> None:
        chosen = self._active
        language = chosen.language or self._detected_language
        context = self._context if self._context and self._context.fits(language, chosen.task) else None
        hints = [chosen.prompt, ", ".join(chosen.phrases)]
        await self._lane.reset(
            language=language,
            language_guessed=chosen.language is None,
            task=chosen.task,
            prompt=" ".join(filter(None, hints)),
            phrases=chosen.phrases,
            lookahead_ms=chosen.lookahead_ms,
            context=context,
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
        self._context = self._context_of(utterance, end)
        self._utterance = None

    def _context_of(self, utterance: Utterance, end: int) -> Context | None:
        said = self._lane.context
        if said is None or utterance.language is None:
            return None
        return Context(said[0], tuple(said[1]), utterance.language, utterance.task, end)

    async def _clear(self) -> None:
        await self._lane.caught_up()
        utterance, self._utterance = self._utterance, None
        self._context = None
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


def digest(token: str) -> bytes:
    """What is kept of a token, instead of it."""
    return sha256(token.encode()).digest()
