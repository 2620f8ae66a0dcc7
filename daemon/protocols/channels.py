"""The native protocol's ``/v1/channels/NAME``: reads a channel."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from ..channel import Cursor, Only
from ..hub import Hub, Refused
from ..journal import JournalError
from ..publication import Publication
from ..replay import follow, of_channel
from ..settings import CHANNEL_NAME
from .endpoint import Admission, require
from .exchange import cancel, ignore_messages, keep_alive
from .native import Native

logger = logging.getLogger(__name__)

CHANNEL_PATH = "/v1/channels/"


@dataclass(frozen=True)
class ChannelRequest:
    """What a subscriber wants to read."""

    name: str
    only: Only | None
    since: Cursor | None


class Channels(Native):
    """Readers of channels."""

    def takes(self, path: str) -> bool:
        return path.startswith(CHANNEL_PATH)

    def check(self, hub: Hub, admission: Admission) -> None:
        require(admission.grant, "read", channel_request(admission.target).name)
        if hub.closing.is_set():
            raise Refused("shutting_down", "the daemon is shutting down: try again later")
        if sum(channel.subscribers for channel in hub.channels.values()) >= hub.settings.limits.subscribers:
            raise Refused("too_many_sessions", "all places of subscribers are taken: try again later")

    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        wanted = channel_request(admission.target)
        channel = hub.channel(wanted.name)
        server = hub.settings.server
        with channel.reader():
            told = follow(channel, hub.journal, of_channel(channel), wanted.since, wanted.only)
            tasks: set[asyncio.Task[Any]] = {
                asyncio.create_task(_tell(socket, told)),
                asyncio.create_task(ignore_messages(socket)),
                asyncio.create_task(keep_alive(socket, server.ping_s, server.idle_s)),
            }
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancel(tasks)
            await socket.close()


def channel_request(target: SplitResult) -> ChannelRequest:
    """What a request target below ``/v1/channels/`` asks for. Raises ``Refused``."""
    name = target.path.removeprefix(CHANNEL_PATH)
    if not re.match(CHANNEL_NAME, name):
        raise Refused(
            "bad_field", "channel: a name has letters, digits, '.', '_', '-', at most 64", "channel"
        )
    query = dict(parse_qsl(target.query, keep_blank_values=True))
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


async def _tell(socket: ServerConnection, told: AsyncGenerator[Publication, None]) -> None:
    """Sends what is told, until there is nothing more or the subscriber has left."""
    try:
        async with aclosing(told):
            async for publication in told:
                await socket.send(publication.json, text=True)
    except ConnectionClosed:
        pass
    except JournalError as error:
        logger.error("%s", error)
