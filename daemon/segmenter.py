"""Cuts a session's audio into utterances. No input or output, no clock: audio in, events out.

Positions are samples at 16 kHz of audio time: since the session's first sample, gaps included.
The same audio gives the same events, however it was cut into calls.

    for event in segmenter.feed(samples):
        match event:
            case Opened(start): ...                # an utterance begins
            case Audio(start, samples): ...        # its sound, gapless and in order, each sample once
            case Closed(end, reason): ...          # it ends; sound beyond ``end`` belongs to the next one
            case MaxLengthReached(at): ...         # answer with ``cut``; until then, audio is only kept
            case VadReset(at): ...                 # a warning
            case Resting(state): ...               # another segmenter could go on from here
"""

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .audio.resample import SAMPLE_RATE
from .events import SpeechEndReason
from .open_utterance import OpenUtterance, Piece
from .settings import LONGEST_SILENCE_MS, SHORTEST_SILENCE_MS
from .vad import FRAME, DetectorState, VoiceDetector

OPENING_WINDOW = 5
OPENING_SPEECH = 3
"""An utterance opens when so many of the last ``OPENING_WINDOW`` frames are speech: 60 ms in 100."""
REST = 10 * SAMPLE_RATE
"""Samples between two states that are told, at least."""
LONGEST_BRIDGE_MS = 600
"""A longer hole in the audio is not heard as silence, where no endpointing says what silence is too long."""


@dataclass(frozen=True)
class Endpointing:
    """Where utterances end by themselves."""

    silence_ms: int
    max_utterance_s: float

    def after_silence(self, silence_ms: int) -> Self:
        """The same after so much silence, or the nearest that may be asked for."""
        return replace(self, silence_ms=min(max(silence_ms, SHORTEST_SILENCE_MS), LONGEST_SILENCE_MS))


@dataclass(frozen=True)
class Opened:
    """An utterance begins at ``start``, which lies before the first sound of speech."""

    start: int


@dataclass(frozen=True, eq=False)
class Audio:
    """The next samples [n] of the open utterance; float32, mono."""

    start: int
    samples: NDArray[np.float32]


@dataclass(frozen=True)
class Closed:
    """The open utterance ends before ``end``."""

    end: int
    reason: SpeechEndReason


@dataclass(frozen=True)
class MaxLengthReached:
    """The open utterance is as long as it may be: ``cut`` it. Later audio waits for that."""

    at: int


@dataclass(frozen=True)
class VadReset:
    """The voice detector heard nothing of a sound that went on, and was reset."""

    at: int


@dataclass(frozen=True)
class SegmenterState:
    """A segmenter between two utterances; sound as float32, little-endian."""

    heard: int
    unheard: bytes
    recent: list[tuple[bytes, bool]]
    """Sound, and whether it is speech."""
    detector: DetectorState

    @classmethod
    def at(cls, position: int) -> Self:
        """A segmenter that begins there."""
        return cls(position, b"", [], DetectorState(b"", math.inf, 0.0, 0.0))


@dataclass(frozen=True)
class Resting:
    """Between utterances, at most every ``REST`` samples: what follows depends on ``state`` alone."""

    state: SegmenterState


Event = Opened | Audio | Closed | MaxLengthReached | VadReset | Resting


