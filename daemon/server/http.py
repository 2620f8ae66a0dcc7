"""What is answered before a connection becomes a websocket: pages, and refusals."""

import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from ..access import Access, AccessError, Grant, Scope
from ..channel import Cursor, Only
from ..events import Error, ErrorCode, encode
from ..hub import Hub, Refused
from ..metrics import REGISTRY
from ..settings import CHANNEL_NAME, LOOPBACK

logger = logging.getLogger(__name__)

STREAM_PATH = "/v1/stream"
CHANNEL_PATH = "/v1/channels/"
RETRY_AFTER_S = 5
TOKEN_PROTOCOL = "stenod.token."
"""How a page, which cannot send headers, offers its token among the subprotocols."""

_STATUS: dict[ErrorCode, HTTPStatus] = {
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "bad_field": HTTPStatus.BAD_REQUEST,
    "forbidden": HTTPStatus.FORBIDDEN,
    "too_many_sessions": HTTPStatus.TOO_MANY_REQUESTS,
    "engine_failed": HTTPStatus.SERVICE_UNAVAILABLE,
    "shutting_down": HTTPStatus.SERVICE_UNAVAILABLE,
}


@dataclass(frozen=True)
class ChannelRequest:
    """What a subscriber wants to read."""

    name: str
    only: Only | None
    since: Cursor | None


class Admission(NamedTuple):
    """Who opens a websocket."""

    grant: Grant
    client: str | None
    """Whom sessions are counted for: a token, or else an address; None: who is on a local socket."""


def status_of(refused: Refused) -> HTTPStatus:
    """The HTTP status of a refusal before the upgrade."""
    return _STATUS.get(refused.code, HTTPStatus.BAD_REQUEST)


def admit(hub: Hub, access: Access, request: Request, address: object) -> Admission:
    """Who opens a websocket from an address. Raises ``Refused`` if it must not be opened."""
    origin = request.headers.get("Origin")
    if origin is not None and not _is_welcome(hub, origin, request.headers.get("Host", "")):
        raise Refused(
            "forbidden", f"pages of {origin} may not connect: add it to server.origins in the settings"
        )
    path = urlsplit(request.path).path
    wanted = channel_request(request.path) if path.startswith(CHANNEL_PATH) else None
    grant = _granted(access, request, "send" if wanted is None else "read", wanted.name if wanted else None)
    client = grant.name or (str(address[0]) if isinstance(address, tuple) else None)
    if path == STREAM_PATH and (refusal := hub.refusal(client)) is not None and not hub.may_be_resumed:
        raise refusal
    if wanted is not None:
        if hub.closing.is_set():
            raise Refused("shutting_down", "the daemon is shutting down: try again later")
        if sum(channel.subscribers for channel in hub.channels.values()) >= hub.settings.limits.subscribers:
            raise Refused("too_many_sessions", "all places of subscribers are taken: try again later")
    return Admission(grant, client)


def _granted(access: Access, request: Request, scope: Scope, channel: str | None = None) -> Grant:
    """What the request's token may do, which must be at least that. Raises ``Refused``."""
    try:
        grant = access.grant(_token(request.headers))
    except AccessError as error:
        logger.error("nobody is let in: %s", error)
        grant = None
    if grant is None:
        raise Refused("unauthorized", "a token is needed that the daemon knows: Authorization: Bearer TOKEN")
    if not grant.allows(scope, channel):
        where = "" if channel is None else f" in channel {channel}"
        raise Refused("forbidden", f"this token has not the scope {scope}{where}")
    return grant


def _token(headers: Headers) -> str | None:
    """As programs send it, or as pages can."""
    for header in headers.get_all("Authorization"):
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
    for offered in ",".join(headers.get_all("Sec-WebSocket-Protocol")).split(","):
        if offered.strip().startswith(TOKEN_PROTOCOL):
            return offered.strip().removeprefix(TOKEN_PROTOCOL)
    return None


