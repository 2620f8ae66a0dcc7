"""Makes the goldens of Parakeet, ``parakeet/*.nemo`` and ``*.npz``, with NeMo on small random models.

    pip install 'nemo_toolkit[asr]==3.0.0' torch==2.13.0 soxr
    python -m tests.golden.make_parakeet [NAME ...]

Made once and committed: neither torch nor NeMo is needed to run the tests. ``parakeet_cases.py`` tells what
the arrays are.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nemo.utils import logging
from numpy.typing import NDArray

from .parakeet_cases import CASES, CLIPS, FOLDER, LOOK_AHEADS, MARGIN, MEL_STRIDE, Case
from .parakeet_nemo import DURATIONS, build, decode_with_nemo

MAX_SYMBOLS = 10
LONG = 40
"""Encoder frames in which a model must say something."""
DISTINCT = 5
Arrays = dict[str, NDArray[Any]]


class Unsuited(Exception):
    """A random model tells too little, or what it tells hangs on how numbers are rounded."""


class Reference:
    """A small model in NeMo, and its searches written out so that each step can be kept."""

    def __init__(self, case: Case, seed: int, folder: Path) -> None:
        self.case = case
        self.model = build(case, seed, folder)
        self.durations = DURATIONS if case.head in ("tdt", "hybrid") else ()
        self.blank = self.model.tokenizer.vocab_size

    def mel(self, samples: NDArray[np.float32]) -> tuple[torch.Tensor, torch.Tensor]:
        """[1, bands, frames], and how many frames are valid."""
        return self.model.preprocessor(
            input_signal=torch.from_numpy(samples)[None], length=torch.tensor([len(samples)])
        )

    def encode(self, mel: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """[T, width]"""
        encoded, length = self.model.encoder(audio_signal=mel, length=frames)
        return encoded[0, :, : int(length)].T

    def predict(self, token: int, state: Any) -> tuple[torch.Tensor, Any]:
        """[hidden] after ``token``, and the LSTM's next state."""
        output, state = self.model.decoder.predict(
            torch.tensor([[token]]), state, add_sos=False, batch_size=1
        )
        return output[0, 0], state

    def search(self, encoded: torch.Tensor) -> Arrays:
        """Greedy search, whatever the head; what it finds must be what NeMo's own finds."""
        found = self._search_frames(encoded) if self.case.head == "ctc" else self._search_steps(encoded)
        parts = np.split(found["logits"], [self.blank + 1], axis=1)[: 2 if self.durations else 1]
        margins = [np.diff(np.sort(part, axis=1)[:, -2:]).min() for part in parts]
        if min(margins) < MARGIN:
            raise Unsuited(f"a choice is better than the second best by {min(margins)} only")
        if len(encoded) > LONG and not 6 <= len(found["tokens"]) < 0.8 * len(found["logits"]):
            raise Unsuited("hardly any tokens, or blanks")
        if len(encoded) > LONG and len(set(found["tokens"].tolist())) < DISTINCT:
            raise Unsuited("the same token again and again")
        for tokens, frames in decode_with_nemo(self.model, self.case, encoded):
            assert tokens == found["tokens"].tolist(), (tokens, found["tokens"])
            assert frames is None or frames == found["frames"].tolist(), (frames, found["frames"])
        return found

    def _search_steps(self, encoded: torch.Tensor) -> Arrays:
        joint = self.model.joint
        projected = joint.project_encoder(encoded[None])[0]
        hidden, state = self.predict(self.blank, None)
        hiddens, logits, steps = [hidden], [], []
        frame = emitted = 0
        while frame < len(projected):
            sum_ = projected[frame] + joint.project_prednet(hidden[None, None])[0, 0]
            scores = joint.joint_net(sum_)
            choice = int(scores[: self.blank + 1].argmax())
            if self.durations:
                duration = self.durations[int(scores[self.blank + 1 :].argmax())]
            else:
                duration = int(choice == self.blank)
            logits.append(scores)
            steps.append((frame, choice, duration))
            if choice == self.blank:
                frame, emitted = frame + max(duration, 1), 0
                continue
            hidden, state = self.predict(choice, state)
            hiddens.append(hidden)
            emitted = 0 if duration else emitted + 1
            if emitted == MAX_SYMBOLS:
                duration, emitted = 1, 0
            frame += duration
        all_steps = np.array(steps, np.int32).reshape(-1, 3)
        tokens = all_steps[all_steps[:, 1] != self.blank]
        return {
            "logits": torch.stack(logits).numpy(),
            "steps": all_steps,
            "frames": tokens[:, 0],
            "tokens": tokens[:, 1],
            "durations": tokens[:, 2],
            "joint_encoder": projected.numpy(),
            "predictor": torch.stack(hiddens).numpy(),
        }

    def _search_frames(self, encoded: torch.Tensor) -> Arrays:
        scores = self.model.decoder(encoder_output=encoded.T[None])[0]
        best = scores.argmax(1).tolist()
        first = [
            at for at, token in enumerate(best) if token != self.blank and (at == 0 or token != best[at - 1])
        ]
        return {
            "logits": scores.numpy(),
            "tokens": np.array([best[at] for at in first], np.int32),
            "frames": np.array(first, np.int32),
        }


