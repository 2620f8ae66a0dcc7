"""Recordings for tests and measurements: those in ``tests/data``, and a larger folder that may be absent."""

import csv
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

SAMPLE_RATE = 16000
PROJECT = Path(__file__).resolve().parent.parent
SHIPPED = PROJECT / "tests" / "data"
FOLDER = Path(os.environ["TEST_RECORDINGS"]) if "TEST_RECORDINGS" in os.environ else None
"""The larger folder, listed by its ``manifest.tsv``. What needs it is skipped where none is named."""


@dataclass(frozen=True)
class Recording:
    """One row of the larger folder's manifest."""

    path: str
    duration: float
    language: str
    reference: str
    """What is said, as the source has it; empty where it has nothing."""
    doubtful: bool
    """The reference may be wrong."""

    @property
    def folder(self) -> str:
        return self.path.split("/", 1)[0]


@cache
def manifest() -> tuple[Recording, ...]:
    """All that the larger folder holds; nothing where none is named. Raises OSError without a manifest."""
    if FOLDER is None:
        return ()
    with (FOLDER / "manifest.tsv").open(encoding="utf-8", newline="") as lines:
        return tuple(
            Recording(
                path=row["path"],
                duration=float(row["duration_s"] or 0),
                language=row["language"],
                reference=row["reference_transcript"],
                doubtful="FLAG:check" in row["notes"],
            )
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        )


def find(path: str) -> Path | None:
    """The file of a recording, named as in the larger folder: the shipped copy, else the one there."""
    folders = (SHIPPED, FOLDER) if FOLDER else (SHIPPED,)
    return next((folder / path for folder in folders if (folder / path).exists()), None)


@cache
def load(path: str) -> NDArray[np.float32]:
    """Mono samples at 16 kHz. Raises FileNotFoundError where the recording is in neither place."""
    file = find(path)
    if file is None:
        raise FileNotFoundError(f"{path}: not in {SHIPPED}, nor in the folder that TEST_RECORDINGS names")
    samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    mono: NDArray[np.float32] = samples.mean(axis=1)
    return mono if rate == SAMPLE_RATE else soxr.resample(mono, rate, SAMPLE_RATE)
