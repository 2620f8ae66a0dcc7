"""The ports of protocols that cannot be told from others by their path."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial

from ..access import Access
from ..hub import Hub
from ..protocols import wyoming
from ..protocols.endpoint import Endpoint
from ..protocols.vosk import Vosk
from ..protocols.whisperlive import WhisperLive
from ..settings import SettingsError
from . import http
from .address import AddressError, check_host, is_own
from .tls import Certificate
from .websockets import WebsocketServer

logger = logging.getLogger(__name__)

Listening = Callable[[str, int], AbstractAsyncContextManager[int]]
"""Listens at a host and port until left; gives the port. Raises ``OSError``."""


@asynccontextmanager
async def other_ports(
    hub: Hub, access: Access, certificate: Certificate | None
) -> AsyncIterator[Mapping[str, int]]:
    """Listens, until left, for the protocols that are switched on; gives their ports by name.

    Left once the sessions have drained, it gives clients time to read what is left.
    Raises ``AddressError``, and ``SettingsError`` for what cannot be switched on.
    """
    chosen = hub.settings.protocols
    wanted: dict[str, tuple[int, Listening]] = {}
    if chosen.wyoming:
        await _check_tokenless(hub)
        wanted["wyoming"] = chosen.wyoming_port, partial(wyoming.listening, hub)
    if chosen.vosk:
        wanted["vosk"] = chosen.vosk_port, _websockets(hub, access, certificate, Vosk())
    if chosen.whisperlive:
        wanted["whisperlive"] = chosen.whisperlive_port, _websockets(hub, access, certificate, WhisperLive())
    if chosen.rest:
        wanted["rest"] = chosen.rest_port, _rest(hub, access, certificate)
    if wanted:
        await check_host(hub.settings.server)
    host, ports = hub.settings.server.host, {}
    async with AsyncExitStack() as stack:
        for name, (port, listening) in wanted.items():
            try:
                ports[name] = await stack.enter_async_context(listening(host, port))
            except OSError as error:
                raise AddressError.of(host, port, error, f"protocols.{name}_port") from error
            logger.info("%s: %s:%d", name, host, ports[name])
        if "wyoming" in ports and chosen.wyoming_announce:
            await stack.enter_async_context(_announced(host, ports["wyoming"]))
        yield ports


async def _check_tokenless(hub: Hub) -> None:
    """Whether Wyoming may be spoken at the settings' host."""
    server = hub.settings.server
    if await is_own(server.host):
        return
    if not server.allow_public:
        raise SettingsError(
            f"protocols.wyoming: {server.host} may be reached by other machines, and Wyoming asks nobody for "
            "a token: use 127.0.0.1, or set server.allow_public"
        )
    logger.warning("%s: what Wyoming hears and says there is not encrypted", server.host)


def _websockets(hub: Hub, access: Access, certificate: Certificate | None, endpoint: Endpoint) -> Listening:
    @asynccontextmanager
    async def listening(host: str, port: int) -> AsyncIterator[int]:
        server = WebsocketServer(hub, access, certificate, lambda _: endpoint)
        async with await server.listen(host, port) as opened:
            yield next(iter(opened.sockets)).getsockname()[1]
            await server.ended()

    return listening


def _announced(host: str, port: int) -> AbstractAsyncContextManager[None]:
    with _extra("announce", "protocols.wyoming_announce"):
        from .announce import announced
    return announced(host, port)


def _rest(hub: Hub, access: Access, certificate: Certificate | None) -> Listening:
    with _extra("rest", "protocols.rest"):
        from ..protocols.rest import application
        from .asgi import listening
    return partial(listening, application(hub, partial(http.identify, hub, access)), certificate)


@contextmanager
def _extra(name: str, setting: str) -> Iterator[None]:
    """What is imported here is installed by an extra. Raises ``SettingsError`` where it was not."""
    try:
        yield
    except ImportError as error:
        raise SettingsError(
            f"{setting}: the Python package {error.name} is missing: pip install 'stenod[{name}]'"
        ) from error
