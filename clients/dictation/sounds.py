"""Short tones: listening begins, it ends, something is wrong."""

import asyncio
import io
import wave
from pathlib import Path
from shutil import which
from typing import Literal

import numpy as np

Sound = Literal["begin", "end", "wrong"]

SAMPLE_RATE = 48000
NOTE_S = 0.07
NOTES: dict[Sound, tuple[float, ...]] = {"begin": (660, 880), "end": (880, 660), "wrong": (220, 0, 220)}
"""Frequencies in Hz, one after the other."""
PLAYERS = (("pw-play",), ("paplay", "--latency-msec=50"), ("aplay", "--quiet"))


class Sounds:
    """Plays tones with a program of the sound service; without one, or with ``on`` false, it is silent."""

    def __init__(self, folder: Path, on: bool) -> None:
        self._player = next((player for player in PLAYERS if which(player[0])), None) if on else None
        self._folder = folder
        self._playing: set[asyncio.Task[None]] = set()
        if self._player is not None:
            for name, notes in NOTES.items():
                self._file(name).write_bytes(_wav(notes))

    def play(self, name: Sound) -> None:
        """Plays a tone; does not wait for its end."""
        if self._player is not None:
            task = asyncio.create_task(self._play(self._player, self._file(name)))
            self._playing.add(task)
            task.add_done_callback(self._playing.discard)

    async def close(self) -> None:
        """Waits for the tones that still sound."""
        await asyncio.gather(*self._playing)

    async def _play(self, player: tuple[str, ...], file: Path) -> None:
        nowhere = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*player, str(file), stdout=nowhere, stderr=nowhere)
        try:
            async with asyncio.timeout(2):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _file(self, name: Sound) -> Path:
        return self._folder / f"{name}.wav"


def _wav(notes: tuple[float, ...]) -> bytes:
    time = np.arange(round(NOTE_S * SAMPLE_RATE)) / SAMPLE_RATE
    swell = np.sin(np.pi * time / NOTE_S)  # without it each note begins and ends with a click
    tones = np.concatenate([0.2 * swell * np.sin(2 * np.pi * note * time) for note in notes])
    with io.BytesIO() as file:
        with wave.open(file, "wb") as writing:
            writing.setnchannels(1)
            writing.setsampwidth(2)
            writing.setframerate(SAMPLE_RATE)
            writing.writeframes((tones * 32767).astype("<i2").tobytes())
        return file.getvalue()
