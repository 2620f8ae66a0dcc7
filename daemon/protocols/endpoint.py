"""What the server has to know of a wire protocol: how a websocket is asked for, refused and served."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple
from urllib.parse import SplitResult

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers

from ..access import Grant, Scope
from ..hub import Hub, Refused


class Admission(NamedTuple):
    """Who opens a websocket, and what for."""

    target: SplitResult
    """The request's path and query."""
    grant: Grant
    client: str | None
    """Whom sessions are counted for: a token, or else an address; None: who is on a local socket."""


class Endpoint(ABC):
    """One wire protocol at its path. The registry has one of each; it holds nothing of its clients."""

    subprotocols: ClassVar[tuple[str, ...]] = ()
    """Those that it speaks: of what a client offers, the first of these is chosen."""

    @abstractmethod
    def takes(self, path: str) -> bool:
        """Whether the path is its own."""

    def token(self, headers: Headers) -> str | None:
        """The token that a client brings; None: it brings none."""
        return bearer(headers)

    def check(self, hub: Hub, admission: Admission) -> None:
        """Raises ``Refused`` if the websocket must not be opened. Here: that of a source."""
        require(admission.grant, "send")
        if (refusal := hub.refusal(admission.client)) is not None:
            raise refusal

    @abstractmethod
    def refusal(self, refused: Refused) -> bytes:
        """How the protocol tells a refusal: JSON, the body of an HTTP answer or the last message."""

    @abstractmethod
    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        """Serves one client to the end. Raises ``Refused`` and ``ConnectionClosed``."""


def bearer(headers: Headers, scheme: str = "bearer") -> str | None:
    """The token of the header ``Authorization``, as programs send it."""
    for header in headers.get_all("Authorization"):
        given, _, token = header.partition(" ")
        if given.lower() == scheme:
            return token.strip()
    return None


def offered(headers: Headers) -> list[str]:
    """The subprotocols that a client offers; pages, which cannot send headers, put their token there."""
    return [one.strip() for one in ",".join(headers.get_all("Sec-WebSocket-Protocol")).split(",")]


def require(grant: Grant, scope: Scope, channel: str | None = None) -> None:
    """Raises ``Refused`` unless the client may do that."""
    if not grant.allows(scope, channel):
        where = "" if channel is None else f" in channel {channel}"
        raise Refused("forbidden", f"this token has not the scope {scope}{where}")
