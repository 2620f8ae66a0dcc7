"""A small random Whisper model, and writers for every format that models come in.

All numbers fit f16, so that the formats can be compared bit for bit.
"""

import json
import struct
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray
from safetensors.numpy import save_file
from stenod.models.checkpoint import Sizes, Stack, tensor_shapes
from stenod.models.vocabulary import CHARACTER_OF_BYTE, LAYOUTS

Tensors = dict[str, NDArray[np.float32]]

CT2_TYPES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}
HEADS = 2


@dataclass(frozen=True)
class SmallModel:
    """Two blocks of width 64 with one of the real vocabularies' sizes."""

    vocab_size: int
    mel_bands: int
    tensors: Tensors = field(repr=False)
    suppress_tokens: tuple[int, ...] = (1, 2, 7)
    begin_suppress_tokens: tuple[int, ...] = (220, 300)
    alignment_heads: tuple[tuple[int, int], ...] = ((0, 1), (1, 0))

    @property
    def ordinary_tokens(self) -> list[str]:
        """All single bytes, then words; a multilingual vocabulary ends with an empty token."""
        return _ordinary_tokens(self.vocab_size)

    @property
    def tokens(self) -> list[str]:
        """The whole vocabulary."""
        return self.ordinary_tokens + LAYOUTS[self.vocab_size].special_names()


@cache
def _ordinary_tokens(vocab_size: int) -> list[str]:
    layout = LAYOUTS[vocab_size]
    tokens = list(CHARACTER_OF_BYTE.values())
    tokens += [f"Ġw{number}" for number in range(layout.ordinary_count - len(tokens))]
    return [*tokens[:-1], ""] if layout.multilingual else tokens


def sizes_of(vocab_size: int, mel_bands: int) -> Sizes:
    """The sizes of all small models."""
    return Sizes(vocab_size, mel_bands, Stack(1500, 64, 2, HEADS, 256), Stack(448, 64, 2, HEADS, 256))


@cache
def small_model(vocab_size: int = 51865, mel_bands: int = 80) -> SmallModel:
    """A model with random numbers, always the same."""
    random = np.random.default_rng(vocab_size)
    shapes = tensor_shapes(sizes_of(vocab_size, mel_bands))
    tensors = {
        name: random.standard_normal(shape, np.float32).astype(np.float16).astype(np.float32)
        for name, shape in shapes.items()
    }
    return SmallModel(vocab_size, mel_bands, tensors)


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


# --- CTranslate2


def ctranslate2_variables(model: SmallModel) -> dict[str, NDArray[Any]]:
    """The model's arrays under CTranslate2's names, projections fused."""
    found: dict[str, NDArray[Any]] = {
        "encoder/num_heads": np.array(HEADS, np.int16),
        "decoder/num_heads": np.array(HEADS, np.int16),
        "decoder/pre_norm": np.array(1, np.int8),
    }

    def add(theirs: str, ours: str, fields: dict[str, str]) -> None:
        for field_theirs, field_ours in fields.items():
            found[f"{theirs}/{field_theirs}"] = model.tensors[ours + field_ours]

    def add_fused(theirs: str, *ours: str) -> None:
        no_bias = np.zeros(64, np.float32)  # what an attention's key has
        for field_name in ("weight", "bias"):
            parts = [model.tensors.get(f"{name}.{field_name}", no_bias) for name in ours]
            found[f"{theirs}/{field_name}"] = np.concatenate(parts)

    norm = {"gamma": ".weight", "beta": ".bias"}
    for convolution in ("conv1", "conv2"):
        add_fused(f"encoder/{convolution}", f"encoder.{convolution}")
    for stack in ("encoder", "decoder"):
        add(f"{stack}/position_encodings", f"{stack}.positional_embedding", {"encodings": ""})
        for index in range(2):
            theirs, ours = f"{stack}/layer_{index}", f"{stack}.blocks.{index}"
            add(f"{theirs}/self_attention/layer_norm", f"{ours}.attn_ln", norm)
            add_fused(
                f"{theirs}/self_attention/linear_0", *(f"{ours}.attn.{x}" for x in ("query", "key", "value"))
            )
            add_fused(f"{theirs}/self_attention/linear_1", f"{ours}.attn.out")
            add(f"{theirs}/ffn/layer_norm", f"{ours}.mlp_ln", norm)
            add_fused(f"{theirs}/ffn/linear_0", f"{ours}.mlp.0")
            add_fused(f"{theirs}/ffn/linear_1", f"{ours}.mlp.2")
    add("encoder/layer_norm", "encoder.ln_post", norm)
    add("decoder/layer_norm", "decoder.ln", norm)
    add("decoder/embeddings", "decoder.token_embedding", {"weight": ".weight"})
    for index in range(2):
        theirs, ours = f"decoder/layer_{index}/attention", f"decoder.blocks.{index}.cross_attn"
        add(f"{theirs}/layer_norm", f"{ours}_ln", norm)
        add_fused(f"{theirs}/linear_0", f"{ours}.query")
        add_fused(f"{theirs}/linear_1", f"{ours}.key", f"{ours}.value")
        add_fused(f"{theirs}/linear_2", f"{ours}.out")
    return found


