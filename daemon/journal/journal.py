"""Keeps what was told, before it is told, without ever making the event loop wait for a disk.

A thread of its own writes what the loop hands over: everything that waits goes into one transaction. When
that is committed, the loop is told, and publishes. So a process that is killed has told nothing that is not
kept; and all that it told within the last ``sync_s`` seconds is what a power cut may take.

A disk that is full, broken or stuck does not stop what is told: from then on nothing waits for the journal,
what was not written stays queued up to a bound, and the writer tries again.
"""

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Self, TypeVar

from .. import settings
from ..events import Word
from ..publication import Publication
from .logs import LogWrite
from .reader import Reader
from .schema import JournalError
from .store import Store, Told
from .writer import Writer

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

STUCK_S = 2.0
"""A disk that takes longer counts as broken."""


class Journal:
    """The loop's side: hand over events with ``keep``. Get one from ``journaling``."""

    def __init__(self, store: Store | None, chosen: settings.Journal) -> None:
        """``store`` None: the disk did not let us open it; the writer goes on trying."""
        self.on_failure: Callable[[str], None] = lambda message: None
        """Called on the loop when events begin to be told without being kept."""
        self.failures = 0
        """How often that began."""
        self.lost = 0
        """Events that were told and will not be kept."""
        self._loop = asyncio.get_running_loop()
        self._told: deque[tuple[int, Callable[[], None], float]] = deque()
        """What the journal has yet to confirm: number, whom to tell, and when it was handed over."""
        self._number = 0
        self._failed = store is None
        self._closed = False
        self._watch: asyncio.TimerHandle | None = None
        self.folder = chosen.place
        """Where it is kept."""
        self._writer = Writer(store, chosen, self._from_writer)

    @classmethod
    async def open(cls, chosen: settings.Journal) -> Self:
        """Opens the journal of the settings and starts its writer. Raises ``JournalError``.

        A disk that is full or broken is no error: it is told as one that fails later is.
        """
        try:
            store = await asyncio.to_thread(Store.open_first, chosen.place)
        except (OSError, sqlite3.Error) as error:
            store = None
            failure = str(error)
        opened = cls(store, chosen)
        if store is None:
            opened._fail(failure)
        opened._writer.start()
        return opened

    @property
    def failed(self) -> bool:
        """Whether events are told without being kept."""
        return self._failed

    @property
    def waiting(self) -> int:
        """How much is not written yet, in events and pieces of logs."""
        return self._writer.waiting

    def keep(
        self,
        publication: Publication,
        then: Callable[[], None],
        *,
        words: Sequence[Word] = (),
        token: bytes | None = None,
        frames: int | None = None,
    ) -> None:
        """Keeps a numbered event, and what ``Told`` may hold beside it.

        ``then`` is called once, in order, when it is kept or cannot be.
        """
        told = Told(publication.numbered, publication.json, time.time(), words, token, frames)
        self._hand_over(told, then)

    def write_log(self, name: str, offset: int | None, data: bytes, then: Callable[[], None]) -> None:
        """Writes a session's log as ``Logs.write`` does, in order with events; ``then`` as of ``keep``."""
        self._hand_over(LogWrite(name, offset, data), then)

    async def read(self, query: Callable[[Reader], Result]) -> Result:
        """What a reader finds out, on a thread of its own. Raises ``JournalError`` if the disk fails."""
        return await asyncio.to_thread(self._read, query)

    def _read(self, query: Callable[[Reader], Result]) -> Result:
        reader = Reader.open(self.folder)
        try:
            return query(reader)
        except sqlite3.Error as error:
            raise JournalError(f"{self.folder}: {error}") from error
        finally:
            reader.close()

    def _hand_over(self, work: Told | LogWrite, then: Callable[[], None]) -> None:
        self._number += 1
        if not self._writer.add(self._number, work):
            self.lost += isinstance(work, Told)
            self._fail("too much is waiting for the disk")
        self._told.append((self._number, then, self._loop.time()))
        if self._failed or self._closed:
            self._confirm(self._number)
        elif self._watch is None:
            self._watch = self._loop.call_later(STUCK_S, self._check)

    async def close(self) -> None:
        """Writes what waits, as far as the disk takes it soon. Nothing waits for the disk after that."""
        await asyncio.to_thread(self._writer.stop)
        self._closed = True
        self._confirm(self._number)
        if self._watch is not None:
            self._watch.cancel()
        if self.waiting:
            logger.error("%d events, or pieces of logs, could not be written", self.waiting)

    def _confirm(self, number: int) -> None:
        while self._told and self._told[0][0] <= number:
            self._told.popleft()[1]()

    def _check(self) -> None:
        """Whether the oldest event has been waiting for too long."""
        self._watch = None
        if not self._told:
            return
        left = self._told[0][2] + STUCK_S - self._loop.time()
        if left <= 0:
            self._fail("the disk does not answer")
        else:
            self._watch = self._loop.call_later(left, self._check)

    def _from_writer(self, number: int, failure: str | None) -> None:
        """Called on the writer's thread: everything up to ``number`` is kept, or it failed."""
        self._loop.call_soon_threadsafe(self._hear, number, failure)

    def _hear(self, number: int, failure: str | None) -> None:
        if failure is not None:
            self._fail(failure)
            return
        self._confirm(number)
        if self._failed and not self.waiting:
            self._failed = False
            logger.warning("the journal works again; %d events in all could not be kept", self.lost)

    def _fail(self, failure: str) -> None:
        """From now on nothing waits for the journal."""
        if not self._failed or not self.failures:
            self._failed = True
            self.failures += 1
            logger.error("the journal fails: %s", failure)
            self.on_failure(failure)
        self._confirm(self._number)


@asynccontextmanager
async def journaling(chosen: settings.Journal) -> AsyncIterator[Journal | None]:
    """The journal, if there is to be one, for as long as a daemon runs. Raises as ``Journal.open``."""
    if not chosen.enabled:
        yield None
        return
    opened = await Journal.open(chosen)
    try:
        yield opened
    finally:
        await opened.close()
