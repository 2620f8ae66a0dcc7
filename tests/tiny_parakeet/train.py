"""Trains the little model; goes on from its last checkpoint when it is started again.

    python -m tests.tiny_parakeet.train DATA OUT --recordings FOLDER [--steps N | --minutes M] [--start MODEL]

First a linear layer on the encoder learns which word each frame belongs to, since the places of most words
are known (a transducer alone learns nothing for a long time); then the transducer and a CTC head join.
A model that is started from another's weights has that behind it.
"""

import argparse
import itertools
import math
import multiprocessing
import os
import random
import time
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from . import vocabulary
from .data import Batch, Difficulty, Utterances
from .evaluate import score
from .held_out import held_out_sets
from .loss import tdt_loss
from .model import CONTEXTS, Config, Model
from .start import start_from

SEED = 1
BATCH = 32
RATE = 4e-4
"""Learning rate; at twice this the encoder never learned."""
RATE_LATER = 6e-4
"""For a model that has learned already."""
LEVEL_UNTIL = 0.6
"""How much of the training has passed when the learning rate begins to fall."""
DROPOUT = 0.05
FRAMES_ONLY = 400
"""Steps with the frame loss alone."""
EASY = 4 * FRAMES_ONLY
"""Steps with short or clean utterances."""
WARM_UP = 100
REFRESH = 80
"""Steps between looks at what synthetic speech there is."""
TOKENS = {word: number for number, word in enumerate(vocabulary.WORDS, 1)}
"""0 is the tokenizer's unknown piece."""


def difficulty(step: int) -> Difficulty:
    if step < FRAMES_ONLY:
        return Difficulty(seconds=2.6, phrases=2, noise=28)
    if step < 2 * FRAMES_ONLY:
        return Difficulty(seconds=3.6, phrases=2, noise=20)
    if step < EASY:
        return Difficulty(seconds=5.0, phrases=3, noise=12)
    return Difficulty(seconds=7.5, phrases=4, noise=6)


def supply(queue: "Queue[Batch]", options: argparse.Namespace, first: int, seed: int) -> None:
    """Runs in a process of its own: makes batches for the steps from `first` on, each for two of them.

    What the training hides of a batch, and how far the encoder looks ahead, differs the second time.
    """
    torch.set_num_threads(1)
    utterances = Utterances(options.recordings / "digits_fsdd", options.data, seed)
    for step in itertools.count(first, 8):
        if (step - first) % REFRESH == REFRESH - 8:
            utterances.refresh()
        for batch in utterances.batches(BATCH, difficulty(step), 4) * 2:
            queue.put(batch)


@dataclass
class Losses:
    """Of one step."""

    total: Tensor
    frame: float
    transducer: float
    ctc: float


