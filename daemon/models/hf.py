"""Reads a folder with a Whisper model in Hugging Face's layout: safetensors and JSON files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from .checkpoint import Checkpoint, Sizes, Stack
from .errors import REMEDY, ModelError
from .json_files import integer, integer_list, integer_pairs, object_in, read_object
from .tensor import Tensor
from .vocabulary import VocabularyLayout, layout_of

WEIGHTS_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"

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
        raise ModelError(config_file, fault, "choose a Whisper model")
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
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        tensors |= _tensors_of_file(path)
    projection = tensors.pop("proj_out.weight", None)
    embedding = tensors.get("decoder.token_embedding.weight")
    if projection and embedding and not np.array_equal(projection.load(), embedding.load()):
        fault = "has an output projection that differs from its token embedding"
        raise ModelError(folder, fault, "choose a model that ties them, as Whisper does")
    return tensors


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    index_file = folder / _INDEX_FILE
    if not index_file.is_file():
        remedy = "get the model's safetensors (pickled weights are never read: they can run code)"
        raise ModelError(folder, f"has no {WEIGHTS_FILE}", remedy)
    names = object_in(read_object(index_file), "weight_map", index_file).values()
    if not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise ModelError(index_file, "does not list the files of its weights", REMEDY)
    return [folder / name for name in sorted(set(names))]


def _tensors_of_file(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
            types = {key: found.get_dtype() for key, found in slices.items()}
            shapes = {key: tuple(found.get_shape()) for key, found in slices.items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(path, f"cannot be read as safetensors ({error})", REMEDY) from error
    foreign = {kind for kind in types.values() if kind not in ("F16", "F32", "F64")}
    if foreign:
        fault = f"holds numbers of the type {', '.join(sorted(foreign))}"
        raise ModelError(path, fault, "save the model as float16 or float32 first")
    return {_our_name(key): Tensor(shape, _loader(path, key)) for key, shape in shapes.items()}


def _loader(path: Path, key: str) -> Callable[[], NDArray[np.float32]]:
    def load() -> NDArray[np.float32]:
        try:
            with safe_open(path, framework="numpy") as file:
                values: NDArray[Any] = file.get_tensor(key)
        except (OSError, SafetensorError) as error:
            raise ModelError(path, f"cannot be read ({error})", REMEDY) from error
        return values.astype(np.float32)

    return load


def _our_name(name: str) -> str:
    """OpenAI's name of a tensor that Hugging Face calls ``name``."""
    name = name.removeprefix("model.")
    if name in _OUTER_NAMES:
        return _OUTER_NAMES[name]
    for theirs, ours in _RENAMED_PARTS:
        name = name.replace(theirs, ours)
    return name
