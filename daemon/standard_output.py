"""Standard output, which can be full, or left by whoever read it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class OutputError(Exception):
    """An output cannot be written; the message names it and the reason."""


@contextmanager
def standard_output() -> Iterator[None]:
    """For printing within: all that was printed is out when it ends.

    Raises ``OutputError`` if it cannot be written, and ``BrokenPipeError`` if its reader has left.
    """
    try:
        yield
        print(end="", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_standard_output()
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def discard_standard_output() -> None:
    """Nothing more is written: Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
