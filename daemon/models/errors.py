"""The exceptions of this package."""

from pathlib import Path

REMEDY = "get the model again"
"""What to do about a file that is damaged."""


class ModelError(Exception):
    """A model is missing, damaged, foreign or cannot be fetched or written.

    The message names the file, the fault, and what to do; it is meant to be shown as it is.
    """

    def __init__(self, subject: Path | str, fault: str, remedy: str) -> None:
        super().__init__(f"{subject}: {fault}; {remedy}")
        self.subject = subject
        self.fault = fault
        self.remedy = remedy


class NotWritten(ModelError):
    """A file cannot be written where it should be."""
