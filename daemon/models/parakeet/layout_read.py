"""Reads GGUF files with transcribe.cpp's schema, which is ours but for the filterbank (see ``layout.py``)."""

from pathlib import Path
from typing import get_args

from ..errors import REMEDY, ModelError
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
    HeadKind,
    Norm,
    Piece,
    Transducer,
)
from .checks import foreign, one_of, require_known
from .gguf_fields import Fields
from .nemo_names import require_plain
from .vocabulary import pieces_in_order

_KNOWN_AUDIO = {
    "type": "mel",
    "window": "hann",
    "sample_rate": SAMPLE_RATE,
    "n_fft": FFT_LENGTH,
    "win_length": WINDOW_LENGTH,
    "hop_length": HOP_LENGTH,
    "pre_emphasis": PRE_EMPHASIS,
    "f_min": 0.0,
    "f_max": SAMPLE_RATE / 2,
}


def recognises(model: GgufModel) -> bool:
    """Whether a file has this schema."""
    return "stt.parakeet.encoder.d_model" in model.fields


def read(model: GgufModel) -> Checkpoint:
    """The checkpoint in a file. Raises ModelError."""
    path = model.path
    require_plain(model.tensors, path)
    fields, audio = Fields(model, "stt.parakeet."), Fields(model, "stt.frontend.")
    require_known(audio.all(), _KNOWN_AUDIO, path)
    kind = one_of(get_args(HeadKind), fields.text("head_kind", "tdt"), "stt.parakeet.head_kind", path)
    normalize = one_of(("per_feature", "none", "NA"), audio.text("normalize"), "stt.frontend.normalize", path)
    return Checkpoint(
        path=path,
        front_end=FrontEnd(
            audio.integer("num_mels"), "per_feature" if normalize == "per_feature" else "none"
        ),
        encoder=_encoder(fields, Fields(model, "stt.parakeet.encoder."), path),
        transducer=None if kind == "ctc" else _transducer(fields, kind, path),
        pieces=_pieces(Fields(model, "tokenizer.ggml."), path),
        tensors=model.tensors,
        languages=Fields(model, "general.").texts("languages"),
    )


def _encoder(fields: Fields, encoder: Fields, path: Path) -> Encoder:
    require_known(encoder.all(), {"subsampling_factor": SUBSAMPLING_FACTOR}, path)
    style = one_of(
        get_args(AttentionStyle), encoder.text("att_context_style", "regular"), "att_context_style", path
    )
    default = (encoder.integer("att_context_left", -1), encoder.integer("att_context_right", -1))
    read = Encoder(
        block_count=encoder.integer("n_layers"),
        width=encoder.integer("d_model"),
        head_count=encoder.integer("n_heads"),
        feed_forward_length=encoder.integer("d_ff"),
        kernel=encoder.integer("conv_kernel"),
        subsampling_channels=encoder.integer("subsampling_channels"),
        position_limit=encoder.integer("pos_emb_max_len"),
        has_biases=encoder.flag("use_bias", False),
        scales_input=encoder.flag("xscaling", False),
        norm=one_of(get_args(Norm), encoder.text("conv_norm_type", "batch_norm"), "conv_norm_type", path),
        style=style,
        contexts=encoder.pairs("att_context_size_choices") or (default,),
    )
    convolution = (encoder.integer("conv_context_left", -1), encoder.integer("conv_context_right", -1))
    if convolution not in ((-1, -1), read.convolution_context):
        raise foreign(path, "conv_context", convolution, f"{read.convolution_context} with this attention")
    return read


def _transducer(fields: Fields, kind: HeadKind, path: Path) -> Transducer:
    require_known(fields.all(), {"joint.activation": "relu"}, path)
    durations = fields.integers("tdt.durations")
    if (kind == "tdt") != bool(durations) or fields.integer("joint.num_extra_outputs") != len(durations):
        raise ModelError(path, f"has the durations {list(durations)} for a head of the kind {kind}", REMEDY)
    return Transducer(
        hidden=fields.integer("predictor.hidden"),
        layer_count=fields.integer("predictor.n_layers"),
        joint_hidden=fields.integer("joint.hidden"),
        durations=durations,
        max_symbols=fields.integer("tdt.max_symbols", 10),
    )


def _pieces(tokenizer: Fields, path: Path) -> list[Piece]:
    texts, scores, types = (
        tokenizer.texts("tokens"),
        tokenizer.floats("scores"),
        tokenizer.integers("token_type"),
    )
    if not texts or tokenizer.integer("blank_token_id", len(texts) - 1) != len(texts) - 1:
        raise ModelError(path, "has a blank that is not its last token", REMEDY)
    if not scores and not types:
        return pieces_in_order(texts[:-1], {})
    if not len(texts) == len(scores) == len(types):
        raise ModelError(
            path, f"has {len(scores)} scores and {len(types)} types of {len(texts)} tokens", REMEDY
        )
    return [Piece(*piece) for piece in zip(texts[:-1], scores[:-1], types[:-1], strict=True)]
