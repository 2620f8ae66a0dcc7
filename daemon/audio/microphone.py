"""The microphone: captured blocks, and what happens to the device, as one asynchronous sequence.

async with Microphone(name) as microphone:
    async for item in microphone:
        match item:
            case Sound(samples): ...       # the next mono samples at 16 kHz
            case Overflow(samples): ...    # so many were lost: nobody fetched them in time
            case Lost(): ...               # the device is gone; the sequence waits for it
            case Back(samples): ...        # it is there again, so many samples later
"""

import asyncio
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .pcm import AudioFormat, PcmDecoder
from .resample import SAMPLE_RATE

BLOCKS_PER_SECOND = 50
MOST_BLOCKS = 10 * BLOCKS_PER_SECOND
"""Blocks that wait for whoever fetches them; when so many wait, new ones are dropped and told as overflow."""
LOST_AFTER_S = 1.0
"""A device that gave blocks, and then gives none for so long, is gone."""
FIRST_BLOCK_S = 5.0
"""How long a device that was just opened may take to give its first block."""
RETRY_S = 1.0


class NoMicrophone(Exception):
    """There is no microphone to capture from; one line that says what to do."""


@dataclass(frozen=True)
class Device:
    """An input device as the system knows it now."""

    index: int
    """Where PortAudio lists it at the moment: never to be kept."""
    name: str
    channels: int
    sample_rate: int
    is_default: bool


@dataclass(frozen=True, eq=False)
class Sound:
    """The next mono samples [n] at 16 kHz."""

    samples: NDArray[np.float32]


@dataclass(frozen=True)
class Overflow:
    """So many samples at 16 kHz were lost before the next ``Sound``."""

    samples: int


@dataclass(frozen=True)
class Lost:
    """The device gives no more sound."""


@dataclass(frozen=True)
class Back:
    """The device gives sound again; ``samples`` at 16 kHz are missing since it was lost."""

    samples: int


Item = Sound | Overflow | Lost | Back


def list_devices() -> list[Device]:
    """The input devices. Raises ``NoMicrophone`` where PortAudio is missing."""
    sounddevice = _sounddevice()
    default = sounddevice.default.device[0]
    return [
        Device(
            index=index,
            name=device["name"],
            channels=device["max_input_channels"],
            sample_rate=round(device["default_samplerate"]),
            is_default=index == default,
        )
        for index, device in enumerate(sounddevice.query_devices())
        if device["max_input_channels"] > 0
    ]


