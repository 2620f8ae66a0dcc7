"""Reads the ggml ``.bin`` files of whisper.cpp, quantised ones included."""

from math import prod
from pathlib import Path

from .binary import BinaryReader, reading
from .checkpoint import Checkpoint, Sizes, Stack
from .errors import ModelError
from .file_types import stored_size
from .stored_tensor import BLOCK_TYPES, MAX_RANK, checked_type, stored_tensor
from .tensor import Tensor
from .vocabulary import encode_bytes, layout_of

_MAGIC = 0x67676D6C
_QUANTISATION_VERSION = 2
"""Of blocks as gguf knows them; those of older versions are laid out differently."""


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
        while reader.remaining:
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
    if not 0 < rank <= MAX_RANK:
        raise reader.fault(f"a tensor has {rank} dimensions")
    shape = reader.numbers(f"{rank}i", "a tensor's shape")[::-1]
    name = reader.read(name_length, "a tensor's name").decode("utf-8", "backslashreplace")
    stored = checked_type(reader, name, type_number, shape)
    if stored.name in BLOCK_TYPES and quantisation_version != _QUANTISATION_VERSION:
        raise ModelError(
            reader.path,
            f"is quantised in a way that is no longer used (version {quantisation_version})",
            "get its f16 file instead, or quantise it again",
        )
    offset = reader.skip(stored_size(shape, stored), name)
    if name.startswith("encoder.conv") and name.endswith(".bias"):
        shape = (prod(shape),)  # a column in whisper.cpp's files
    return name, stored_tensor(reader.path, offset, shape, stored)
