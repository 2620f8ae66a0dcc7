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
    announcing = asyncio.create_task(_announce(host, port), name="announcement")
    try:
        yield
    finally:
        announcing.cancel()
        await asyncio.wait({announcing})


async def _announce(host: str, port: int) -> None:
    """Until cancelled. A system that does not let us is logged; those who know the address need no more."""
    try:
        addresses = await _addresses(host)
        name = f"stenod on {socket.gethostname().partition('.')[0]}.{WYOMING}"
        async with AsyncZeroconf(interfaces=addresses) as network:
            service = AsyncServiceInfo(WYOMING, name, port=port, parsed_addresses=addresses)
            await network.async_register_service(service, allow_name_change=True)
            try:
                await asyncio.Event().wait()
            finally:
                await network.async_unregister_all_services()
    except (OSError, Error) as error:
        logger.warning("Wyoming is not announced to the network: %s", error)


async def _addresses(host: str) -> list[str]:
    """The IPv4 addresses of a host; of one that means all of them, those that others can reach."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, family=socket.AF_INET)
    addresses = {str(address[0]) for *_, address in found}
    if any(ip_address(address).is_unspecified for address in addresses):
        own = (str(ip.ip) for adapter in ifaddr.get_adapters() for ip in adapter.ips if ip.is_IPv4)
        addresses = {address for address in own if not ip_address(address).is_loopback}
    return sorted(addresses)