class Training:
    """The model, a running average of its weights (which is what counts in the end), and the optimizer."""

    def __init__(self, steps: int, limit: float = 0.0) -> None:
        torch.manual_seed(SEED)
        self.steps = steps
        self.limit = limit
        """Seconds that the training may last; it counts instead of the steps where it is not 0."""
        self.step = self.first = 0
        self.seconds = 0.0
        self.config = Config(vocabulary=len(vocabulary.WORDS) + 1)
        self.model = Model(self.config, DROPOUT)
        self.frame_head = nn.Linear(self.config.width, len(vocabulary.WORDS) + 1)
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 1e-2},
                {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
                {"params": list(self.frame_head.parameters()), "weight_decay": 0.0},
            ],
            lr=RATE,
            betas=(0.9, 0.98),
        )
        self.average = {name: value.clone() for name, value in self.model.state_dict().items()}

    def start_from(self, path: Path) -> None:
        """Goes on from another training's weights: the next step is one after the easy ones."""
        start_from(self.model, path)
        self.average = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.step = self.first = EASY
        self.steps += EASY

    @property
    def progress(self) -> float:
        """From 0 to 1, by steps or by the time that has passed."""
        if self.limit:
            return min(1.0, self.seconds / self.limit)
        return (self.step - self.first) / (self.steps - self.first)

    def losses(self, batch: Batch) -> Losses:
        mel = torch.from_numpy(batch.mel)
        lengths = torch.from_numpy(batch.mel_lengths)
        if self.step > FRAMES_ONLY:
            hide_parts(mel, batch.mel_lengths)
        encoded, frames = self.model.encoder(mel, lengths, random.choice(CONTEXTS))
        # The heads that no file keeps learn alone at first.
        beside = encoded.detach() if self.first and self.step < self.first + WARM_UP else encoded
        classes = torch.from_numpy(batch.frames[:, : encoded.shape[1]])
        scores = self.frame_head(beside[:, : classes.shape[1]])
        frame = functional.cross_entropy(scores.flatten(0, 1), classes.flatten(), ignore_index=-100)
        if self.step < FRAMES_ONLY:
            return Losses(frame, frame.item(), 0.0, 0.0)
        targets, counts = tokens(batch.words)
        predicted, _ = self.model.decoder(functional.pad(targets, (1, 0), value=self.config.vocabulary))
        logits = self.model.joint(encoded, predicted)
        transducer = tdt_loss(logits, targets, frames, counts, self.config.durations)
        transducer = (transducer / counts.clamp(min=1)).mean()
        ctc = functional.ctc_loss(
            self.model.ctc(beside), targets, frames, counts, blank=self.config.vocabulary, zero_infinity=True
        )
        total = transducer + 0.4 * ctc + self._frame_share() * frame
        return Losses(total, frame.item(), transducer.item(), ctc.item())

    def advance(self, batch: Batch) -> Losses:
        """One step of the optimizer."""
        self.model.train()
        falling = max(0.0, self.progress - LEVEL_UNTIL) / (1 - LEVEL_UNTIL)
        decay = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * falling))
        rate = (RATE_LATER if self.first else RATE) * min(1, (self.step - self.first + 1) / WARM_UP) * decay
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        losses = self.losses(batch)
        self.optimizer.zero_grad()
        losses.total.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if torch.isfinite(norm):
            self.optimizer.step()
        self.step += 1
        keep = min(0.998, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                self.average[name].lerp_(value, 1 - keep)
        return losses

    def _frame_share(self) -> float:
        """What the frame loss counts for: less and less, and little where the encoder has learned."""
        return 0.1 if self.first else max(0.1, 1 - 2 * self.progress)

    def save(self, path: Path) -> None:
        stored: dict[str, Any] = {
            "config": self.config,
            "step": self.step,
            "first": self.first,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "frame_head": self.frame_head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average,
        }
        torch.save(stored, path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)

    def load(self, path: Path) -> None:
        stored = torch.load(path, weights_only=False)
        self.step, self.first, self.seconds = stored["step"], stored["first"], stored["seconds"]
        self.steps += self.first
        self.model.load_state_dict(stored["model"])
        self.frame_head.load_state_dict(stored["frame_head"])
        self.optimizer.load_state_dict(stored["optimizer"])
        self.average = stored["average"]

    def averaged(self) -> Model:
        """A model with the average weights."""
        model = Model(self.config)
        model.load_state_dict(self.average)
        return model


def tokens(texts: list[str]) -> tuple[Tensor, Tensor]:
    """[batch, longest] padded with zeros, and the lengths."""
    numbers = [[TOKENS[word] for word in text.split()] for text in texts]
    longest = max(1, *(len(row) for row in numbers))
    padded = [row + [0] * (longest - len(row)) for row in numbers]
    return torch.tensor(padded), torch.tensor([len(row) for row in numbers])


def hide_parts(mel: Tensor, lengths: np.ndarray) -> None:
    """Two bands and two short times of each utterance are replaced by its mean (SpecAugment)."""
    for row, length in zip(mel, lengths.tolist(), strict=True):
        mean = row[:length].mean()
        for _ in range(2):
            width = random.randint(0, 12)
            start = random.randint(0, mel.shape[2] - width)
            row[:length, start : start + width] = mean
        for _ in range(2):
            width = random.randint(0, min(14, length // 12))
            start = random.randint(0, length - width)
            row[start : start + width] = mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="where `synthesize` puts its speech")
    parser.add_argument("out", type=Path)
    parser.add_argument("--recordings", type=Path, required=True, help="the folder that holds digits_fsdd")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=0.0, help="how long it may last, instead of --steps")
    parser.add_argument("--start", type=Path, help="a .nemo or .gguf of this model to begin with")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--every", type=int, default=250, help="steps between evaluations")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    checkpoint = options.out / "last.pt"
    torch.set_num_threads(options.threads)
    training = Training(options.steps, 60 * options.minutes)
    if checkpoint.exists():
        training.load(checkpoint)
    elif options.start:
        training.start_from(options.start)
    random.seed(SEED + training.step)
    torch.manual_seed(SEED + training.step)
    queue: Queue[Batch] = multiprocessing.Queue(12)
    seed = SEED + 7919 * training.step
    worker = multiprocessing.Process(target=supply, args=(queue, options, training.step, seed), daemon=True)
    worker.start()
    began = time.monotonic() - training.seconds
    processor = time.process_time()
    recent: list[Losses] = []
    while training.progress < 1:
        recent.append(training.advance(queue.get()))
        training.seconds = time.monotonic() - began
        if training.step % 25 == 0:
            spent = time.process_time() - processor
            print(
                f"step {training.step}, {training.seconds:.0f} s, processor {spent:.0f} s, {mean(recent)}",
                flush=True,
            )
            recent.clear()
        if training.step % options.every == 0:
            training.save(checkpoint)
            if training.step > 2 * FRAMES_ONLY:
                report(training, options)
    training.save(checkpoint)
    worker.kill()


def mean(recent: list[Losses]) -> str:
    """The losses of several steps."""
    names = ("frame", "transducer", "ctc")
    return ", ".join(
        f"{name} {sum(getattr(one, name) for one in recent) / len(recent):.3f}" for name in names
    )


def report(training: Training, options: argparse.Namespace) -> None:
    """A quick look at the held-out sets; the checkpoint is kept under its step."""
    model = training.averaged()
    for name, utterances in held_out_sets(options.data, options.recordings, strings=40).items():
        print(f"  {name}: {score(model, utterances[::2], (70, 1))}", flush=True)
    os.link(options.out / "last.pt", options.out / f"step-{training.step}.pt")


if __name__ == "__main__":
    main()
