"""What is answered before a connection becomes a websocket: pages, and refusals."""

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from ..access import Access, AccessError, Grant
from ..events import ErrorCode, encode
from ..hub import Hub, Refused
from ..metrics import REGISTRY
from ..protocols.endpoint import Admission, Endpoint, bearer, require
from ..protocols.messages import error_of
from ..settings import LOOPBACK
from . import pages

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 5

_STATUS: dict[ErrorCode, HTTPStatus] = {
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "bad_field": HTTPStatus.BAD_REQUEST,
    "forbidden": HTTPStatus.FORBIDDEN,
    "too_many_sessions": HTTPStatus.TOO_MANY_REQUESTS,
    "engine_failed": HTTPStatus.SERVICE_UNAVAILABLE,
    "shutting_down": HTTPStatus.SERVICE_UNAVAILABLE,
}


def status_of(refused: Refused) -> HTTPStatus:
    """The HTTP status of a refusal before the upgrade."""
    return _STATUS.get(refused.code, HTTPStatus.BAD_REQUEST)


def admit(hub: Hub, access: Access, endpoint: Endpoint, request: Request, address: object) -> Admission:
    """Who opens a websocket from an address. Raises ``Refused`` if it must not be opened."""
    token = endpoint.token(request.headers)
    admission = Admission(urlsplit(request.path), *identify(hub, access, request.headers, token, address))
    endpoint.check(hub, admission)
    return admission


def identify(
    hub: Hub, access: Access, headers: Mapping[str, str], token: str | None, address: object
) -> tuple[Grant, str | None]:
    """What the sender of a request may do, and whom its sessions are counted for.

    Raises ``Refused`` for a page that may not connect, and for a token that is unknown.
    """
    origin = headers.get("Origin")
    if origin is not None and not _is_welcome(hub, origin, headers.get("Host", "")):
        raise Refused(
            "forbidden", f"pages of {origin} may not connect: add it to server.origins in the settings"
        )
    grant = _grant(access, token)
    return grant, grant.name or (str(address[0]) if isinstance(address, tuple) else None)


def _grant(access: Access, token: str | None) -> Grant:
    """What a client with that token may do. Raises ``Refused`` if it is unknown."""
    try:
        grant = access.grant(token)
    except AccessError as error:
        logger.error("nobody is let in: %s", error)
        grant = None
    if grant is None:
        raise Refused("unauthorized", "a token is needed that the daemon knows: Authorization: Bearer TOKEN")
    return grant


async def page(hub: Hub, access: Access, request: Request) -> Response | None:
    """The page that is asked for, or why it may not be seen; None: there is none."""
    path = urlsplit(request.path).path
    if (page := pages.page(path, request.headers)) is not None:
        return page
    if path in _PAGES:
        return await _PAGES[path](hub)
    if path in _PRIVATE_PAGES:
        try:
            require(_grant(access, bearer(request.headers)), "admin")
        except Refused as refused:
            return _refusal(refused, encode(error_of(refused, fatal=True)))
        return await _PRIVATE_PAGES[path](hub)
    return None


def upgrade(
    hub: Hub, access: Access, endpoint: Endpoint | None, request: Request, address: object
) -> Response | None:
    """The answer to a request for a websocket that is refused; None: it may be opened.

    A browser cannot read a refusal before the upgrade: it is let in, and told then.
    """
    if endpoint is None:
        return _json(HTTPStatus.NOT_FOUND, {"error": f"there is nothing at {urlsplit(request.path).path}"})
    try:
        admit(hub, access, endpoint, request, address)
    except Refused as refused:
        return None if "Origin" in request.headers else _refusal(refused, endpoint.refusal(refused))
    return None


def _is_welcome(hub: Hub, origin: str, host: str) -> bool:
    server = hub.settings.server
    own = urlsplit(origin).netloc == host and urlsplit(origin).hostname in {*LOOPBACK, server.host}
    return own or origin in server.origins


def _refusal(refused: Refused, body: bytes) -> Response:
    response = _response(status_of(refused), body, "application/json")
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
    """As we tell it, and as OpenAI's clients expect it."""
    model = hub.engine.model
    ours = {"name": model.name, "family": model.family, "languages": model.languages}
    theirs = {"id": model.name, "object": "model", "created": 0, "owned_by": "stenod"}
    return _json(HTTPStatus.OK, {"models": [ours], "object": "list", "data": [theirs]})


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
