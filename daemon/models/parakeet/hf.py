"""Reads a folder with a Parakeet model in Hugging Face's layout: safetensors and JSON files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import REMEDY, ModelError
from ..json_files import integer, integer_list, object_in, read_object
from ..mel_filters import SAMPLE_RATE
from ..safetensors_files import read_tensors
from ..tensor import Tensor
from .checkpoint import (
    FFT_LENGTH,
    HOP_LENGTH,
    PRE_EMPHASIS,
    SUBSAMPLING_FACTOR,
    WINDOW_LENGTH,
    Checkpoint,
    Encoder,
    FrontEnd,
    Piece,
    Transducer,
)
from .checks import require_known
from .lstm import lstm_tensors
from .vocabulary import CONTROL, USER_DEFINED, pieces_in_order

_KNOWN_AUDIO = {
    "sampling_rate": SAMPLE_RATE,
    "n_fft": FFT_LENGTH,
    "win_length": WINDOW_LENGTH,
    "hop_length": HOP_LENGTH,
    "preemphasis": PRE_EMPHASIS,
}
_KNOWN_ENCODER = {
    "subsampling_factor": SUBSAMPLING_FACTOR,
    "subsampling_conv_kernel_size": 3,
    "subsampling_conv_stride": 2,
    "hidden_act": "silu",
}
_STREAMING = "nemotron_asr_streaming"
_MODEL_TYPES = ("parakeet_tdt", "parakeet_rnnt", "parakeet_ctc", _STREAMING)
_RENAMED_PARTS = (
    ("encoder.subsampling.linear.", "enc.pre_encode.out."),
    ("encoder.subsampling.conv_in.", "enc.pre_encode.conv.0."),
    ("encoder.subsampling.layers.0.depthwise_conv.", "enc.pre_encode.conv.2."),
    ("encoder.subsampling.layers.0.pointwise_conv.", "enc.pre_encode.conv.3."),
    ("encoder.subsampling.layers.1.depthwise_conv.", "enc.pre_encode.conv.5."),
    ("encoder.subsampling.layers.1.pointwise_conv.", "enc.pre_encode.conv.6."),
    ("encoder.subsampling.layers.", "enc.pre_encode.conv."),
    ("encoder.layers.", "enc.blocks."),
    (".norm_feed_forward", ".norm_ff"),
    (".feed_forward", ".ff"),
    (".norm_self_att.", ".norm_attn."),
    (".self_attn.q_proj.", ".attn.linear_q."),
    (".self_attn.k_proj.", ".attn.linear_k."),
    (".self_attn.v_proj.", ".attn.linear_v."),
    (".self_attn.o_proj.", ".attn.linear_out."),
    (".self_attn.relative_k_proj.", ".attn.linear_pos."),
    (".self_attn.bias_", ".attn.pos_bias_"),
    (".conv.pointwise_conv", ".conv.pointwise"),
    (".conv.depthwise_conv.", ".conv.depthwise."),
    (".conv.norm.", ".conv.bn."),
    ("encoder_projector.", "joint.enc."),
    ("decoder.decoder_projector.", "joint.pred."),
    ("joint.head.", "joint.out."),
    ("decoder.embedding.", "pred.embed."),
    ("ctc_head.", "head.ctc."),
)


def recognises(source: Path) -> bool:
    """Whether ``source`` is a folder of Hugging Face with a model of this family. Raises ModelError."""
    config = source / "config.json"
    return config.is_file() and read_object(config).get("model_type") in _MODEL_TYPES


def read(folder: Path) -> Checkpoint:
    """The checkpoint in ``folder``; tensors are read when they are asked for. Raises ModelError."""
    path = folder / "config.json"
    config = read_object(path)
    encoder = object_in(config, "encoder_config", path)
    processor_path = folder / "processor_config.json"
    processor = read_object(processor_path) if processor_path.is_file() else {}
    if "feature_extractor" in processor:
        require_known(object_in(processor, "feature_extractor", processor_path), _KNOWN_AUDIO, processor_path)
    return Checkpoint(
        path=folder,
        front_end=FrontEnd(
            mel_bands=integer(encoder, "num_mel_bins", path),
            normalize="none" if config["model_type"] == _STREAMING else "per_feature",
        ),
        encoder=_encoder(config, encoder, processor, path),
        transducer=None if config["model_type"] == "parakeet_ctc" else _transducer(config, path),
        pieces=_pieces(folder / "tokenizer.json", integer(config, "vocab_size", path) - 1),
        tensors=_our_tensors(read_tensors(folder)),
    )


def _encoder(
    config: dict[str, Any], content: dict[str, Any], processor: dict[str, Any], path: Path
) -> Encoder:
    has_biases = content.get("attention_bias", True) is True
    require_known(content, _KNOWN_ENCODER | {"convolution_bias": has_biases}, path)
    is_streaming = config["model_type"] == _STREAMING
    return Encoder(
        block_count=integer(content, "num_hidden_layers", path),
        width=integer(content, "hidden_size", path),
        head_count=integer(content, "num_attention_heads", path),
        feed_forward_length=integer(content, "intermediate_size", path),
        kernel=integer(content, "conv_kernel_size", path),
        subsampling_channels=integer(content, "subsampling_conv_channels", path),
        position_limit=integer(content, "max_position_embeddings", path),
        has_biases=has_biases,
        scales_input=content.get("scale_input", True) is True,
        norm="layer_norm" if is_streaming else "batch_norm",
        style="chunked_limited" if is_streaming else "regular",
        contexts=_contexts(content, processor, path) if is_streaming else ((-1, -1),),
    )


def _contexts(content: dict[str, Any], processor: dict[str, Any], path: Path) -> tuple[tuple[int, int], ...]:
    """The look-ahead that is the default, then the others that the model was trained with."""
    left = integer(content, "sliding_window", path) - 1
    default = content.get("default_num_lookahead_tokens")
    trained = integer_list(processor, "supported_num_lookahead_tokens", path)
    rights = list(dict.fromkeys([default, *(trained or ())]))
    if not all(type(right) is int and right >= 0 for right in rights):
        raise ModelError(path, f"says {default!r} for 'default_num_lookahead_tokens'", REMEDY)
    return tuple((left, right) for right in rights)


def _transducer(config: dict[str, Any], path: Path) -> Transducer:
    durations = integer_list(config, "durations", path) if config["model_type"] == "parakeet_tdt" else None
    hidden = integer(config, "decoder_hidden_size", path)
    require_known(config, {"hidden_act": "relu"}, path)
    return Transducer(
        hidden=hidden,
        layer_count=integer(config, "num_decoder_layers", path),
        joint_hidden=hidden,
        durations=tuple(durations or ()),
        max_symbols=integer({"max_symbols_per_step": 10} | config, "max_symbols_per_step", path),
    )


def _pieces(path: Path, count: int) -> list[Piece]:
    """The first ``count`` tokens: the blank, and what Hugging Face adds for itself, come after them."""
    content = read_object(path)
    model = object_in(content, "model", path)
    if model.get("type") != "BPE":
        fault = f"holds a tokenizer of the type {model.get('type')!r}"
        raise ModelError(path, fault, "choose a model with a byte-pair vocabulary")
    numbers, types = dict(object_in(model, "vocab", path)), {}
    for text, number, is_special in _added_tokens(content, path):
        numbers[text] = number
        types[text] = CONTROL if is_special else USER_DEFINED
    text_of = {number: text for text, number in numbers.items() if type(number) is int}
    missing = next((number for number in range(count) if number not in text_of), None)
    if missing is not None:
        raise ModelError(path, f"lacks the token {missing} of {count}", REMEDY)
    return pieces_in_order([text_of[number] for number in range(count)], types)


def _added_tokens(content: dict[str, Any], path: Path) -> Iterator[tuple[str, int, bool]]:
    """Text, number, and whether it is never a part of a text."""
    added = content.get("added_tokens", [])
    for token in added if isinstance(added, list) else [added]:
        match token:
            case {"content": str(text), "id": int(number), "special": bool(is_special)}:
                yield text, number, is_special
            case _:
                raise ModelError(path, "has something else than tokens in 'added_tokens'", REMEDY)


def _our_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under our names."""
    return lstm_tensors(tensors, "decoder.lstm.") | {
        _our_name(name): tensor for name, tensor in tensors.items()
    }


def _our_name(name: str) -> str:
    for theirs, ours in _RENAMED_PARTS:
        name = name.replace(theirs, ours)
    return name
