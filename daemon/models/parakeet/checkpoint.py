"""A Parakeet checkpoint in memory: every source format is read into it, and the GGUF file written from it."""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Literal

from ..errors import REMEDY, ModelError
from ..tensor import Tensor

SUBSAMPLING_FACTOR = 8
FFT_LENGTH, WINDOW_LENGTH, HOP_LENGTH = 512, 400, 160
"""Of all models' front ends, in samples at 16 kHz."""
PRE_EMPHASIS = 0.97
"""Of all models; configurations leave it out."""
BLANK = "<blank>"

AttentionStyle = Literal["regular", "chunked_limited"]
HeadKind = Literal["tdt", "rnnt", "ctc"]
Norm = Literal["batch_norm", "layer_norm"]

_MAX_BLOCKS = 1024
_MAX_DURATION = 1024


@dataclass(frozen=True)
class FrontEnd:
    """How audio becomes log-mel frames, as far as models differ in it."""

    mel_bands: int
    normalize: Literal["per_feature", "none"]


@dataclass(frozen=True)
class Encoder:
    """A FastConformer."""

    block_count: int
    width: int
    head_count: int
    feed_forward_length: int
    kernel: int
    """Of the depthwise convolution in each block, in frames."""
    subsampling_channels: int
    position_limit: int
    """Frames for which the reference prepares relative positions; they are computed, so it limits nothing."""
    has_biases: bool
    """Whether linear and convolution layers of the blocks have biases."""
    scales_input: bool
    """Whether the subsampling's output is multiplied by the root of ``width``."""
    norm: Norm
    """Of the convolution module."""
    style: AttentionStyle = "regular"
    """``chunked_limited`` encoders are causal: subsampling, convolution and, chunk by chunk, attention."""
    contexts: tuple[tuple[int, int], ...] = ((-1, -1),)
    """(left, right) frames that a frame may attend to, as trained; -1: all. The first is the default."""

    @property
    def is_causal(self) -> bool:
        """Whether no frame of the subsampling and the convolutions sees the future."""
        return self.style == "chunked_limited"

    @property
    def convolution_context(self) -> tuple[int, int]:
        """Frames on the left and on the right that the depthwise convolution sees."""
        return (self.kernel - 1, 0) if self.is_causal else (self.kernel // 2, self.kernel // 2)


@dataclass(frozen=True)
class Transducer:
    """The LSTM predictor and the joint network, whose activation is ReLU."""

    hidden: int
    """Width of the predictor and its embedding."""
    layer_count: int
    joint_hidden: int
    durations: tuple[int, ...]
    """Frames that a token may take, one for each further output of the joint; empty: RNN-T."""
    max_symbols: int
    """How many tokens greedy search may emit at one frame."""


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary."""

    text: str
    score: float
    """SentencePiece's: the higher of two is merged first."""
    type: int
    """GGUF's and SentencePiece's number: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte."""


@dataclass(frozen=True)
class Checkpoint:
    """A model as its source tells it. Tensors have the names and shapes of ``tensor_shapes``."""

    path: Path
    """Where it came from, for error messages."""
    front_end: FrontEnd
    encoder: Encoder
    transducer: Transducer | None
    """None: the head is CTC. A transducer may have a CTC head besides."""
    pieces: list[Piece]
    """Without the blank, whose number is their count."""
    tensors: Mapping[str, Tensor]
    languages: tuple[str, ...] = ()
    """ISO codes, where the source tells."""

    @property
    def head_kind(self) -> HeadKind:
        """What follows the encoder."""
        if self.transducer is None:
            return "ctc"
        return "tdt" if self.transducer.durations else "rnnt"

    def sound(self) -> "Checkpoint":
        """The same, with exactly the shapes of ``tensor_shapes``: some formats leave out dimensions of one.

        Raises ModelError where sizes, pieces and tensors do not belong together.
        """
        _require_sizes(self)
        tensors: dict[str, Tensor] = {}
        for name, shape in tensor_shapes(self).items():
            if name not in self.tensors:
                raise ModelError(self.path, f"lacks the tensor {name}", REMEDY)
            found = self.tensors[name]
            if _without_ones(found.shape) != _without_ones(shape):
                fault = f"has {name} with the shape {list(found.shape)} instead of {list(shape)}"
                raise ModelError(self.path, fault, REMEDY)
            tensors[name] = found if found.shape == shape else found.reshaped(shape)
        return replace(self, tensors=tensors)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _require_sizes(checkpoint: Checkpoint) -> None:
    path, encoder, transducer = checkpoint.path, checkpoint.encoder, checkpoint.transducer
    sizes = [number for number in astuple(encoder) if type(number) is int]
    sizes += [checkpoint.front_end.mel_bands, len(checkpoint.pieces)]
    if transducer:
        sizes += [transducer.hidden, transducer.layer_count, transducer.joint_hidden, transducer.max_symbols]
    if min(sizes) <= 0:
        raise ModelError(path, f"has sizes that are not positive ({encoder}, {transducer})", REMEDY)
    if max(encoder.block_count, transducer.layer_count if transducer else 0) > _MAX_BLOCKS:
        raise ModelError(path, f"has more than {_MAX_BLOCKS} blocks", REMEDY)
    if encoder.width % encoder.head_count:
        fault = f"has {encoder.head_count} heads for a width of {encoder.width}, not a multiple"
        raise ModelError(path, fault, REMEDY)
    if encoder.kernel % 2 == 0:
        raise ModelError(path, f"has convolutions over {encoder.kernel} frames, an even number", REMEDY)
    if not encoder.contexts or min(min(pair) for pair in encoder.contexts) < -1:
        raise ModelError(path, f"has the attention contexts {encoder.contexts}", REMEDY)
    if encoder.is_causal and min(right for _, right in encoder.contexts) < 0:
        raise ModelError(path, f"attends in chunks without an end ({encoder.contexts})", REMEDY)
    if encoder.is_causal and checkpoint.front_end.normalize != "none":
        raise ModelError(path, "attends in chunks, and normalises whole recordings", REMEDY)
    if transducer and not all(0 <= duration <= _MAX_DURATION for duration in transducer.durations):
        raise ModelError(path, f"has the durations {list(transducer.durations)}", REMEDY)


def subsampled(length: int, is_causal: bool) -> int:
    """What the subsampling leaves of ``length`` frames or mel bands."""
    for _ in range(3):
        length = length // 2 + 1 if is_causal else (length - 1) // 2 + 1
    return length


def tensor_shapes(checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    """Names and torch shapes of all tensors of a model, in the order in which files store them."""
    encoder, transducer = checkpoint.encoder, checkpoint.transducer
    width, outputs = encoder.width, len(checkpoint.pieces) + 1
    shapes = dict(_subsampling_shapes(encoder, checkpoint.front_end.mel_bands))
    for index in range(encoder.block_count):
        block = f"enc.blocks.{index}"
        shapes |= {f"{block}.{name}": shape for name, shape in _block_shapes(encoder)}
    if transducer is None or "head.ctc.weight" in checkpoint.tensors:
        shapes |= {"head.ctc.weight": (outputs, width, 1), "head.ctc.bias": (outputs,)}
    if transducer is None:
        return shapes
    hidden, joint = transducer.hidden, transducer.joint_hidden
    shapes["pred.embed.weight"] = (outputs, hidden)
    for index in range(transducer.layer_count):
        shapes[f"pred.lstm.{index}.Wx"] = (4 * hidden, hidden)
        shapes[f"pred.lstm.{index}.Wh"] = (4 * hidden, hidden)
        shapes[f"pred.lstm.{index}.bias"] = (4 * hidden,)
    shapes |= _linear_shapes("joint.enc", joint, width)
    shapes |= _linear_shapes("joint.pred", joint, hidden)
    return shapes | _linear_shapes("joint.out", outputs + len(transducer.durations), joint)


def _subsampling_shapes(encoder: Encoder, mel_bands: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    channels = encoder.subsampling_channels
    for index in (0, 2, 3, 5, 6):
        is_pointwise = index in (3, 6)
        shape = (channels, channels, 1, 1) if is_pointwise else (channels, 1, 3, 3)
        yield f"enc.pre_encode.conv.{index}.weight", shape
        yield f"enc.pre_encode.conv.{index}.bias", (channels,)
    bands = subsampled(mel_bands, encoder.is_causal)
    yield from _linear_shapes("enc.pre_encode.out", encoder.width, channels * bands).items()


def _block_shapes(encoder: Encoder) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, has_biases = encoder.width, encoder.has_biases

    def linear(name: str, outputs: int, *inputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.weight", (outputs, *inputs)
        if has_biases:
            yield f"{name}.bias", (outputs,)

    def norm(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.weight", (width,)
        yield f"{name}.bias", (width,)

    def feed_forward(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from norm(f"norm_{name}")
        yield from linear(f"{name}.linear1", encoder.feed_forward_length, width)
        yield from linear(f"{name}.linear2", width, encoder.feed_forward_length)

    yield from feed_forward("ff1")
    yield from norm("norm_attn")
    for name in ("q", "k", "v", "out"):
        yield from linear(f"attn.linear_{name}", width, width)
    yield "attn.linear_pos.weight", (width, width)
    for name in ("u", "v"):
        yield f"attn.pos_bias_{name}", (encoder.head_count, width // encoder.head_count)
    yield from norm("norm_conv")
    yield from linear("conv.pointwise1", 2 * width, width, 1)
    yield from linear("conv.depthwise", width, 1, encoder.kernel)
    yield from norm("conv.bn")
    if encoder.norm == "batch_norm":
        yield "conv.bn.running_mean", (width,)
        yield "conv.bn.running_var", (width,)
    yield from linear("conv.pointwise2", width, width, 1)
    yield from feed_forward("ff2")
    yield from norm("norm_out")


def _linear_shapes(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
