"""Text of a microphone: through a daemon that runs already, or in this process, behind one face."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from websockets.exceptions import InvalidHandshake

from .audio.microphone import Back, Item, Lost, Microphone, Overflow, Sound
from .audio.pcm import AudioFormat
from .channel import Subscription
from .clients import ConnectionLost, Refused, Sender, SessionOver, send
from .connecting import not_let_in, token
from .events import Ended, Error, Event
from .hub import Hub
from .server.address import AddressError
from .server.microphone import take
from .session import Session
from .settings import Settings, SettingsError


class Listening(Protocol):
    """An open session."""

    async def take(self, item: Item) -> None:
        """Takes what the microphone heard, or missed. Waits while too much is waiting."""

    async def clear(self) -> None:
        """Forgets the open utterance."""

    async def finish(self) -> None:
        """No more sound: the events up to ``ended`` follow."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events to the last. Raises ``AddressError`` and ``SettingsError`` where a daemon refuses."""


class _ThroughDaemon:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def take(self, item: Item) -> None:
        match item:
            case Sound(samples):
                with suppress(SessionOver):  # the events tell why
                    await self._sender.audio(samples.astype("<f4").tobytes())
            case Overflow(samples) | Back(samples):
                await self._sender.gap(samples)
            case Lost():
                await self._sender.flush()

    async def clear(self) -> None:
        await self._sender.clear()

    async def finish(self) -> None:
        await self._sender.finish()

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            async for event in self._sender:
                if isinstance(event, Error) and event.field is not None:
                    raise SettingsError(f"session.{event.field}: {event.message}")
                yield event
        except ConnectionLost as error:
            raise AddressError(str(error)) from error


class _InProcess:
    def __init__(self, session: Session, events: Subscription) -> None:
        self._session = session
        self._events = events

    async def take(self, item: Item) -> None:
        await take(self._session, item)

    async def clear(self) -> None:
        self._session.clear()

    async def finish(self) -> None:
        self._session.finish()

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for publication in self._events:
            yield publication.event
            if isinstance(publication.event, Ended):
                return


@asynccontextmanager
async def through_daemon(settings: Settings) -> AsyncIterator[Listening]:
    """Raises ``OSError`` where no daemon answers, ``AddressError`` where it does not let us in."""
    url, chosen = settings.server.url, settings.session
    opening = send(
        url, encoding="f32le", token=token(), language=chosen.language, task=chosen.task, prompt=chosen.prompt
    )
    try:
        async with opening as sender:
            yield _ThroughDaemon(sender)
    except (Refused, InvalidHandshake) as error:
        raise not_let_in(url, error) from error


@asynccontextmanager
async def in_process(hub: Hub) -> AsyncIterator[Listening]:
    """Raises ``hub.Refused`` where the hub has no room."""
    session = await hub.open(AudioFormat(), hub.defaults, None)
    listening = _InProcess(session, session.attach_sender())
    hub.start(session)
    try:
        yield listening
    finally:
        session.finish()


async def feed_until(
    stop: asyncio.Event,
    reading: asyncio.Task[None],
    microphone: Microphone,
    use: Callable[[Item], Awaitable[None]],
) -> None:
    """Uses what the microphone hears until we are to stop, or the events are not read any more."""

    async def feed() -> None:
        async for item in microphone:
            await use(item)

    feeding = asyncio.create_task(feed())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({feeding, stopping, reading}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    feeding.cancel()
    await asyncio.wait({feeding, stopping})
