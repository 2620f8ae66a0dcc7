"""What a NeMo configuration says of a model, as far as the tensors do not say it better."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from ..errors import ModelError
from ..json_files import integer, integer_list, object_in
from ..mel_filters import SAMPLE_RATE
from ..tensor import Tensor
from .checkpoint import (
    FFT_LENGTH,
    HOP_LENGTH,
    PRE_EMPHASIS,
    SUBSAMPLING_FACTOR,
    WINDOW_LENGTH,
    AttentionStyle,
    Encoder,
    FrontEnd,
    Norm,
    Transducer,
)
from .checks import foreign, one_of, require_known

Config = dict[str, Any]

_DEFAULT_MAX_SYMBOLS = 10
_KNOWN_AUDIO = {
    "sample_rate": SAMPLE_RATE,
    "window": "hann",
    "n_fft": FFT_LENGTH,
    "window_size": WINDOW_LENGTH / SAMPLE_RATE,
    "window_stride": HOP_LENGTH / SAMPLE_RATE,
    "frame_splicing": 1,
    "preemph": PRE_EMPHASIS,
    "lowfreq": 0,
    "highfreq": SAMPLE_RATE // 2,
    "log": True,
    "mag_power": 2.0,
}
_PARTS = {
    "encoder": ("ConformerEncoder",),
    "decoder": ("RNNTDecoder", "ConvASRDecoder"),
    "joint": ("RNNTJoint", "SampledRNNTJoint"),
}
"""What a model is made of, in NeMo's classes."""
_KNOWN_ENCODER = {
    "subsampling": "dw_striding",
    "subsampling_factor": SUBSAMPLING_FACTOR,
    "untie_biases": True,
    "feat_out": -1,
    "global_tokens": 0,
}


def require_known_parts(config: Config, path: Path) -> None:
    """Raises ModelError where the model is of another architecture."""
    for part, known in _PARTS.items():
        content = config.get(part) if part == "joint" else object_in(config, part, path)
        if isinstance(content, dict) and "_target_" in content:
            one_of(known, str(content["_target_"]).rpartition(".")[2], f"{part}._target_", path)


def front_end_of(config: Config, path: Path) -> FrontEnd:
    """Raises ModelError where the model hears audio in a way that ours does not."""
    content = object_in(config, "preprocessor", path)
    require_known(content, _KNOWN_AUDIO, path)
    normalize = one_of(
        ("per_feature", "NA", None), content.get("normalize", "per_feature"), "normalize", path
    )
    return FrontEnd(
        mel_bands=integer(content, "features", path),
        normalize="per_feature" if normalize == "per_feature" else "none",
    )


def encoder_of(config: Config, tensors: Mapping[str, Tensor], path: Path) -> Encoder:
    """``tensors`` with NeMo's names. Raises ModelError where it is no FastConformer that ours can be."""
    content = object_in(config, "encoder", path)
    require_known(content, _KNOWN_ENCODER, path)
    if content.get("reduction") is not None:
        raise foreign(path, "reduction", content["reduction"], "none")
    width = integer(content, "d_model", path)
    encoder = Encoder(
        block_count=integer(content, "n_layers", path),
        width=width,
        head_count=integer(content, "n_heads", path),
        feed_forward_length=width
        * integer({"ff_expansion_factor": 4} | content, "ff_expansion_factor", path),
        kernel=integer({"conv_kernel_size": 31} | content, "conv_kernel_size", path),
        subsampling_channels=integer(content, "subsampling_conv_channels", path),
        position_limit=integer({"pos_emb_max_len": 5000} | content, "pos_emb_max_len", path),
        has_biases="encoder.layers.0.feed_forward1.linear1.bias" in tensors,
        scales_input=content.get("xscaling", True) is True,
        norm=one_of(get_args(Norm), content.get("conv_norm_type", "batch_norm"), "conv_norm_type", path),
        style=one_of(
            get_args(AttentionStyle), content.get("att_context_style", "regular"), "att_context_style", path
        ),
        contexts=_contexts(content.get("att_context_size"), path),
    )
    if content.get("causal_downsampling", False) is not encoder.is_causal:
        known = f"{encoder.is_causal} with this attention"
        raise foreign(path, "causal_downsampling", content.get("causal_downsampling"), known)
    _require_convolution_context(content.get("conv_context_size"), encoder, path)
    _require_attention(content.get("self_attention_model"), encoder, path)
    return encoder


