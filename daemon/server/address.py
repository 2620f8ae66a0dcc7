"""Where the daemon may listen."""

import asyncio
import logging
from ipaddress import ip_address
from socket import AF_UNIX, socket
from typing import Self

from ..settings import Server, SettingsError

logger = logging.getLogger(__name__)


class AddressError(Exception):
    """The daemon cannot listen at its address; the message says why and what to do."""

    @classmethod
    def of(cls, host: str, port: int, error: OSError, setting: str) -> Self:
        """``error`` came of listening there; ``setting`` chooses another address."""
        return cls(f"{host}:{port}: {error.strerror or error}; choose another with {setting}")


async def check_host(server: Server, handed_over: socket | None = None) -> None:
    """Looks at the host of the settings, or of the socket that a service manager opened.

    Raises ``AddressError`` if there is no such host, ``SettingsError`` if others could reach it.
    """
    host = server.host
    if handed_over is not None:
        host = "localhost" if handed_over.family == AF_UNIX else handed_over.getsockname()[0]
    if await is_own(host):
        return
    if server.tokens is None and not server.allow_public:
        raise SettingsError(
            f"server.host: {host} may be reached by other machines and nobody is asked for a "
            "token: use 127.0.0.1, or set server.tokens, or server.allow_public"
        )
    if server.tls_certificate is None:
        logger.warning("%s: what is said and heard there is not encrypted", host)


async def check_port(server: Server) -> None:
    """Raises ``AddressError`` if another program listens there, before anything is loaded or opened."""
    loop = asyncio.get_running_loop()
    try:  # bound but not listening: nobody is let in who would be dropped at once
        async with await loop.create_server(asyncio.Protocol, server.host, server.port, start_serving=False):
            pass
    except OSError as error:
        raise AddressError.of(server.host, server.port, error, "--host and --port") from error


async def is_own(host: str) -> bool:
    """Whether this machine alone can reach the host. Raises ``AddressError`` if there is none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, UnicodeError) as error:
        raise AddressError(
            f"{host!r} does not resolve to an address ({error}); choose another with --host"
        ) from error
    return all(ip_address(address[0]).is_loopback for *_, address in found)
