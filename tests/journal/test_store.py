"""The journal's file: what it keeps, finds and removes, and files it did not write."""

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from stenod.events import (
    Commit,
    Discarded,
    Ended,
    Final,
    Numbered,
    SessionStarted,
    SpeechEnded,
    SpeechStarted,
    Word,
    decode,
    encode,
)
from stenod.journal import schema
from stenod.journal import store as store_module
from stenod.journal.reader import Reader
from stenod.journal.schema import FILE_NAME, MIGRATIONS, JournalError
from stenod.journal.store import Store, Told

WORDS = (Word("Good", 1.0, 1.2, 0.9), Word("morning,", 1.2, 1.8, 0.8), Word("Zoë.", 1.9, 2.3, 0.7))


def conversation(
    session: str = "a1", text: str = "Good morning, Zoë.", channel: str | None = "room"
) -> list[Told]:
    """A session with one utterance, each event told a second after the one before, from 1000 on."""
    events: list[Numbered] = [
        SessionStarted(session, 1, model="m", started_at=1000.0, channel=channel),
        SpeechStarted(session, 2, utterance=1, start=1.0),
        Commit(session, 3, utterance=1, text=text[:4]),
        SpeechEnded(session, 4, utterance=1, end=2.5, reason="silence"),
        Commit(session, 5, utterance=1, text=text[4:]),
        Final(session, 6, utterance=1, start=1.0, end=2.5, text=text, language="en", confidence=0.8),
        Ended(session, 7, reason="finished", audio_s=4.0, utterances=1),
    ]
    heard = {3: WORDS[:1], 5: WORDS[1:], 6: WORDS}
    return [Told(event, encode(event), 1000.0 + event.seq, heard.get(event.seq, ())) for event in events]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


@pytest.fixture
def reader(store: Store, tmp_path: Path) -> Reader:
    return Reader.open(tmp_path)


def after(reader: Reader, session: str, seq: int, limit: int = 100) -> list[tuple[str, int]] | None:
    found = reader.events_after("room", session, seq, limit)
    if found is None:
        return None
    events = [decode(json) for json in found]
    return [(event.session, event.seq) for event in events if isinstance(event, Numbered)]


def test_a_session_is_found_again_with_its_words(store: Store, reader: Reader):
    store.write(conversation())
    [session] = reader.sessions()
    assert session[:3] == ("a1", "room", "m")
    assert (session.ended_at, session.reason, session.audio_s, session.utterances) == (
        1007.0,
        "finished",
        4.0,
        1,
    )
    [utterance] = reader.utterances("a1")
    assert (utterance.text, utterance.start, utterance.end) == ("Good morning, Zoë.", 1.0, 2.5)
    assert (utterance.language, utterance.confidence) == ("en", 0.8)
    assert tuple(reader.words(utterance)) == WORDS


def test_what_is_written_twice_is_kept_once(store: Store, reader: Reader):
    store.write(conversation())
    store.write(conversation())
    assert after(reader, "a1", 0) == [("a1", seq) for seq in range(1, 8)]
    assert len(reader.words(reader.utterances("a1")[0])) == 3


def test_an_utterance_that_was_cut_off_shows_what_was_committed(store: Store, reader: Reader):
    store.write(conversation()[:3])
    [utterance] = reader.utterances("a1")
    assert (utterance.text, utterance.end) == ("Good", None)
    assert tuple(reader.words(utterance)) == WORDS[:1]


def test_what_is_discarded_is_not_shown(store: Store, reader: Reader):
    discarded = Discarded("a1", 5, utterance=1, reason="client")
    store.write([*conversation()[:4], Told(discarded, encode(discarded), 1005.0)])
    assert reader.utterances("a1") == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("morning", 1),
        ("MORN", 1),
        ("zoe", 1),
        ("good morn", 1),
        ("evening", 0),
        ("", 0),
        ('"', 0),
        ("mor ning", 0),
    ],
)
def test_search(store: Store, reader: Reader, wanted: str, found: int):
    store.write(conversation() + conversation("b2", "Nothing of that."))
    assert [one.session for one in reader.search(wanted, 10)] == ["a1"] * found


@pytest.mark.parametrize("wanted", ["NEAR(", "a AND", "text:x", "*", "^", "日本"])
def test_no_search_text_is_a_syntax_error(store: Store, reader: Reader, wanted: str):
    store.write(conversation())
    assert reader.search(wanted, 10) == []


def test_a_cursor_brings_what_follows_also_of_later_sessions_of_the_channel(store: Store, reader: Reader):
    store.write(conversation("a1") + conversation("x9", channel="elsewhere") + conversation("b2"))
    assert after(reader, "a1", 5) == [("a1", 6), ("a1", 7), *(("b2", seq) for seq in range(1, 8))]
    assert after(reader, "a1", 5, limit=3) == [("a1", 6), ("a1", 7), ("b2", 1)]
    assert after(reader, "b2", 7) == []


def test_a_cursor_of_another_channel_or_of_nowhere_is_unknown(store: Store, reader: Reader):
    store.write(conversation("x9", channel="elsewhere"))
    assert after(reader, "x9", 1) is None
    assert after(reader, "a1", 1) is None


def test_a_session_is_found_by_the_beginning_of_its_name_or_as_the_last(store: Store, reader: Reader):
    store.write(conversation("aa1") + conversation("ab2"))
    assert reader.find_session("ab").id == reader.find_session("last").id == "ab2"
    with pytest.raises(JournalError, match="several"):
        reader.find_session("a")
    for unknown in ("c", "", "aa12"):
        with pytest.raises(JournalError, match="history list"):
            reader.find_session(unknown)


