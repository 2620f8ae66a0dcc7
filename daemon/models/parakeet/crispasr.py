"""Reads the GGUF files of CrispASR whose architecture is ``parakeet``.

They do not tell the mel's normalisation, the joint's activation and the most tokens at a frame: such files
are made of models that have NeMo's own settings there.
"""

import re
from collections.abc import Mapping

from ..gguf_read import GgufModel
from ..mel_filters import SAMPLE_RATE
from ..tensor import Tensor
from .checkpoint import (
    FFT_LENGTH,
    HOP_LENGTH,
    SUBSAMPLING_FACTOR,
    WINDOW_LENGTH,
    Checkpoint,
    Encoder,
    FrontEnd,
    Transducer,
)
from .checks import require_known
from .gguf_fields import Fields
from .lstm import sum_of
from .nemo_names import require_plain
from .vocabulary import pieces_in_order

_KNOWN = {
    "sample_rate": SAMPLE_RATE,
    "n_fft": FFT_LENGTH,
    "win_length": WINDOW_LENGTH,
    "hop_length": HOP_LENGTH,
    "subsampling_factor": SUBSAMPLING_FACTOR,
    "global_tokens": 0,
}
_RENAMED_PARTS = (
    ("encoder.pre.", "enc.pre_encode."),
    ("encoder.layers.", "enc.blocks."),
    (".conv.pw", ".conv.pointwise"),
    (".conv.dw.", ".conv.depthwise."),
    ("decoder.embed.", "pred.embed."),
)
_PROJECTION = re.compile(r"\.attn\.(q|k|v|out|pos)\.")
_LSTM = re.compile(r"decoder\.lstm\.(\d+)\.(w_ih|w_hh|b_ih)")


def recognises(model: GgufModel) -> bool:
    """Whether a file has this schema."""
    return "parakeet.d_model" in model.fields


def read(model: GgufModel) -> Checkpoint:
    """The checkpoint in a file. Raises ModelError."""
    fields, tensors = Fields(model, "parakeet."), model.tensors
    require_plain(tensors, model.path)
    require_known(fields.all(), _KNOWN, model.path)
    is_batch_norm = "encoder.layers.0.conv.bn.running_mean" in tensors
    encoder = Encoder(
        block_count=fields.integer("n_layers"),
        width=fields.integer("d_model"),
        head_count=fields.integer("n_heads"),
        feed_forward_length=fields.integer("ff_dim"),
        kernel=fields.integer("conv_kernel"),
        subsampling_channels=fields.integer("subsampling_channels"),
        position_limit=5000,
        has_biases="encoder.layers.0.ff1.linear1.bias" in tensors,
        scales_input=fields.flag("xscaling", False),
        norm="batch_norm" if is_batch_norm else "layer_norm",
        contexts=((fields.integer("att_context_left", -1), fields.integer("att_context_right", -1)),),
    )
    transducer = Transducer(
        hidden=fields.integer("pred_hidden"),
        layer_count=fields.integer("pred_layers"),
        joint_hidden=fields.integer("joint_hidden"),
        durations=fields.integers("tdt_durations") if fields.integer("n_tdt_durations") else (),
        max_symbols=10,
    )
    return Checkpoint(
        path=model.path,
        front_end=FrontEnd(fields.integer("n_mels"), "per_feature"),
        encoder=encoder,
        transducer=transducer if "joint.enc.weight" in tensors else None,
        pieces=pieces_in_order(Fields(model, "tokenizer.ggml.").texts("tokens"), {}),
        tensors=_our_tensors(tensors),
    )


def _our_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if lstm := _LSTM.fullmatch(name):
            layer, kind = lstm.groups()
            ours = {"w_ih": "Wx", "w_hh": "Wh", "b_ih": "bias"}[kind]
            other = tensors.get(f"decoder.lstm.{layer}.b_hh")
            found[f"pred.lstm.{layer}.{ours}"] = sum_of(tensor, other) if ours == "bias" and other else tensor
        else:
            found[_our_name(name)] = tensor
    return found


def _our_name(name: str) -> str:
    if name.startswith("ctc."):
        return f"head.{name}"
    for theirs, ours in _RENAMED_PARTS:
        name = name.replace(theirs, ours)
    return _PROJECTION.sub(r".attn.linear_\1.", name)
