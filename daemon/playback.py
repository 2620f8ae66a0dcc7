"""Recordings played in real time through the live path, as a microphone would be heard."""

import asyncio
import sys
import time

from .audio.files import AudioFile, AudioFileError, open_audio
from .audio.pcm import AudioFormat
from .audio.resample import SAMPLE_RATE
from .hub import Hub, running
from .session import Session
from .settings import Settings
from .terminal import LiveText, show_all

BLOCK = SAMPLE_RATE // 20
"""Samples that are heard at once: 50 ms."""


async def play(settings: Settings, files: list[str]) -> int:
    """Plays files one after the other and shows their text; returns how many could not be played."""
    failed = 0
    async with running(settings) as hub:
        with LiveText() as text:
            for file in files:
                try:
                    with open_audio(file) as audio:
                        await _play(hub, audio, text)
                    problem = audio.problem
                except AudioFileError as error:
                    problem = str(error)
                if problem:
                    print(f"stenod: {problem}", file=sys.stderr)
                    failed += 1
    return failed


async def _play(hub: Hub, audio: AudioFile, text: LiveText) -> None:
    session = await hub.open(AudioFormat(), hub.defaults, None)
    showing = asyncio.create_task(show_all(session.attach_sender(), text))
    hub.start(session)
    try:
        await _send(session, audio)
        session.finish()
        await showing
    finally:
        showing.cancel()


async def _send(session: Session, audio: AudioFile) -> None:
    """Every block once its last sample would have been spoken."""
    began, sent = time.monotonic(), 0
    while (block := await asyncio.to_thread(next, audio.blocks, None)) is not None:
        for start in range(0, len(block), BLOCK):
            piece = block[start : start + BLOCK]
            sent += len(piece)
            await asyncio.sleep(began + sent / SAMPLE_RATE - time.monotonic())
            await session.push(piece)
