"""Word error rates of a model of the training, on what it has never heard.

python -m tests.tiny_parakeet.evaluate MODEL --data DATA --recordings FOLDER
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import jiwer
import numpy as np
import torch

from . import vocabulary
from .data import MelFilters, padded
from .held_out import Utterance, held_out_sets
from .model import CONTEXTS, Config, Model
from .start import start_from


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


def read(path: Path) -> Model:
    """A checkpoint's average weights, or those of a file that was made of them."""
    if path.suffix != ".pt":
        model = Model(Config(vocabulary=len(vocabulary.WORDS) + 1))
        start_from(model, path)
        return model
    stored = torch.load(path, weights_only=False)
    model = Model(stored["config"])
    model.load_state_dict(stored["average"])
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a checkpoint, or a .nemo or .gguf of this model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recordings", type=Path, required=True)
    options = parser.parse_args()
    model = read(options.model)
    for name, utterances in held_out_sets(options.data, options.recordings).items():
        for context in CONTEXTS:
            print(f"{name}, {context}: {score(model, utterances, context)}", flush=True)


if __name__ == "__main__":
    main()
