"""Other engines say the same with the same weights.

CrispASR comes from PyPI; whisper.cpp is its ``parakeet-cli``, to which the environment variable
``TEST_PARAKEET_CLI`` leads. Skipped where they are absent.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
from stenod._native import Model, Worker

from ..models.parakeet import formats
from ..models.parakeet.formats import Arrays
from ..parakeet import transcribed
from ..recordings import SAMPLE_RATE
from .parakeet_cases import CLIPS, HOP, Floats, speech

PARAKEET_CLI = os.environ.get("TEST_PARAKEET_CLI")
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


@pytest.mark.skipif(find_spec("crispasr") is None, reason="needs crispasr")
@pytest.mark.parametrize("name", ["tdt", "rnnt", "capped"])
def test_crispasr(name: str, parakeet: Callable[[str], Model], tmp_path: Path) -> None:
    checkpoint, arrays = formats.checkpoint_of(name), formats.nemo_arrays(name, tmp_path)
    theirs = said_by_crispasr(formats.write_crispasr(tmp_path / "model.gguf", checkpoint, arrays), tmp_path)
    worker = Worker(parakeet(name), threads=1)
    for clip, samples in clips().items():
        ours = [token["text"].decode() for token in transcribed(worker, samples)]
        assert (clip, ours) == (clip, theirs[clip])


def suited_to_whisper_cpp(arrays: Arrays) -> Arrays:
    """The same model as it takes it: feed forwards four times as wide as the encoder, with zeros; and with
    the epsilon that it forgets in each variance."""
    suited = dict(arrays)
    for name, values in arrays.items():
        if name.endswith(".linear1.weight"):
            suited[name] = np.pad(values, ((0, 4 * values.shape[1] - len(values)), (0, 0)))
        elif name.endswith(".linear2.weight"):
            suited[name] = np.pad(values, ((0, 0), (0, 4 * len(values) - values.shape[1])))
        elif name.endswith(".running_var"):
            suited[name] = values + np.float32(1e-5)
    return suited


def suits_whisper_cpp(samples: Floats) -> bool:
    """It hears one mel frame more than there is. In a clip of two seconds that is little, unless it makes one
    more encoder frame."""
    return len(samples) >= 2 * SAMPLE_RATE and len(samples) // HOP % 8 != 0


@pytest.mark.skipif(PARAKEET_CLI is None, reason="needs TEST_PARAKEET_CLI")
def test_whisper_cpp(parakeet: Callable[[str], Model], tmp_path: Path) -> None:
    checkpoint = formats.checkpoint_of("tdt")
    arrays = suited_to_whisper_cpp(formats.nemo_arrays("tdt", tmp_path))
    (tmp_path / "model.bin").write_bytes(b"".join(formats.ggml_bin(checkpoint, arrays)))
    worker = Worker(parakeet("tdt"), threads=1)
    suited = {name: samples for name, samples in clips().items() if suits_whisper_cpp(samples)}
    assert len(suited) > CUTS / 2
    for clip, samples in suited.items():
        soundfile.write(tmp_path / "clip.wav", samples, SAMPLE_RATE, subtype="FLOAT")
        command = [str(PARAKEET_CLI), "-m", "model.bin", "-t", "1", "-ps", "-f", "clip.wav"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
        theirs = [int(number) for number in re.findall(r"\] id= *(\d+) frame=", done.stderr)]
        ours = [token["id"] for token in transcribed(worker, samples)]
        assert (clip, ours) == (clip, theirs)
