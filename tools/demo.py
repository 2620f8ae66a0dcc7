"""Plays recordings in real time to a daemon of its own, over the websocket, and shows the text as it comes.

    python tools/demo.py RECORDING...

Committed words are in normal type, tentative ones dimmed.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from stenod.audio.files import open_audio
from stenod.audio.resample import SAMPLE_RATE
from stenod.clients import Sender, send
from stenod.events import Ended
from stenod.terminal import LiveText
from websockets.exceptions import InvalidStatus

BLOCK = SAMPLE_RATE // 20
"""Samples that are sent at once: 50 ms."""
LISTENS = "stenod listens on "


@asynccontextmanager
async def daemon() -> AsyncIterator[str]:
    """Runs ``stenod serve`` on a free port, and stops it in the end; gives its address.

    What the daemon says on standard error is passed on. Raises SystemExit where it does not start.
    """
    command = Path(sys.executable).with_name("stenod")
    process = await asyncio.create_subprocess_exec(
        command,
        "serve",
        "--port",
        "0",
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"STENOD_JOURNAL__ENABLED": "false"},
    )
    assert process.stderr is not None
    address = ""
    while not address and (line := (await process.stderr.readline()).decode()):
        print(line, end="", file=sys.stderr)
        if line.startswith(LISTENS):
            address = line.removeprefix(LISTENS).strip()
    if not address:
        sys.exit(await process.wait())
    remarks = asyncio.create_task(_pass_on(process.stderr))
    try:
        yield address
    finally:
        process.terminate()
        await process.wait()
        await remarks


async def _pass_on(lines: asyncio.StreamReader) -> None:
    """Errors of the log (JSON, as no terminal shows it) and other lines; warnings come as events."""
    async for line in lines:
        said = line.decode().rstrip()
        entry = json.loads(said) if said.startswith('{"time"') else {"level": "error", "message": said}
        if entry["level"] not in ("info", "warning"):
            print(entry["message"], *filter(None, [entry.get("error")]), sep="\n", file=sys.stderr)


async def play_when_there_is_room(address: str, file: str, text: LiveText) -> None:
    """Plays a recording; a daemon that could not keep up with the last one takes no other for a while."""
    while True:
        try:
            return await play(address, file, text)
        except InvalidStatus as refusal:
            if refusal.response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
                raise
            await asyncio.sleep(float(refusal.response.headers["Retry-After"]))


async def play(address: str, file: str, text: LiveText) -> None:
    """Sends a recording as a microphone would, and shows the events of its session."""
    async with send(address, encoding="f32le", sample_rate=SAMPLE_RATE) as sender:
        sending = asyncio.create_task(_send(sender, file))
        async for event in sender:
            text.show(event)
            if isinstance(event, Ended):
                break
        await sending


async def _send(sender: Sender, file: str) -> None:
    began, sent = time.monotonic(), 0
    with open_audio(file) as audio:
        for block in audio:
            for start in range(0, len(block), BLOCK):
                piece = block[start : start + BLOCK]
                sent += len(piece)
                await asyncio.sleep(began + sent / SAMPLE_RATE - time.monotonic())
                await sender.audio(piece.astype("<f4").tobytes())
    await sender.finish()


async def main(files: list[str]) -> None:
    async with daemon() as address:
        for file in files:
            print(f"playing {file}", file=sys.stderr)
            with LiveText() as text:
                await play_when_there_is_room(address, file, text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
