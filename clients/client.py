"""An async client of the native protocol, which comes back by itself when its connection is lost.

    async with send("ws://127.0.0.1:8790", sample_rate=16000, channel="talk") as sender:
        await sender.audio(pcm)
        await sender.finish()
        async for event in sender:
            print(event)

    async for event in follow("ws://127.0.0.1:8790", "talk"):
        print(event)

Events are the structs of ``stenod.events``. Each numbered one is told once, in order, without a hole, also
over lost connections and restarts of the daemon.
"""

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from .. import events
from .backoff import Backoff
from .outbox import Outbox

logger = logging.getLogger(__name__)

COME_BACK_FOR_S = 120.0
"""How long a lost connection is tried again: as long as the daemon waits by default."""
ANSWERS_IN_S = 60.0
"""How long a ping may wait for its answer, behind sound that was sent; then the connection is lost."""
MOST_EVENTS = 10_000
"""Events that may wait to be read; beyond, the daemon has to wait."""

_SAMPLE_BYTES = {"s16le": 2, "s24le": 3, "s32le": 4, "f32le": 4}


class Refused(ConnectionError):
    """The daemon does not let us in; the message is its own."""

    def __init__(self, url: str, error: events.Error, retry_after_s: float | None) -> None:
        super().__init__(f"{url}: {error.message}")
        self.code = error.code
        """As in the protocol: ``unauthorized``, ``forbidden``, ``too_many_sessions``, ..."""
        self.retry_after_s = retry_after_s
        """When there may be room, where it is full."""


class ConnectionLost(ConnectionError):
    """The daemon could not be reached again in time, or has forgotten the session."""


class SessionOver(ConnectionError):
    """The session has ended: what is said to it would be lost. The message says why it ended."""


