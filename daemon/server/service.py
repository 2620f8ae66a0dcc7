"""What a service manager (systemd) hands to a daemon, and wants to be told by it."""

import asyncio
import logging
import os
import socket
import time

from ..hub import PROBE_TIMEOUT_S, Hub

logger = logging.getLogger(__name__)

FIRST_DESCRIPTOR = 3
"""``SD_LISTEN_FDS_START``."""


class ServiceError(Exception):
    """What the service manager hands over cannot be used."""


def notify(state: str) -> None:
    """Tells the service manager, if there is one, what ``sd_notify`` says, such as ``READY=1``."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # a socket without a file
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("the service manager cannot be told %s: %s", state, error)


def handed_over_socket() -> socket.socket | None:
    """The listening socket that the service manager opened for us, if it did. Raises ``ServiceError``."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = int(os.environ.get("LISTEN_FDS", "0"))
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):  # they are not for our children
        os.environ.pop(name, None)
    if count == 0:
        return None
    if count > 1:
        raise ServiceError(f"the service manager hands over {count} sockets; one ListenStream= is what works")
    try:
        os.set_inheritable(FIRST_DESCRIPTOR, False)
        return socket.socket(fileno=FIRST_DESCRIPTOR)
    except OSError as error:
        raise ServiceError(f"the service manager hands over no socket: {error.strerror}") from error


async def feed_watchdog(hub: Hub) -> None:
    """Until cancelled, tells the service manager that inference works, twice in the time that it allows.

    A daemon whose engine hangs is silent, and started anew.
    """
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    allowed_s = int(os.environ.get("WATCHDOG_USEC", "0")) / 1e6
    if allowed_s <= 0:
        return
    while True:
        if await _computes(hub, allowed_s / 2):
            notify("WATCHDOG=1")
        await asyncio.sleep(allowed_s / 2)


async def _computes(hub: Hub, lately_s: float) -> bool:
    succeeded_at = hub.engine.succeeded_at
    if succeeded_at is not None and time.monotonic() - succeeded_at < lately_s:
        return True
    try:
        async with asyncio.timeout(max(PROBE_TIMEOUT_S, lately_s)):
            return await hub.engine.probe()
    except TimeoutError:
        return False
