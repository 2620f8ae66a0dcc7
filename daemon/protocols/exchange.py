"""What protocols have in common: a connection's tasks, and a session that lives as long as its connection."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from ..audio.pcm import AudioFormat, UnsupportedAudio
from ..channel import Subscription
from ..events import Dropped, Ended, EndReason, Event
from ..hub import Hub, Refused
from ..rate import Rate
from ..session import Session
from ..utterance import Configuration

logger = logging.getLogger(__name__)

CLOSE_S = 10.0
"""How long a client may take to read what is left when its session has ended."""
SLOW_CLOSE = 1008
_CLOSE_CODES = {"finished": 1000, "engine_failed": 1011}


class Conversation(ABC):
    """One client whose session lives as long as its connection: a lost connection finishes it.

    A protocol says what the client's messages mean, and how events and refusals are told.
    """

    def __init__(self, socket: ServerConnection, hub: Hub, client: str | None) -> None:
        """``client``: whom its session is counted for."""
        self.socket = socket
        self.hub = hub
        self.session: Session | None = None
        """None until ``open``."""
        self._client = client
        self._opened = asyncio.Event()
        self._subscription: Subscription | None = None

    async def greet(self) -> None:  # noqa: B027  most protocols greet nobody
        """What comes first; a session may be opened here already."""

    @abstractmethod
    async def take(self, message: str | bytes) -> None:
        """Obeys a message. What it raises as ``Refused`` is told, and the conversation goes on."""

    @abstractmethod
    async def tell(self, event: Event) -> None:
        """Tells an event of the session."""

    @abstractmethod
    async def refuse(self, refused: Refused, message: str | bytes) -> None:
        """Tells that a message was refused."""

    async def serve(self) -> None:
        """From the upgrade to the close frame. Raises ``Refused`` if there is no room for a session."""
        with self.hub.slot(self._client) as self._slot:
            if self._slot.refusal is not None:
                raise self._slot.refusal
            try:
                await self.greet()
                await exchange(self._tell_all(), self._over(), self._take_all(), self._watch())
            finally:
                if self.session is not None and self._subscription is not None:
                    self.session.channel.unsubscribe(self._subscription)
                    self.session.finish("expired")
        if self.session is None and self.hub.closing.is_set():
            raise Refused("shutting_down", "the daemon is shutting down: try again later")
        await close_unread(self.socket, close_code(self.session.end_reason if self.session else None))

    async def open(self, audio: AudioFormat, configuration: Configuration) -> Session:
        """Opens the session and lets it run. Raises ``Refused``. Once is enough."""
        if self.hub.closing.is_set():
            raise Refused("shutting_down", "the daemon is shutting down: try again later")
        session = await self.hub.open(audio, configuration, None)
        self._subscription = session.attach_sender()
        self.hub.start(session, self._slot)
        self.session = session
        self._opened.set()
        return session

    async def next_message(self) -> str | bytes:
        """Waits for what the client says. Raises ``ConnectionClosed``."""
        return await self.socket.recv()

    async def _take_all(self) -> None:
        """Takes what the client says, until it is gone."""
        rate = Rate(self.hub.settings.limits.messages_per_s)
        with suppress(ConnectionClosed):
            while True:
                message = await self.next_message()
                await rate.next()
                try:
                    await self.take(message)
                except Refused as refused:
                    await self.refuse(refused, message)
                if self.session is not None:
                    await self.session.room()

    async def _tell_all(self) -> None:
        """Tells the session's events, to the last one. A client that does not read them is closed."""
        await first_of(self._opened, self.hub.closing)
        if self._subscription is None:
            return
        with suppress(ConnectionClosed):
            async for publication in self._subscription:
                if isinstance(publication.event, Dropped):
                    await self.socket.close(SLOW_CLOSE, "slow")
                    return
                await self.tell(publication.event)
                if isinstance(publication.event, Ended):
                    return

    async def _over(self) -> None:
        """Returns when the session has ended, or none can be opened any more."""
        await first_of(self._opened, self.hub.closing)
        if self.session is not None:
            await self.hub.ended(self.session)

    async def _watch(self) -> None:
        """Ends the session of a client that is gone without a word."""
        server = self.hub.settings.server
        await keep_alive(self.socket, server.ping_s, server.idle_s, self._received)
        if self.session is not None:
            self.session.finish("idle")

    def _received(self) -> int:
        return self.session.received_frames if self.session else 0


def audio_format(encoding: str, sample_rate: int, channels: int = 1) -> AudioFormat:
    """The format of a client's audio. Raises ``Refused``."""
    try:
        return AudioFormat(encoding, sample_rate, channels)
    except UnsupportedAudio as error:
        raise Refused("unsupported_audio", str(error), error.field) from error


def close_code(reason: EndReason | None) -> int:
    """Of a websocket whose session has ended so; other ends are going away (1001)."""
    return _CLOSE_CODES.get(reason or "", 1001)


async def close_unread(socket: ServerConnection, code: int, reason: str = "") -> None:
    """Closes a connection that nobody reads any more: the client's answer lies behind all that it sent."""

    async def pass_over() -> None:
        with suppress(ConnectionClosed):
            while True:
                await socket.recv()

    passing_over = asyncio.create_task(pass_over())
    try:
        await socket.close(code, reason)
    finally:
        await cancel({passing_over})


async def exchange(
    telling: Coroutine[Any, Any, Any], over: Coroutine[Any, Any, Any], *others: Coroutine[Any, Any, Any]
) -> None:
    """Runs what serves a session, until it has ended and its client was told, or the client is gone.

    ``telling`` ends with the last event, ``over`` with the session, the ``others`` when the client is gone.
    """
    last, ended = asyncio.create_task(telling), asyncio.create_task(over)
    tasks = {last, ended, *map(asyncio.create_task, others)}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await asyncio.wait({last}, timeout=CLOSE_S)
    finally:
        await cancel(tasks)


async def cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Ends tasks; a failure of one is the program's and is logged."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("a connection failed", exc_info=failure)


async def first_of(*events: asyncio.Event) -> None:
    """Returns when one of them is set."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(tasks)


async def keep_alive(
    socket: ServerConnection, ping_s: float, idle_s: float, received: Callable[[], int] = lambda: 0
) -> None:
    """Pings a client and returns when it is gone: for ``idle_s`` neither a pong nor anything else came.

    A pong can be long in coming from a client that we are holding back: it waits behind the client's audio.
    """
    try:
        while True:
            await asyncio.sleep(ping_s)
            pong = asyncio.ensure_future(await socket.ping())
            so_far = received()
            while not (await asyncio.wait({pong}, timeout=idle_s))[0]:
                if received() == so_far:
                    return
                so_far = received()
    except ConnectionClosed:
        return


async def ignore_messages(socket: ServerConnection) -> None:
    """Returns when the client has left."""
    with suppress(ConnectionClosed):
        async for _ in socket:
            pass
