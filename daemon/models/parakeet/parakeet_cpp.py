"""Reads the GGUF files of parakeet.cpp: NeMo's names and tensors as they are, its settings as metadata.

They do not tell the attention's context of a model that was not made for streaming: it is believed to be
full.
"""

from pathlib import Path
from typing import get_args

from ..gguf_read import GgufModel
from ..mel_filters import SAMPLE_RATE
from .checkpoint import (
    FFT_LENGTH,
    HOP_LENGTH,
    PRE_EMPHASIS,
    SUBSAMPLING_FACTOR,
    WINDOW_LENGTH,
    AttentionStyle,
    Checkpoint,
    Encoder,
    FrontEnd,
    Norm,
    Transducer,
)
from .checks import foreign, one_of, require_known
from .gguf_fields import Fields
from .nemo_names import our_tensors, require_plain
from .vocabulary import pieces_in_order

_KNOWN_AUDIO = {
    "sample_rate": SAMPLE_RATE,
    "n_fft": FFT_LENGTH,
    "win_length": WINDOW_LENGTH,
    "hop_length": HOP_LENGTH,
    "preemph": PRE_EMPHASIS,
    "mag_power": 2.0,
    "log_zero_guard": 2.0**-24,
}
_ARCHITECTURES = ("ctc", "rnnt", "tdt", "hybrid_rnnt_ctc", "hybrid_tdt_ctc")


def recognises(model: GgufModel) -> bool:
    """Whether a file has this schema."""
    return "parakeet.arch" in model.fields


def read(model: GgufModel) -> Checkpoint:
    """The checkpoint in a file. Raises ModelError."""
    path, fields, audio = model.path, Fields(model, "parakeet."), Fields(model, "parakeet.preprocessor.")
    architecture = one_of(_ARCHITECTURES, fields.text("arch"), "parakeet.arch", path)
    require_plain(model.tensors, path)
    require_known(audio.all(), _KNOWN_AUDIO, path)
    known = ("per_feature", "NA", "None", "none")
    normalize = one_of(known, audio.text("normalize"), "parakeet.preprocessor.normalize", path)
    return Checkpoint(
        path=path,
        front_end=FrontEnd(audio.integer("n_mels"), "per_feature" if normalize == "per_feature" else "none"),
        encoder=_encoder(model, path),
        transducer=None if architecture == "ctc" else _transducer(fields, "tdt" in architecture, path),
        pieces=pieces_in_order(fields.texts("tokenizer.pieces"), {}),
        tensors=our_tensors(model.tensors),
    )


def _encoder(model: GgufModel, path: Path) -> Encoder:
    fields = Fields(model, "parakeet.encoder.")
    require_known(fields.all(), {"subsampling_factor": SUBSAMPLING_FACTOR}, path)
    style = one_of(
        get_args(AttentionStyle), fields.text("att_context_style", "regular"), "att_context_style", path
    )
    default = (fields.integer("att_context_left", -1), fields.integer("att_context_right", -1))
    encoder = Encoder(
        block_count=fields.integer("n_layers"),
        width=fields.integer("d_model"),
        head_count=fields.integer("n_heads"),
        feed_forward_length=fields.integer("ff_dim"),
        kernel=fields.integer("conv_kernel"),
        subsampling_channels=fields.integer("subsampling_conv_channels"),
        position_limit=fields.integer("pos_emb_max_len", 5000),
        has_biases="encoder.layers.0.feed_forward1.linear1.bias" in model.tensors,
        scales_input=fields.flag("xscaling"),
        norm=one_of(get_args(Norm), fields.text("conv_norm_type", "batch_norm"), "conv_norm_type", path),
        style=style,
        contexts=fields.pairs("att_context_presets") or (default,),
    )
    for key in ("causal_downsampling", "conv_causal"):
        if fields.flag(key, False) is not encoder.is_causal:
            raise foreign(path, key, fields.flag(key, False), f"{encoder.is_causal} with this attention")
    return encoder


def _transducer(fields: Fields, has_durations: bool, path: Path) -> Transducer:
    require_known(fields.all(), {"joint.activation": "relu"}, path)
    return Transducer(
        hidden=fields.integer("decoder.pred_hidden"),
        layer_count=fields.integer("decoder.pred_rnn_layers"),
        joint_hidden=fields.integer("joint.joint_hidden"),
        durations=fields.integers("tdt.durations") if has_durations else (),
        max_symbols=fields.integer("decoding.max_symbols", 10),
    )