def channel_request(target: str) -> ChannelRequest:
    """What a request target below ``/v1/channels/`` asks for. Raises ``Refused``."""
    parts = urlsplit(target)
    name = parts.path.removeprefix(CHANNEL_PATH)
    if not re.match(CHANNEL_NAME, name):
        raise Refused(
            "bad_field", "channel: a name has letters, digits, '.', '_', '-', at most 64", "channel"
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    try:
        only = msgspec.convert(query.get("only"), Only | None)
    except msgspec.ValidationError as error:
        raise Refused(
            "bad_field", f"only: {query['only']!r} is neither finals nor commits", "only"
        ) from error
    try:
        since = Cursor.parse(query["since"]) if "since" in query else None
    except ValueError as error:
        raise Refused("bad_field", f"since: {error}", "since") from error
    return ChannelRequest(name, only, since)


async def answer(hub: Hub, access: Access, request: Request, address: object) -> Response | None:
    """The answer to a plain request, or to one that is refused; None: a websocket may be opened.

    A browser cannot read a refusal before the upgrade: it is let in, and told then.
    """
    path = urlsplit(request.path).path
    if path in _PAGES:
        return await _PAGES[path](hub)
    if path in _PRIVATE_PAGES:
        try:
            _granted(access, request, "admin")
        except Refused as refused:
            return _refusal(refused)
        return await _PRIVATE_PAGES[path](hub)
    if path != STREAM_PATH and not path.startswith(CHANNEL_PATH):
        return _json(HTTPStatus.NOT_FOUND, {"error": f"there is nothing at {path}"})
    try:
        admit(hub, access, request, address)
    except Refused as refused:
        return None if "Origin" in request.headers else _refusal(refused)
    return None


def _is_welcome(hub: Hub, origin: str, host: str) -> bool:
    server = hub.settings.server
    own = urlsplit(origin).netloc == host and urlsplit(origin).hostname in {*LOOPBACK, server.host}
    return own or origin in server.origins


def _refusal(refused: Refused) -> Response:
    response = _response(
        status_of(refused),
        encode(Error(refused.code, refused.message, fatal=True, field=refused.field)),
        "application/json",
    )
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    if response.status_code in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def _json(status: HTTPStatus, body: Any) -> Response:
    return _response(status, json.dumps(body, ensure_ascii=False).encode(), "application/json")


def _response(status: HTTPStatus, body: bytes, content_type: str) -> Response:
    headers = Headers({"Content-Type": content_type, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status, status.phrase, headers, body)


async def _health(hub: Hub) -> Response:
    return _json(HTTPStatus.OK, {"status": "ok"})


async def _readiness(hub: Hub) -> Response:
    if await hub.ready():
        return _json(HTTPStatus.OK, {"status": "ready"})
    refusal = hub.refusal()
    reason = refusal.message if refusal else "the last inference failed"
    return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "reason": reason})


async def _models(hub: Hub) -> Response:
    model = hub.engine.model
    return _json(
        HTTPStatus.OK,
        {"models": [{"name": model.name, "family": model.family, "languages": model.languages}]},
    )


async def _sessions(hub: Hub) -> Response:
    sessions = [
        {
            "session": session.id,
            "channel": session.channel.name,
            "started_at": session.started_at,
            "audio_s": session.audio_s,
        }
        for session in hub.sessions.values()
    ]
    return _json(HTTPStatus.OK, {"sessions": sessions})


async def _channels(hub: Hub) -> Response:
    channels = [
        {
            "channel": name,
            "session": channel.source.id if channel.source else None,
            "subscribers": channel.subscribers,
        }
        for name, channel in hub.channels.items()
    ]
    return _json(HTTPStatus.OK, {"channels": channels})


async def _metrics(hub: Hub) -> Response:
    succeeded_at = hub.engine.succeeded_at
    figures: dict[str, tuple[str, float]] = {
        "stenod_sessions": ("Open sessions", len(hub.sessions)),
        "stenod_sessions_away": ("Sessions that wait for their sender", hub.departures.away),
        "stenod_subscribers": ("Readers of channels", sum(c.subscribers for c in hub.channels.values())),
        "stenod_lag_seconds": ("How late the most overdue step is", hub.scheduler.lag_s),
        "stenod_step_grid": (
            "Factor on the step grid; above 1 under overload",
            hub.scheduler.ladder.rung.grid,
        ),
        "stenod_inference_age_seconds": (
            "Time since an inference succeeded",
            time.monotonic() - succeeded_at if succeeded_at is not None else float("inf"),
        ),
    }
    if (journal := hub.journal) is not None:
        figures |= {
            "stenod_journal_failed": ("1 while what is told is not kept", float(journal.failed)),
            "stenod_journal_failures": ("How often that began", journal.failures),
            "stenod_journal_lost_events": ("Events that were told and are not kept", journal.lost),
            "stenod_journal_waiting": ("What waits for the disk", journal.waiting),
        }
    registry = CollectorRegistry()
    for name, (description, figure) in figures.items():
        Gauge(name, description, registry=registry).set(figure)
    return _response(
        HTTPStatus.OK, generate_latest(registry) + generate_latest(REGISTRY), CONTENT_TYPE_LATEST
    )


_PAGES: dict[str, Callable[[Hub], Awaitable[Response]]] = {
    "/healthz": _health,
    "/readyz": _readiness,
    "/v1/models": _models,
}
_PRIVATE_PAGES: dict[str, Callable[[Hub], Awaitable[Response]]] = {
    "/metrics": _metrics,
    "/v1/sessions": _sessions,
    "/v1/channels": _channels,
}
