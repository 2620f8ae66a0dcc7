"""The journal as the loop uses it: kept before told, never waiting for a disk."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from stenod import settings
from stenod.engine import Engine
from stenod.events import Event, Numbered, Warning, decode
from stenod.journal import Journal, journaling, writer
from stenod.journal import journal as loop_side
from stenod.journal.reader import Reader
from stenod.journal.schema import FILE_NAME, JournalError
from stenod.journal.store import BEHIND, NOT_BEHIND, Store, Told
from stenod.publication import Publication

from ..streams import clip, finals, hub_on, numbered, transcribe
from .test_store import after, conversation

EVENTS = [told.event for told in conversation()]


@pytest.fixture
def chosen(tmp_path: Path) -> settings.Journal:
    return settings.Journal(folder=tmp_path / "kept")


@pytest_asyncio.fixture
async def opened(chosen: settings.Journal) -> AsyncIterator[Journal]:
    opened = await Journal.open(chosen)
    yield opened
    await opened.close()


async def keep(journal: Journal, events: Sequence[Numbered] = EVENTS) -> None:
    """Hands events over, and returns when all are confirmed."""
    confirmed: list[int] = []
    done = asyncio.Event()

    def then(number: int) -> None:
        confirmed.append(number)
        if len(confirmed) == len(events):
            done.set()

    for number, event in enumerate(events):
        journal.keep(Publication(event), lambda number=number: then(number))
    await done.wait()
    assert confirmed == list(range(len(events)))


def kept(chosen: settings.Journal) -> list[int]:
    found = after(Reader.open(chosen.place), "a1", 0)
    return [seq for _, seq in found or []]


async def until(happened: Callable[[], bool]) -> None:
    """What the writer's thread does, the loop is not told of."""
    while not happened():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_what_is_confirmed_is_in_the_file(opened: Journal, chosen: settings.Journal):
    await keep(opened)
    assert kept(chosen) == list(range(1, 8))
    assert not opened.failed


async def test_closing_writes_what_waits(chosen: settings.Journal):
    async with journaling(chosen) as opened:
        assert opened is not None
        for event in EVENTS:
            opened.keep(Publication(event), lambda: None)
    assert kept(chosen) == list(range(1, 8))


async def test_no_journal_where_none_is_wanted(tmp_path: Path):
    async with journaling(settings.Journal(enabled=False, folder=tmp_path / "none")) as opened:
        assert opened is None
    assert not (tmp_path / "none").exists()


async def test_a_folder_in_use_is_refused(opened: Journal, chosen: settings.Journal):
    with pytest.raises(JournalError, match=r"journal\.folder"):
        await Journal.open(chosen)


async def test_a_disk_that_cannot_be_opened_stops_nothing_and_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("a folder cannot be here")
    broken = await Journal.open(settings.Journal(folder=tmp_path / "file"))
    assert (broken.failed, broken.failures) == (True, 1)
    await keep(broken)
    await broken.close()


async def test_a_full_disk_stops_nothing_is_told_once_and_what_waited_is_kept_when_there_is_room(
    opened: Journal, chosen: settings.Journal, monkeypatch: pytest.MonkeyPatch
):
    """field-failures: a full disk is told and does not stop what is said."""
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    told: list[str] = []
    opened.on_failure = told.append
    await keep(opened, EVENTS[:2])
    full = threading.Event()
    full.set()
    write = Store.write

    def write_if_there_is_room(store: Store, batch: Sequence[Told]) -> None:
        if full.is_set():
            # What SQLite itself says of a file that may not grow.
            [pages] = store._database.execute("PRAGMA page_count").fetchone()
            store._database.execute(f"PRAGMA max_page_count = {pages}")
            batch = [Told(one.event, one.json + 100_000 * b" ", one.at, one.words) for one in batch]
        write(store, batch)

    monkeypatch.setattr(Store, "write", write_if_there_is_room)
    await keep(opened, EVENTS[2:5])
    await keep(opened, EVENTS[5:])
    assert opened.failed
    [failure] = told
    assert "full" in failure
    behind = chosen.place / "journal.lock"
    assert behind.read_bytes() == BEHIND
    full.clear()
    await until(lambda: not (opened.failed))
    assert kept(chosen) == list(range(1, 8))
    assert opened.lost == 0
    await until(lambda: behind.read_bytes() == NOT_BEHIND)


async def test_sessions_of_a_process_that_told_more_than_it_kept_are_marked(chosen: settings.Journal):
    store = Store.open(chosen.place)
    store.write([told for told in conversation() if told.event.seq < 5])
    store.write(conversation("b2"))
    store.behind = True
    store.close()
    for _ in range(2):
        opened = await Journal.open(chosen.model_copy(update={"keep_days": 0}))
        assert await opened.read(lambda reader: reader.unfinished()) == {"a1": False}
        assert [row.incomplete for row in await opened.read(Reader.sessions)] == [1, 0]
        await opened.close()


async def test_a_disk_that_does_not_answer_stops_nothing(
    opened: Journal, chosen: settings.Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loop_side, "STUCK_S", 0.05)
    answers = threading.Event()
    write = Store.write

    def write_late(store: Store, batch: Sequence[Told]) -> None:
        answers.wait()
        write(store, batch)

    monkeypatch.setattr(Store, "write", write_late)
    await keep(opened)
    assert opened.failed
    answers.set()
    await until(lambda: not (opened.failed))
    assert kept(chosen) == list(range(1, 8))


