"""The journal's file, to read, while some daemon may be writing it. Every call blocks."""

import sqlite3
from pathlib import Path
from typing import NamedTuple, Self

from .. import events
from .schema import FILE_NAME, ForeignFile, JournalError, NewerJournal, connect, migrate


class SessionRow(NamedTuple):
    """A session as ``stenod history`` lists it; times as in ``journal_schema``."""

    id: str
    channel: str | None
    model: str
    language: str | None
    started_at: float
    ended_at: float | None
    reason: str | None
    audio_s: float | None
    incomplete: int
    utterances: int


class UtteranceRow(NamedTuple):
    """One utterance; ``end`` is None while it is open, or if nothing more was told of it."""

    key: int
    session: str
    utterance: int
    start: float
    end: float | None
    language: str | None
    confidence: float | None
    text: str
    told_at: float


class ResumableRow(NamedTuple):
    """What resuming a session needs."""

    id: str
    ended_at: float | None
    frames: int | None
    last_seq: int | None


class Reader:
    """A journal's file, open to read. Used by one thread at a time."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Opens a journal. Raises ``JournalError``."""
        path = folder / FILE_NAME
        if not path.is_file():
            raise JournalError(f"{path}: there is no journal yet; `stenod serve` writes one")
        try:
            database = connect(path)
            migrate(database)
        except (sqlite3.Error, NewerJournal, ForeignFile) as error:
            raise JournalError(f"{path}: cannot be read: {error}") from error
        return cls(database)

    def close(self) -> None:
        """Gives the file back."""
        self._database.close()

    def sessions(self, channel: str | None = None, limit: int = -1) -> list[SessionRow]:
        """The last sessions, oldest first."""
        rows = self._database.execute(
            _SESSIONS + " WHERE ?1 IS NULL OR channel = ?1 ORDER BY key DESC LIMIT ?2", (channel, limit)
        )
        return [SessionRow(*row) for row in rows][::-1]

    def find_session(self, wanted: str) -> SessionRow:
        """The session whose id begins with ``wanted``, or the ``last`` one. Raises ``JournalError``."""
        if wanted == "last":
            rows = self._database.execute(_SESSIONS + " ORDER BY key DESC LIMIT 1").fetchall()
        else:
            rows = self._database.execute(
                _SESSIONS + " WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2", (wanted,)
            ).fetchall()
        if not rows or not wanted:
            raise JournalError(f"{wanted}: no session of that name is kept; `stenod history list` shows them")
        if len(rows) > 1:
            raise JournalError(f"{wanted}: several sessions begin so; give more of the name")
        return SessionRow(*rows[0])

    def utterances(self, session: str) -> list[UtteranceRow]:
        """A session's utterances, in order; one that was never concluded as far as it was committed."""
        rows = self._database.execute(
            _UTTERANCES + " WHERE sessions.id = ? AND utterances.text <> '' ORDER BY utterance", (session,)
        )
        return [UtteranceRow(*row) for row in rows]

    def words(self, utterance: UtteranceRow) -> list[events.Word]:
        """An utterance's words."""
        rows = self._database.execute(
            "SELECT text, start, end, confidence FROM words WHERE utterance = ? ORDER BY number",
            (utterance.key,),
        )
        return [events.Word(*row) for row in rows]

    def search(self, text: str, limit: int) -> list[UtteranceRow]:
        """The last utterances in which all words of ``text`` occur, oldest first.

        The last word may be the beginning of one.
        """
        terms = ['"' + term.replace('"', '""') + '"' for term in text.split()]
        if not terms:
            return []
        rows = self._database.execute(
            _UTTERANCES + " WHERE utterances.key IN (SELECT rowid FROM spoken WHERE spoken MATCH ?) "
            "ORDER BY utterances.key DESC LIMIT ?",
            (" ".join(terms) + "*", limit),
        )
        return [UtteranceRow(*row) for row in rows][::-1]

    def unfinished(self) -> dict[str, bool]:
        """Sessions whose end was not told, and whether all that was told of each is kept."""
        rows = self._database.execute(
            "SELECT id, incomplete = 0 FROM sessions WHERE ended_at IS NULL ORDER BY key"
        )
        return {session: bool(complete) for session, complete in rows}

    def resumable(self, token: bytes) -> ResumableRow | None:
        """The session that is resumed with a token of that digest; None if it is not kept."""
        row = self._database.execute(
            "SELECT id, ended_at, frames, (SELECT max(seq) FROM events WHERE session = sessions.key) "
            "FROM sessions WHERE token = ? ORDER BY key DESC LIMIT 1",
            (token,),
        ).fetchone()
        return None if row is None else ResumableRow(*row)

    def session_events(self, session: str, seq: int, limit: int = -1) -> list[bytes]:
        """The JSON of a session's numbered events after one of them, in order."""
        rows = self._database.execute(
            "SELECT json FROM sessions CROSS JOIN events ON events.session = sessions.key "
            "WHERE id = ? AND seq > ? ORDER BY seq LIMIT ?",
            (session, seq, limit),
        )
        return [json for (json,) in rows]

    def last_finals(self, channel: str, limit: int) -> list[bytes]:
        """The JSON of the last finals told in a channel, in order."""
        rows = self._database.execute(
            "SELECT json FROM utterances JOIN sessions ON sessions.key = utterances.session "
            "JOIN events ON events.session = sessions.key AND seq = last_seq "
            "WHERE channel = ? AND end IS NOT NULL ORDER BY utterances.key DESC LIMIT ?",
            (channel, limit),
        )
        return [json for (json,) in rows][::-1]

    def last_event(self, channel: str) -> bytes | None:
        """The JSON of the last numbered event told in a channel; None: nothing was."""
        row = self._database.execute(
            "SELECT json FROM sessions CROSS JOIN events ON events.session = sessions.key "
            "WHERE channel = ? ORDER BY sessions.key DESC, seq DESC LIMIT 1",
            (channel,),
        ).fetchone()
        return None if row is None else bytes(row[0])

    def events_after(self, channel: str, session: str, seq: int, limit: int) -> list[bytes] | None:
        """The JSON of a channel's numbered events after a cursor, also of later sessions, in order.

        All of them, if ``session`` is empty. None if the cursor is of no event that is kept in that channel.
        """
        found = (0,)
        if session:
            found = self._database.execute(
                "SELECT key FROM sessions WHERE id = ? AND channel = ? "
                "AND ? <= (SELECT max(seq) FROM events WHERE session = sessions.key)",
                (session, channel, seq),
            ).fetchone()
        if found is None:
            return None
        rows = self._database.execute(
            "SELECT json FROM sessions CROSS JOIN events ON events.session = sessions.key "
            "WHERE channel = ?1 AND sessions.key >= ?2 AND (sessions.key > ?2 OR seq > ?3) "
            "ORDER BY sessions.key, seq LIMIT ?4",
            (channel, found[0], seq, limit),
        )
        return [json for (json,) in rows]


_SESSIONS = (
    "SELECT id, channel, model, language, started_at, ended_at, reason, audio_s, incomplete, "
    "(SELECT count(*) FROM utterances WHERE session = sessions.key AND text <> '') FROM sessions"
)
_UTTERANCES = (
    "SELECT utterances.key, sessions.id, utterance, start, end, utterances.language, confidence, text, "
    "told_at FROM utterances JOIN sessions ON sessions.key = utterances.session"
)
