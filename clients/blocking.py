"""The client for programs without an event loop; it comes back by itself as the async one does.

with send("ws://127.0.0.1:8790", sample_rate=16000) as sender:
    sender.audio(pcm)
    sender.finish()
    for event in sender:
        print(event)
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .. import events
from . import client

Result = TypeVar("Result")


class Sender:
    """An open session. One thread may send while another reads; get one from ``send``."""

    def __init__(self, loop: "_Loop", sender: client.Sender) -> None:
        self._loop = loop
        self._sender = sender

    def audio(self, pcm: bytes) -> None:
        """Sends audio as declared, of any length. Waits while too much is not acknowledged yet.

        Raises ``SessionOver`` when the session has ended, as by a daemon that was stopped.
        """
        self._loop.run(self._sender.audio(pcm))

    def configure(self, **choices: Any) -> None:
        """Changes ``language``, ``task``, ``prompt``, ... from the next utterance on."""
        self._loop.run(self._sender.configure(**choices))

    def flush(self, flush_id: str | int | None = None) -> None:
        """Ends the utterance; ``flushed`` follows its final."""
        self._loop.run(self._sender.flush(flush_id))

    def clear(self) -> None:
        """Forgets the open utterance."""
        self._loop.run(self._sender.clear())

    def gap(self, samples: int) -> None:
        """Tells that so many sample frames were lost."""
        self._loop.run(self._sender.gap(samples))

    def finish(self) -> None:
        """No more audio: the events up to ``ended`` follow."""
        self._loop.run(self._sender.finish())

    def __iter__(self) -> Iterator[events.AnyEvent]:
        """The session's events up to ``ended``, or to a fatal ``error``. Raises ``ConnectionLost``."""
        return self._loop.iterate(aiter(self._sender))


@contextmanager
def send(url: str, **options: Any) -> Iterator[Sender]:
    """Opens a session; options and errors are those of the async ``send``."""
    with _Loop() as loop:
        opening = client.send(url, **options)
        sender = loop.run(opening.__aenter__())
        try:
            yield Sender(loop, sender)
        finally:
            loop.run(opening.__aexit__(None, None, None))


def follow(url: str, channel: str, **options: Any) -> Iterator[events.AnyEvent]:
    """The events of a channel, for ever; options and errors are those of the async ``follow``."""
    with _Loop() as loop:
        yield from loop.iterate(client.follow(url, channel, **options))


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stenod client", daemon=True)

    def __enter__(self) -> "_Loop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs ``work`` on the loop and waits for it; what interrupts the wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, iterator: AsyncIterator[Result]) -> Iterator[Result]:
        """What an async iterator gives."""
        nothing = object()

        async def following() -> Result | object:
            return await anext(iterator, nothing)

        while (item := self.run(following())) is not nothing:
            yield item  # type: ignore[misc]
