"""A random Parakeet of the true 0.6B TDT model's shape: as fast as that one, and as wise as a die.

It is written by this project's writer, and for the other engines by those of ``tests/models/parakeet``. Every
tensor is made when it is asked for: no more than one is in memory.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray
from stenod.models.file_types import file_type
from stenod.models.mel_filters import mel_filters
from stenod.models.parakeet import layout
from stenod.models.parakeet.checkpoint import Checkpoint, Encoder, FrontEnd, Transducer
from stenod.models.parakeet.nemo_names import our_tensors
from stenod.models.parakeet.vocabulary import pieces_in_order
from stenod.models.progress import silent
from stenod.models.tensor import Tensor

from ..models.parakeet import formats

WIDTH, BLOCKS, HIDDEN, TOKENS, DURATIONS = 1024, 24, 640, 8192, (0, 1, 2, 3, 4)
BANDS, CHANNELS, KERNEL, FEED_FORWARD = 128, 256, 9, 4096
BLANK_BIAS = 2.9
"""So much makes about every other choice a blank."""
DURATION_BIASES = (-3.0, -0.5, 1.2, 1.0, -0.8)
"""Most choices take two or three frames: tokens are about as many in a second as in speech."""

CAUSAL = Encoder(
    block_count=BLOCKS,
    width=WIDTH,
    head_count=8,
    feed_forward_length=FEED_FORWARD,
    kernel=KERNEL,
    subsampling_channels=CHANNELS,
    position_limit=5000,
    has_biases=False,
    scales_input=False,
    norm="layer_norm",
    style="chunked_limited",
    contexts=((70, 13), (70, 6), (70, 1), (70, 0)),
)
"""Of a cache-aware model: chunks of 1120, 560, 160 and 80 ms."""
FULL = replace(CAUSAL, norm="batch_norm", style="regular", contexts=((-1, -1),))
"""Of a model that hears a recording whole, like TDT v2 and v3."""


BRANCH_SCALE = 0.1
"""Of what each part of a block adds, so that random attention does not make all frames alike."""
_ENDS_OF_BRANCHES = (".linear2.weight", ".linear_out.weight", ".pointwise_conv2.weight")


class RandomArrays(Mapping[str, NDArray[np.float32]]):
    """All arrays of a model by NeMo's names, always the same."""

    def __init__(self, encoder: Encoder) -> None:
        self._shapes = dict(_shapes(encoder))

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        shape = self._shapes[name]
        if name == "preprocessor.featurizer.fb":
            return mel_filters(BANDS, 512)[np.newaxis]
        if name == "preprocessor.featurizer.window":
            return np.hanning(400).astype(np.float32)
        if "norm" in name:
            is_one = name.endswith(("weight", "running_var"))
            return np.full(shape, 1.0 if is_one else 0.0, np.float32)
        if len(shape) == 1:
            return _output_bias() if name == "joint.joint_net.2.bias" else np.zeros(shape, np.float32)
        random = np.random.default_rng(list(name.encode()))
        values = random.standard_normal(shape, np.float32)
        if "embed" not in name:
            values /= np.float32(np.sqrt(np.prod(shape[1:])))
        if name.endswith(_ENDS_OF_BRANCHES):
            values *= np.float32(BRANCH_SCALE)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def tensors(self) -> dict[str, Tensor]:
        """The same, as our converter takes them."""
        return {name: Tensor(shape, lambda name=name: self[name]) for name, shape in self._shapes.items()}


def _output_bias() -> NDArray[np.float32]:
    return np.array([0.0] * TOKENS + [BLANK_BIAS, *DURATION_BIASES], np.float32)