def quantised_variables(variables: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """As CTranslate2's int8 export: matrices as int8 and a scale per row."""
    result: dict[str, NDArray[Any]] = {}
    for name, values in variables.items():
        if name.endswith("/weight"):
            flat = values.reshape(len(values), -1)
            scale = (127 / np.abs(flat).max(axis=1)).astype(np.float32)
            result[name] = np.rint(flat * scale[:, np.newaxis]).astype(np.int8).reshape(values.shape)
            result[f"{name}_scale"] = scale
        else:
            result[name] = values
    return result


def pack_ctranslate2(variables: dict[str, NDArray[Any]]) -> bytes:
    """``model.bin`` with these arrays; f32 stays f32."""

    def string(text: str) -> bytes:
        data = text.encode() + b"\0"
        return struct.pack("<H", len(data)) + data

    parts = [struct.pack("<I", 6), string("WhisperSpec"), struct.pack("<II", 3, len(variables))]
    for name, values in sorted(variables.items()):
        parts += [string(name), struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape)]
        parts += [struct.pack("<BI", CT2_TYPES[values.dtype.name], values.nbytes), values.tobytes()]
    parts += [struct.pack("<I", 1), string("decoder/projection/weight"), string("decoder/embeddings/weight")]
    return b"".join(parts)


def write_ctranslate2(
    folder: Path, model: SmallModel, variables: dict[str, NDArray[Any]] | None = None
) -> Path:
    """A CTranslate2 folder; f16 unless other ``variables`` are given."""
    folder.mkdir(exist_ok=True)
    if variables is None:
        variables = {
            name: values.astype(np.float16) if values.dtype == np.float32 else values
            for name, values in ctranslate2_variables(model).items()
        }
    (folder / "model.bin").write_bytes(pack_ctranslate2(variables))
    (folder / "vocabulary.txt").write_text("".join(f"{token}\n" for token in model.tokens), encoding="utf-8")
    config = {
        "suppress_ids": model.suppress_tokens,
        "suppress_ids_begin": model.begin_suppress_tokens,
        "alignment_heads": model.alignment_heads,
    }
    write_json(folder / "config.json", config)
    return folder


# --- Hugging Face

