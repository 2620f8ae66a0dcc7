"""Word error rates of a model of the training, on what it has never heard.

python -m tests.tiny_parakeet.evaluate CHECKPOINT --data DATA --recordings FOLDER
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import jiwer
import numpy as np
import torch

from . import vocabulary
from .clips import SAMPLE_RATE
from .data import MelFilters, padded, read_recording, spoken_digits, synthetic
from .model import CONTEXTS, Model

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


@dataclass(frozen=True)
class Score:
    """Of one set of utterances, in percent."""

    word_error_rate: float
    utterances_wrong: float

    def __str__(self) -> str:
        return f"{self.word_error_rate:.1f} % of words, {self.utterances_wrong:.0f} % of utterances"


@torch.no_grad()
def hear(model: Model, utterances: list[Utterance], context: tuple[int, int]) -> list[str]:
    """What the model says was said, whole utterances under a stream's mask."""
    model.eval()
    front_end = MelFilters()
    heard = []
    for start in range(0, len(utterances), 16):
        some = utterances[start : start + 16]
        batch = padded([(front_end(samples), "", np.zeros(0, np.int64)) for samples, _ in some])
        encoded, lengths = model.encoder(
            torch.from_numpy(batch.mel), torch.from_numpy(batch.mel_lengths), context
        )
        for row, length in zip(encoded, lengths.tolist(), strict=True):
            tokens = [token for token, _, _ in model.greedy(row[:length])]
            heard.append(" ".join(vocabulary.WORDS[token - 1] for token in tokens if token > 0))
    return heard


def score(model: Model, utterances: list[Utterance], context: tuple[int, int]) -> Score:
    heard = hear(model, utterances, context)
    said = [words for _, words in utterances]
    wrong = sum(one != other for one, other in zip(said, heard, strict=True))
    return Score(100 * jiwer.wer(said, heard), 100 * wrong / len(said))


def test_sets(data: Path, recordings: Path, strings: int = 120) -> dict[str, list[Utterance]]:
    """All that a model is judged on."""
    sets = {"digits of a held-out speaker": digit_strings(recordings / "digits_fsdd", strings)}
    for kind in ("kokoro", "programs"):
        if (data / f"test-{kind}.npz").exists():
            sets[f"commands, held-out voices ({kind})"] = commands(data, f"test-{kind}")
    sets["real single words and short phrases"] = real_words(recordings)
    return sets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recordings", type=Path, required=True)
    options = parser.parse_args()
    stored = torch.load(options.checkpoint, weights_only=False)
    model = Model(stored["config"])
    model.load_state_dict(stored["average"])
    for name, utterances in test_sets(options.data, options.recordings).items():
        for context in CONTEXTS:
            print(f"{name}, {context}: {score(model, utterances, context)}", flush=True)


if __name__ == "__main__":
    main()
