"""The model files that goldens are checked with: Whisper base as it was pulled, and others made of it."""

from functools import cache
from pathlib import Path

import platformdirs
from stenod.models import resolve
from stenod.models.quantize import quantize

CACHE = platformdirs.user_cache_path("stenod") / "tests"


@cache
def model_file(kind: str) -> Path:
    """The GGUF file of a type; made at the first use (f32 from f16 is exact: the source's weights are f16)."""
    pulled = resolve("whisper-base")
    if kind == "f16":
        return pulled
    made = CACHE / f"whisper-base-{kind}.gguf"
    if not made.exists() or made.stat().st_mtime < pulled.stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        quantize(pulled, made, kind)
    return made
