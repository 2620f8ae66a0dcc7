"""What is told of one utterance, from ``speech_started`` to ``final`` or ``discarded``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import events
from .audio.resample import SAMPLE_RATE
from .overload import Rung
from .publisher import Publisher
from .segmenter import Endpointing
from .settings import Task
from .transcript import Transcript

if TYPE_CHECKING:
    from ._native import StepResult

CERTAIN_LANGUAGE_S = 3.0
CERTAIN_LANGUAGE_CONFIDENCE = 0.6
CERTAIN_LANGUAGE_PROB = 0.8
"""A detected language is certain if it, and the words of an utterance at least so long, are so probable."""
NO_WORDS_S = 10.0
"""So much speech without a word is worth a warning."""


@dataclass(frozen=True)
class Configuration:
    """What a sender may choose; a change holds from the next utterance on."""

    endpointing: Endpointing | None
    """None: only a flush ends an utterance."""
    language: str | None = None
    task: Task = "transcribe"
    prompt: str = ""
    phrases: tuple[str, ...] = ()
    """Words and phrases that are likely to occur."""
    lookahead_ms: int | None = None
    """Audio that a word waits for at most, in a model that can choose; None: the model's best."""
    words: bool = False
    partials: bool = True
    step_ms: int | None = None
    """Audio from one hypothesis to the next, for the whole session; None: as the settings say."""


class Utterance:
    """Turns the hypotheses of an utterance into events. ``start`` and ``end`` are samples at 16 kHz."""

    def __init__(self, number: int, start: int, configuration: Configuration, publisher: Publisher) -> None:
        """Tells ``speech_started``."""
        self.start = start
        self.concluded = False
        """True once ``final`` or ``discarded`` was told."""
        self.turn_ended = False
        """True once the model heard that the speaker has finished."""
        self._number = number
        self._configuration = configuration
        self._publisher = publisher
        self._transcript = Transcript(start / SAMPLE_RATE)
        self._end: int | None = None
        self._shown = ("", "")
        self._revision = 0
        self._language: str | None = None
        self._language_prob = 0.0
        self._looped = False
        self._warned: set[events.WarningCode] = set()
        self._tell(events.SpeechStarted, start=start / SAMPLE_RATE)

    @property
    def committed_end(self) -> int | None:
        """The sample where the committed words end; None if there are none."""
        end = self._transcript.committed_end
        return None if end is None else round(end * SAMPLE_RATE)

    @property
    def language(self) -> str | None:
        """As the model says; None where it does not."""
        return self._language

    @property
    def task(self) -> Task:
        """As it was chosen."""
        return self._configuration.task

    @property
    def certain_language(self) -> str | None:
        """The language, once the utterance is concluded, if it was detected with confidence."""
        certain = (
            self._end is not None
            and self._end - self.start >= CERTAIN_LANGUAGE_S * SAMPLE_RATE
            and self._language_prob >= CERTAIN_LANGUAGE_PROB
            and self._transcript.confidence >= CERTAIN_LANGUAGE_CONFIDENCE
        )
        return self._language if certain else None

    @property
    def text(self) -> str:
        """What is committed."""
        return self._transcript.committed

    def take(self, result: StepResult, rung: Rung, behind: bool) -> None:
        """A hypothesis: what it commits, how the utterance looks now, and whether it was the last one.

        ``rung`` and ``behind`` (another hypothesis is due already) say whether a partial is wanted.
        """
        self._language, self._language_prob = result["language"], result["language_prob"]
        self.turn_ended = self.turn_ended or result["end_of_turn"]
        added, words = self._transcript.advance(
            result["committed"], result["tentative"], self._language, final=result["final"]
        )
        if added:
            self._tell(events.Commit, heard=words, text=added, words=self._wanted(words))
        if result["looping"] and (self._looped or result["final"]):  # a single tentative tail is no matter
            self.warn_once("looping", "the recognizer repeated itself and was stopped")
        self._looped = result["looping"]
        if result["final"]:
            self._conclude()
            return
        wanted = self._configuration.partials and rung.partials != "none"
        if wanted and not (behind and rung.partials == "newest"):
            self._show(result["audio_s"])
        if result["audio_s"] >= NO_WORDS_S and not (self.text or self._transcript.tentative):
            self.warn_once("no_words_in_speech", "there seems to be speech, but no word could be made out")

    def end(self, end: int, reason: events.SpeechEndReason) -> None:
        """The endpoint is known: tells ``speech_ended``."""
        self._end = end
        self._tell(events.SpeechEnded, end=end / SAMPLE_RATE, reason=reason)

    def withdraw(self, end: int) -> None:
        """Its sender wants it forgotten, although some of it may be committed."""
        self.end(end, "flush")
        self.concluded = True
        self._tell(events.Discarded, reason="client")

    def abandon(self, end: int) -> None:
        """The session fails: what was committed is the final text."""
        if self._end is None:
            self.end(end, "finish")
        self._conclude()

    def warn_once(self, code: events.WarningCode, message: str) -> None:
        """Warns, unless this utterance was warned of that before."""
        if code not in self._warned:
            self._warned.add(code)
            self._publisher.warn(code, message)

    def _show(self, audio_s: float) -> None:
        """Tells a ``partial`` if the text looks different."""
        shown = (self._transcript.committed, self._transcript.tentative)
        if shown == self._shown:
            return
        self._shown = shown
        self._revision += 1
        start = self.start / SAMPLE_RATE
        self._publisher.show(
            events.Partial(
                utterance=self._number,
                seq=self._publisher.seq,
                rev=self._revision,
                start=start,
                end=round(start + audio_s, 3),
                committed=self._transcript.committed,
                tentative=self._transcript.tentative,
                words=self._wanted(self._transcript.marked_words),
            )
        )

    def _conclude(self) -> None:
        self.concluded = True
        if not self.text or self._end is None:
            self._tell(events.Discarded, reason="no_words")
            return
        words = self._transcript.words
        self._tell(
            events.Final,
            heard=words,
            start=self.start / SAMPLE_RATE,
            end=self._end / SAMPLE_RATE,
            text=self.text,
            language=self._language,
            confidence=round(self._transcript.confidence, 4),
            words=self._wanted(words),
        )

    def _wanted(self, words: list[events.Word]) -> tuple[events.Word, ...] | None:
        return tuple(words) if self._configuration.words else None

    def _tell(self, kind: type[events.Numbered], heard: Sequence[events.Word] = (), **fields: Any) -> None:
        self._publisher.tell(kind, heard=heard, utterance=self._number, **fields)
