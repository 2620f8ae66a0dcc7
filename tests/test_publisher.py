"""The order in which a session's events come out."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from stenod.channel import Channel
from stenod.events import Event, Flushed, Numbered, Partial, SpeechStarted, Warning
from stenod.journal import Journal
from stenod.publication import Publication
from stenod.publisher import Publisher


class SlowJournal:
    """Confirms what it is to keep when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def keep(self, publication: Publication, then: Callable[[], None], **beside: object) -> None:
        self.waiting.append(then)

    def confirm(self) -> None:
        self.waiting.pop(0)()


class Told:
    def __init__(self, journal: Any) -> None:
        channel = Channel(None, 100, 100)
        self.reader = channel.attach()
        self.sender = channel.attach()
        self.publisher = Publisher("s", channel, cast(Journal | None, journal))

    def speech(self) -> None:
        self.publisher.tell(SpeechStarted, utterance=1, start=0.0)

    def partial(self, rev: int) -> None:
        self.publisher.show(Partial(1, self.publisher.seq, rev, 0.0, 1.0, "", "a"))

    async def read(self) -> list[Event]:
        self.reader.close()
        return [publication.event async for publication in self.reader]


def brief(events: Sequence[Event]) -> list[object]:
    return [event.seq if isinstance(event, Numbered) else type(event).__name__ for event in events]


async def test_without_a_journal_everything_is_told_at_once():
    told = Told(None)
    told.speech()
    told.partial(1)
    assert brief(await told.read()) == [1, "Partial"]


async def test_nothing_is_told_before_the_journal_has_what_comes_before_it():
    journal = SlowJournal()
    told = Told(journal)
    told.publisher.warn("clipping", "loud")
    told.speech()
    told.partial(1)
    told.speech()
    told.publisher.warn("clipping", "loud")
    journal.confirm()
    assert brief(await told.read()) == ["Warning", 1, "Partial"]


async def test_answers_wait_for_what_was_told_before():
    journal = SlowJournal()
    told = Told(journal)
    told.speech()
    told.publisher.show(Flushed(1), to=told.sender)
    assert [publication.event for publication in told.sender._queue] == []
    journal.confirm()
    told.sender.close()
    assert brief([publication.event async for publication in told.sender]) == [1, "Flushed"]
    assert brief(await told.read()) == [1]


async def test_of_partials_that_wait_the_newest_is_left():
    journal = SlowJournal()
    told = Told(journal)
    told.speech()
    for rev in range(1000):
        told.partial(rev)
    assert len(told.publisher._waiting) == 2
    journal.confirm()
    events = await told.read()
    assert isinstance(events[-1], Partial)
    assert (brief(events), events[-1].rev) == ([1, "Partial"], 999)


async def test_all_is_published_when_it_is_finished():
    journal = SlowJournal()
    told = Told(journal)
    told.speech()
    journal.confirm()
    await told.publisher.finished()
    assert brief(await told.read()) == [1]
    assert not any(isinstance(event, Warning) for event in await told.read())
