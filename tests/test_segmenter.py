"""Utterances are found where people speak, and every sample is told exactly once."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stenod.segmenter import (
    Audio,
    Closed,
    Endpointing,
    Event,
    MaxLengthReached,
    Opened,
    Resting,
    Segmenter,
    SegmenterState,
    VadReset,
)

from tests import recordings

Samples = NDArray[np.float32]

SECOND = 16000
MS = 16
DEFAULT = Endpointing(silence_ms=600, max_utterance_s=25)


@cache
def speech() -> Samples:
    """5.1 s of speech, from its first sample to its last."""
    return recordings.load("en_read/ljspeech/LJ001-0004.flac")


@cache
def reading() -> Samples:
    """86 s of reading with short pauses."""
    return recordings.load("en_long/lj001_0001-0013.flac")


def silence(seconds: float) -> Samples:
    return np.zeros(int(seconds * SECOND), np.float32)


@dataclass
class Utterance:
    start: int
    end: int | None = None
    reason: str | None = None
    heard: list[Samples] = field(default_factory=list)

    @property
    def samples(self) -> Samples:
        assert self.end is not None
        return np.concatenate(self.heard)[: self.end - self.start]


class Listener:
    """Owns a segmenter, checks the order of all it tells, and answers ``MaxLengthReached``."""

    def __init__(
        self,
        endpointing: Endpointing | None = DEFAULT,
        not_before: Callable[[int, int], int | None] = lambda start, at: None,
    ) -> None:
        self.segmenter = Segmenter(endpointing, preroll_ms=300, vad_mode=2)
        self.not_before = not_before
        self.utterances: list[Utterance] = []
        self.resets: list[int] = []
        self.cuts = 0

    def feed(self, samples: Samples, chunk: int = 320) -> "Listener":
        for begin in range(0, len(samples), chunk):
            self.take(self.segmenter.feed(samples[begin : begin + chunk]))
        return self

    def take(self, events: list[Event]) -> None:
        for event in events:
            last = self.utterances[-1] if self.utterances else None
            is_open = last is not None and last.end is None
            match event:
                case Opened(start):
                    assert not is_open
                    assert last is None or (last.end is not None and start >= last.end)
                    self.utterances.append(Utterance(start))
                case Audio(start, samples):
                    assert last is not None and is_open and len(samples)
                    assert start == last.start + sum(map(len, last.heard))
                    last.heard.append(samples)
                case Closed(end, reason):
                    assert last is not None and is_open
                    delivered = last.start + sum(map(len, last.heard))
                    assert end <= delivered if reason == "max_length" else end == delivered
                    last.end, last.reason = end, reason
                case MaxLengthReached(at):
                    assert last is not None and is_open
                    self.cuts += 1
                    self.take(self.segmenter.cut(self.not_before(last.start, at)))
                case VadReset(at):
                    self.resets.append(at)

    def finish(self) -> list[Utterance]:
        self.take(self.segmenter.finish())
        return self.utterances


def test_speech_without_lead_in_is_taken_from_its_first_sample() -> None:
    (utterance,) = Listener().feed(speech()).finish()
    assert (utterance.start, utterance.end, utterance.reason) == (0, len(speech()), "finish")
    np.testing.assert_array_equal(utterance.samples, speech())


def test_pre_roll_and_end_by_silence() -> None:
    before, after = silence(2), silence(3)
    listener = Listener().feed(np.concatenate([before, speech(), after]))
    (utterance,) = listener.utterances
    assert 250 * MS <= len(before) - utterance.start <= 400 * MS
    assert utterance.end is not None
    assert 400 * MS <= utterance.end - len(before) - len(speech()) <= 900 * MS
    assert utterance.reason == "silence"


def test_a_pre_roll_never_repeats_the_utterance_before() -> None:
    first, second = Listener().feed(np.concatenate([speech(), silence(0.75), speech()])).finish()
    assert first.end is not None
    assert first.reason == "silence"
    assert first.end <= second.start < len(speech()) + 0.75 * SECOND


def test_silence_opens_nothing() -> None:
    assert Listener().feed(silence(60)).finish() == []


def test_quiet_speech_is_heard() -> None:
    quiet = (np.round(speech() * 0.004 * 32768) / 32768).astype(np.float32)
    (utterance,) = Listener().feed(np.concatenate([quiet, silence(2)])).finish()
    assert utterance.start == 0
    assert utterance.end is not None
    assert utterance.end > len(quiet)


def test_long_speech_is_cut_in_pauses_and_nothing_is_lost() -> None:
    listener = Listener().feed(reading())
    utterances = listener.finish()
    assert listener.cuts == len(utterances) - 1 >= 3
    assert [utterance.reason for utterance in utterances[:-1]] == ["max_length"] * listener.cuts
    np.testing.assert_array_equal(np.concatenate([u.samples for u in utterances]), reading())
    loudness = np.sqrt(np.mean(reading() ** 2))
    for utterance in utterances[:-1]:
        assert utterance.end is not None
        assert 12.5 * SECOND <= utterance.end - utterance.start <= 25 * SECOND
        around = reading()[utterance.end - 20 * MS : utterance.end + 20 * MS]
        assert np.sqrt(np.mean(around**2)) < 0.1 * loudness


def test_a_cut_never_lies_before_what_is_committed() -> None:
    listener = Listener(not_before=lambda start, at: at - 200 * MS).feed(reading())
    for utterance in listener.finish()[:-1]:
        assert utterance.end is not None
        assert utterance.end >= utterance.start + 24.8 * SECOND


@pytest.mark.parametrize("beyond", [0, SECOND])
def test_committed_to_the_end_cuts_at_the_end(beyond: int) -> None:
    listener = Listener(not_before=lambda start, at: at + beyond).feed(reading())
    for utterance in listener.finish()[:-1]:
        assert utterance.end == utterance.start + 25 * SECOND


def test_without_a_pause_the_cut_is_where_words_are_committed_else_where_it_is_quietest() -> None:
    vowels = speech()[127 * 320 : 137 * 320]
    unbroken = np.tile(vowels, 150)
    dip = 20 * SECOND
    unbroken[dip - 50 * MS : dip + 50 * MS] *= 0.3
    (quietest, *_) = Listener().feed(unbroken).finish()
    assert quietest.end is not None
    assert abs(quietest.end - dip) <= 20 * MS
    (committed, *_) = Listener(not_before=lambda start, at: 21 * SECOND).feed(unbroken).finish()
    assert committed.end == 21 * SECOND


def test_a_detector_that_never_lets_go_is_bounded() -> None:
    music = np.tile(recordings.load("nonspeech/music_macroform-robot_dity_40s.flac"), 3)
    listener = Listener().feed(music)
    for utterance in listener.finish():
        assert len(utterance.samples) <= 25 * SECOND
    assert listener.cuts >= 3


def test_audio_waits_while_a_cut_is_due() -> None:
    segmenter = Segmenter(Endpointing(600, 5), 300, 2)
    events = segmenter.feed(reading()[: 8 * SECOND])
    assert isinstance(events[-1], MaxLengthReached)
    assert segmenter.feed(reading()[8 * SECOND : 9 * SECOND]) == []
    assert segmenter.position == 9 * SECOND
    for request in (segmenter.flush, segmenter.finish, lambda: segmenter.gap(1)):
        with pytest.raises(RuntimeError, match="answered with cut first"):
            request()
    closed, opened, audio = segmenter.cut()
    assert isinstance(closed, Closed)
    assert isinstance(opened, Opened)
    assert isinstance(audio, Audio)
    assert opened.start == closed.end
    assert audio.start + len(audio.samples) <= 9 * SECOND
    with pytest.raises(RuntimeError, match="once"):
        segmenter.cut()


def test_flush_takes_the_last_sample_and_goes_on() -> None:
    listener = Listener().feed(speech()[:12345], chunk=1000)
    listener.take(listener.segmenter.flush())
    assert (listener.utterances[0].end, listener.utterances[0].reason) == (12345, "flush")
    assert listener.segmenter.flush() == []
    listener.feed(speech()[12345:])
    first, second = listener.finish()
    assert first.end is not None
    assert first.end <= second.start <= first.end + 400 * MS
    assert second.end == len(speech())


def test_a_turn_ends_with_the_last_frame_that_was_heard() -> None:
    listener = Listener().feed(speech()[:12345], chunk=1000)
    listener.take(listener.segmenter.end_turn())
    assert (listener.utterances[0].end, listener.utterances[0].reason) == (12345 // 320 * 320, "end_of_turn")
    assert listener.segmenter.end_turn() == []
    listener.feed(speech()[12345:])
    first, second = listener.finish()
    assert first.end is not None
    assert first.end <= second.start <= first.end + 400 * MS
    assert Listener(None).feed(speech()).segmenter.end_turn() == []


def test_without_endpointing_only_flush_ends_an_utterance() -> None:
    listener = Listener(None).feed(np.concatenate([silence(1), reading(), silence(10)]), chunk=SECOND)
    assert len(listener.utterances) == 1
    assert listener.segmenter.open_since == listener.utterances[0].start > 0
    listener.take(listener.segmenter.flush())
    (utterance,) = listener.utterances
    assert utterance.reason == "flush"
    assert utterance.end == len(reading()) + 11 * SECOND
    assert listener.segmenter.open_since is None


def test_new_endpointing_holds_from_the_next_utterance_on() -> None:
    listener = Listener().feed(speech())
    listener.segmenter.endpointing = Endpointing(1500, 25)
    listener.feed(np.concatenate([silence(2), speech(), silence(2)]))
    first, second = listener.utterances
    assert first.end is not None and second.end is not None
    assert first.end - len(speech()) < 1000 * MS
    assert second.end - 2 * SECOND - 2 * len(speech()) > 1300 * MS


def test_a_short_gap_is_heard_as_silence() -> None:
    listener = Listener().feed(speech()[: 2 * SECOND])
    listener.take(listener.segmenter.gap(200 * MS))
    listener.feed(speech()[2 * SECOND :])
    (utterance,) = listener.finish()
    whole = np.concatenate([speech()[: 2 * SECOND], silence(0.2), speech()[2 * SECOND :]])
    np.testing.assert_array_equal(utterance.samples, whole)


@pytest.mark.parametrize("endpointing", [DEFAULT, None])
def test_a_long_gap_ends_the_utterance_and_the_clock_goes_on(endpointing: Endpointing | None) -> None:
    lost = 3600 * SECOND
    listener = Listener(endpointing).feed(speech())
    listener.take(listener.segmenter.gap(lost))
    assert (listener.utterances[0].end, listener.utterances[0].reason) == (len(speech()), "silence")
    listener.feed(speech())
    assert listener.segmenter.position == 2 * len(speech()) + lost
    assert listener.finish()[1].start == len(speech()) + lost


def test_a_deaf_detector_is_reset_and_counted() -> None:
    """field-failures: a VAD that stops firing while sound goes on is reset and counted."""
    time = np.arange(25 * SECOND) / SECOND
    unheard = (0.1 * np.sin(2 * np.pi * 7000 * time)).astype(np.float32)
    listener = Listener().feed(np.concatenate([silence(1), unheard]))
    assert listener.finish() == []
    assert [round(at / SECOND) for at in listener.resets] == [11, 21]


@pytest.mark.parametrize("endpointing", [DEFAULT, None])
def test_memory_is_bounded(endpointing: Endpointing | None) -> None:
    """field-failures: appending audio costs the same however long the session has run."""
    segmenter = Segmenter(endpointing, 300, 2)
    minutes = np.tile(reading(), 3)
    tracemalloc.start()
    try:
        for begin in range(0, len(minutes), 320):
            for event in segmenter.feed(minutes[begin : begin + 320]):
                if isinstance(event, MaxLengthReached):
                    segmenter.cut()
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


sounds = st.one_of(
    st.tuples(st.just("speech"), st.integers(0, 60 * SECOND), st.integers(1, 8 * SECOND)),
    st.tuples(st.just("silence"), st.just(0), st.integers(1, 2 * SECOND)),
    st.tuples(st.just("noise"), st.integers(0, 99), st.integers(1, SECOND)),
    st.tuples(st.just("gap"), st.just(0), st.integers(1, SECOND)),
    st.tuples(st.just("flush"), st.just(0), st.just(0)),
)


def play(
    program: list[tuple[str, int, int]], endpointing: Endpointing | None, chunk: int
) -> tuple[Listener, Samples]:
    """Runs a program of sounds and requests; returns the listener and the whole of audio time."""
    listener = Listener(endpointing, lambda start, at: start + (at - start) * 3 // 4 if start % 3 else None)
    timeline = []
    for kind, where, length in program:
        samples = np.zeros(length, np.float32)
        if kind == "speech":
            samples = reading()[where : where + length]
        elif kind == "noise":
            samples = np.random.default_rng(where).normal(0, 0.01, length).astype(np.float32)
        if kind == "flush":
            listener.take(listener.segmenter.flush())
        elif kind == "gap":
            listener.take(listener.segmenter.gap(length))
        else:
            listener.feed(samples, chunk)
        timeline.append(samples)
    listener.finish()
    return listener, np.concatenate(timeline)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(sounds, min_size=1, max_size=6),
    st.sampled_from([DEFAULT, Endpointing(200, 5), None]),
    st.integers(1, 50000),
)
def test_any_cutting_tells_the_same_and_each_sample_once(
    program: list[tuple[str, int, int]], endpointing: Endpointing | None, chunk: int
) -> None:
    """field-failures: VAD start and stop alternate strictly."""
    listener, timeline = play(program, endpointing, 320)
    other, _ = play(program, endpointing, chunk)
    assert listener.segmenter.position == len(timeline)
    assert listener.resets == other.resets
    assert len(listener.utterances) == len(other.utterances)
    for utterance, same in zip(listener.utterances, other.utterances, strict=True):
        assert (utterance.start, utterance.end, utterance.reason) == (same.start, same.end, same.reason)
        np.testing.assert_array_equal(utterance.samples, same.samples)
        np.testing.assert_array_equal(utterance.samples, timeline[utterance.start : utterance.end])


def test_another_segmenter_goes_on_from_any_state() -> None:
    """What a killed daemon left is enough to hear the same."""
    samples = np.concatenate([reading()[: 20 * SECOND], silence(12), reading()[20 * SECOND : 40 * SECOND]])
    original = Segmenter(DEFAULT, 300, 2)
    states: list[tuple[int, SegmenterState]] = []
    whole: list[Event] = []
    for begin in range(0, len(samples), 1000):
        for event in original.feed(samples[begin : begin + 1000]):
            if isinstance(event, Resting):
                states.append((len(whole), event.state))
            whole.append(event)
    assert states
    for count, state in states:
        restored = Segmenter.restored(DEFAULT, 300, 2, state)
        fed = state.heard + len(state.unheard) // 4
        events = restored.feed(samples[fed:])
        assert boundaries(events) == boundaries(whole[count:])


def boundaries(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, Opened | Closed)]