class Segmenter:
    """Finds the utterances of one session. Keeps the open utterance and the pre-roll, nothing else."""

    def __init__(self, endpointing: Endpointing | None, preroll_ms: int, vad_mode: int) -> None:
        self.endpointing = endpointing
        """None: only ``flush`` and ``finish`` end an utterance. A new value holds from the next one on."""
        self._preroll = _samples(preroll_ms) // FRAME
        self._detector = VoiceDetector(vad_mode)
        self._unheard = np.zeros(0, np.float32)
        self._again: deque[Piece] = deque()
        """Judged sound beyond a cut, to be heard before ``_unheard``."""
        self._heard = 0
        """The position up to which sound was heard."""
        self._rested = 0
        """The position of the last state that was told."""
        self._recent: deque[Piece] = deque(maxlen=self._preroll + OPENING_WINDOW)
        self._utterance: OpenUtterance | None = None
        self._limits = endpointing
        """Those of the open utterance."""
        self._must_cut = False
        self._events: list[Event] = []
        self._untold: list[NDArray[np.float32]] = []
        """Sound of the open utterance that goes into the next ``Audio``."""

    @property
    def position(self) -> int:
        """The end of all audio so far."""
        return self._heard + sum(len(piece.samples) for piece in self._again) + len(self._unheard)

    @property
    def open_since(self) -> int | None:
        """Where the open utterance began; None between utterances."""
        return self._utterance.start if self._utterance else None

    @classmethod
    def restored(
        cls, endpointing: Endpointing | None, preroll_ms: int, vad_mode: int, state: SegmenterState
    ) -> Self:
        """Goes on from a state that ``Resting`` told, with the settings that held there."""
        segmenter = cls(endpointing, preroll_ms, vad_mode)
        segmenter._heard = segmenter._rested = state.heard
        segmenter._unheard = np.frombuffer(state.unheard, "<f4").astype(np.float32)
        segmenter._recent.extend(
            Piece(np.frombuffer(samples, "<f4").astype(np.float32), speech)
            for samples, speech in state.recent
        )
        segmenter._detector.restore(state.detector)
        return segmenter

    def rest(self) -> SegmenterState:
        """The state between two utterances; from now on the voice detector goes by the last sounds alone."""
        self._rested = self._heard
        return SegmenterState(
            heard=self._heard,
            unheard=self._unheard.astype("<f4").tobytes(),
            recent=[(piece.samples.astype("<f4").tobytes(), piece.speech) for piece in self._recent],
            detector=self._detector.renew(),
        )

    def feed(self, samples: NDArray[np.float32]) -> list[Event]:
        """Takes the next mono samples [n] at 16 kHz; sound is judged, and passed on, in whole frames."""
        self._unheard = np.concatenate([self._unheard, samples])
        while not self._must_cut and (piece := self._next_piece()):
            self._hear(piece)
        return self._told()

    def gap(self, samples: int) -> list[Event]:
        """That much audio is missing. A short hole is heard as silence; a longer one ends the utterance."""
        self._refuse_while_cut_is_due()
        silence, limit = 0, LONGEST_BRIDGE_MS
        if self._utterance and self._limits:
            silence, limit = self._utterance.silence, self._limits.silence_ms
        if silence + samples < _samples(limit):
            return self.feed(np.zeros(samples, np.float32))
        self._end_now("silence")
        self._heard = self.position + samples
        self._unheard = np.zeros(0, np.float32)
        self._recent.clear()
        return self._told()

    def flush(self) -> list[Event]:
        """Ends the open utterance, if there is one, at the last sample that came in."""
        self._refuse_while_cut_is_due()
        self._end_now("flush")
        return self._told()

    def end_turn(self) -> list[Event]:
        """The speaker has finished: ends the open utterance, if it has endpoints, where it was heard."""
        self._refuse_while_cut_is_due()
        if self._utterance is not None and self._limits is not None:
            self._close("end_of_turn")
        return self._told()

    def finish(self) -> list[Event]:
        """No more audio: ends the open utterance, if there is one."""
        self._refuse_while_cut_is_due()
        self._end_now("finish")
        return self._told()

    def cut(self, not_before: int | None = None) -> list[Event]:
        """Ends the utterance that is as long as it may be; the sound beyond the cut opens the next one.

        The cut is made at the best pause in the later half, but not before ``not_before``: where the words
        end that cannot change any more. If there is none, right there; else where it is quietest.
        """
        if not self._must_cut or self._utterance is None:
            raise RuntimeError("cut answers MaxLengthReached, once")
        at = self._utterance.best_cut(not_before)
        beyond = self._utterance.beyond(at)
        self._again.extendleft(reversed(beyond))
        self._must_cut = False
        self._heard = at
        self._close("max_length")
        if any(piece.speech for piece in beyond):
            self._open(at)
        return self.feed(np.zeros(0, np.float32))

    def _next_piece(self) -> Piece | None:
        if self._again:
            return self._again.popleft()
        if len(self._unheard) < FRAME:
            return None
        frame, self._unheard = self._unheard[:FRAME], self._unheard[FRAME:]
        speech = self._detector.is_speech(frame)
        if self._detector.reset_if_deaf():
            self._tell(VadReset(self._heard + FRAME))
        return Piece(frame, speech)

    def _hear(self, piece: Piece) -> None:
        self._heard += len(piece.samples)
        if self._utterance is None:
            self._recent.append(piece)
            self._open_on_speech()
            if self._utterance is None and not self._again and self._heard - self._rested >= REST:
                self._tell(Resting(self.rest()))
            return
        self._extend(self._utterance, piece)
        if self._limits is None:
            return
        if self._utterance.silence >= _samples(self._limits.silence_ms):
            self._close("silence")
        elif self._utterance.length >= _samples(1000 * self._limits.max_utterance_s):
            self._must_cut = True
            self._tell(MaxLengthReached(self._heard))

    def _open_on_speech(self) -> None:
        recent = list(self._recent)
        window = range(max(0, len(recent) - OPENING_WINDOW), len(recent))
        spoken = [index for index in window if recent[index].speech]
        if len(spoken) < OPENING_SPEECH:
            return
        pieces = recent[max(0, spoken[0] - self._preroll) :]
        utterance = self._open(self._heard - sum(len(piece.samples) for piece in pieces))
        for piece in pieces:
            self._extend(utterance, piece)
        self._recent.clear()

    def _open(self, start: int) -> OpenUtterance:
        self._tell(Opened(start))
        self._limits = self.endpointing
        self._utterance = OpenUtterance(start, cuttable=self._limits is not None)
        return self._utterance

    def _extend(self, utterance: OpenUtterance, piece: Piece) -> None:
        utterance.append(piece)
        self._untold.append(piece.samples)

    def _end_now(self, reason: SpeechEndReason) -> None:
        if self._utterance is None:
            return
        if len(self._unheard):
            self._extend(self._utterance, Piece(self._unheard, speech=False))
            self._heard += len(self._unheard)
            self._unheard = np.zeros(0, np.float32)
        self._close(reason)

    def _close(self, reason: SpeechEndReason) -> None:
        self._tell(Closed(self._heard, reason))
        self._utterance = None

    def _tell(self, event: Event) -> None:
        self._tell_audio()
        self._events.append(event)

    def _tell_audio(self) -> None:
        if self._utterance and self._untold:
            samples = np.concatenate(self._untold)
            self._events.append(Audio(self._utterance.end - len(samples), samples))
            self._untold = []

    def _told(self) -> list[Event]:
        self._tell_audio()
        events, self._events = self._events, []
        return events

    def _refuse_while_cut_is_due(self) -> None:
        if self._must_cut:
            raise RuntimeError("MaxLengthReached must be answered with cut first")


def _samples(milliseconds: float) -> int:
    return int(milliseconds * SAMPLE_RATE / 1000)