def transducer_of(config: Config, tensors: Mapping[str, Tensor], path: Path) -> Transducer:
    """``tensors`` with NeMo's names, from which all sizes come. Raises ModelError."""
    embedding = _shape(tensors, "decoder.prediction.embed.weight", path)
    projection = _shape(tensors, "joint.enc.weight", path)
    layer_count = 0
    while f"decoder.prediction.dec_rnn.lstm.weight_ih_l{layer_count}" in tensors:
        layer_count += 1
    joint = object_in(config, "joint", path)
    jointnet = joint.get("jointnet")
    if isinstance(jointnet, dict):
        require_known(jointnet, {"activation": "relu"}, path)
    return Transducer(
        hidden=embedding[1],
        layer_count=layer_count,
        joint_hidden=projection[0],
        durations=_durations(config, joint, path),
        max_symbols=_max_symbols(config, path),
    )


def _durations(config: Config, joint: Config, path: Path) -> tuple[int, ...]:
    extra_outputs = joint.get("num_extra_outputs", 0)
    decoding, defaults = config.get("decoding"), config.get("model_defaults")
    found = integer_list(decoding, "durations", path) if isinstance(decoding, dict) else None
    if not found and isinstance(defaults, dict):
        found = integer_list(defaults, "tdt_durations", path)
    durations = tuple(found or ()) if extra_outputs else ()
    if len(durations) != extra_outputs:
        raise foreign(path, "num_extra_outputs", extra_outputs, f"{len(durations)}, as many as durations")
    return durations


def _max_symbols(config: Config, path: Path) -> int:
    decoding = config.get("decoding")
    greedy = decoding.get("greedy") if isinstance(decoding, dict) else None
    if isinstance(greedy, dict) and greedy.get("max_symbols") is not None:
        return integer(greedy, "max_symbols", path)
    return _DEFAULT_MAX_SYMBOLS


def _contexts(value: object, path: Path) -> tuple[tuple[int, int], ...]:
    """NeMo writes [left, right], or a list of such pairs of which the first is the default."""
    if value is None:
        return ((-1, -1),)
    pairs = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    if not all(_is_pair_of_frames(pair) for pair in pairs):
        raise foreign(path, "att_context_size", value, "[left, right], or a list of such pairs")
    return tuple((left, right) for left, right in cast(list[list[int]], pairs))


def _is_pair_of_frames(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(type(number) is int and -1 <= number < 2**31 for number in value)


def _require_attention(value: object, encoder: Encoder, path: Path) -> None:
    """The local kind is an implementation of the other; where left and right differ, it takes the larger."""
    one_of(("rel_pos", "rel_pos_local_attn"), value, "self_attention_model", path)
    if value == "rel_pos_local_attn" and any(left != right for left, right in encoder.contexts):
        raise foreign(path, "att_context_size", encoder.contexts, "as much on the right as on the left")


def _require_convolution_context(value: object, encoder: Encoder, path: Path) -> None:
    left, right = encoder.convolution_context
    known = ([left, right], "causal") if encoder.is_causal else ([left, right], None)
    if value not in known:
        raise foreign(path, "conv_context_size", value, f"{[left, right]} with this attention")


def _shape(tensors: Mapping[str, Tensor], name: str, path: Path) -> tuple[int, int]:
    if name not in tensors or len(tensors[name].shape) != 2:
        raise ModelError(path, f"has no matrix {name}", "choose a Parakeet model")
    rows, columns = tensors[name].shape
    return rows, columns
