"""The thread that owns the journal's file: it writes what waits, syncs it, and removes what is old."""

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from .. import settings
from .logs import Logs, LogWrite
from .schema import JournalError
from .store import Store, Told

Work = Told | LogWrite

logger = logging.getLogger(__name__)

MOST_WAITING = 16384
MOST_BYTES = 64 << 20
"""Events, and bytes of logs, that may wait for a disk that does not take them; beyond, they are not kept."""
MOST_AT_ONCE = 512
"""Events in one transaction."""
RETRY_S = 2.0
CLOSE_S = 5.0
"""How long the end of the daemon waits for a disk."""
CLEAN_UP_S = 600.0
"""How often what is too old is looked for."""
DAY_S = 86400


class Writer:
    """Takes events with ``add`` from any thread. A failure is reported, and the same is tried again."""

    def __init__(
        self, store: Store | None, chosen: settings.Journal, report: Callable[[int, str | None], None]
    ) -> None:
        """``report`` is called on the thread: all up to a number is kept, or what failed."""
        self._store = store
        self._open = Store.open_first if store is None else Store.open
        self._folder = chosen.place
        self._sync_s = chosen.sync_s
        self._keep_s = chosen.keep_days * DAY_S if chosen.keep_days else None
        self._most_bytes = chosen.most_mb * 1_000_000 if chosen.most_mb else None
        self._report = report
        self._changed = threading.Condition()
        self._queue: deque[tuple[int, Work]] = deque()
        self._bytes = 0
        """Of logs, in the queue."""
        self._logs: Logs | None = None
        self._incomplete: set[str] = set()
        """Sessions that lack an event, which their row does not say yet."""
        self._stopping = False
        # A clock that is set while we run must not make all that is kept look old.
        self._started_at = time.time() - time.monotonic()
        self._synced_at = time.monotonic()
        self._cleaned_at = float("-inf")
        self._unsynced = False
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many events are not written yet."""
        return len(self._queue)

    def add(self, number: int, work: Work) -> bool:
        """Queues an event, or a piece of a log. False: there is no room, and it is not kept."""
        with self._changed:
            room = len(self._queue) < MOST_WAITING and self._bytes < MOST_BYTES
            if room:
                self._queue.append((number, work))
                self._bytes += _size(work)
            elif isinstance(work, Told):
                self._incomplete.add(work.event.session)
            self._changed.notify()
        return room

    def stop(self) -> None:
        """Lets the thread write what waits and end. Blocks, for ``CLOSE_S`` at most."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            try:
                self._work(batch)
            except (OSError, sqlite3.Error, JournalError) as error:
                if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
                    logger.exception("the journal refuses an event: this is a fault of the program")
                    self._incomplete.update(one.event.session for _, one in batch if isinstance(one, Told))
                    self._forget(batch)
                self._mark_behind()
                self._report(0, f"{self._folder}: {error}")  # from now on things are told without being kept
                self._reopen_later()
            with self._changed:
                if self._stopping and (not self._queue or self._store is None):
                    break
        self._close()

    def _next_batch(self) -> list[tuple[int, Work]]:
        """Waits until there is something to write, or to do besides."""
        with self._changed:
            while not (self._queue or self._stopping):
                due = self._cleaned_at + CLEAN_UP_S
                if self._unsynced:
                    due = min(due, self._synced_at + self._sync_s)
                wait = due - time.monotonic()
                if wait <= 0:
                    return []
                self._changed.wait(wait)
            return list(islice(self._queue, MOST_AT_ONCE))

    def _work(self, batch: Sequence[tuple[int, Work]]) -> None:
        if self._store is None:
            self._store = self._open(self._folder)
            self._open = Store.open
        if self._logs is None:
            self._logs = Logs(self._folder)
        if batch:
            self._write(self._store, self._logs, [work for _, work in batch])
            self._unsynced = True
            if self._sync_s == 0:
                self._sync()
            self._forget(batch)
            self._report(batch[-1][0], None)
        if self._incomplete and not self._queue:  # else their rows may be yet to come
            self._mark_incomplete()
        if self._unsynced and time.monotonic() >= self._synced_at + self._sync_s:
            self._sync()
        if time.monotonic() >= self._cleaned_at + CLEAN_UP_S:
            now = self._started_at + time.monotonic()
            before = now - self._keep_s if self._keep_s is not None else None
            if not self._store.remove_old(before, self._most_bytes):
                self._cleaned_at = time.monotonic()

    def _write(self, store: Store, logs: Logs, batch: Sequence[Work]) -> None:
        """A log may lack what was told since, but not forget what leads to something that is not kept yet."""
        told = list[Told]()
        for work in batch:
            if isinstance(work, Told):
                told.append(work)
                continue
            if work.offset is None:
                store.write(told)
                told.clear()
            logs.write(*work)
        store.write(told)

    def _sync(self) -> None:
        assert self._store is not None and self._logs is not None
        self._store.sync()
        self._logs.sync()
        if not self._queue:
            self._store.behind = False
        self._unsynced = False
        self._synced_at = time.monotonic()

    def _mark_incomplete(self) -> None:
        assert self._store is not None
        with self._changed:
            sessions, self._incomplete = self._incomplete, set()
        self._store.mark_incomplete(sorted(sessions))
        self._unsynced = True

    def _mark_behind(self) -> None:
        if self._store is not None:
            try:
                self._store.behind = True
            except OSError as error:
                logger.error("%s: cannot note that it lacks what is told: %s", self._folder, error)

    def _forget(self, batch: Sequence[tuple[int, Work]]) -> None:
        with self._changed:
            for _ in batch:
                self._bytes -= _size(self._queue.popleft()[1])

    def _reopen_later(self) -> None:
        """After a failure the file may be another one, or a broken one: it is opened anew."""
        self._close()
        with self._changed:
            if not self._stopping:
                self._changed.wait_for(lambda: self._stopping, RETRY_S)

    def _close(self) -> None:
        if self._logs is not None:
            self._logs.close()
            self._logs = None
        store, self._store = self._store, None
        if store is not None:
            try:
                store.close()
            except sqlite3.Error as error:
                logger.error("the journal cannot be closed: %s", error)


def _size(work: Work) -> int:
    return 0 if isinstance(work, Told) else len(work.data)