@contextmanager
def recorded(model: Any) -> Iterator[Arrays]:
    """What the parts of the encoder give while it runs."""
    arrays: Arrays = {}

    def record(name: str, module: torch.nn.Module) -> torch.utils.hooks.RemovableHandle:
        def keep(_module: object, _inputs: object, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            arrays[f"stages/{name}"] = value[0].numpy().copy()

        return module.register_forward_hook(keep)

    encoder = model.encoder
    handles = [record("pre_encode.conv", encoder.pre_encode.conv), record("pre_encode", encoder.pre_encode)]
    for number, layer in enumerate(encoder.layers):
        block = f"blocks.{number}"
        handles += [
            record(f"{block}.ff1", layer.feed_forward1),
            record(f"{block}.attention", layer.self_attn),
            record(f"{block}.convolution", layer.conv),
            record(f"{block}.ff2", layer.feed_forward2),
            record(f"{block}.out", layer),
        ]
    try:
        yield arrays
    finally:
        for handle in handles:
            handle.remove()


def offline(reference: Reference) -> Arrays:
    """All clips of a model that hears them whole."""
    arrays: Arrays = {}
    for name in reference.case.clips:
        mel, frames = reference.mel(CLIPS[name])
        is_first = name == reference.case.clips[0]
        with recorded(reference.model) as stages:
            encoded = reference.encode(mel, frames)
        found = reference.search(encoded)
        stages |= {
            f"stages/{part}": found.pop(part) for part in ("joint_encoder", "predictor") if part in found
        }
        arrays |= stages if is_first else {}
        arrays[f"{name}/mel"] = mel[0, :: 1 if is_first else MEL_STRIDE, : int(frames)].numpy()
        arrays[f"{name}/encoder"] = encoded.numpy()
        arrays |= {f"{name}/{key}": value for key, value in found.items()}
    require_same_in_a_batch(reference, arrays)
    return arrays


def streaming(reference: Reference) -> Arrays:
    """All clips under the mask for each look-ahead."""
    arrays: Arrays = {}
    for name in reference.case.clips:
        mel, frames = reference.mel(CLIPS[name])
        is_first = name == reference.case.clips[0]
        arrays[f"{name}/mel"] = mel[0, ::MEL_STRIDE, : int(frames)].numpy()
        for left, right in reference.model.cfg.encoder.att_context_size:
            reference.model.encoder.set_default_att_context_size([left, right])
            with recorded(reference.model) as stages:
                encoded = reference.encode(mel, frames)
            found = reference.search(encoded)
            stages |= {f"stages/{part}": found.pop(part) for part in ("joint_encoder", "predictor")}
            arrays |= stages if is_first and right == LOOK_AHEADS[0] else {}
            arrays[f"{name}/{right}/encoder"] = encoded.numpy()
            arrays |= {f"{name}/{right}/{key}": value for key, value in found.items()}
    return arrays


def require_same_in_a_batch(reference: Reference, arrays: Mapping[str, NDArray[Any]]) -> None:
    """NeMo itself must give each clip the same alone and padded beside longer ones."""
    clips = [CLIPS[name] for name in reference.case.clips]
    lengths = torch.tensor([len(clip) for clip in clips])
    padded = np.stack([np.pad(clip, (0, int(lengths.max()) - len(clip))) for clip in clips])
    mel, frames = reference.model.preprocessor(input_signal=torch.from_numpy(padded), length=lengths)
    encoded, counts = reference.model.encoder(audio_signal=mel, length=frames)
    for row, name in enumerate(reference.case.clips):
        alone = arrays[f"{name}/encoder"]
        difference = np.abs(encoded[row, :, : int(counts[row])].T.numpy() - alone).max()
        assert difference < 1e-5, (name, difference)


def make(name: str, case: Case) -> None:
    """Writes the model and its arrays."""
    FOLDER.mkdir(exist_ok=True)
    for seed in range(100):
        with tempfile.TemporaryDirectory() as tokenizer, suppress(Unsuited):
            reference = Reference(case, seed, Path(tokenizer))
            with torch.inference_mode():
                arrays = streaming(reference) if case.is_streaming else offline(reference)
            reference.model.save_to(str(FOLDER / f"{name}.nemo"))
            break
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    for key, value in arrays.items():
        if key.endswith("steps"):
            print(f"  {key}: {[tuple(step) for step in value.tolist()]}")
        if key.endswith("tokens"):
            print(f"  {key}: {value.tolist()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], help="the models to make (all)")
    logging.setLevel(logging.ERROR)
    torch.set_num_threads(1)
    for name in parser.parse_args().names or CASES:
        print(name)
        make(name, CASES[name])


if __name__ == "__main__":
    main()