class Sender:
    """An open session. Send audio and read its events, at the same time; get one from ``send``."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        start: dict[str, Any],
        outbox: Outbox,
        come_back_for_s: float,
    ) -> None:
        self._come_back_for_s = come_back_for_s
        self._url = url
        self._headers = headers
        self._start = start
        self._outbox = outbox
        self._started: events.Started | None = None
        self._last_seq = 0
        self._flushes: dict[str, str | int | None] = {}
        """By the names they have on the wire, those that are not answered yet."""
        self._flushed = 0
        self._events: deque[events.AnyEvent] = deque()
        self._over: BaseException | bool = False
        """True, or why, once nothing more is told."""
        self._refused = False
        """Whether a fatal error was told."""
        self._ended_by = "the connection is lost"
        self._changed = asyncio.Event()

    async def audio(self, pcm: bytes) -> None:
        """Sends audio as declared, of any length. Waits while too much is not acknowledged yet.

        Raises ``SessionOver`` when the session has ended, as by a daemon that was stopped.
        """
        self._outbox.put_audio(pcm)
        self._change()
        while self._outbox.full and not self._over:
            await self._wait()
        if self._over:
            raise SessionOver(f"{self._url}: the session has ended: {self._ended_by}")

    async def configure(self, **choices: Any) -> None:
        """Changes ``language``, ``task``, ``prompt``, ... from the next utterance on."""
        self._say("configure", **choices)

    async def flush(self, flush_id: str | int | None = None) -> None:
        """Ends the utterance; ``flushed`` follows its final."""
        self._flushed += 1
        name = f"flush {self._flushed}"
        self._flushes[name] = flush_id
        self._say("flush", id=name)

    async def clear(self) -> None:
        """Forgets the open utterance."""
        self._say("clear")

    async def gap(self, samples: int) -> None:
        """Tells that so many sample frames were lost."""
        self._say("gap", samples=samples)

    async def finish(self) -> None:
        """No more audio: the events up to ``ended`` follow."""
        self._say("finish")

    async def __aiter__(self) -> AsyncIterator[events.AnyEvent]:
        """The session's events up to ``ended``, or to a fatal ``error``. Raises ``ConnectionLost``."""
        while True:
            while self._events:
                yield self._events.popleft()
                self._change()
            if isinstance(self._over, BaseException):
                raise self._over
            if self._over:
                return
            await self._wait()

    async def run(self, socket: ClientConnection) -> None:
        """Keeps a connection, beginning with ``socket``, until the session is over."""
        try:
            await self._keep_connection(socket)
            self._over = True
        except BaseException as error:
            self._over = error
            raise
        finally:
            self._change()

    async def _keep_connection(self, first: ClientConnection) -> None:
        backoff = Backoff(self._come_back_for_s)
        socket: ClientConnection | None = first
        reason: Exception | None = None
        while True:
            try:
                if socket is None:
                    socket = await _connect(f"{self._url}/v1/stream", self._headers)
                async with socket:
                    if await self._talk(socket, backoff):
                        return
            except ConnectionLost:
                raise
            except (OSError, InvalidHandshake, ConnectionClosed) as error:
                logger.info("the connection was lost: %s", error)
                reason = error
            if self._refused:
                return
            socket = None
            await _wait_for_next_try(self._url, backoff, reason)

    async def _talk(self, socket: ClientConnection, backoff: Backoff) -> bool:
        """One connection; True if the session is over."""
        if self._started is not None:
            await self._resume(socket, self._started)
            backoff.connected()
        else:
            self._outbox.rewind(0)
            await socket.send(json.dumps(self._start))
        pumping = asyncio.create_task(self._pump(socket))
        try:
            async for message in socket:
                event = events.decode(message)
                if self._take(event):
                    return True
                backoff.connected()
                while len(self._events) >= MOST_EVENTS:
                    await self._wait()
            return False
        finally:
            pumping.cancel()
            await asyncio.wait({pumping})

    async def _resume(self, socket: ClientConnection, started: events.Started) -> None:
        message = {"session": started.session, "token": started.token, "last_seq": self._last_seq}
        await socket.send(json.dumps({"type": "resume", **message}))
        match events.decode(await socket.recv()):
            case events.Resumed(received_samples=frames):
                self._outbox.rewind(frames)
            case events.Error(code="not_resumable", message=why):
                raise ConnectionLost(f"{self._url}: the session is lost: {why}")
            case other:
                raise ConnectionResetError(f"{self._url}: cannot come back now: {other}")

    async def _pump(self, socket: ClientConnection) -> None:
        try:
            while True:
                while (payload := self._outbox.next()) is not None:
                    await socket.send(payload)
                await self._wait()
        except ConnectionClosed:
            pass  # who reads notices too

    def _take(self, event: events.AnyEvent) -> bool:
        """Deals with what is told; True: it was the last."""
        match event:
            case events.Started():
                self._started = event
            case events.Ack(received_samples=frames):
                self._outbox.acknowledge(frames)
            case events.Numbered(seq=seq) if seq <= self._last_seq:
                return False
            case events.Flushed(id=str(name)) if name in self._flushes:
                event = events.Flushed(self._flushes.pop(name))
            case events.Flushed():
                return False
            case events.Error(message=message, fatal=True):
                self._refused, self._ended_by = True, message
            case events.Ended(reason=reason) if reason != "finished":
                self._ended_by = reason
            case events.Ended():
                # Every flush came before that, and its answer may have been lost.
                self._events.extend(events.Flushed(flush_id) for flush_id in self._flushes.values())
                self._flushes.clear()
            case events.Partial() if self._events and isinstance(self._events[-1], events.Partial):
                self._events.pop()
        if isinstance(event, events.Numbered):
            self._last_seq = event.seq
        self._events.append(event)
        self._change()
        return isinstance(event, events.Ended)

    def _say(self, kind: str, **fields: Any) -> None:
        self._outbox.put_message(kind, **fields)
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self) -> None:
        await self._changed.wait()


