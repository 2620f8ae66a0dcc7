"""An ASGI application at a port of its own, in the daemon's event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from ..protocols.exchange import CLOSE_S
from .tls import Certificate


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are the daemon's."""
        yield


@asynccontextmanager
async def listening(
    application: ASGIApp, certificate: Certificate | None, host: str, port: int
) -> AsyncIterator[int]:
    """Serves an application at an address until left, then lets requests end; gives the port.

    Raises ``OSError``.
    """
    sockets = await _listen(host, port)
    config = uvicorn.Config(
        application,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(CLOSE_S),
    )
    config.load()
    if certificate is not None:
        config.ssl = certificate.context
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets), name="asgi")
    try:
        yield sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving


async def _listen(host: str, port: int) -> list[socket.socket]:
    """Sockets at all addresses of a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, address in {(family, address) for family, *_, address in found}:
            sockets.append(socket.create_server(address[:2], family=family))
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets
