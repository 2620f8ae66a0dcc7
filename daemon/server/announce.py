"""Lets Home Assistant find Wyoming by itself: multicast DNS."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

import ifaddr
from zeroconf import Error
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

logger = logging.getLogger(__name__)

WYOMING = "_wyoming._tcp.local."


@asynccontextmanager
async def announced(host: str, port: int) -> AsyncIterator[None]:
    """Announces Wyoming at a host's addresses until left."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_STREAM)
    addresses = {str(address[0]) for *_, address in found}
    if any(ip_address(address).is_unspecified for address in addresses):
        all_of_them = (str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4)
        addresses = {address for address in all_of_them if not ip_address(address).is_loopback}
    announcing = asyncio.create_task(_announce(sorted(addresses), port), name="announcement")
    try:
        yield
    finally:
        announcing.cancel()
        await asyncio.wait({announcing})


async def _announce(addresses: list[str], port: int) -> None:
    """Until cancelled. A network that does not let us is logged; those who know the address need no more."""
    service = AsyncServiceInfo(
        WYOMING,
        f"stenod on {socket.gethostname().partition('.')[0]}.{WYOMING}",
        port=port,
        parsed_addresses=addresses,
    )
    try:
        async with AsyncZeroconf(interfaces=addresses) as network:
            await network.async_register_service(service, allow_name_change=True)
            try:
                await asyncio.Event().wait()
            finally:
                await network.async_unregister_all_services()
    except (OSError, Error) as error:
        logger.warning("Wyoming is not announced to the network: %s", error)