@asynccontextmanager
async def send(
    url: str,
    *,
    encoding: str = "s16le",
    sample_rate: int = 16000,
    channels: int = 1,
    buffer_s: float = 60.0,
    token: str | None = None,
    come_back_for_s: float = COME_BACK_FOR_S,
    **start: Any,
) -> AsyncIterator[Sender]:
    """Opens a session at the daemon ``url``; ``start`` holds further fields of the ``start`` message.

    ``buffer_s``: seconds of audio that are kept until they are acknowledged; ``token``: where one is asked
    for; ``come_back_for_s``: seconds for which a lost connection is tried again. A session that is refused
    tells so as an ``error`` event. Raises ``Refused`` where the daemon does not let us in, as it is full or
    wants another token; another ``OSError`` where nobody answers at first, and
    ``websockets.exceptions.InvalidHandshake`` where who answers is no daemon.
    """
    audio = {"encoding": encoding, "sample_rate": sample_rate, "channels": channels}
    frame_bytes = _SAMPLE_BYTES.get(encoding, 1) * channels
    outbox = Outbox(frame_bytes, round(buffer_s * sample_rate * frame_bytes))
    headers = _authorization(token)
    socket = await _connect(f"{url}/v1/stream", headers)
    asked = {"type": "start", "audio": audio, "token": secrets.token_urlsafe(24), **start}
    sender = Sender(url, headers, asked, outbox, come_back_for_s)
    running = asyncio.create_task(sender.run(socket))
    try:
        yield sender
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)  # what failed is told to who reads the events


async def follow(
    url: str,
    channel: str,
    *,
    only: str | None = None,
    since: str | None = None,
    token: str | None = None,
    come_back_for_s: float = COME_BACK_FOR_S,
) -> AsyncIterator[events.AnyEvent]:
    """The events of a channel, from a snapshot or a cursor on, for ever.

    When the connection is lost, or the daemon drops us, it goes on behind the last numbered event. Raises at
    first what ``send`` does, and ``ConnectionLost`` when the daemon cannot be reached for ``come_back_for_s``
    seconds.
    """
    backoff = Backoff(come_back_for_s)
    connected_once = False
    reason: Exception | None = None
    while True:
        chosen = {"only": only, "since": since}
        query = urlencode({key: value for key, value in chosen.items() if value is not None})
        try:
            async with await _connect(
                f"{url}/v1/channels/{channel}?{query}", _authorization(token)
            ) as socket:
                connected_once = True
                async for message in socket:
                    backoff.connected()
                    event = events.decode(message)
                    if isinstance(event, events.Numbered):
                        since = f"{event.session}:{event.seq}"
                    elif isinstance(event, events.Snapshot):
                        since = event.cursor
                    if not isinstance(event, events.Dropped):
                        yield event
        except (OSError, InvalidHandshake, ConnectionClosed) as error:
            if not connected_once:
                raise
            logger.info("the connection was lost: %s", error)
            reason = error
        await _wait_for_next_try(url, backoff, reason)


async def _wait_for_next_try(url: str, backoff: Backoff, reason: Exception | None) -> None:
    """Raises ``ConnectionLost`` where it has taken too long; ``reason``: why the last try failed."""
    if (wait_s := backoff.next_wait_s()) is None:
        because = "" if reason is None else f" ({reason})"
        raise ConnectionLost(f"{url}: the daemon could not be reached again{because}") from reason
    await asyncio.sleep(wait_s)


def _authorization(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


async def _connect(url: str, headers: dict[str, str]) -> ClientConnection:
    try:
        return await connect(url, compression=None, additional_headers=headers, ping_timeout=ANSWERS_IN_S)
    except InvalidStatus as refused:
        response = refused.response
        try:
            error = events.decode(bytes(response.body or b""))
        except msgspec.MsgspecError:
            raise refused from None
        if not isinstance(error, events.Error):
            raise
        after = response.headers.get("Retry-After")
        raise Refused(url, error, float(after) if after is not None else None) from refused
