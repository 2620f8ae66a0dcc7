"""What was told, kept: SQLite, embedded."""

from .journal import Journal, journaling
from .reader import Reader, SessionRow, UtteranceRow
from .schema import JournalError

__all__ = ["Journal", "JournalError", "Reader", "SessionRow", "UtteranceRow", "journaling"]