_HF_PARTS = (
    ("encoder.ln_post.", "encoder.layer_norm."),
    ("decoder.ln.", "decoder.layer_norm."),
    (".cross_attn_ln.", ".encoder_attn_layer_norm."),
    (".attn_ln.", ".self_attn_layer_norm."),
    (".mlp_ln.", ".final_layer_norm."),
    (".cross_attn.", ".encoder_attn."),
    (".attn.", ".self_attn."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".out.", ".out_proj."),
    (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
    (".blocks.", ".layers."),
    ("token_embedding.", "embed_tokens."),
)


def hf_name(name: str) -> str:
    """Hugging Face's name of a tensor."""
    for ours, theirs in _HF_PARTS:
        name = name.replace(ours, theirs)
    if name.endswith("positional_embedding"):
        name = name.replace("positional_embedding", "embed_positions.weight")
    return f"model.{name}"


def hf_config(model: SmallModel) -> dict[str, Any]:
    """``config.json``."""
    sizes = sizes_of(model.vocab_size, model.mel_bands)
    config = {"model_type": "whisper", "vocab_size": model.vocab_size, "num_mel_bins": model.mel_bands}
    config |= {"d_model": 64, "max_source_positions": 1500, "max_target_positions": 448}
    for name, stack in (("encoder", asdict(sizes.encoder)), ("decoder", asdict(sizes.decoder))):
        config |= {f"{name}_layers": stack["block_count"], f"{name}_attention_heads": stack["head_count"]}
        config |= {f"{name}_ffn_dim": stack["feed_forward_length"]}
    return config


def write_hf(folder: Path, model: SmallModel) -> Path:
    """A Hugging Face folder in f16, without generation_config.json."""
    folder.mkdir(exist_ok=True)
    tensors = {hf_name(name): values.astype(np.float16) for name, values in model.tensors.items()}
    save_file(tensors, folder / "model.safetensors")
    generation = {
        "suppress_tokens": model.suppress_tokens,
        "begin_suppress_tokens": model.begin_suppress_tokens,
        "alignment_heads": model.alignment_heads,
    }
    write_json(folder / "config.json", hf_config(model))
    write_json(folder / "generation_config.json", generation)
    write_json(folder / "vocab.json", {token: number for number, token in enumerate(model.ordinary_tokens)})
    return folder


# --- whisper.cpp


def pack_ggml_bin(
    model: SmallModel, matrix: GGMLQuantizationType = GGMLQuantizationType.F16, version: int = 2
) -> bytes:
    """A ``.bin`` whose matrices have the type ``matrix``, all else f16 or f32 as whisper.cpp wants it."""
    is_plain = matrix in (GGMLQuantizationType.F32, GGMLQuantizationType.F16)
    numbers = (model.vocab_size, 1500, 64, HEADS, 2, 448, 64, HEADS, 2, model.mel_bands)
    parts = [struct.pack("<I11i", 0x67676D6C, *numbers, 1 if is_plain else 1000 * version + 7)]
    parts += [struct.pack("<2i", model.mel_bands, 201), bytes(4 * 201 * model.mel_bands)]
    byte_of = {character: byte for byte, character in CHARACTER_OF_BYTE.items()}
    tokens = [bytes(byte_of[character] for character in token) for token in model.ordinary_tokens]
    parts.append(struct.pack("<i", len(tokens)))
    parts += [struct.pack("<I", len(token)) + token for token in tokens]
    for name, values in model.tensors.items():
        stored = GGMLQuantizationType.F32
        if values.ndim > 1 and name.endswith(".weight"):
            stored = matrix if values.ndim == 2 else GGMLQuantizationType.F16
        is_column = name in ("encoder.conv1.bias", "encoder.conv2.bias")
        extents = (1, *values.shape) if is_column else values.shape[::-1]
        parts.append(struct.pack("<3i", len(extents), len(name), stored))
        parts.append(struct.pack(f"<{len(extents)}i", *extents))
        parts += [name.encode(), gguf.quants.quantize(values, stored).tobytes()]
    return b"".join(parts)


def write_ggml_bin(path: Path, model: SmallModel) -> Path:
    """An f16 ``.bin`` file."""
    path.write_bytes(pack_ggml_bin(model))
    return path


# --- what came out


@dataclass(frozen=True)
class Contents:
    """All that is in a GGUF file."""

    metadata: dict[str, Any]
    tensors: dict[str, tuple[str, NDArray[Any]]]
    """Type and data as stored, by name."""


def contents_of(path: Path) -> Contents:
    """Reads a GGUF file whole."""
    reader = gguf.GGUFReader(path)
    metadata = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    tensors = {found.name: (found.tensor_type.name, np.array(found.data)) for found in reader.tensors}
    return Contents(metadata, tensors)
