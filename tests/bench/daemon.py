"""A daemon of our own as a child process, and a clip played to it."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

from ..recordings import SAMPLE_RATE
from .live import Moment

CHUNK = SAMPLE_RATE // 20
"""Samples sent at once: 50 ms, as a microphone would."""
START_LIMIT_S = 60.0


@contextmanager
def serving(model: str, threads: int) -> Iterator[str]:
    """Runs ``stenod serve`` on a free port, gives its address once it is ready, and stops it in the end.

    Raises RuntimeError if it does not get ready.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "STENOD_SERVER__PORT": str(port),
        "STENOD_ENGINE__MODEL": model,
        "STENOD_ENGINE__THREADS": str(threads),
    }
    command = Path(sys.executable).with_name("stenod")
    child = subprocess.Popen([command, "serve"], env=os.environ | settings)
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/readyz", child)
        yield f"ws://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait()


def _wait_until_ready(address: str, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError(f"the daemon did not get ready at {address}; exit code {child.poll()}")


@dataclass
class Played:
    """What came of one clip. Times are seconds since the clip's first sample was due."""

    moments: list[Moment] = field(default_factory=list)
    finals: list[str] = field(default_factory=list)
    final_delays: list[float] = field(default_factory=list)
    """From ``speech_ended`` to ``final``, as they arrived."""
    overloads: int = 0

    @property
    def text(self) -> str:
        return " ".join(self.finals)


async def play(address: str, samples: NDArray[np.float32], language: str, *, real_time: bool) -> Played:
    """Sends a clip, in real time or as fast as the daemon takes it, and gathers the events."""
    start = {
        "type": "start",
        "audio": {"encoding": "s16le", "sample_rate": SAMPLE_RATE, "channels": 1},
        "language": language,
    }
    # Behind sound that is sent faster than it is worked on, a ping waits.
    async with connect(f"{address}/v1/stream", ping_timeout=None) as socket:
        await socket.send(json.dumps(start))
        began = time.monotonic()
        sending = asyncio.create_task(_send(socket, samples, began if real_time else None))
        played = await _gather(socket, began)
        await sending
    return played


async def _send(socket: ClientConnection, samples: NDArray[np.float32], began: float | None) -> None:
    pcm = (np.clip(samples, -1, 1) * 32767).astype("<i2")
    for offset in range(0, len(pcm), CHUNK):
        chunk = pcm[offset : offset + CHUNK]
        if began is not None:  # a chunk is there once its last sample is
            await asyncio.sleep(began + (offset + len(chunk)) / SAMPLE_RATE - time.monotonic())
        await socket.send(chunk.tobytes())
    await socket.send(json.dumps({"type": "finish"}))


async def _gather(socket: ClientConnection, began: float) -> Played:
    played = Played()
    committed = tentative = ""
    endpoint = 0.0
    async for message in socket:
        event: dict[str, Any] = json.loads(message)
        now = time.monotonic() - began
        match event["type"]:
            case "partial":
                committed, tentative = event["committed"], event["tentative"]
            case "commit":
                committed += event["text"]
            case "speech_ended":
                endpoint = now
            case "final" | "discarded":
                played.finals += [event["text"]] if event["type"] == "final" else []
                played.final_delays.append(now - endpoint)
                committed = tentative = ""
            case "overload":
                played.overloads += 1
            case "error":
                raise RuntimeError(f"the daemon refused: {event}")
            case _:
                continue
        before = played.text + " "
        played.moments.append(Moment(now, before + committed, tentative))
    return played
