"""Reads a folder with a Whisper model of CTranslate2: ``model.bin``, its vocabulary and ``config.json``."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .checkpoint import Checkpoint, Sizes, Stack
from .ctranslate2_file import Variable, read_variables
from .errors import REMEDY, ModelError
from .json_files import integer_list, integer_pairs, read_object, string_list
from .tensor import Tensor
from .vocabulary import layout_of

_OUTER_PARTS = {
    "encoder/conv1": "encoder.conv1",
    "encoder/conv2": "encoder.conv2",
    "encoder/position_encodings": "encoder.positional_embedding",
    "encoder/layer_norm": "encoder.ln_post",
    "decoder/embeddings": "decoder.token_embedding",
    "decoder/position_encodings": "decoder.positional_embedding",
    "decoder/layer_norm": "decoder.ln",
}
_BLOCK_PARTS = {
    "self_attention/layer_norm": ("attn_ln",),
    "self_attention/linear_0": ("attn.query", "attn.key", "attn.value"),
    "self_attention/linear_1": ("attn.out",),
    "attention/layer_norm": ("cross_attn_ln",),
    "attention/linear_0": ("cross_attn.query",),
    "attention/linear_1": ("cross_attn.key", "cross_attn.value"),
    "attention/linear_2": ("cross_attn.out",),
    "ffn/layer_norm": ("mlp_ln",),
    "ffn/linear_0": ("mlp.0",),
    "ffn/linear_1": ("mlp.2",),
}
_FIELDS = {"weight": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias", "encodings": ""}


def recognises(source: Path) -> bool:
    """Whether ``source`` looks like a CTranslate2 model."""
    return (source / "model.bin").is_file()


def read(folder: Path) -> Checkpoint:
    """The checkpoint in ``folder``; tensors are read when they are asked for. Raises ModelError."""
    weights_file, config_file = folder / "model.bin", folder / "config.json"
    variables = read_variables(weights_file)
    config = read_object(config_file) if config_file.is_file() else {}
    return Checkpoint(
        path=folder,
        sizes=_sizes(weights_file, variables),
        ordinary_tokens=_ordinary_tokens(folder),
        tensors=_tensors(weights_file, variables),
        suppress_tokens=integer_list(config, "suppress_ids", config_file),
        begin_suppress_tokens=integer_list(config, "suppress_ids_begin", config_file),
        alignment_heads=integer_pairs(config, "alignment_heads", config_file),
    )


def _ordinary_tokens(folder: Path) -> list[str]:
    as_list, as_lines = folder / "vocabulary.json", folder / "vocabulary.txt"
    path = as_list if as_list.is_file() else as_lines
    tokens = string_list(as_list) if path is as_list else _lines(as_lines)
    layout = layout_of(len(tokens), path)
    if tokens[layout.end_of_text] != "<|endoftext|>":
        raise ModelError(path, f"has {tokens[layout.end_of_text]!r} where Whisper has <|endoftext|>", REMEDY)
    return tokens[: layout.ordinary_count]


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(path, f"cannot be read ({error})", REMEDY) from error
    return text.removesuffix("\n").split("\n")  # an empty line is a token, too


def _sizes(path: Path, variables: Mapping[str, Variable]) -> Sizes:
    def dimension(name: str, axis: int) -> int:
        variable = variables.get(name)
        if variable is None or axis >= len(variable.shape):
            raise ModelError(path, f"lacks {name}, or it has too few dimensions", REMEDY)
        return variable.shape[axis]

    def stack(name: str) -> Stack:
        heads = variables.get(f"{name}/num_heads")
        if heads is None or not heads.is_integer:
            raise ModelError(path, f"lacks the number {name}/num_heads", REMEDY)
        blocks = {found[1] for key in variables if (found := re.match(rf"{name}/layer_(\d+)/", key))}
        return Stack(
            context_length=dimension(f"{name}/position_encodings/encodings", 0),
            embedding_length=dimension(f"{name}/position_encodings/encodings", 1),
            block_count=len(blocks),
            head_count=int(heads.load()),
            feed_forward_length=dimension(f"{name}/layer_0/ffn/linear_0/weight", 0),
        )

    return Sizes(
        vocab_size=dimension("decoder/embeddings/weight", 0),
        mel_bands=dimension("encoder/conv1/weight", 1),
        encoder=stack("encoder"),
        decoder=stack("decoder"),
    )


def _tensors(path: Path, variables: Mapping[str, Variable]) -> dict[str, Tensor]:
    """All arrays under OpenAI's names, fused projections cut apart; others are left out."""
    embedding = variables.get("decoder/embeddings/weight")
    if variables.get("decoder/projection/weight", embedding) is not embedding:
        raise ModelError(path, "has an output projection of its own", "choose a model with a tied one")
    tensors: dict[str, Tensor] = {}
    for key, variable in variables.items():
        part, _, field = key.rpartition("/")
        names = _our_names(part)
        if field not in _FIELDS or not names or not variable.shape:
            continue
        scale = variables.get(f"{key}_scale")
        rows, odd_rows = divmod(variable.shape[0], len(names))
        if odd_rows:
            raise ModelError(
                path, f"has {variable.shape[0]} rows in {key}, which cannot be shared evenly", REMEDY
            )
        for index, name in enumerate(names):
            piece = _piece(path, variable, scale, index * rows, (index + 1) * rows)
            if name.endswith(".key") and field == "bias":
                _require_zero(path, key, piece)
            else:
                tensors[name + _FIELDS[field]] = piece
    return tensors


def _our_names(part: str) -> tuple[str, ...]:
    """OpenAI's names of the layers that CTranslate2 stores as ``part``, in the order of their rows."""
    if part in _OUTER_PARTS:
        return (_OUTER_PARTS[part],)
    found = re.fullmatch(r"(encoder|decoder)/layer_(\d+)/(.+)", part)
    if found is None:
        return ()
    stack, index, inner = found.groups()
    return tuple(f"{stack}.blocks.{index}.{name}" for name in _BLOCK_PARTS.get(inner, ()))


def _piece(path: Path, variable: Variable, scale: Variable | None, start: int, stop: int) -> Tensor:
    """Some rows of a variable; where it is quantised, divided by the scale of each row, or of all."""
    piece = variable.rows(start, stop)
    if scale is None:
        return Tensor(piece.shape, piece.load)
    if scale.shape not in ((), variable.shape[:1]):
        fault = f"has scales of the shape {list(scale.shape)} for an array of {list(variable.shape)}"
        raise ModelError(path, fault, REMEDY)
    scales = scale.rows(start, stop) if scale.shape else scale

    def load() -> NDArray[np.float32]:
        divisors = scales.load().reshape(-1, *[1] * (len(piece.shape) - 1))
        with np.errstate(divide="ignore", invalid="ignore"):  # what is not finite is refused by the writer
            return piece.load() / divisors

    return Tensor(piece.shape, load)


def _require_zero(path: Path, key: str, bias: Tensor) -> None:
    if bias.load().any():
        fault = f"has a bias for attention keys in {key}, unlike Whisper"
        raise ModelError(path, fault, "choose a Whisper model")
