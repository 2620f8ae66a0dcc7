"""Reads whisper.cpp's ggml ``.bin`` files of Parakeet, quantised ones included.

They hold models that hear a recording whole: batch norm, full attention, no scaling of the input.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..binary import BinaryReader, reading
from ..errors import ModelError
from ..ggml_bin import MAGIC, read_strings, read_tensors
from ..tensor import Tensor
from .checkpoint import (
    FFT_LENGTH,
    SUBSAMPLING_FACTOR,
    WINDOW_LENGTH,
    Checkpoint,
    Encoder,
    FrontEnd,
    Transducer,
)
from .nemo_names import our_tensors, require_plain
from .vocabulary import pieces_in_order

_HEADER = "I15i"
_LSTM = "decoder.prediction.dec_rnn.lstm."


def recognises(path: Path) -> bool:
    """Whether the file has whisper.cpp's header for Parakeet. Raises ModelError where it cannot be read."""
    with reading(path) as reader:
        if reader.remaining < 64:
            return False
        magic, *sizes = reader.numbers(_HEADER, "the header")
        return magic == MAGIC and sizes[7:9] == [FFT_LENGTH, SUBSAMPLING_FACTOR]


def read(path: Path) -> Checkpoint:
    """The checkpoint in ``path``; tensors are read when they are asked for. Raises ModelError."""
    with reading(path) as reader:
        _, *sizes = reader.numbers(_HEADER, "the header")
        vocabulary, _, width, heads, blocks, bands, file_type, _, _, channels, kernel, *predictor = sizes
        hidden, layers, duration_count, max_symbols = predictor
        _skip_audio(reader, bands)
        durations = reader.numbers(f"{max(duration_count, 0)}I", "the durations")
        pieces = _texts(read_strings(reader, reader.number("i", "the vocabulary")), reader)
        if len(pieces) != vocabulary:
            raise reader.fault(f"it has {len(pieces)} tokens instead of {vocabulary}")
        tensors = read_tensors(reader, file_type // 1000)
    require_plain(tensors, path)
    return Checkpoint(
        path=path,
        front_end=FrontEnd(bands, "per_feature"),
        encoder=Encoder(
            block_count=blocks,
            width=width,
            head_count=heads,
            feed_forward_length=_rows(tensors, "encoder.layers.0.feed_forward1.linear1.weight", path),
            kernel=kernel,
            subsampling_channels=channels,
            position_limit=5000,
            has_biases="encoder.layers.0.feed_forward1.linear1.bias" in tensors,
            scales_input=False,
            norm="batch_norm",
        ),
        transducer=Transducer(
            hidden=hidden,
            layer_count=layers,
            joint_hidden=_rows(tensors, "joint.enc.weight", path),
            durations=durations,
            max_symbols=max_symbols,
        ),
        pieces=pieces_in_order(pieces, {}),
        tensors=_our_tensors(tensors),
    )


def _skip_audio(reader: BinaryReader, bands: int) -> None:
    """The filterbank and the window are the same for all models, and computed."""
    filters = reader.numbers("2i", "the mel filters")
    if filters != (bands, FFT_LENGTH // 2 + 1):
        raise ModelError(
            reader.path,
            f"has {filters[0]} mel filters of {filters[1]} bins instead of {bands} of {FFT_LENGTH // 2 + 1}",
            "convert the model's .nemo file: whisper.cpp has changed this format",
        )
    reader.skip(4 * bands * (FFT_LENGTH // 2 + 1), "the mel filters")
    window = reader.number("i", "the window")
    if window != WINDOW_LENGTH:
        raise reader.fault(f"its window has {window} samples")
    reader.skip(4 * window, "the window")


def _texts(tokens: list[bytes], reader: BinaryReader) -> list[str]:
    try:
        return [token.decode() for token in tokens]
    except UnicodeDecodeError as error:
        raise reader.fault(f"a token is not UTF-8 ({error})") from error


def _rows(tensors: dict[str, Tensor], name: str, path: Path) -> int:
    if name not in tensors:
        raise ModelError(path, f"lacks the tensor {name}", "choose a TDT or RNN-T model of Parakeet")
    return tensors[name].shape[0]


def _our_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    found = our_tensors(tensors)
    for name, tensor in tensors.items():
        kind, _, layer = name.removeprefix(_LSTM).rpartition("_l")
        ours = {"weight_ih": "Wx", "weight_hh": "Wh", "bias_h": "bias"}.get(kind)
        if name.startswith(_LSTM) and ours:
            found[f"pred.lstm.{layer}.{ours}"] = _in_torch_order(tensor)
    return found


def _in_torch_order(tensor: Tensor) -> Tensor:
    """Gates i, f, g, o of i, f, o, g."""

    def load() -> NDArray[np.float32]:
        values = tensor.load()
        if len(values) % 4:
            return values  # its shape will be told
        gates = values.reshape(4, -1, *values.shape[1:])
        return gates[[0, 1, 3, 2]].reshape(values.shape)

    return Tensor(tensor.shape, load)