def _shapes(encoder: Encoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "preprocessor.featurizer.fb", (1, BANDS, 257)
    yield "preprocessor.featurizer.window", (400,)
    for index in (0, 2, 3, 5, 6):
        inputs = (CHANNELS, 1, 1) if index in (3, 6) else (1, 3, 3)
        yield f"encoder.pre_encode.conv.{index}.weight", (CHANNELS, *inputs)
        yield f"encoder.pre_encode.conv.{index}.bias", (CHANNELS,)
    bands = 17 if encoder.is_causal else 16
    yield "encoder.pre_encode.out.weight", (WIDTH, bands * CHANNELS)
    yield "encoder.pre_encode.out.bias", (WIDTH,)
    for index in range(BLOCKS):
        for name, shape in _block_shapes(encoder):
            yield f"encoder.layers.{index}.{name}", shape
    yield "decoder.prediction.embed.weight", (TOKENS + 1, HIDDEN)
    for layer in range(2):
        for part in ("ih", "hh"):
            yield f"decoder.prediction.dec_rnn.lstm.weight_{part}_l{layer}", (4 * HIDDEN, HIDDEN)
            yield f"decoder.prediction.dec_rnn.lstm.bias_{part}_l{layer}", (4 * HIDDEN,)
    for name, outputs, inputs in (
        ("enc", HIDDEN, WIDTH),
        ("pred", HIDDEN, HIDDEN),
        ("joint_net.2", TOKENS + 1 + len(DURATIONS), HIDDEN),
    ):
        yield f"joint.{name}.weight", (outputs, inputs)
        yield f"joint.{name}.bias", (outputs,)


def _block_shapes(encoder: Encoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name in ("norm_feed_forward1", "norm_self_att", "norm_conv", "norm_feed_forward2", "norm_out"):
        yield f"{name}.weight", (WIDTH,)
        yield f"{name}.bias", (WIDTH,)
    for part in (1, 2):
        yield f"feed_forward{part}.linear1.weight", (FEED_FORWARD, WIDTH)
        yield f"feed_forward{part}.linear2.weight", (WIDTH, FEED_FORWARD)
    for name in ("q", "k", "v", "out", "pos"):
        yield f"self_attn.linear_{name}.weight", (WIDTH, WIDTH)
    for name in ("u", "v"):
        yield f"self_attn.pos_bias_{name}", (encoder.head_count, WIDTH // encoder.head_count)
    yield "conv.pointwise_conv1.weight", (2 * WIDTH, WIDTH, 1)
    yield "conv.depthwise_conv.weight", (WIDTH, 1, KERNEL)
    yield "conv.batch_norm.weight", (WIDTH,)
    yield "conv.batch_norm.bias", (WIDTH,)
    if encoder.norm == "batch_norm":
        yield "conv.batch_norm.running_mean", (WIDTH,)
        yield "conv.batch_norm.running_var", (WIDTH,)
    yield "conv.pointwise_conv2.weight", (WIDTH, WIDTH, 1)


def checkpoint_of(encoder: Encoder) -> Checkpoint:
    """The model as our writer takes it."""
    pieces = pieces_in_order([f"▁{number}" for number in range(TOKENS)], {})
    return Checkpoint(
        path=Path("random"),
        front_end=FrontEnd(BANDS, "none" if encoder.is_causal else "per_feature"),
        encoder=encoder,
        transducer=Transducer(HIDDEN, 2, HIDDEN, DURATIONS, max_symbols=10),
        pieces=pieces,
        tensors=our_tensors(RandomArrays(encoder).tensors()),
    )


def write(folder: Path, kind: str, type: str) -> Path:
    """A model file for ``crispasr``, ``whisper.cpp`` or our engine: ``stenod``, or, cache-aware, ``stream``.

    It is only made where it is not there.
    """
    path = folder / f"{kind}-{type}.{'bin' if kind == 'whisper.cpp' else 'gguf'}"
    if path.exists():
        return path
    encoder = CAUSAL if kind == "stream" else FULL
    checkpoint, stored = checkpoint_of(encoder), GGMLQuantizationType[type.upper()]
    unfinished = path.with_suffix(".new")
    if kind == "whisper.cpp":
        with unfinished.open("wb") as file:
            file.writelines(formats.ggml_bin(checkpoint, RandomArrays(encoder), stored))
    elif kind == "crispasr":
        formats.write_crispasr(unfinished, checkpoint, RandomArrays(encoder), stored)
    else:
        layout.write(checkpoint, unfinished, "random", file_type(type), silent)
    return unfinished.rename(path)
