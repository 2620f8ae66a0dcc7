"""The websockets at an address: each speaks one of its wire protocols."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from socket import socket
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from ..access import Access
from ..hub import Hub, Refused
from ..protocols.endpoint import Endpoint
from ..protocols.exchange import CLOSE_S, close_unread
from . import http
from .tls import Certificate

logger = logging.getLogger(__name__)

REFUSED_CLOSE = 4000
"""Who is refused when the websocket is open, as a browser is, is closed with this plus the HTTP status."""


class WebsocketServer:
    """Lets clients in, and serves each with the protocol of its path."""

    def __init__(
        self,
        hub: Hub,
        access: Access,
        certificate: Certificate | None,
        endpoint_at: Callable[[str], Endpoint | None],
        *,
        pages: bool = False,
    ) -> None:
        """``pages``: whether the daemon's pages are to be had here too."""
        self._hub = hub
        self._access = access
        self._certificate = certificate
        self._endpoint_at = endpoint_at
        self._pages = pages
        self._handlers: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int, handed_over: socket | None = None) -> Server:
        """Listens at an address, or at a socket that was handed over. Raises ``OSError``."""
        where = (host, port) if handed_over is None else (None, None)
        return await serve(
            self._serve,
            *where,
            sock=handed_over,
            process_request=self._answer,
            select_subprotocol=self._select_subprotocol,
            ssl=self._certificate.context if self._certificate else None,
            compression=None,
            ping_interval=None,  # the protocols ping, and know whom they are holding back
            max_size=self._hub.settings.limits.frame_bytes,
            max_queue=4,
        )

    async def ended(self) -> None:
        """Returns when all clients were told the ends of their sessions, or do not read them."""
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=CLOSE_S)

    async def _answer(self, socket: ServerConnection, request: Request) -> Response | None:
        if self._pages and (page := await http.page(self._hub, self._access, request)) is not None:
            return page
        endpoint = self._endpoint_at(urlsplit(request.path).path)
        return http.upgrade(self._hub, self._access, endpoint, request, socket.remote_address)

    async def _serve(self, socket: ServerConnection) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            await self._handle(socket)
        finally:
            self._handlers.discard(task)

    async def _handle(self, socket: ServerConnection) -> None:
        """One websocket, to its end."""
        endpoint, request = self._endpoint(socket), socket.request
        assert endpoint is not None and request is not None  # else `http.upgrade` has answered
        try:
            admission = http.admit(self._hub, self._access, endpoint, request, socket.remote_address)
            await endpoint.serve(socket, self._hub, admission)
        except Refused as refused:
            await _refuse(socket, endpoint, refused)
        except ConnectionClosed:
            logger.debug("a client left")

    def _endpoint(self, socket: ServerConnection) -> Endpoint | None:
        return self._endpoint_at(urlsplit(socket.request.path).path) if socket.request else None

    def _select_subprotocol(
        self, socket: ServerConnection, offered: Sequence[Subprotocol]
    ) -> Subprotocol | None:
        """Clients need not offer one, and may offer others beside those that are spoken here."""
        endpoint = self._endpoint(socket)
        spoken = endpoint.subprotocols if endpoint else ()
        return next((Subprotocol(one) for one in spoken if one in offered), None)


async def _refuse(socket: ServerConnection, endpoint: Endpoint, refused: Refused) -> None:
    with suppress(ConnectionClosed):
        await socket.send(endpoint.refusal(refused), text=True)
        await close_unread(socket, REFUSED_CLOSE + http.status_of(refused), refused.code)