def test_what_is_too_old_is_removed_whole_utterances_at_a_time(store: Store, reader: Reader):
    store.write(conversation("old"))
    store.write([Told(told.event, told.json, told.at + 1000, told.words) for told in conversation("new")])
    while store.remove_old(1500.0, None):
        pass
    assert [session.id for session in reader.sessions()] == ["new"]
    assert [one.session for one in reader.search("morning", 10)] == ["new"]
    assert after(reader, "old", 0) is None


def test_a_session_that_goes_on_loses_its_oldest_utterances_alone(store: Store, reader: Reader):
    store.write(conversation()[:6])
    recent = SpeechStarted("a1", 7, utterance=2, start=9.0)
    store.write([Told(recent, encode(recent), 3000.0)])
    while store.remove_old(2000.0, None):
        pass
    assert after(reader, "a1", 0) == [("a1", 1), ("a1", 7)]
    assert reader.utterances("a1") == []


def test_beyond_its_size_the_oldest_is_removed_and_the_file_shrinks(
    store: Store, reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(store_module, "REMOVED_AT_ONCE", 5)
    for number in range(200):
        store.write(conversation(f"s{number:03}", "Good morning, " + 5000 * "x"))
    size = (tmp_path / FILE_NAME).stat().st_size
    while store.remove_old(None, 1_000_000):
        pass
    kept = [session.id for session in reader.sessions()]
    assert 0 < len(kept) < 200
    assert kept == [f"s{number:03}" for number in range(200 - len(kept), 200)]
    reader.close()
    store.close()
    assert (tmp_path / FILE_NAME).stat().st_size < min(1_100_000, size)


def test_nothing_is_removed_that_is_neither_old_nor_too_much(store: Store, reader: Reader):
    store.write(conversation())
    assert not store.remove_old(500.0, 10_000_000)
    assert not store.remove_old(None, None)
    assert len(reader.sessions()) == 1


def test_a_journal_has_one_writer_and_many_readers(store: Store, tmp_path: Path):
    with pytest.raises(JournalError, match="another daemon"):
        Store.open(tmp_path)
    store.write(conversation())
    reader = Reader.open(tmp_path)
    assert len(reader.sessions()) == 1
    store.close()
    Store.open(tmp_path).close()


def test_nobody_else_may_read_it(store: Store, tmp_path: Path):
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


def test_a_batch_is_kept_whole_or_not_at_all(store: Store, reader: Reader, tmp_path: Path):
    broken = Told(SpeechStarted("a1", 8, utterance=1, start=1.0), b"{}", 0.0)  # a second utterance 1
    with pytest.raises(sqlite3.IntegrityError):
        store.write([*conversation(), broken])
    assert reader.sessions() == []
    store.write(conversation())
    assert len(reader.sessions()) == 1


def test_without_a_journal_a_reader_is_told_so(tmp_path: Path):
    with pytest.raises(JournalError, match="no journal yet"):
        Reader.open(tmp_path)


def test_a_damaged_file_is_kept_aside_and_a_new_one_begun(tmp_path: Path):
    (tmp_path / FILE_NAME).write_bytes(b"this is no database at all" * 100)
    Store.open(tmp_path).write(conversation())
    [aside] = tmp_path.glob(f"{FILE_NAME}.damaged-*")
    assert aside.read_bytes().startswith(b"this is no database")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path):
    other = sqlite3.connect(tmp_path / FILE_NAME)
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    with pytest.raises(JournalError, match="another program"):
        Store.open(tmp_path)


def test_a_journal_of_a_later_version_is_left_alone(store: Store, tmp_path: Path):
    store.close()
    later = sqlite3.connect(tmp_path / FILE_NAME)
    later.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    later.commit()
    for opening in (Store.open, Reader.open):
        with pytest.raises(JournalError, match="version"):
            opening(tmp_path)


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_journal_of_every_earlier_version_is_brought_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
):
    monkeypatch.setattr(schema, "MIGRATIONS", MIGRATIONS[:version])
    old = Store.open(tmp_path)
    if version == len(MIGRATIONS):
        old.write(conversation())
    old.close()
    monkeypatch.setattr(schema, "MIGRATIONS", MIGRATIONS)
    new = Store.open(tmp_path)
    new.write(conversation())
    assert Reader.open(tmp_path).utterances("a1")[0].text == "Good morning, Zoë."


WRITE_AND_DIE = """
import os, sys
from pathlib import Path
from tests.journal.test_store import conversation
from stenod.journal.store import Store
store = Store.open(Path(sys.argv[1]))
for number in range(20):
    store.write(conversation(f"s{number}"))
os.kill(os.getpid(), 9)
"""


def test_a_killed_process_keeps_all_that_was_written(tmp_path: Path):
    died = subprocess.run(
        [sys.executable, "-c", WRITE_AND_DIE, str(tmp_path)], capture_output=True, text=True
    )
    assert died.returncode == -9, died.stderr
    Store.open(tmp_path).close()
    assert len(Reader.open(tmp_path).sessions()) == 20
    assert integrity(tmp_path) == ["ok"]


def integrity(folder: Path) -> Sequence[str]:
    database = sqlite3.connect(folder / FILE_NAME)
    return [row[0] for row in database.execute("PRAGMA integrity_check")]
