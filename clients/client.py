"""An async client of the native protocol.

    async with send("ws://127.0.0.1:8790", sample_rate=16000, channel="talk") as sender:
        await sender.audio(pcm)
        await sender.finish()
        async for event in sender:
            print(event)

    async for event in follow("ws://127.0.0.1:8790", "talk"):
        print(event)

Events are the structs of ``stenod.events``.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from .. import events


class Sender:
    """An open session. Send audio and read its events, at the same time; get one from ``send``."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def audio(self, pcm: bytes) -> None:
        """Sends audio as declared, of any length. Waits while the daemon holds back."""
        await self._socket.send(pcm)

    async def configure(self, **choices: Any) -> None:
        """Changes ``language``, ``task``, ``prompt``, ... from the next utterance on."""
        await self._message("configure", **choices)

    async def flush(self, flush_id: str | int | None = None) -> None:
        """Ends the utterance; ``flushed`` follows its final."""
        await self._message("flush", id=flush_id)

    async def clear(self) -> None:
        """Forgets the open utterance."""
        await self._message("clear")

    async def gap(self, samples: int) -> None:
        """Tells that so many sample frames were lost."""
        await self._message("gap", samples=samples)

    async def finish(self) -> None:
        """No more audio: the events up to ``ended`` follow."""
        await self._message("finish")

    def __aiter__(self) -> AsyncIterator[events.AnyEvent]:
        """The session's events, until the daemon closes the connection.

        Raises ``websockets.exceptions.ConnectionClosedError`` if the connection is lost.
        """
        return _events(self._socket)

    async def _message(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))


@asynccontextmanager
async def send(
    url: str,
    *,
    encoding: str = "s16le",
    sample_rate: int = 16000,
    channels: int = 1,
    **start: Any,
) -> AsyncIterator[Sender]:
    """Opens a session at the daemon ``url``; ``start`` holds further fields of the ``start`` message.

    A session that is refused tells so as an ``error`` event. Raises ``OSError`` where no daemon answers and
    ``websockets.exceptions.InvalidStatus`` where it is full.
    """
    audio = {"encoding": encoding, "sample_rate": sample_rate, "channels": channels}
    async with connect(f"{url}/v1/stream", compression=None) as socket:
        await socket.send(json.dumps({"type": "start", "audio": audio, **start}))
        yield Sender(socket)


async def follow(
    url: str, channel: str, *, only: str | None = None, since: str | None = None
) -> AsyncIterator[events.AnyEvent]:
    """The events of a channel, from a snapshot or a cursor on, until the daemon drops us.

    Raises as ``send`` and its iteration do.
    """
    query = urlencode({key: value for key, value in (("only", only), ("since", since)) if value is not None})
    async with connect(f"{url}/v1/channels/{channel}?{query}", compression=None) as socket:
        async for event in _events(socket):
            yield event


async def _events(socket: ClientConnection) -> AsyncIterator[events.AnyEvent]:
    try:
        async for message in socket:
            yield events.decode(message)
    except ConnectionClosedError as error:
        if error.rcvd is None:
            raise
        # The daemon closed it, for a reason that its last event told.
