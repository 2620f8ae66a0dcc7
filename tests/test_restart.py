"""A session outlives its daemon: what a killed one leaves on disk is enough to go on without a hole.

The files are copied while a session is in the middle of something: that is what a killed process leaves.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import soxr
from stenod import settings
from stenod.audio.pcm import AudioFormat
from stenod.channel import Cursor
from stenod.engine import Engine
from stenod.events import Commit, Ended, Event, Final, Gap, Numbered, Snapshot, SpeechStarted, decode
from stenod.hub import Hub
from stenod.journal import Journal, Reader
from stenod.journal.logs import Logs
from stenod.journal.store import Store, Told
from stenod.restart import take_up_sessions
from stenod.session import Session

from .streams import (
    SAID,
    SILENCE,
    clip,
    committed,
    contexts_given,
    events_until,
    finals,
    hub_on,
    numbered,
    pcm,
    plain,
)
from .test_replay import read
from .test_session import assert_in_order

TOKEN = "chosen by the sender"
MOMENTS = (1, 3, 4, 7, 9)
SPEECH = np.concatenate([clip(), clip("en_read/jfk.flac")])
"""Two utterances and more: 15 s."""


@asynccontextmanager
async def daemon_on(engine: Engine, folder: Path) -> AsyncIterator[Hub]:
    """A hub that keeps its journal in a folder, and has taken up what it found there."""
    journal = await Journal.open(settings.Journal(folder=folder))
    try:
        async with hub_on(engine, journal=journal) as hub:
            await take_up_sessions(hub)
            yield hub
    finally:
        await journal.close()


async def settled(hub: Hub, session: Session) -> None:
    """Returns when the disk has all that was told and asked so far."""
    assert hub.journal is not None
    assert session.keep() <= session.received_frames
    while hub.journal.waiting:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


@dataclass
class Killed:
    """What a daemon left behind, and what it would have told."""

    folder: Path
    before: list[Numbered]
    undisturbed: list[Numbered]


async def speak(
    engine: Engine, folder: Path, moments: Sequence[int], data: bytes, audio: AudioFormat
) -> dict[int, Killed]:
    """One session, and its disk after so many numbered events."""
    told: list[Numbered] = []
    killed = {events: Killed(folder.with_name(f"copy-{events}"), [], told) for events in moments}
    async with daemon_on(engine, folder) as hub:
        session = await hub.open(audio, replace(hub.defaults, language="en"), "room")
        session.issue_token(TOKEN)
        sender = session.attach_sender()
        hub.start(session)
        feeding = asyncio.create_task(feed(session, data))
        async for publication in sender:
            if isinstance(publication.event, Numbered):
                told.append(publication.event)
                if len(told) in killed:
                    await settled(hub, session)
                    killed[len(told)].before = list(told)
                    shutil.copytree(folder, killed[len(told)].folder)
            if isinstance(publication.event, Ended):
                break
        await feeding
    return killed


@pytest.fixture(scope="module")
def all_killed(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Killed]:
    """One session, and its disk after so many numbered events."""
    folder = tmp_path_factory.mktemp("journal")
    return asyncio.run(speak(engine, folder, MOMENTS, pcm(SPEECH), AudioFormat()))


@pytest.fixture
def killed(all_killed: dict[int, Killed], request: pytest.FixtureRequest, tmp_path: Path) -> Killed:
    """After so many events as the test's parameter says."""
    one = all_killed[request.param]
    return replace(one, folder=Path(shutil.copytree(one.folder, tmp_path / "journal")))


