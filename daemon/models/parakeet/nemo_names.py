"""NeMo's names of tensors, which other formats share, and ours."""

from collections.abc import Mapping
from pathlib import Path

from ..errors import ModelError
from ..tensor import Tensor
from .lstm import lstm_tensors

_RENAMED_PARTS = (
    ("encoder.pre_encode.", "enc.pre_encode."),
    ("encoder.layers.", "enc.blocks."),
    (".norm_feed_forward", ".norm_ff"),
    (".feed_forward", ".ff"),
    (".norm_self_att.", ".norm_attn."),
    (".self_attn.", ".attn."),
    (".conv.pointwise_conv", ".conv.pointwise"),
    (".conv.depthwise_conv.", ".conv.depthwise."),
    (".conv.batch_norm.", ".conv.bn."),
    ("decoder.prediction.embed.", "pred.embed."),
    ("ctc_decoder.decoder_layers.0.", "head.ctc."),  # beside a transducer
    ("decoder.decoder_layers.0.", "head.ctc."),
    ("joint.joint_net.1.", "joint.out."),  # the layer's place depends on the dropout before it
    ("joint.joint_net.2.", "joint.out."),
)
_UNSUPPORTED = {
    "prompt_kernel.": "a prompt that names the language",
    "spk_kernels.": "kernels for one speaker of many",
    "bg_spk_kernels.": "kernels for one speaker of many",
    "prompt.mlp.": "a prompt that names the language",  # as transcribe.cpp calls them
    "enc.spk_kernel.": "kernels for one speaker of many",
    "enc.bg_spk_kernel.": "kernels for one speaker of many",
}


def require_plain(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raises ModelError where a model has parts that the engine does not know."""
    for name in tensors:
        for prefix, part in _UNSUPPORTED.items():
            if name.startswith(prefix) or f".{prefix}" in name:
                raise ModelError(path, f"has {part} ({name}), which is not supported", "choose another model")


def our_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under our names."""
    return lstm_tensors(tensors, "decoder.prediction.dec_rnn.lstm.") | {
        _our_name(name): tensor for name, tensor in tensors.items()
    }


def _our_name(name: str) -> str:
    for theirs, ours in _RENAMED_PARTS:
        name = name.replace(theirs, ours)
    return name
