"""A session as long as a working day: does the daemon's memory grow, do captions come later, do times drift?

    python -m tests.bench.soak [--hours 8] [--real-time] [--model tests/data/parakeet-tiny.gguf]

Every minute of it is the same: a digit is spoken into the faint noise of a room, at 24 kHz. Every ten minutes
the sender tells that it lost a second. Unless ``--real-time``, audio is sent as fast as the daemon takes it.
The first row is the warm-up. Linux: it reads /proc.
"""

import argparse
import asyncio
import time
from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import soxr
from numpy.typing import NDArray
from stenod.clients import Sender, follow, send
from stenod.events import Ended, Final
from stenod.models import resolve

from ..faults.test_kill import MortalDaemon
from ..recordings import PROJECT, load
from ..streams import pcm
from .load import memory_mb

RATE = 24000
MINUTE = 60 * RATE
CHUNK = RATE // 10
MOST_ROWS = 16
REMEMBERED = "64"
"""Events that the channel remembers: what it may remember is full after the first row."""
GAP_EVERY_MINUTES = 10
PERIOD_S = 60 * GAP_EVERY_MINUTES + 1
"""From a minute to the one that follows as many gaps more."""
SPEECH_AT_S = 10.0
NOISE = 0.001
"""Amplitude, as of a quiet room: digital silence is something else."""


def a_minute() -> NDArray[np.float32]:
    """What is heard in every minute, at ``RATE``."""
    samples = np.random.default_rng(0).normal(0, NOISE, MINUTE).astype(np.float32)
    speech = soxr.resample(load("digits/theo_03.flac"), 16000, RATE)
    start = round(SPEECH_AT_S * RATE)
    samples[start : start + len(speech)] += speech
    return samples


class Utterance(NamedTuple):
    """The one with which a minute begins."""

    start: float
    delay_s: float
    """From the moment that its last sample was sent to its ``final``."""

    @property
    def minute(self) -> int:
        """The minute that it begins."""
        return int(self.start // PERIOD_S * GAP_EVERY_MINUTES + self.start % PERIOD_S // 60)

    @property
    def late_s(self) -> float:
        """Its start, less that of its speech: the same for all if time does not drift."""
        return self.start % PERIOD_S % 60 - SPEECH_AT_S


@dataclass
class Heard:
    """What came of the minutes, in order."""

    utterances: list[Utterance] = field(default_factory=list)
    rows: list[tuple[float, float]] = field(default_factory=list)
    """At the beginning of each row, and at the end: the clock, and the daemon's memory in MB."""


class Soak:
    """One long session."""

    def __init__(self, daemon: MortalDaemon, minutes: int, real_time: bool) -> None:
        self._daemon = daemon
        self._minutes = minutes
        self._row_minutes = row_minutes(minutes)
        self._real_time = real_time
        self._sent = array("d")
        """When each chunk was sent, gaps among them."""

    async def run(self) -> Heard:
        heard = Heard()
        # Audio is acknowledged once a second, which would set the pace if only a minute of it were kept.
        async with send(self._daemon.address, sample_rate=RATE, channel="room", buffer_s=600) as sender:
            speaking = asyncio.create_task(self._speak(sender, heard))
            reading = asyncio.create_task(self._read())
            async for event in sender:
                if isinstance(event, Final):
                    sent = self._sent[min(int(event.end * RATE / CHUNK), len(self._sent) - 1)]
                    utterance = Utterance(event.start, time.monotonic() - sent)
                    if abs(utterance.late_s) < 1:
                        heard.utterances.append(utterance)
            await speaking
            await reading
        return heard

    async def _speak(self, sender: Sender, heard: Heard) -> None:
        data = pcm(a_minute())
        began = time.monotonic()
        for minute in range(self._minutes):
            if minute % self._row_minutes == 0:
                heard.rows.append((time.monotonic(), memory_mb(self._daemon.process_id)))
            for start in range(0, len(data), 2 * CHUNK):
                if self._real_time:
                    await asyncio.sleep(began + len(self._sent) * CHUNK / RATE - time.monotonic())
                await sender.audio(data[start : start + 2 * CHUNK])
                self._sent.append(time.monotonic())
            if (minute + 1) % GAP_EVERY_MINUTES == 0:
                await sender.gap(RATE)
                self._sent.extend([time.monotonic()] * (RATE // CHUNK))
        await sender.finish()
        heard.rows.append((time.monotonic(), memory_mb(self._daemon.process_id)))

    async def _read(self) -> None:
        async for event in follow(self._daemon.address, "room"):
            if isinstance(event, Ended):
                return


def row_minutes(minutes: int) -> int:
    """How many of them make a row."""
    return max(1, minutes // MOST_ROWS)


def report(heard: Heard, minutes: int) -> None:
    """Prints what was measured."""
    length = row_minutes(minutes)
    print("hours  times real time  memory MB  finals after s  times off by ms  utterances")
    for row, ((began, _), (ended, memory)) in enumerate(pairwise(heard.rows)):
        utterances = [one for one in heard.utterances if one.minute // length == row]
        speed = length * 60 / (ended - began)
        delay = median(one.delay_s for one in utterances)
        off = max((1000 * (one.late_s - heard.utterances[0].late_s) for one in utterances), key=abs)
        hours = (row + 1) * length / 60
        print(f"{hours:5.2f} {speed:16.1f} {memory:10.1f} {delay:15.2f} {off:16.1f} {len(utterances):11}")


async def measure(model: Path, hours: float, real_time: bool) -> None:
    minutes = round(hours * 60)
    minutes -= minutes % row_minutes(minutes)
    with TemporaryDirectory() as journal:
        daemon = MortalDaemon(model, Path(journal), {"STENOD_LIMITS__REPLAY_EVENTS": REMEMBERED})
        await daemon.start()
        try:
            heard = await Soak(daemon, minutes, real_time).run()
        finally:
            await daemon.kill()
    report(heard, minutes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--real-time", action="store_true")
    parser.add_argument("--model", default=str(PROJECT / "tests" / "data" / "parakeet-tiny.gguf"))
    options = parser.parse_args()
    asyncio.run(measure(Path(resolve(options.model)), options.hours, options.real_time))
