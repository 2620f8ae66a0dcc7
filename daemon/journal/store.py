"""The journal's file, to write: what is put into it, and in time removed. Every call blocks.

One process writes it, which holds the lock beside it; any number may read it at the same time.
"""

import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .. import events
from .schema import FILE_NAME, ForeignFile, JournalError, NewerJournal, connect, migrate

logger = logging.getLogger(__name__)

LOCK_NAME = "journal.lock"
BEHIND, NOT_BEHIND = b"1", b"0"
"""What the lock's file says: whether more was told than the journal holds."""
WAL_BYTES = 4 << 20
"""Size that the write-ahead log is cut to when its content has gone into the file."""
REMOVED_AT_ONCE = 50
"""Utterances that are removed before whoever waits to write gets a turn."""


@dataclass(frozen=True)
class Told:
    """A numbered event as it is kept."""

    event: events.Numbered
    json: bytes
    at: float
    """Wall-clock time, seconds since the epoch."""
    words: Sequence[events.Word] = ()
    """Of a ``commit`` or ``final``, also where the event itself has none."""
    token: bytes | None = None
    """Of ``session_started``: digest of what its sender resumes it with."""
    frames: int | None = None
    """Of ``ended``: what was received, at the declared rate."""


class Store:
    """A journal's file, open. Used by one thread at a time."""

    def __init__(self, path: Path, database: sqlite3.Connection, lock: int) -> None:
        self._path = path
        self._database = database
        self._lock = lock
        self._keys: dict[str, int] = {}
        """Of sessions that are written to: their ``sessions.key``."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Opens the journal to write, makes it if need be, and brings it to this version.

        Raises ``JournalError`` where another process has it or a later version made it; ``OSError`` and
        ``sqlite3.Error`` where the disk does not let us.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / FILE_NAME
        lock = _lock(folder / LOCK_NAME)
        try:
            return cls(path, _open_or_replace(path), lock)
        except (NewerJournal, ForeignFile) as error:
            os.close(lock)
            raise JournalError(f"{path}: {error}; choose another journal.folder") from error
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def open_first(cls, folder: Path) -> Self:
        """As ``open``, for the first time in this process.

        Sessions of the process before that told more than is kept are marked incomplete.
        """
        store = cls.open(folder)
        try:
            if store.behind:
                with store._transaction():
                    store._database.execute("UPDATE sessions SET incomplete = 1 WHERE ended_at IS NULL")
                store.behind = False
        except BaseException:
            store.close()
            raise
        return store

    @property
    def behind(self) -> bool:
        """Whether more was told than is kept. It outlives the process, and needs no room on the disk."""
        return os.pread(self._lock, 1, 0) == BEHIND

    @behind.setter
    def behind(self, value: bool) -> None:
        if value != self.behind:
            os.pwrite(self._lock, BEHIND if value else NOT_BEHIND, 0)

    def close(self) -> None:
        """Gives the file back."""
        self._database.close()
        os.close(self._lock)

    def write(self, batch: Sequence[Told]) -> None:
        """Keeps a batch, all of it or nothing. What was kept before is passed over."""
        if not batch:
            return
        with self._transaction():
            for told in batch:
                self._write(told)

    def sync(self) -> None:
        """What was written so far survives a power cut. Raises ``OSError`` if the file was taken away."""
        self._path.stat()  # SQLite does not notice, and goes on with a file that nobody can find
        self._database.execute("PRAGMA synchronous = FULL")
        try:
            with self._transaction():
                self._database.execute(f"PRAGMA user_version = {self._version()}")
        finally:
            self._database.execute("PRAGMA synchronous = NORMAL")

    def mark_incomplete(self, sessions: Sequence[str]) -> None:
        """Some events of these sessions could not be kept."""
        with self._transaction():
            self._database.executemany(
                "UPDATE sessions SET incomplete = 1 WHERE id = ?", [(session,) for session in sessions]
            )

    def remove_old(self, before: float | None, most_bytes: float | None) -> bool:
        """Removes some of what was told ``before`` a moment, or is too much; True: there may be more.

        The oldest goes first, whole utterances at a time, and sessions of which nothing is left.
        """
        too_large = most_bytes is not None and self._used_bytes() > most_bytes
        limit = float("inf") if too_large else (before if before is not None else float("-inf"))
        with self._transaction():
            removed = self._remove_utterances(limit) + self._remove_sessions(limit)
        self._database.executescript("PRAGMA incremental_vacuum")  # ``execute`` would free a single page
        return removed > 0

    def _write(self, told: Told) -> None:
        event = told.event
        if isinstance(event, events.SessionStarted):
            self._database.execute(
                "INSERT OR IGNORE INTO sessions (id, channel, model, language, started_at, token) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (event.session, event.channel, event.model, event.language, event.started_at, told.token),
            )
        session = self._key(event.session)
        if session is None:
            return  # its beginning was lost or is removed: the rest makes no sense alone
        kept = self._database.execute(
            "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?)", (session, event.seq, told.at, told.json)
        )
        if not kept.rowcount:
            return
        match event:
            case events.SpeechStarted(seq=seq, utterance=number, start=start):
                self._add_utterance(session, number, start, told.at, seq)
            case events.Commit(seq=seq, utterance=number, text=text):
                key = self._utterance(session, number)
                if key is not None:
                    self._database.execute(
                        "UPDATE utterances SET text = text || ?, last_seq = ? WHERE key = ?", (text, seq, key)
                    )
                    self._add_words(key, told.words)
            case events.Final():
                self._conclude(session, event, told)
            case events.Discarded(utterance=number):
                key = self._utterance(session, number)
                self._database.execute("DELETE FROM words WHERE utterance = ?", (key,))
                self._database.execute("DELETE FROM utterances WHERE key = ?", (key,))
            case events.Ended(reason=reason, audio_s=audio_s):
                self._database.execute(
                    "UPDATE sessions SET ended_at = ?, reason = ?, audio_s = ?, frames = ? WHERE key = ?",
                    (told.at, reason, audio_s, told.frames, session),
                )
                self._keys.pop(event.session, None)

    def _conclude(self, session: int, final: events.Final, told: Told) -> None:
        key = self._utterance(session, final.utterance)
        if key is None:  # its beginning could not be kept
            key = self._add_utterance(session, final.utterance, final.start, told.at, final.seq)
        self._database.execute(
            "UPDATE utterances SET end = ?, language = ?, confidence = ?, text = ?, told_at = ?, "
            "last_seq = ? WHERE key = ?",
            (final.end, final.language, final.confidence, final.text, told.at, final.seq, key),
        )
        self._database.execute("DELETE FROM words WHERE utterance = ?", (key,))
        self._add_words(key, told.words)
        self._database.execute("INSERT INTO spoken (rowid, text) VALUES (?, ?)", (key, final.text))

    def _add_words(self, utterance: int, words: Sequence[events.Word]) -> None:
        [before] = self._row("SELECT count(*) FROM words WHERE utterance = ?", utterance)
        self._database.executemany(
            "INSERT INTO words VALUES (?, ?, ?, ?, ?, ?)",
            [
                (utterance, number, word.text, word.start, word.end, word.confidence)
                for number, word in enumerate(words, before)
            ],
        )

    def _key(self, session: str) -> int | None:
        if session not in self._keys:
            row = self._database.execute("SELECT key FROM sessions WHERE id = ?", (session,)).fetchone()
            if row is None:
                return None
            self._keys[session] = row[0]
        return self._keys[session]

    def _add_utterance(self, session: int, number: int, start: float, at: float, seq: int) -> int:
        added = self._database.execute(
            "INSERT INTO utterances (session, utterance, start, told_at, last_seq) VALUES (?, ?, ?, ?, ?)",
            (session, number, start, at, seq),
        )
        assert added.lastrowid is not None
        return added.lastrowid

    def _utterance(self, session: int, number: int) -> int | None:
        found = self._database.execute(
            "SELECT key FROM utterances WHERE session = ? AND utterance = ?", (session, number)
        ).fetchone()
        return None if found is None else int(found[0])

    def _remove_utterances(self, before: float) -> int:
        oldest = self._database.execute(
            "SELECT key, session, last_seq, told_at FROM utterances WHERE end IS NOT NULL "
            "ORDER BY key LIMIT ?",
            (REMOVED_AT_ONCE,),
        ).fetchall()
        old = [(key, session, last_seq) for key, session, last_seq, told_at in oldest if told_at < before]
        for key, session, last_seq in old:
            self._database.execute("DELETE FROM words WHERE utterance = ?", (key,))
            self._database.execute("DELETE FROM spoken WHERE rowid = ?", (key,))
            self._database.execute("DELETE FROM utterances WHERE key = ?", (key,))
            self._database.execute(
                "DELETE FROM events WHERE session = ? AND seq BETWEEN 2 AND ?", (session, last_seq)
            )
        return len(old)

    def _remove_sessions(self, before: float) -> int:
        old = self._database.execute(
            "SELECT key, id FROM sessions WHERE ended_at < ? "
            "AND NOT EXISTS (SELECT 1 FROM utterances WHERE session = sessions.key AND end IS NOT NULL) "
            "ORDER BY key LIMIT ?",
            (before, REMOVED_AT_ONCE),
        ).fetchall()
        for key, session in old:
            self._database.execute(
                "DELETE FROM words WHERE utterance IN (SELECT key FROM utterances WHERE session = ?)", (key,)
            )
            self._database.execute("DELETE FROM utterances WHERE session = ?", (key,))
            self._database.execute("DELETE FROM events WHERE session = ?", (key,))
            self._database.execute("DELETE FROM sessions WHERE key = ?", (key,))
            self._keys.pop(session, None)
        return len(old)

    def _used_bytes(self) -> int:
        [pages] = self._row("PRAGMA page_count")
        [free] = self._row("PRAGMA freelist_count")
        [size] = self._row("PRAGMA page_size")
        return int((pages - free) * size)

    def _version(self) -> int:
        [version] = self._row("PRAGMA user_version")
        return int(version)

    def _row(self, statement: str, *parameters: object) -> tuple[int, ...]:
        row: tuple[int, ...] = self._database.execute(statement, parameters).fetchone()
        return row

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            self._keys.clear()
            with suppress(sqlite3.Error):  # after some failures SQLite has rolled back itself
                self._database.execute("ROLLBACK")
            raise


def _open_or_replace(path: Path) -> sqlite3.Connection:
    """Opens the file; one that is damaged is kept under another name, and an empty one takes its place."""
    try:
        return _open(path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        logger.error("%s: %s; it is kept as %s, and a new one begins", path, error, aside.name)
        path.rename(aside)
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        return _open(path)


def _open(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)
    database = connect(path)
    try:
        migrate(database)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
    except BaseException:
        database.close()
        raise
    return database


def _lock(path: Path) -> int:
    """Takes the lock, for as long as the descriptor is open. Raises ``JournalError`` if another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(descriptor).st_size:
            os.pwrite(descriptor, NOT_BEHIND, 0)  # takes the room now, while there is some
    except BlockingIOError as error:
        os.close(descriptor)
        raise JournalError(
            f"journal.folder: another daemon keeps its journal in {path.parent}: give this one a folder of "
            "its own, or set journal.enabled to false"
        ) from error
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
