"""Where a session goes on whose words, after the daemon was killed, do not come out as they were told.

Usually they do: the engine hears the same sound again and says the same (``request_log``). It may not, if the
machine was overloaded before, or another model is loaded now. What was told stands nevertheless: the open
utterance ends behind its last committed word, and the sound from there on opens the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from . import events
from .audio.resample import SAMPLE_RATE, ResumePoint
from .publisher import Publisher
from .request_log import Checkpoint, Entry, request_of
from .requests import Configure, Missing, Request
from .utterance import Configuration


@dataclass
class TakenUp:
    """A session that outlived its daemon."""

    checkpoint: Checkpoint
    entries: list[Entry]
    log_bytes: int
    told: list[events.Numbered]
    """After the checkpoint."""
    open_words: list[events.Word]
    """Committed words of the utterance that was open at last."""
    later: list[Request] = field(default_factory=list)
    """Asked while it was being told again."""

    @property
    def point(self) -> ResumePoint:
        """Where its audio goes on."""
        return self.entries[-1].point if self.entries else self.checkpoint.point

    @property
    def going_on(self) -> "GoingOn":
        """Where it goes on without a repetition."""
        checkpoint = self.checkpoint
        return going_on(checkpoint.segmenter.heard, checkpoint.utterances, self.told, self.open_words)

    @property
    def requests(self) -> list[Request]:
        """What was asked since the checkpoint."""
        return [request_of(entry) for entry in self.entries]

    def beyond(self, position: int) -> tuple[list[Request], Configuration]:
        """Of what was asked, what concerns the time from ``position`` on, and the configuration there."""
        state, configuration = self.checkpoint.segmenter, self.checkpoint.configuration
        unheard = np.frombuffer(state.unheard, "<f4").astype(np.float32)
        start = state.heard
        left = list[Request]()
        for request in [unheard, *self.requests, *self.later]:
            if isinstance(request, np.ndarray):
                if (kept := request[max(0, position - start) :]).size:
                    left.append(kept)
                start += len(request)
            elif isinstance(request, Missing):
                if start + request.samples > position:
                    left.append(Missing(start + request.samples - max(start, position), request.reason))
                start += request.samples
            elif start >= position:
                left.append(request)
            elif isinstance(request, Configure):
                configuration = request.configuration
        return left, configuration


@dataclass
class OpenUtterance:
    """An utterance of which no ``final`` was told."""

    number: int
    start: float
    text: str = ""
    end: float | None = None
    """None: ``speech_ended`` was not told either."""


@dataclass
class GoingOn:
    """What was told, in brief: where the next utterance may begin, and what has to be concluded before."""

    position: int
    """Samples at 16 kHz of audio time."""
    utterances: int
    open: OpenUtterance | None = None


def going_on(
    position: int, utterances: int, told: Sequence[events.Numbered], open_words: Sequence[events.Word]
) -> GoingOn:
    """Where a session goes on of which ``told`` was told after it was between utterances at ``position``.

    ``open_words``: committed words of the utterance that is open in the end.
    """
    state = GoingOn(position, utterances)
    for event in told:
        match event:
            case events.SpeechStarted(utterance=number, start=start):
                state.utterances = number
                state.open = OpenUtterance(number, start)
            case events.Commit(text=text) if state.open:
                state.open.text += text
            case events.SpeechEnded(end=end) if state.open:
                state.open.end = end
            case events.Final() | events.Discarded() if state.open and state.open.end is not None:
                state.position = _samples(state.open.end)
                state.open = None
            case events.Gap(end=end) if state.open is None:
                state.position = max(state.position, _samples(end))
    if state.open is not None:
        said_until = open_words[-1].end if open_words else state.open.start
        end = max(state.open.start, said_until) if state.open.end is None else state.open.end
        state.position = _samples(end)
    return state


def conclude(publisher: Publisher, there: GoingOn, words: Sequence[events.Word]) -> None:
    """Tells the end of the utterance that was open: what was committed is its text."""
    left = there.open
    if left is None:
        return
    end = there.position / SAMPLE_RATE
    if left.end is None:
        publisher.tell(events.SpeechEnded, utterance=left.number, end=end, reason="max_length")
    if not left.text:
        publisher.tell(events.Discarded, utterance=left.number, reason="no_words")
        return
    publisher.tell(
        events.Final,
        heard=words,
        utterance=left.number,
        start=left.start,
        end=end,
        text=left.text,
        language=None,
        confidence=round(fmean(word.confidence for word in words), 4) if words else 0.0,
    )


def last_configuration(requests: Sequence[Request], before: Configuration) -> Configuration:
    """The one that was asked for last."""
    asked = [request.configuration for request in requests if isinstance(request, Configure)]
    return asked[-1] if asked else before


def _samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)