def after(*events: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("killed", events, indirect=True)


async def feed(session: Session, data: bytes, start: int = 0, step: int = 6400) -> None:
    for position in range(start, len(data), step):
        await session.feed(data[position : position + step])
        await asyncio.sleep(0.01)
    session.finish()


def kept(folder: Path, session: str) -> list[Numbered]:
    return numbered([decode(json) for json in Reader.open(folder).session_events(session, 0)])


def without_confidence(events: Sequence[Numbered]) -> list[Event]:
    return [replace_confidence(event) for event in events]


def replace_confidence(event: Event) -> Event:
    return Final(**{**vars_of(event), "confidence": 0.0}) if isinstance(event, Final) else event


def vars_of(event: Event) -> dict[str, object]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


@after(*MOMENTS)
async def test_what_is_told_is_as_if_nothing_had_happened(engine: Engine, killed: Killed):
    """field-failures: after a drop a client resumes: no gap, no duplicate. Here the daemon dropped."""
    async with daemon_on(engine, killed.folder) as hub:
        [session] = hub.sessions.values()
        reader = session.channel.attach()
        await feed(session, pcm(SPEECH), 2 * session.realign())
        later = numbered(await events_until(reader))
    disk = kept(killed.folder, session.id)
    assert disk[: len(killed.before)] == killed.before
    assert [event.seq for event in disk] == list(range(1, len(disk) + 1))
    assert without_confidence(disk) == without_confidence(killed.undisturbed)
    # Nobody was told anything twice: what came after is what was not told before.
    assert later == disk[-len(later) :]
    assert later[0].seq > killed.before[-1].seq


async def test_audio_at_another_rate_goes_on_to_the_sample(engine: Engine, tmp_path: Path):
    """What the resampler held back when the daemon was killed is asked for again, and nothing else."""
    rate = 44100
    data = pcm(soxr.resample(clip(), 16000, rate))
    [one] = (await speak(engine, tmp_path / "journal", [3], data, AudioFormat("s16le", rate))).values()
    async with daemon_on(engine, one.folder) as hub:
        [session] = hub.sessions.values()
        await feed(session, data, 2 * session.realign(), step=4410)
        await hub.ended(session)
    assert without_confidence(kept(one.folder, session.id)) == without_confidence(one.undisturbed)
    assert plain(finals(one.undisturbed)[0].text) == SAID


async def test_the_open_utterance_is_heard_with_the_end_of_the_one_before(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given = contexts_given(monkeypatch)
    data = pcm(np.concatenate([SPEECH, SILENCE, clip()]))
    copies = await speak(engine, tmp_path / "journal", range(5, 25), data, AudioFormat())
    undisturbed = given.copy()
    given.clear()
    [one] = [copy for copy in copies.values() if copy.before and said_last(copy) == (SpeechStarted, 3)]
    async with daemon_on(engine, one.folder) as hub:
        [session] = hub.sessions.values()
        await feed(session, data, 2 * session.realign())
        await hub.ended(session)
    assert len(given) == 1, "its log begins behind the second utterance"
    assert given == undisturbed[2:]
    assert given[0] is not None


def said_last(copy: Killed) -> tuple[type[Event], int]:
    return type(copy.before[-1]), getattr(copy.before[-1], "utterance", 0)


@after(4)
async def test_audio_that_was_lost_with_the_daemon_is_a_gap(engine: Engine, killed: Killed):
    """Its sender does not have it any more."""
    async with daemon_on(engine, killed.folder) as hub:
        [session] = hub.sessions.values()
        lost_from = session.realign()
        await session.feed(b"")
        session.gap(8000)
        await session.feed(bytes(3200))
        session.gap(16000)
        session.finish()
        await hub.ended(session)
    gaps = [event for event in kept(killed.folder, session.id) if isinstance(event, Gap)]
    assert [(gap.start, gap.end, gap.reason) for gap in gaps] == [
        (lost_from / 16000, (lost_from + 8000) / 16000, "restart"),
        ((lost_from + 9600) / 16000, (lost_from + 25600) / 16000, "client"),
    ]


@after(4)
async def test_a_sender_that_does_not_come_back_loses_nothing_that_was_accepted(
    engine: Engine, killed: Killed
):
    async with daemon_on(engine, killed.folder) as hub:
        [session] = hub.sessions.values()
        session.finish("expired")
        await hub.ended(session)
    disk = kept(killed.folder, session.id)
    assert_in_order(disk)
    assert disk[: len(killed.before)] == killed.before
    ended = disk[-1]
    assert isinstance(ended, Ended)
    assert ended.reason == "expired"
    assert finals(disk)[0].text == finals(killed.undisturbed)[0].text


@after(1)
async def test_a_sender_that_was_never_told_its_session_finds_it(engine: Engine, killed: Killed):
    async with daemon_on(engine, killed.folder) as hub:
        [session] = hub.sessions.values()
        assert await hub.opened_with(TOKEN) == session.id
    async with daemon_on(engine, killed.folder) as hub:
        assert not hub.sessions
        assert await hub.opened_with(TOKEN) == session.id
        assert await hub.opened_with("another token") is None
        told = (await hub.resume(session.id, TOKEN, 0)).session
        assert told is None


@after(3)
async def test_a_session_that_nobody_can_resume_is_drained(engine: Engine, killed: Killed):
    """As that of a microphone."""
    async with daemon_on(engine, killed.folder) as hub:
        [session] = hub.sessions.values()
        session.token = None
        hub.departures.wait_for(session)
        await hub.ended(session)
    assert_in_order(kept(killed.folder, session.id))
    assert not Logs(killed.folder).paths()


@after(4)
async def test_without_a_log_what_was_committed_is_the_final_text(engine: Engine, killed: Killed):
    for path in Logs(killed.folder).paths():
        path.write_bytes(b"damaged")
    async with daemon_on(engine, killed.folder) as hub:
        assert not hub.sessions
    disk = kept(killed.folder, killed.before[0].session)
    assert_in_order(disk)
    assert disk[:4] == killed.before
    said = committed(disk, 1)
    assert [final.text for final in finals(disk)] == ([said] if said else [])


async def test_what_was_told_while_the_disk_was_full_is_not_told_otherwise_later(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Full until the daemon stopped: the end of its session was told, but is not kept."""
    folder = tmp_path / "journal"
    write = Store.write

    def write_until_it_is_full(store: Store, batch: Sequence[Told]) -> None:
        write(store, [told for told in batch if told.event.seq < 4])
        if any(told.event.seq >= 4 for told in batch):
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "write", write_until_it_is_full)
    [one] = (await speak(engine, folder, [3], pcm(SPEECH), AudioFormat())).values()
    monkeypatch.undo()
    last = one.undisturbed[-1]
    assert isinstance(last, Ended)
    async with daemon_on(engine, folder) as hub:
        assert not hub.sessions
        room = hub.channel("room")
        assert hub.journal is not None
        [first] = await read(room, hub.journal, Cursor(last.session, last.seq), 1)
        assert isinstance(first, Snapshot)
    disk = kept(folder, last.session)
    assert disk[:3] == one.undisturbed[:3]
    assert_in_order(disk)
    reader = Reader.open(folder)
    [row] = reader.sessions()
    assert (row.reason, row.incomplete) == ("expired", 1)
    assert not Logs(folder).paths()


@after(4, 9)
async def test_where_the_engine_says_something_else_what_was_told_stands(engine: Engine, killed: Killed):
    """As after a change of the model: here the journal has other words than the engine will find."""
    async with daemon_on(engine, killed.folder) as hub:
        [session] = hub.sessions.values()
        told = session._publisher._told_before
        for i, event in enumerate(told):
            if isinstance(event, Commit):
                told[i] = Commit(**{**vars_of(event), "text": "Something else"})
                break
        else:
            pytest.skip("nothing was committed since the checkpoint")
        await feed(session, pcm(SPEECH), 2 * session.realign())
        await hub.ended(session)
    disk = kept(killed.folder, session.id)
    assert_in_order(disk)
    assert disk[: len(killed.before)] == killed.before
    said = " ".join(final.text for final in finals(disk)).lower()
    assert "what you can do for your country" in said
    assert said.count("your country") == 2


async def test_a_log_does_not_grow_with_the_length_of_a_session(engine: Engine, tmp_path: Path):
    async with daemon_on(engine, tmp_path) as hub:
        session = await hub.open(AudioFormat(), hub.defaults, None)
        session.attach_sender()
        hub.start(session)
        largest = 0
        for _ in range(60):
            await session.push(SILENCE)
            await settled(hub, session)
            largest = max(largest, *(path.stat().st_size for path in Logs(tmp_path).paths()), 0)
        session.finish()
        await hub.ended(session)
    assert not Logs(tmp_path).paths()
    assert largest < 25 * 32000


async def test_flushes_gaps_and_changes_are_asked_again(engine: Engine, tmp_path: Path):
    copy = tmp_path / "copy"
    async with daemon_on(engine, tmp_path / "journal") as hub:
        session = await hub.open(AudioFormat(), replace(hub.defaults, language="en"), None)
        session.issue_token()
        sender = session.attach_sender()
        hub.start(session)
        await session.push(clip()[: -len(SILENCE)])
        session.flush("here")
        session.gap(32000)
        session.configure(replace(session.configuration, words=True))
        await session.push(clip()[:16000])
        told = await events_until(sender, Final)
        await settled(hub, session)
        shutil.copytree(tmp_path / "journal", copy)
        await session.push(clip()[16000:])
        session.finish()
        undisturbed = numbered([*told, *await events_until(sender)])
    async with daemon_on(engine, copy) as hub:
        [session] = hub.sessions.values()
        assert session.configuration.words
        await session.push(clip()[16000:])
        session.finish()
        await hub.ended(session)
    assert without_confidence(kept(copy, session.id)) == without_confidence(undisturbed)
    assert finals(undisturbed)[1].words