async def test_what_waits_is_bounded_and_what_is_lost_is_counted_and_marked(
    opened: Journal, chosen: settings.Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loop_side, "STUCK_S", 0.05)
    monkeypatch.setattr(writer, "MOST_WAITING", 3)
    answers = threading.Event()
    write = Store.write

    def write_late(store: Store, batch: Sequence[Told]) -> None:
        answers.wait()
        write(store, batch)

    monkeypatch.setattr(Store, "write", write_late)
    await keep(opened)
    assert opened.lost == len(EVENTS) - 3
    answers.set()
    await until(lambda: not (opened.failed))
    await opened.close()
    assert kept(chosen) == [1, 2, 3]
    [session] = Reader.open(chosen.place).sessions()
    assert session.incomplete


async def test_an_event_that_cannot_be_written_does_not_block_those_after_it(
    opened: Journal,
    chosen: settings.Journal,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    write = Store.write

    def refuse_the_third(store: Store, batch: Sequence[Told]) -> None:
        if any(told.event.seq == 3 for told in batch):
            raise sqlite3.IntegrityError("a fault")
        write(store, batch)

    monkeypatch.setattr(Store, "write", refuse_the_third)
    for event in EVENTS:
        await keep(opened, [event])
    await until(lambda: not (opened.waiting))
    assert 7 in kept(chosen)
    assert 3 not in kept(chosen)


async def test_a_file_that_is_taken_away_is_noticed_and_another_begun(
    chosen: settings.Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    opened = await Journal.open(chosen.model_copy(update={"sync_s": 0.0}))
    await keep(opened, EVENTS[:1])
    for file in chosen.place.glob(f"{FILE_NAME}*"):
        file.unlink()
    await keep(opened)
    assert opened.failures == 1
    await until(lambda: not opened.failed)
    assert kept(chosen) == list(range(1, 8))
    await opened.close()


@pytest.mark.parametrize(("sync_s", "synced"), [(0.0, True), (3600.0, False)])
async def test_what_a_power_cut_may_take_is_as_the_settings_say(
    chosen: settings.Journal, monkeypatch: pytest.MonkeyPatch, sync_s: float, synced: bool
):
    """With 0, what is confirmed was synced before; else it is synced when the time has come."""
    order: list[str] = []
    sync = Store.sync

    def spy(store: Store) -> None:
        sync(store)
        order.append("synced")

    monkeypatch.setattr(Store, "sync", spy)
    opened = await Journal.open(chosen.model_copy(update={"sync_s": sync_s}))
    await keep(opened)
    assert bool(order) is synced
    await opened.close()


async def test_a_quiet_journal_is_synced_in_time(chosen: settings.Journal, monkeypatch: pytest.MonkeyPatch):
    synced = threading.Event()
    sync = Store.sync

    def spy(store: Store) -> None:
        sync(store)
        synced.set()

    monkeypatch.setattr(Store, "sync", spy)
    opened = await Journal.open(chosen.model_copy(update={"sync_s": 0.05}))
    await keep(opened)
    assert await asyncio.to_thread(synced.wait, 30)
    await opened.close()


async def test_old_things_are_removed_by_the_writer(chosen: settings.Journal):
    async with journaling(chosen) as opened:
        assert opened is not None
        await keep(opened)
    old = Store.open(chosen.place)
    old._database.execute("UPDATE utterances SET told_at = 0")
    old._database.execute("UPDATE sessions SET ended_at = 0")
    old.close()
    opened = await Journal.open(chosen)
    await until(lambda: not (kept(chosen)))
    await opened.close()


async def test_what_a_session_tells_is_kept_before_it_is_told(
    engine: Engine, opened: Journal, chosen: settings.Journal
):
    reader = Reader.open(chosen.place)
    async with hub_on(engine, journal=opened) as hub:
        channel = hub.channel("room")
        publish = channel.publish
        missing: list[Event] = []

        def publish_if_kept(publication: Publication) -> None:
            event = publication.event
            if isinstance(event, Numbered):
                found = reader.events_after("room", event.session, event.seq - 1, 1)
                if not found or decode(found[0]) != event:
                    missing.append(event)
            publish(publication)

        channel.publish = publish_if_kept  # type: ignore[method-assign]
        told = await transcribe(hub, clip(), channel="room")
        assert missing == []
    [final] = finals(told)
    [utterance] = reader.utterances(final.session)
    assert utterance.text == final.text
    assert [word.text for word in reader.words(utterance)] == final.text.split()
    assert [event.seq for event in numbered(told)] == list(range(1, len(numbered(told)) + 1))


async def test_a_broken_disk_is_told_to_whoever_listens_and_captions_go_on(engine: Engine, tmp_path: Path):
    (tmp_path / "file").write_text("a folder cannot be here")
    broken = await Journal.open(settings.Journal(folder=tmp_path / "file"))
    async with hub_on(engine, journal=broken) as hub:
        told = await transcribe(hub, clip())
    assert finals(told)
    assert [event.code for event in told if isinstance(event, Warning)] == ["journal_failed"]
    await broken.close()


async def test_nothing_that_was_said_is_logged(
    engine: Engine, opened: Journal, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    async with hub_on(engine, journal=opened) as hub:
        [final] = finals(await transcribe(hub, clip()))
    assert final.text.split()[2] not in caplog.text
