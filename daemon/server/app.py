"""The daemon's life: start up, serve, drain, end."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from socket import AF_UNIX, socket
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from ..access import Access
from ..hub import Hub, Refused, running
from ..journal import journaling
from ..protocols.endpoint import Endpoint
from ..protocols.exchange import CLOSE_S
from ..protocols.registry import endpoint_at
from ..restart import take_up_sessions
from ..settings import Settings, SettingsError
from . import http
from .microphone import capture
from .service import feed_watchdog, handed_over_socket, notify
from .tls import Certificate, certificate_of

logger = logging.getLogger(__name__)

REFUSED_CLOSE = 4000
"""Who is refused when the websocket is open, as a browser is, is closed with this plus the HTTP status."""


class EngineNotReady(Exception):
    """The engine loaded a model but could not compute with it."""


class AddressError(Exception):
    """The daemon cannot listen at its address; the message says why and what to do."""


class Daemon:
    """One daemon. ``run`` it as the main task; ``stop`` makes it drain and end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = asyncio.Event()
        self._access = Access(settings.server.tokens)
        self._certificate: Certificate | None = None
        self._socket: socket | None = None
        """The one to listen on that a service manager opened, if it did."""
        self._handlers: set[asyncio.Task[None]] = set()

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
        await self._check_host()
        async with journaling(self._settings.journal) as journal, running(self._settings, journal) as hub:
            if not await hub.engine.probe():
                raise EngineNotReady("the model was loaded, but computing with it failed; see the log")
            await take_up_sessions(hub)
            async with await self._listen(hub) as server:
                sources = self._start_sources(hub)
                sources.append(asyncio.create_task(feed_watchdog(hub), name="watchdog"))
                if self._certificate is not None:
                    sources.append(asyncio.create_task(self._certificate.keep_fresh(), name="certificate"))
                host, port = _address(server.sockets[0])
                notify("READY=1")
                listening(f"{'ws' if self._certificate is None else 'wss'}://{host}:{port}")
                await self._stop.wait()
                await self._shut_down(hub, sources)

    async def _check_host(self) -> None:
        """Raises ``AddressError`` if there is no such host, ``SettingsError`` if others could reach it."""
        server = self._settings.server
        host = server.host
        if self._socket is not None:
            host = "localhost" if self._socket.family == AF_UNIX else self._socket.getsockname()[0]
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None)
        except (OSError, UnicodeError) as error:
            raise AddressError(
                f"{host!r} does not resolve to an address ({error}); choose another with --host"
            ) from error
        own = all(ip_address(address[0]).is_loopback for *_, address in found)
        if not own and server.tokens is None and not server.allow_public:
            raise SettingsError(
                f"server.host: {host} may be reached by other machines and nobody is asked for a "
                "token: use 127.0.0.1, or set server.tokens, or server.allow_public"
            )
        if not own and server.tls_certificate is None:
            logger.warning("%s: what is said and heard there is not encrypted", host)

    async def _listen(self, hub: Hub) -> Server:
        async def process_request(socket: ServerConnection, request: Request) -> Response | None:
            return await http.answer(hub, self._access, request, socket.remote_address)

        async def handle(socket: ServerConnection) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._handlers.add(task)
            try:
                await self._handle(hub, socket)
            finally:
                self._handlers.discard(task)

        server = self._settings.server
        try:
            where = (server.host, server.port) if self._socket is None else (None, None)
            return await serve(
                handle,
                *where,
                sock=self._socket,
                process_request=process_request,
                select_subprotocol=_select_subprotocol,
                ssl=self._certificate.context if self._certificate else None,
                compression=None,
                ping_interval=None,  # the protocols ping, and know whom they are holding back
                max_size=self._settings.limits.frame_bytes,
                max_queue=4,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise AddressError(
                f"{server.host}:{server.port}: {reason}; choose another with --host and --port"
            ) from error

    async def _handle(self, hub: Hub, socket: ServerConnection) -> None:
        """One websocket, to its end."""
        endpoint, request = _endpoint(socket), socket.request
        assert endpoint is not None and request is not None  # else `http.answer` has answered
        try:
            admission = http.admit(hub, self._access, endpoint, request, socket.remote_address)
            await endpoint.serve(socket, hub, admission)
        except Refused as refused:
            await _refuse(socket, endpoint, refused)
        except ConnectionClosed:
            logger.debug("a client left")

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
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=CLOSE_S)


def _address(listening: socket) -> tuple[str, int]:
    if listening.family == AF_UNIX:
        return str(listening.getsockname()), 0
    host, port, *_ = listening.getsockname()
    return host, port


def _endpoint(socket: ServerConnection) -> Endpoint | None:
    return endpoint_at(urlsplit(socket.request.path).path) if socket.request else None


def _select_subprotocol(socket: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """Clients need not offer one, and may offer others beside those that are spoken here."""
    endpoint = _endpoint(socket)
    spoken = endpoint.subprotocols if endpoint else ()
    return next((Subprotocol(one) for one in spoken if one in offered), None)


async def _refuse(socket: ServerConnection, endpoint: Endpoint, refused: Refused) -> None:
    with suppress(ConnectionClosed):
        await socket.send(endpoint.refusal(refused), text=True)
        await socket.close(REFUSED_CLOSE + http.status_of(refused), refused.code)
