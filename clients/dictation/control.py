"""The socket by which `stenod dictate COMMAND` reaches the dictation that runs: a line each way."""

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal, get_args

import platformdirs

from .errors import CannotControl

logger = logging.getLogger(__name__)

Command = Literal["toggle", "start", "stop", "cancel", "undo", "status"]
COMMANDS: tuple[Command, ...] = get_args(Command)
ANSWERS_WITHIN_S = 60.0
LONGEST_LINE = 64


def folder() -> Path:
    """Where the socket is, and the status; it is made if need be, and nobody else may look into it."""
    place = Path(platformdirs.user_runtime_dir("stenod"))
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = place.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CannotControl(f"{place}: others may use it; remove it, or set XDG_RUNTIME_DIR")
    return place


@contextmanager
def only_one(place: Path) -> Iterator[None]:
    """Raises ``CannotControl`` where another dictation runs already."""
    with (place / "dictate.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotControl("dictation runs already; see `stenod dictate status`") from error
        yield


@asynccontextmanager
async def answering(place: Path, obey: Callable[[Command], Awaitable[str]]) -> AsyncIterator[None]:
    """Answers commands with what ``obey`` returns."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                line = (await reader.readline()).decode(errors="replace").strip()
                known = next((command for command in COMMANDS if command == line), None)
                reply = await obey(known) if known else f"error: {line!r} is none of {', '.join(COMMANDS)}"
                writer.write(f"{reply}\n".encode())
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError) as error:
            logger.info("who sent a command is gone, or sent too much: %s", error)
        finally:
            writer.close()

    socket = place / "dictate.sock"
    socket.unlink(missing_ok=True)  # one that was killed left it
    previous = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(answer, socket, limit=LONGEST_LINE)
    finally:
        os.umask(previous)
    async with server:
        yield
    socket.unlink(missing_ok=True)


async def ask(place: Path, command: Command) -> str:
    """What the dictation that runs answers. Raises ``CannotControl`` where none runs."""
    try:
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            reader, writer = await asyncio.open_unix_connection(place / "dictate.sock")
            writer.write(f"{command}\n".encode())
            reply = (await reader.readline()).decode().strip()
            writer.close()
    except (OSError, TimeoutError) as error:
        raise CannotControl("dictation does not run; start it with `stenod dictate`") from error
    return reply
