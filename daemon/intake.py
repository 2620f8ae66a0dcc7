"""The source's side of a session: what it asks is queued, behind the audio that it sent before.

The queue is bounded: a source that is ahead of the engine waits.
"""

import asyncio
from collections import deque

import numpy as np
from numpy.typing import NDArray

from .audio.pcm import AudioFormat, PcmDecoder
from .audio.resample import SAMPLE_RATE, ResumePoint
from .events import EndReason, GapReason
from .request_log import RequestLog
from .requests import Clear, Configure, Finish, Flush, Missing, Request
from .utterance import Configuration

MOST_REQUESTS = 1024
"""Frames and other requests that may wait, besides the bound on audio."""


class Intake:
    """Takes what a source sends, and keeps it in a log until it is worked through."""

    def __init__(
        self, audio: AudioFormat, configuration: Configuration, buffer_s: float, log: RequestLog | None
    ) -> None:
        """``buffer_s``: seconds of audio that may wait before ``feed`` makes its caller wait."""
        self.audio = audio
        """As declared."""
        self.configuration = configuration
        """As last asked for."""
        self.finishing = False
        self.later: list[Request] | None = None
        """If it is a list, what is asked is added to it."""
        self._decoder = PcmDecoder(audio)
        self._buffer = int(buffer_s * SAMPLE_RATE)
        self._log = log
        self._asked_again = False
        """Whether the next audio has to be some that a killed daemon had."""
        self._requests: deque[Request] = deque()
        self._buffered = 0
        self._changed = asyncio.Event()

    @property
    def received_frames(self) -> int:
        """Sample frames received, at the declared rate, gaps included."""
        return self._decoder.received_frames

    def keep(self) -> int:
        """Hands what was received over to the disk.

        Returns how many of the received frames the source need not keep: a killed daemon would have them.
        """
        if self._log is None:
            return self.received_frames
        self._log.write()
        return self._log.kept_frames

    @property
    def holding_back(self) -> bool:
        """Whether so much is waiting that the source has to wait."""
        waiting = self._buffered > self._buffer or len(self._requests) > MOST_REQUESTS
        return waiting and not self.finishing

    async def feed(self, data: bytes) -> None:
        """Takes audio as declared, cut anywhere. Waits while too much audio is waiting."""
        if data:
            self._asked_again = False
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

    def realign(self) -> int:
        """The source begins anew with a whole frame; returns which one that has to be."""
        self._decoder.realign()
        return self.received_frames

    def _go_on_at(self, point: ResumePoint) -> None:
        """The audio goes on where another daemon was killed."""
        self._decoder.go_on(point)
        self._asked_again = True

    def flush(self, flush_id: str | int | None = None) -> None:
        """Ends the utterance; ``flushed`` is answered when its final was told."""
        self._request(self._decoder.flush())
        self._request(Flush(flush_id))

    def clear(self) -> None:
        """Forgets the open utterance."""
        self._request(self._decoder.flush())
        self._request(Clear())

    def gap(self, frames: int, reason: GapReason = "client") -> None:
        """So many sample frames at the declared rate are missing; the audio clock goes on.

        What its source has not any more when it comes back to another daemon was lost with the last one.
        """
        if self._asked_again:
            reason = "restart"
        self._request(self._decoder.flush())
        self._request(Missing(self._decoder.skip(frames), reason))

    def configure(self, configuration: Configuration) -> None:
        """Holds from the next utterance on."""
        self.configuration = configuration
        self._request(Configure(configuration))

    def finish(self, reason: EndReason = "finished") -> None:
        """No more audio: what was accepted is transcribed, then the session ends."""
        self._request(self._decoder.flush())
        self._request(Finish(reason))

    def _request(self, request: Request) -> None:
        if self.finishing or (isinstance(request, np.ndarray) and not len(request)):
            return
        if self.later is not None:
            self.later.append(request)
        if self._log is not None:
            self._log.add(request, self._decoder.resume_point)
        self._queue(request)

    def _queue(self, request: Request) -> None:
        if isinstance(request, np.ndarray):
            self._buffered += len(request)
        elif isinstance(request, Finish):
            self.finishing = True
        self._requests.append(request)
        self._changed.set()

    async def _next_request(self) -> Request:
        """The oldest that waits, or that comes."""
        while not self._requests:
            self._changed.clear()
            await self._changed.wait()
        self._changed.set()
        return self._requests.popleft()

    def _worked(self, samples: int) -> None:
        """So much audio does not wait any more."""
        self._buffered -= samples
        self._changed.set()

    def _forget_requests(self) -> None:
        self._requests.clear()
        self._buffered = 0
        self._changed.set()
