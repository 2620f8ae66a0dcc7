"""What was told, kept: SQLite, embedded."""

from .journal import Journal, journaling
from .reader import Reader, ResumableRow, SessionRow, UtteranceRow
from .schema import JournalError

__all__ = ["Journal", "JournalError", "Reader", "ResumableRow", "SessionRow", "UtteranceRow", "journaling"]
