"""What the Parakeet goldens cover: for their maker and their tests.

``parakeet/NAME.nemo`` are small random models that NeMo saved, ``parakeet/NAME.npz`` what NeMo computes with
them. Arrays are float32 or int32; ``V`` is the number of pieces and of the blank, ``D`` of durations (none
but for TDT), ``T`` of encoder frames. For each clip of a model, as its name and a slash and:

    mel          [bands, frames]   log-mel, normalised where the model has it; only the valid frames. Of the
                                   first clip of each offline model all bands, else every 8th
    encoder      [T, width]        the encoder's output
    logits       [steps, V + 1 + D]   the joint's, not normalised, at each step of greedy search (of CTC:
                                   [T, V + 1], logarithms of probabilities)
    steps        [steps, 3]        frame, choice (V: blank) and duration at each step; of a blank, as chosen
                                   (0 moves on by one frame all the same); of RNN-T: 1 for blank, else 0
    tokens, frames, durations      [tokens]   what was emitted (of CTC: repetitions joined, frame of the
                                   first, no durations)

The first clip has all stages too, ``stages/`` and the name of a part: ``pre_encode.conv`` [channels, T,
bands] the last convolution with its ReLU, ``pre_encode`` [T, width] before the scaling of the input, and of
each block ``blocks.N.``: ``ff1``, ``attention``, ``convolution``, ``ff2`` (what each part adds, the feed
forwards before they are halved), ``out``; ``predictor`` [1 + tokens, hidden] the LSTM's output after the
blank it starts with and after each token; ``joint_encoder`` [T, joint].

The streaming model's clips have ``encoder`` and all that follows for each look-ahead, ``NAME/R/encoder``: the
run over the whole clip under the mask for a look-ahead of ``R`` frames. Chunk ``c`` of a stream must give the
frames ``[c (R + 1), (c + 1) (R + 1))`` of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..recordings import load

Floats = NDArray[np.float32]

FOLDER = Path(__file__).parent / "parakeet"
HOP = 160
MEL_STRIDE = 8
"""Of a mel that is not kept whole, every so-manieth band is."""

SPEECH = "en_read/jfk.flac"

MARGIN = 2e-3
"""Least distance of every choice of greedy search from the second best, in logits."""


def speech(frames: int, further_samples: int = 37) -> Floats:
    """Speech that makes so many mel frames; a few further samples make none."""
    return load(SPEECH)[: frames * HOP + further_samples]


@dataclass(frozen=True)
class Case:
    """One model: NeMo's class and settings where they differ from the others', and the clips it hears."""

    head: str
    """tdt, rnnt, ctc, or hybrid: TDT with a CTC head besides."""
    mel_bands: int = 80
    encoder: Mapping[str, object] = field(default_factory=dict)
    normalize: str = "per_feature"
    predictor_layers: int = 1
    blank_bias: float = 1.0
    """Added to the blank's logit, so that greedy search does something interesting."""
    duration_bias: float = 0.0
    """Added to the logit of the duration 0."""
    clips: tuple[str, ...] = ("speech",)

    @property
    def is_streaming(self) -> bool:
        return "att_context_style" in self.encoder


CLIPS: Mapping[str, Floats] = {
    "speech": speech(200),
    "one_more": speech(201),
    "one_less": speech(199, 0),
    "one_frame": speech(1),
    "silence": np.zeros(80 * HOP, np.float32),
    "short": speech(64),
    "long": speech(350),
}

LOOK_AHEADS = (13, 6, 1, 0)
"""Of the streaming model, in encoder frames."""

_BIASED = {"use_bias": True, "xscaling": True}

CASES: Mapping[str, Case] = {
    "tdt": Case(
        "tdt",
        predictor_layers=2,
        blank_bias=1.35,
        clips=("speech", "one_more", "one_less", "one_frame", "silence", "long"),
    ),
    "rnnt": Case("rnnt", mel_bands=128, encoder=_BIASED | {"n_layers": 1}, clips=("short", "long")),
    "ctc": Case("ctc", mel_bands=32, encoder=_BIASED | {"n_layers": 1}, clips=("short", "long")),
    "local": Case(
        "hybrid", mel_bands=32, encoder={"n_layers": 1, "att_context_size": [6, 4]}, clips=("short", "long")
    ),
    "capped": Case(
        "tdt", mel_bands=32, encoder={"n_layers": 1}, blank_bias=-1.0, duration_bias=3.0, clips=("short",)
    ),
    "streaming": Case(
        "tdt",
        normalize="NA",
        encoder=_BIASED
        | {
            "att_context_style": "chunked_limited",
            "att_context_size": [[28, 13], [21, 6], [8, 1], [5, 0]],
            "causal_downsampling": True,
            "conv_context_size": "causal",
            "conv_norm_type": "layer_norm",
        },
        blank_bias=2.0,
        clips=("long", "one_frame", "silence"),
    ),
}
