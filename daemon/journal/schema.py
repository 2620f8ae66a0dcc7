"""The journal's tables, and how a journal of an older version becomes one of this version.

``PRAGMA user_version`` counts the steps of ``MIGRATIONS`` that a file has been through. A step that was
published is never changed: what is new becomes another step.
"""

import sqlite3
from pathlib import Path

FILE_NAME = "journal.sqlite"
WAIT_S = 5.0
"""How long a statement waits for another process that reads or writes."""
APPLICATION_ID = 0x53544E44
"""Marks the file as ours ("STND"), for ``file`` and for us."""

MIGRATIONS = (
    """
    CREATE TABLE sessions (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        channel TEXT,
        model TEXT NOT NULL,
        language TEXT,
        started_at REAL NOT NULL,
        ended_at REAL,
        reason TEXT,
        audio_s REAL,
        incomplete INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX sessions_by_channel ON sessions (channel, key);
    CREATE TABLE events (
        session INTEGER NOT NULL REFERENCES sessions (key),
        seq INTEGER NOT NULL,
        told_at REAL NOT NULL,
        json BLOB NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
    CREATE TABLE utterances (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES sessions (key),
        utterance INTEGER NOT NULL,
        start REAL NOT NULL,
        end REAL,
        language TEXT,
        confidence REAL,
        text TEXT NOT NULL DEFAULT '',
        told_at REAL NOT NULL,
        last_seq INTEGER NOT NULL,
        UNIQUE (session, utterance)
    );
    CREATE TABLE words (
        utterance INTEGER NOT NULL REFERENCES utterances (key),
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        start REAL NOT NULL,
        end REAL NOT NULL,
        confidence REAL NOT NULL,
        PRIMARY KEY (utterance, number)
    ) WITHOUT ROWID;
    CREATE VIRTUAL TABLE spoken USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2');
    """,
    """
    ALTER TABLE sessions ADD COLUMN token BLOB;
    ALTER TABLE sessions ADD COLUMN frames INTEGER;
    """,
)
"""Times are seconds: of the wall clock since the epoch in ``*_at``, of the session's audio elsewhere.
``spoken`` holds the text of concluded utterances, its ``rowid`` is the utterance's ``key``."""


class JournalError(Exception):
    """The journal cannot be used as it is; the message names the file and what to do."""


class NewerJournal(Exception):
    """The file was written by a later version of this program."""


class ForeignFile(Exception):
    """The file is a database, but no journal."""


def connect(path: Path) -> sqlite3.Connection:
    """Opens a file that exists; transactions are begun and ended by hand."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    database = sqlite3.connect(uri, timeout=WAIT_S, isolation_level=None, check_same_thread=False, uri=True)
    database.execute("PRAGMA synchronous = NORMAL")
    return database


def migrate(database: sqlite3.Connection) -> None:
    """Brings a journal, or an empty file, to this version. Raises ``NewerJournal`` or ``ForeignFile``."""
    [version] = database.execute("PRAGMA user_version").fetchone()
    [application] = database.execute("PRAGMA application_id").fetchone()
    [tables] = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables and application != APPLICATION_ID:
        raise ForeignFile("a database of another program")
    if version > len(MIGRATIONS):
        raise NewerJournal(f"version {version}, and this program knows only up to {len(MIGRATIONS)}")
    if not tables:
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        database.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID};"
            f"{step}; PRAGMA user_version = {number}; COMMIT;"
        )
