"""Reads a folder with a Whisper model in Hugging Face's layout: safetensors and JSON files."""

from pathlib import Path
from typing import Any

import numpy as np

from .checkpoint import Checkpoint, Sizes, Stack
from .errors import REMEDY, ModelError
from .json_files import integer, integer_list, integer_pairs, object_in, read_object
from .safetensors_files import read_tensors
from .tensor import Tensor
from .vocabulary import VocabularyLayout, layout_of

_OUTER_NAMES = {
    "encoder.embed_positions.weight": "encoder.positional_embedding",
    "decoder.embed_positions.weight": "decoder.positional_embedding",
    "decoder.embed_tokens.weight": "decoder.token_embedding.weight",
}
_RENAMED_PARTS = (
    ("encoder.layer_norm.", "encoder.ln_post."),
    ("decoder.layer_norm.", "decoder.ln."),
    (".layers.", ".blocks."),
    (".self_attn_layer_norm.", ".attn_ln."),
    (".encoder_attn_layer_norm.", ".cross_attn_ln."),
    (".final_layer_norm.", ".mlp_ln."),
    (".self_attn.", ".attn."),
    (".encoder_attn.", ".cross_attn."),
    (".q_proj.", ".query."),
    (".k_proj.", ".key."),
    (".v_proj.", ".value."),
    (".out_proj.", ".out."),
    (".fc1.", ".mlp.0."),
    (".fc2.", ".mlp.2."),
)


def recognises(source: Path) -> bool:
    """Whether ``source`` looks like a model folder of Hugging Face."""
    return (source / "config.json").is_file()


def read(folder: Path) -> Checkpoint:
    """The checkpoint in ``folder``; tensors are read when they are asked for. Raises ModelError."""
    config_file, generation_file = folder / "config.json", folder / "generation_config.json"
    config = read_object(config_file)
    if config.get("model_type") != "whisper":
        fault = f"describes a model of the type {config.get('model_type')!r}"
        raise ModelError(config_file, fault, "choose a Whisper or Parakeet model")
    sizes = _sizes(config, config_file)
    if not generation_file.is_file():
        generation_file = config_file
    generation = read_object(generation_file)
    return Checkpoint(
        path=folder,
        sizes=sizes,
        ordinary_tokens=_ordinary_tokens(folder, layout_of(sizes.vocab_size, config_file)),
        tensors=_tensors(folder),
        suppress_tokens=integer_list(generation, "suppress_tokens", generation_file),
        begin_suppress_tokens=integer_list(generation, "begin_suppress_tokens", generation_file),
        alignment_heads=integer_pairs(generation, "alignment_heads", generation_file),
    )


def _sizes(config: dict[str, Any], path: Path) -> Sizes:
    def size(key: str) -> int:
        return integer(config, key, path)

    def stack(name: str, context_length: int) -> Stack:
        return Stack(
            context_length=context_length,
            embedding_length=size("d_model"),
            block_count=size(f"{name}_layers"),
            head_count=size(f"{name}_attention_heads"),
            feed_forward_length=size(f"{name}_ffn_dim"),
        )

    return Sizes(
        vocab_size=size("vocab_size"),
        mel_bands=size("num_mel_bins"),
        encoder=stack("encoder", size("max_source_positions")),
        decoder=stack("decoder", size("max_target_positions")),
    )


def _ordinary_tokens(folder: Path, layout: VocabularyLayout) -> list[str]:
    path = folder / "vocab.json"
    if not path.is_file():
        path = folder / "tokenizer.json"
    numbers = read_object(path)
    if path.name == "tokenizer.json":
        numbers = object_in(object_in(numbers, "model", path), "vocab", path)
    tokens: list[str | None] = [None] * layout.ordinary_count
    for token, number in numbers.items():
        if type(number) is not int:
            raise ModelError(path, f"numbers the token {token!r} as {number!r}", REMEDY)
        if 0 <= number < layout.ordinary_count:
            tokens[number] = token
    known = [token for token in tokens if token is not None]
    if len(known) < layout.ordinary_count:
        fault = f"lacks the token {tokens.index(None)} of {layout.ordinary_count}"
        raise ModelError(path, fault, REMEDY)
    return known


def _tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors under OpenAI's names. The output projection must be the token embedding, as in Whisper."""
    tensors = {_our_name(key): tensor for key, tensor in read_tensors(folder).items()}
    projection = tensors.pop("proj_out.weight", None)
    embedding = tensors.get("decoder.token_embedding.weight")
    if projection and embedding and not np.array_equal(projection.load(), embedding.load()):
        fault = "has an output projection that differs from its token embedding"
        raise ModelError(folder, fault, "choose a model that ties them, as Whisper does")
    return tensors


def _our_name(name: str) -> str:
    """OpenAI's name of a tensor that Hugging Face calls ``name``."""
    name = name.removeprefix("model.")
    if name in _OUTER_NAMES:
        return _OUTER_NAMES[name]
    for theirs, ours in _RENAMED_PARTS:
        name = name.replace(theirs, ours)
    return name