class Microphone:
    """Captures from one device, and again when it was away. At most one in a process.

    ``device`` is a name, or a part of one; None: the system's default. Entering raises ``NoMicrophone``.
    """

    def __init__(self, device: str | None = None) -> None:
        self._wanted = device
        self._stream: Any = None
        # PortAudio can take long, and wants to be used by one thread at a time.
        self._thread = ThreadPoolExecutor(1, "microphone")
        self._decoder = PcmDecoder(AudioFormat())
        self._blocks: deque[tuple[bytes, int]] = deque()
        """Each block, and how many frames are missing before it."""
        self._dropped = 0
        """Frames that found no room since the last block that did."""
        self._arrived = 0.0
        self._wake = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        try:
            await self._in_thread(self._open)
        except NoMicrophone:
            self._thread.shutdown()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._in_thread(self._close)
        self._thread.shutdown()

    async def __aiter__(self) -> AsyncIterator[Item]:
        patience = FIRST_BLOCK_S
        while True:
            if await self._block_within(patience):
                for item in self._fetched():
                    yield item
            else:
                for item in _sound(self._decoder.flush()):
                    yield item
                yield Lost()
                yield Back(await self._await_return())
            patience = LOST_AFTER_S

    def _fetched(self) -> Iterator[Item]:
        data, missing = self._blocks.popleft()
        if missing:
            yield from _sound(self._decoder.flush())
            yield Overflow(self._decoder.skip(missing))
        yield from _sound(self._decoder.feed(data))

    async def _await_return(self) -> int:
        """Waits until the device gives a block again; returns the samples at 16 kHz that went by."""
        lost = self._arrived
        while True:
            await self._in_thread(self._close)
            try:
                await self._in_thread(self._open)
            except NoMicrophone:
                await asyncio.sleep(RETRY_S)
                continue
            if await self._block_within(FIRST_BLOCK_S):
                return round((self._arrived - lost - 1 / BLOCKS_PER_SECOND) * SAMPLE_RATE)

    async def _block_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not self._blocks:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def _in_thread(self, function: Callable[[], None]) -> None:
        await self._loop.run_in_executor(self._thread, function)

    def _open(self) -> None:
        """Finds the device anew and starts capturing, in a form that it offers."""
        sounddevice = _sounddevice()
        with _muted_libraries():
            # Only a restart of PortAudio sees devices that came since.
            sounddevice._terminate()
            sounddevice._initialize()
        device = _find(list_devices(), self._wanted)
        for rate, channels in (SAMPLE_RATE, 1), (device.sample_rate, 1), (device.sample_rate, 2):
            try:
                with _muted_libraries():
                    self._start(sounddevice, device, AudioFormat("s16le", rate, channels))
                return
            except sounddevice.PortAudioError as error:
                self._close()
                fault = error
        raise NoMicrophone(
            f"{device.name}: cannot be opened ({fault}); "
            "is another program using it, and may you (group audio)? `stenod devices` lists all"
        )

    def _start(self, sounddevice: ModuleType, device: Device, audio_format: AudioFormat) -> None:
        self._decoder = PcmDecoder(audio_format)
        self._blocks.clear()
        self._dropped, self._arrived = 0, time.monotonic()
        self._stream = sounddevice.RawInputStream(
            device=device.index,
            samplerate=audio_format.sample_rate,
            channels=audio_format.channels,
            dtype="int16",
            blocksize=audio_format.sample_rate // BLOCKS_PER_SECOND,
            callback=self._on_block,
        )
        self._stream.start()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _on_block(self, data: Any, frames: int, _time: Any, status: Any) -> None:
        """Called by PortAudio, on its own thread."""
        arrived, missing = time.monotonic(), self._dropped
        if status.input_overflow:  # PortAudio does not say how much it lost: the clock does
            elapsed = round((arrived - self._arrived) * frames * BLOCKS_PER_SECOND)
            missing += max(frames, elapsed - frames)
        self._arrived = arrived
        if len(self._blocks) >= MOST_BLOCKS:
            self._dropped = missing + frames
            return
        self._dropped = 0
        self._blocks.append((bytes(data), missing))
        self._loop.call_soon_threadsafe(self._wake.set)


def _sound(samples: NDArray[np.float32]) -> Iterator[Item]:
    if len(samples):
        yield Sound(samples)


def _sounddevice() -> ModuleType:
    """The library, imported late: only who captures needs PortAudio."""
    try:
        import sounddevice
    except OSError as error:
        raise NoMicrophone(f"{error}; install it (Debian, Ubuntu: apt install libportaudio2)") from error
    module: ModuleType = sounddevice
    return module


def _find(devices: list[Device], wanted: str | None) -> Device:
    """The device of that name; else the first whose name contains it, whatever its card's number is now."""
    if wanted is None:
        found = [device for device in devices if device.is_default] or devices
    else:
        name = _without_number(wanted).lower()
        found = [device for device in devices if device.name == wanted]
        found += [device for device in devices if name in device.name.lower()]
    if found:
        return found[0]
    if not devices:
        raise NoMicrophone("no microphone was found; plug one in, or check that the sound service runs")
    raise NoMicrophone(f"{wanted}: there is no such microphone; `stenod devices` lists those there are")


def _without_number(name: str) -> str:
    """The name without ALSA's numbers of card and device, which change as devices come and go."""
    return re.sub(r" \(hw:\d+,\d+\)$", "", name)


@contextmanager
def _muted_libraries() -> Iterator[None]:
    """Drops what PortAudio and ALSA print when a device is absent: once a second that floods every log."""
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
