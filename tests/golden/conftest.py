"""The engine with Whisper base in several types: the file that was pulled, and others made of it."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import platformdirs
import pytest
from stenod._native import Model, Worker
from stenod.models import quantize

MADE = platformdirs.user_cache_path("stenod") / "tests"


@pytest.fixture(scope="session")
def model_of(model_path: Path) -> Callable[[str], Model]:
    """The model by type: ``f16`` as it was pulled, ``f32`` (exact: its weights were f16), ``q8_0``."""

    @cache
    def load(kind: str) -> Model:
        file = model_path if kind == "f16" else MADE / f"{model_path.stem}-{kind}.gguf"
        if not file.exists() or file.stat().st_mtime < model_path.stat().st_mtime:
            file.parent.mkdir(parents=True, exist_ok=True)
            quantize(model_path, file, kind)
        return Model(str(file))

    return load


@pytest.fixture(scope="session")
def worker_of(model_of: Callable[[str], Model]) -> Callable[[str], Worker]:
    """A worker for the model of a type; one thread, so that other work on the machine does not stall it."""
    return cache(lambda kind: Worker(model_of(kind), threads=1))
