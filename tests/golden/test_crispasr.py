"""Another engine, CrispASR from PyPI, says the same with the same weights. Skipped where it is absent."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from stenod._native import Model, Worker

from ..models.parakeet import formats
from ..parakeet import transcribed
from .parakeet_cases import CLIPS, Floats, speech

pytestmark = pytest.mark.skipif(find_spec("crispasr") is None, reason="needs crispasr")

CUTS = 20
THEIRS = """
import json, sys
import crispasr, numpy
model = crispasr.Parakeet(sys.argv[1], n_threads=1, use_flash=False)
with numpy.load(sys.argv[2]) as clips:
    results = {name: model.transcribe(clips[name])["tokens"] for name in clips}
print(json.dumps({name: [text for text, *_ in tokens] for name, tokens in results.items()}))
"""


def clips() -> dict[str, Floats]:
    """The goldens' clips of speech, and cuts of it at random places."""
    whole, random = speech(1090), np.random.default_rng(0)
    cuts = random.integers((0, 8000), (80000, 80000), (CUTS, 2)).tolist()
    found = {name: samples for name, samples in CLIPS.items() if samples.any() and len(samples) > 4000}
    return found | {f"{start}+{length}": whole[start : start + length] for start, length in cuts}


def said_by_crispasr(model: Path, folder: Path) -> dict[str, list[str]]:
    """In a process of its own: its ggml and ours do not get along in one."""
    np.savez(folder / "clips.npz", **clips())
    command = [sys.executable, "-c", THEIRS, str(model), str(folder / "clips.npz")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("name", ["tdt", "rnnt", "capped"])
def test_same_tokens(name: str, parakeet: Callable[[str], Model], tmp_path: Path) -> None:
    checkpoint, arrays = formats.checkpoint_of(name), formats.nemo_arrays(name, tmp_path)
    theirs = said_by_crispasr(formats.write_crispasr(tmp_path / "model.gguf", checkpoint, arrays), tmp_path)
    worker = Worker(parakeet(name), threads=1)
    for clip, samples in clips().items():
        ours = [token["text"].decode() for token in transcribed(worker, samples)]
        assert (clip, ours) == (clip, theirs[clip])
