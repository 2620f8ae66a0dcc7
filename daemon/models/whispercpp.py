"""Reads the ggml ``.bin`` files of whisper.cpp, quantised ones included."""

from math import prod
from pathlib import Path

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from .binary import BinaryReader, read_array, reading
from .checkpoint import Checkpoint, Sizes, Stack, Tensor
from .errors import ModelError
from .file_types import stored_size
from .vocabulary import encode_bytes, layout_of

_MAGIC = 0x67676D6C
_MAX_RANK = 4
_PLAIN_TYPES = ("F32", "F16", "BF16")
_BLOCK_TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
_TYPES = {int(GGMLQuantizationType[name]): GGMLQuantizationType[name] for name in _PLAIN_TYPES + _BLOCK_TYPES}
_QUANTISATION_VERSION = 2
"""Of blocks as gguf knows them. In files of older versions they are laid out differently."""


def read(path: Path) -> Checkpoint:
    """The checkpoint in ``path``; tensors are read when they are asked for. Raises ModelError."""
    with reading(path) as reader:
        if reader.number("I", "the header") != _MAGIC:
            raise ModelError(
                path,
                "is not a model of whisper.cpp",
                "give a ggml .bin file, or the folder of a Hugging Face or CTranslate2 model",
            )
        sizes, quantisation_version = _read_sizes(reader)
        _skip_mel_filters(reader, sizes)
        tokens = _read_tokens(reader)
        tensors: dict[str, Tensor] = {}
        while not reader.at_end:
            name, tensor = _read_tensor(reader, quantisation_version)
            tensors[name] = tensor
    layout = layout_of(sizes.vocab_size, path)
    return Checkpoint(path, sizes, tokens[: layout.ordinary_count], tensors)


def _read_sizes(reader: BinaryReader) -> tuple[Sizes, int]:
    """The hyper-parameters, and the version of the quantised blocks."""
    vocabulary, *stacks, mel_bands, file_type = reader.numbers("11i", "the header")
    audio_context, audio_width, audio_heads, audio_blocks, *text_stack = stacks
    text_context, text_width, text_heads, text_blocks = text_stack
    sizes = Sizes(
        vocab_size=vocabulary,
        mel_bands=mel_bands,
        encoder=Stack(audio_context, audio_width, audio_blocks, audio_heads, 4 * audio_width),
        decoder=Stack(text_context, text_width, text_blocks, text_heads, 4 * text_width),
    )
    return sizes, file_type // 1000


def _skip_mel_filters(reader: BinaryReader, sizes: Sizes) -> None:
    """They are the same in all of Whisper's models, and computed."""
    bands, bins = reader.numbers("2i", "the mel filters")
    if bands != sizes.mel_bands:
        raise reader.fault(f"it has {bands} mel filters for {sizes.mel_bands} bands")
    reader.skip(4 * bands * bins, "the mel filters")


def _read_tokens(reader: BinaryReader) -> list[str]:
    count = reader.number("i", "the vocabulary")
    return [
        encode_bytes(reader.read(reader.number("I", "a token's length"), "a token")) for _ in range(count)
    ]


def _read_tensor(reader: BinaryReader, quantisation_version: int) -> tuple[str, Tensor]:
    rank, name_length, type_number = reader.numbers("3i", "a tensor's header")
    if not 0 < rank <= _MAX_RANK:
        raise reader.fault(f"a tensor has {rank} dimensions")
    shape = reader.numbers(f"{rank}i", "a tensor's shape")[::-1]
    name = reader.read(name_length, "a tensor's name").decode("utf-8", "backslashreplace")
    stored = _tensor_type(reader, name, type_number, quantisation_version)
    block_length, _ = gguf.GGML_QUANT_SIZES[stored]
    if min(shape) <= 0 or shape[-1] % block_length:
        raise reader.fault(f"{name} has the shape {list(shape)}, which {stored.name} cannot have")
    size = stored_size(shape, stored)
    offset = reader.skip(size, name)
    path = reader.path

    def load() -> NDArray[np.float32]:
        data = read_array(path, offset, (prod(shape[:-1]), size // prod(shape[:-1])), np.uint8)
        return gguf.quants.dequantize(data, stored).reshape(flat)

    # whisper.cpp stores a convolution's bias as a column.
    flat = shape[:1] if len(shape) == 2 and name.startswith("encoder.conv") else shape
    return name, Tensor(flat, load)


def _tensor_type(
    reader: BinaryReader, name: str, number: int, quantisation_version: int
) -> GGMLQuantizationType:
    if number not in _TYPES:
        raise reader.fault(f"{name} has the unknown type {number}")
    if _TYPES[number].name in _BLOCK_TYPES and quantisation_version != _QUANTISATION_VERSION:
        raise ModelError(
            reader.path,
            f"is quantised in a way that is no longer used (version {quantisation_version})",
            "get its f16 file instead, or quantise it again",
        )
    return _TYPES[number]
