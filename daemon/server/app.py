"""The daemon's life: start up, serve, drain, end."""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from socket import AF_UNIX, socket

from websockets.asyncio.server import Server

from ..access import Access
from ..hub import Hub, running
from ..journal import journaling
from ..protocols.registry import endpoint_at
from ..restart import take_up_sessions
from ..settings import Settings
from .address import AddressError, check_host, check_port
from .microphone import capture
from .ports import other_ports
from .service import feed_watchdog, handed_over_socket, notify
from .tls import Certificate, certificate_of
from .websockets import WebsocketServer

logger = logging.getLogger(__name__)


class EngineNotReady(Exception):
    """The engine loaded a model but could not compute with it."""


class Daemon:
    """One daemon. ``run`` it as the main task; ``stop`` makes it drain and end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = asyncio.Event()
        self._access = Access(settings.server.tokens)
        self._certificate: Certificate | None = None
        self._socket: socket | None = None
        """The one to listen on that a service manager opened, if it did."""
        self.ports: Mapping[str, int] = {}
        """Of protocols that have one of their own, by name, while it runs."""

    def stop(self) -> None:
        """Sources stop, sessions drain to their finals, subscribers are told, then ``run`` returns."""
        self._stop.set()

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT stop the daemon."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)

    async def run(self, listening: Callable[[str], None]) -> None:
        """Serves until stopped; calls ``listening`` with the address once a client is welcome.

        Raises ``SettingsError``, ``JournalError``, ``ModelError``, ``EngineNotReady`` and ``AddressError``.
        """
        self._access.check()
        self._certificate = certificate_of(self._settings.server)
        self._socket = handed_over_socket()
        await check_host(self._settings.server, self._socket)
        if self._socket is None:
            await check_port(self._settings.server)
        async with journaling(self._settings.journal) as journal, running(self._settings, journal) as hub:
            if not await hub.engine.probe():
                raise EngineNotReady("the model was loaded, but computing with it failed; see the log")
            await take_up_sessions(hub)
            websockets = WebsocketServer(hub, self._access, self._certificate, endpoint_at, pages=True)
            async with (
                await self._listen(websockets) as server,
                other_ports(hub, self._access, self._certificate) as self.ports,
            ):
                sources = self._start_sources(hub)
                sources.append(asyncio.create_task(feed_watchdog(hub), name="watchdog"))
                if self._certificate is not None:
                    sources.append(asyncio.create_task(self._certificate.keep_fresh(), name="certificate"))
                host, port = _address(server.sockets[0])
                notify("READY=1")
                listening(f"{'ws' if self._certificate is None else 'wss'}://{host}:{port}")
                await self._stop.wait()
                await self._shut_down(hub, sources)
                await websockets.ended()

    async def _listen(self, websockets: WebsocketServer) -> Server:
        server = self._settings.server
        try:
            return await websockets.listen(server.host, server.port, self._socket)
        except OSError as error:
            raise AddressError.of(server.host, server.port, error, "--host and --port") from error

    def _start_sources(self, hub: Hub) -> list[asyncio.Task[None]]:
        if not self._settings.microphone.enabled:
            return []
        return [asyncio.create_task(capture(hub), name="microphone")]

    async def _shut_down(self, hub: Hub, sources: list[asyncio.Task[None]]) -> None:
        notify("STOPPING=1")
        logger.info("shutting down: %d sessions to drain", len(hub.sessions))
        await hub.drain("shutdown", self._settings.server.shutdown_deadline_s)
        for source in sources:
            source.cancel()
        await asyncio.gather(*sources, return_exceptions=True)


def _address(listening: socket) -> tuple[str, int]:
    if listening.family == AF_UNIX:
        return str(listening.getsockname()), 0
    host, port, *_ = listening.getsockname()
    return host, port
