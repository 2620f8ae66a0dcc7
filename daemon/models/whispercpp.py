"""Reads whisper.cpp's ggml ``.bin`` files of Whisper, quantised ones included."""

from math import prod
from pathlib import Path

from .binary import BinaryReader, reading
from .checkpoint import Checkpoint, Sizes, Stack
from .errors import ModelError
from .ggml_bin import MAGIC, read_strings, read_tensors
from .vocabulary import encode_bytes, layout_of


def read(path: Path) -> Checkpoint:
    """The checkpoint in ``path``; tensors are read when they are asked for. Raises ModelError."""
    with reading(path) as reader:
        if reader.number("I", "the header") != MAGIC:
            raise ModelError(
                path,
                "is not a model of whisper.cpp",
                "give a .nemo, GGUF or ggml .bin file, or the folder of a Hugging Face or CTranslate2 model",
            )
        sizes, quantisation_version = _read_sizes(reader)
        _skip_mel_filters(reader, sizes)
        tokens = [encode_bytes(token) for token in read_strings(reader, reader.number("i", "the vocabulary"))]
        tensors = read_tensors(reader, quantisation_version)
    for name, tensor in tensors.items():
        if name.startswith("encoder.conv") and name.endswith(".bias"):
            tensors[name] = tensor.reshaped((prod(tensor.shape),))  # a column in whisper.cpp's files
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
