"""A dead or overdriven source is told once, and again when it comes back."""

import numpy as np
from stenod.audio.level import LevelMonitor

SECOND = 16000


def sound(peak: float, seconds: float) -> np.ndarray:
    time = np.arange(int(seconds * SECOND)) / SECOND
    return np.clip(peak * np.sin(2 * np.pi * 200 * time + 0.1), -1, 1).astype(np.float32)


def told(*stretches: np.ndarray, chunk: int = 320) -> list[str]:
    monitor, samples = LevelMonitor(), np.concatenate(stretches)
    return [
        fault
        for begin in range(0, len(samples), chunk)
        for fault in monitor.feed(samples[begin : begin + chunk])
    ]


def test_exact_zeros_are_a_dead_source() -> None:
    dead = np.zeros(5 * SECOND, np.float32)
    assert told(dead, dead) == ["silent_input"]
    assert told(dead, sound(0.1, 1), dead) == ["silent_input", "silent_input"]


def test_quiet_is_not_dead() -> None:
    assert told(sound(1e-4, 8)) == []
    assert told(np.zeros(4 * SECOND, np.float32), sound(0.1, 1), np.zeros(4 * SECOND, np.float32)) == []


def test_clipping_is_told_once_an_episode() -> None:
    assert told(sound(3, 4)) == ["clipping"]
    assert told(sound(3, 2), sound(0.5, 2), sound(3, 2)) == ["clipping", "clipping"]
    assert told(sound(0.99, 4)) == []


def test_chunks_do_not_matter() -> None:
    stretches = sound(3, 2), np.zeros(6 * SECOND, np.float32), sound(3, 2)
    assert (
        told(*stretches, chunk=7000) == told(*stretches, chunk=37) == ["clipping", "silent_input", "clipping"]
    )
