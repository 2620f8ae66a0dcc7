"""A network that misbehaves, the same way for the same seed: a TCP proxy between a client and a daemon."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

READ_BYTES = 1 << 16
LONGEST_LINGER_S = 0.5


@dataclass(frozen=True)
class Fate:
    """What becomes of one connection."""

    up_bytes: int | None
    """It breaks when so many bytes went to the daemon, wherever that is in a frame; None: it does not."""
    down_bytes: int | None
    """The same for what comes back."""
    lingers_s: float
    """The daemon notices only so long after the client, and gets what was under way in between."""
    piece_bytes: int
    """All is cut into pieces of at most so many bytes."""
    delay_s: float
    """Between two pieces, at most."""
    twice: bool
    """The daemon sees two connections that say the same; the client has the first."""

    @classmethod
    def drawn(cls, draw: random.Random) -> Self:
        """Most connections break sooner or later."""
        return cls(
            up_bytes=draw.choice([None, draw.randrange(400, 2000), draw.randrange(2000, 120_000)]),
            down_bytes=draw.choice([None, None, draw.randrange(150, 6000)]),
            lingers_s=draw.choice([0.0, draw.uniform(0, LONGEST_LINGER_S)]),
            piece_bytes=draw.choice([7, 1000, READ_BYTES]) if draw.random() < 0.3 else READ_BYTES,
            delay_s=draw.choice([0.0, 0.0, 0.002]),
            twice=draw.random() < 0.15,
        )


class Proxy:
    """Forwards connections to a daemon, each as its fate will have it; get one from ``proxy``."""

    def __init__(self, target: str, seed: int, most_broken: int) -> None:
        parts = urlsplit(target)
        self._target = parts.hostname, parts.port
        self._draw = random.Random(seed)
        self._left = most_broken
        self._tasks: set[asyncio.Task[None]] = set()
        self.broken = 0
        """Connections that were broken."""

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection of the client."""
        self._tasks.add(asyncio.create_task(self._connection(reader, writer)))

    async def close(self) -> None:
        """Breaks all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fate = Fate.drawn(self._draw) if self._left else Fate(None, None, 0, READ_BYTES, 0, False)
        self._left = max(0, self._left - 1)
        ups = []
        try:
            for _ in range(2 if fate.twice else 1):
                ups.append(await asyncio.open_connection(*self._target))
        except OSError:
            writer.transport.abort()
            return
        first, *others = ups
        tasks = [asyncio.create_task(_ignore(up)) for up, _ in others]
        both = [
            asyncio.create_task(_forward(reader, [up for _, up in ups], fate, fate.up_bytes)),
            asyncio.create_task(_forward(first[0], [writer], fate, fate.down_bytes)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            self.broken += 1
            writer.transport.abort()
            await asyncio.sleep(fate.lingers_s)
        finally:
            for one in (writer, *(up for _, up in ups)):
                one.transport.abort()
            for task in (*both, *tasks):
                task.cancel()
            await asyncio.gather(*both, *tasks, return_exceptions=True)


async def _forward(
    reader: asyncio.StreamReader, writers: list[asyncio.StreamWriter], fate: Fate, most: int | None
) -> None:
    """Returns when the connection is to break, or one end has closed it."""
    passed = 0
    with suppress(OSError):
        while data := await reader.read(READ_BYTES):
            for start in range(0, len(data), fate.piece_bytes):
                piece = data[start : start + fate.piece_bytes]
                if most is not None and passed + len(piece) > most:
                    for writer in writers:
                        writer.write(piece[: most - passed])
                    return
                passed += len(piece)
                for writer in writers:
                    writer.write(piece)
                    await writer.drain()
                if fate.delay_s:
                    await asyncio.sleep(fate.delay_s)


async def _ignore(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(READ_BYTES):
            pass


@asynccontextmanager
async def proxy(target: str, seed: int, most_broken: int = 8) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy to the daemon at ``target``, and its address. After so many connections it behaves."""
    running = Proxy(target, seed, most_broken)
    server = await asyncio.start_server(running.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield running, f"ws://127.0.0.1:{port}"
    finally:
        server.close()
        await running.close()
