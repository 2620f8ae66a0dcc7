"""What is told of an utterance, hypothesis by hypothesis; no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from stenod.channel import Channel
from stenod.events import Commit, Discarded, Event, Final, Partial, SpeechEnded, SpeechStarted, Warning
from stenod.overload import LADDER
from stenod.publisher import Publisher
from stenod.segmenter import Endpointing
from stenod.utterance import Configuration, Utterance

if TYPE_CHECKING:
    from stenod._native import StepResult, Token

CALM, BUSY, SILENT = LADDER[0], LADDER[1], LADDER[-1]
ENDPOINTING = Endpointing(600, 25)


def tokens(text: str) -> list[Token]:
    words = text.split()
    return [
        {"id": i, "text": f" {word}".encode(), "start": i / 2, "end": (i + 1) / 2, "p": 0.9}
        for i, word in enumerate(words)
    ]


def hypothesis(committed: str, tentative: str = "", **fields: Any) -> StepResult:
    result: Any = {
        "committed": tokens(committed),
        "tentative": tokens(tentative),
        "audio_s": 1.0,
        "final": False,
        "no_speech": False,
        "looping": False,
        "end_of_turn": False,
        "language": "en",
        "language_prob": 0.99,
        "avg_logprob": -0.2,
        "no_speech_prob": 0.01,
    }
    return result | fields


class Told:
    """An utterance that starts a second into its session, and what it tells."""

    def __init__(self, **configuration: Any) -> None:
        channel = Channel(None, 100, 100)
        self.subscription = channel.attach()
        chosen = Configuration(endpointing=ENDPOINTING, **configuration)
        self.utterance = Utterance(1, 16000, chosen, Publisher("s", channel))

    def take(self, *results: StepResult, rung: Any = CALM, behind: bool = False) -> None:
        for result in results:
            self.utterance.take(result, rung, behind)

    async def events(self) -> list[Event]:
        self.subscription.close()
        return [publication.event async for publication in self.subscription]


async def test_from_start_to_final():
    told = Told()
    told.take(hypothesis("", "one"))
    told.take(hypothesis("one", "two"))
    told.utterance.end(48000, "silence")
    told.take(hypothesis("two", final=True))
    assert told.utterance.concluded
    assert await told.events() == [
        SpeechStarted("s", 1, utterance=1, start=1.0),
        Commit("s", 2, utterance=1, text="one"),
        SpeechEnded("s", 3, utterance=1, end=3.0, reason="silence"),
        Commit("s", 4, utterance=1, text=" two"),
        Final("s", 5, utterance=1, start=1.0, end=3.0, text="one two", language="en", confidence=0.9),
    ]


async def test_a_partial_is_the_whole_utterance():
    told = Told(words=True)
    told.take(hypothesis("one", "two", audio_s=1.2))
    partial = (await told.events())[-1]
    assert isinstance(partial, Partial)
    assert (partial.committed, partial.tentative) == ("one", " two")
    assert (partial.seq, partial.rev, partial.start, partial.end) == (2, 1, 1.0, 2.2)
    assert partial.words is not None
    assert [(word.text, word.committed) for word in partial.words] == [("one", True), ("two", False)]


async def test_what_looks_the_same_is_not_shown_again():
    told = Told()
    told.take(hypothesis("", "one"), hypothesis("", "one"), hypothesis("", "ones"))
    partials = [event for event in await told.events() if isinstance(event, Partial)]
    assert [partial.rev for partial in partials] == [2]


@pytest.mark.parametrize(
    ("rung", "behind", "shown"),
    [(CALM, True, True), (BUSY, True, False), (BUSY, False, True), (SILENT, False, False)],
)
async def test_partials_go_first_under_load(rung: Any, behind: bool, shown: bool):
    told = Told()
    told.take(hypothesis("one", "two"), rung=rung, behind=behind)
    events = await told.events()
    assert Commit("s", 2, utterance=1, text="one") in events
    assert isinstance(events[-1], Partial) is shown


async def test_without_words_it_is_discarded():
    told = Told()
    told.utterance.end(48000, "silence")
    told.take(hypothesis("", final=True, no_speech=True))
    assert (await told.events())[-1] == Discarded("s", 3, utterance=1, reason="no_words")


async def test_withdrawn_by_its_sender_although_committed():
    told = Told()
    told.take(hypothesis("one"))
    told.utterance.withdraw(32000)
    assert (await told.events())[-2:] == [
        SpeechEnded("s", 3, utterance=1, end=2.0, reason="flush"),
        Discarded("s", 4, utterance=1, reason="client"),
    ]


@pytest.mark.parametrize(("committed", "last"), [("one", Final), ("", Discarded)])
async def test_a_failed_session_keeps_what_was_committed(committed: str, last: type[Event]):
    told = Told()
    told.take(hypothesis(committed, "lost"))
    told.utterance.abandon(32000)
    events = await told.events()
    assert isinstance(events[-1], last)
    assert [type(event) for event in events].count(SpeechEnded) == 1


async def test_warnings_come_once_an_utterance():
    """field-failures: nothing heard for N s of VAD speech: a warning."""
    told = Told()
    told.take(*[hypothesis("", looping=True, audio_s=11.0)] * 3)
    codes = [event.code for event in await told.events() if isinstance(event, Warning)]
    assert codes == ["no_words_in_speech", "looping"]


@pytest.mark.parametrize(("last", "codes"), [(False, []), (True, ["looping"])])
async def test_one_tentative_tail_that_loops_is_not_worth_a_warning(last: bool, codes: list[str]):
    told = Told()
    told.take(hypothesis("", looping=True), hypothesis(""))
    told.utterance.end(48000, "silence")
    told.take(hypothesis("one", looping=last, final=True))
    assert [event.code for event in await told.events() if isinstance(event, Warning)] == codes


@pytest.mark.parametrize(
    ("end", "language_prob", "certain"), [(80000, 0.99, "de"), (80000, 0.5, None), (32000, 0.99, None)]
)
def test_a_language_is_certain_after_enough_speech(end: int, language_prob: float, certain: str | None):
    told = Told()
    told.utterance.end(end, "silence")
    told.take(hypothesis("eins zwei", language="de", language_prob=language_prob, final=True))
    assert told.utterance.certain_language == certain
