"""What a model is judged on: voices that it has never heard."""

from pathlib import Path

import numpy as np

from . import vocabulary
from .clips import SAMPLE_RATE
from .data import read_recording, spoken_digits, synthetic

Utterance = tuple[np.ndarray, str]
"""16 kHz samples and the words."""


def surrounded(pieces: list[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """Clips with quarter seconds of faint noise before and after, and 20 to 450 ms of it between them."""
    silences = [0.25, *random.uniform(0.02, 0.45, len(pieces) - 1), 0.6]
    parts = [np.zeros(int(silences[0] * SAMPLE_RATE), np.float32)]
    for piece, silence in zip(pieces, silences[1:], strict=True):
        parts += [piece, np.zeros(int(silence * SAMPLE_RATE), np.float32)]
    samples = np.concatenate(parts)
    return (samples + 1e-4 * random.standard_normal(len(samples))).astype(np.float32)


def digit_strings(fsdd: Path, count: int) -> list[Utterance]:
    """Three to eight digits by the held-out speaker, each recording at its own loudness within 4 dB."""
    random = np.random.default_rng(3)
    clips = spoken_digits(fsdd, held_out=True)
    utterances = []
    for _ in range(count):
        chosen = [clips[random.integers(len(clips))] for _ in range(random.integers(3, 9))]
        pieces = [clip.samples * np.float32(10 ** (random.uniform(-4, 4) / 20)) for clip in chosen]
        utterances.append((surrounded(pieces, random), " ".join(clip.text for clip in chosen)))
    return utterances


def commands(data: Path, kind: str) -> list[Utterance]:
    """What the held-out synthetic voices say."""
    random = np.random.default_rng(4)
    return [(surrounded([clip.samples], random), clip.text) for clip in synthetic(data, kind)]


def real_words(recordings: Path) -> list[Utterance]:
    """Real recordings of words that the model knows: the folder's own manifest, those in `en_short`."""
    random = np.random.default_rng(5)
    utterances = []
    for line in (recordings / "manifest.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        path, _, _, _, _, _, reference, *_ = line.split("\t")
        words = reference.lower().split()
        if path.startswith("en_short/") and words and all(word in vocabulary.WORDS for word in words):
            utterances.append((surrounded([read_recording(recordings / path)], random), " ".join(words)))
    return utterances


def held_out_sets(data: Path, recordings: Path, strings: int = 120) -> dict[str, list[Utterance]]:
    """All that a model is judged on."""
    sets = {"digits of a held-out speaker": digit_strings(recordings / "digits_fsdd", strings)}
    for kind in ("kokoro", "programs"):
        if (data / f"test-{kind}.npz").exists():
            sets[f"commands, held-out voices ({kind})"] = commands(data, f"test-{kind}")
    sets["real single words and short phrases"] = real_words(recordings)
    return sets
