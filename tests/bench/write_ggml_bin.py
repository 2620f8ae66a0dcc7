"""Writes one of our GGUF files as a legacy ``.bin``, so that whisper.cpp can be measured on the same weights.

    python tests/bench/write_ggml_bin.py whisper-base-f16.gguf ggml-base-f16.bin

Both formats store the same bytes for a tensor, so f32, f16 and q8_0 (and q5_0, q4_0) go over unchanged.
"""

import argparse
import struct
from pathlib import Path
from typing import Any, BinaryIO

import gguf
from stenod.models.vocabulary import CHARACTER_OF_BYTE, LAYOUTS

MAGIC = 0x67676D6C
QUANTISATION_VERSION = 2
SIZE_KEYS = (
    "vocab_size",
    "encoder.context_length",
    "encoder.embedding_length",
    "encoder.head_count",
    "encoder.block_count",
    "decoder.context_length",
    "decoder.embedding_length",
    "decoder.head_count",
    "decoder.block_count",
    "mel_bands",
)


def write_ggml_bin(source: Path, target: Path) -> None:
    """Writes the model in ``source``, a GGUF file of ours, to ``target``."""
    reader = gguf.GGUFReader(source)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    with target.open("wb") as file:
        file.write(struct.pack("<I", MAGIC))
        sizes = [_value(reader, f"whisper.{key}") for key in SIZE_KEYS]
        file.write(struct.pack("<11i", *sizes, _file_type(reader)))
        filters = tensors.pop("mel.filters").data
        file.write(struct.pack("<2i", *filters.shape))
        file.write(filters.tobytes())
        _write_tokens(file, reader)
        for tensor in tensors.values():
            _write_tensor(file, tensor)


def _value(reader: gguf.GGUFReader, key: str) -> Any:
    return reader.fields[key].contents()


def _file_type(reader: gguf.GGUFReader) -> int:
    number = int(_value(reader, "general.file_type"))
    is_quantised = number > gguf.LlamaFileType.MOSTLY_F16
    return number + 1000 * QUANTISATION_VERSION * is_quantised


def _write_tokens(file: BinaryIO, reader: gguf.GGUFReader) -> None:
    byte_of = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}
    tokens = _value(reader, "tokenizer.ggml.tokens")
    ordinary = tokens[: LAYOUTS[len(tokens)].ordinary_count]
    file.write(struct.pack("<i", len(ordinary)))
    for token in ordinary:
        data = bytes(byte_of[character] for character in token)
        file.write(struct.pack("<I", len(data)) + data)


def _write_tensor(file: BinaryIO, tensor: gguf.ReaderTensor) -> None:
    name = tensor.name.encode()
    extents = [int(extent) for extent in tensor.shape]
    if tensor.name in ("encoder.conv1.bias", "encoder.conv2.bias"):
        extents = [1, *extents]  # whisper.cpp adds it to a matrix, column by column
    file.write(struct.pack("<3i", len(extents), len(name), tensor.tensor_type))
    file.write(struct.pack(f"<{len(extents)}i", *extents))
    file.write(name)
    file.write(tensor.data.tobytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    write_ggml_bin(arguments.source, arguments.target)
