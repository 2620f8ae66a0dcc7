"""Weights to begin a training with: those of a `.nemo`, or of a GGUF that was converted from one."""

import io
import tarfile
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor

from .model import Model

OF_GGUF = (
    ("enc.pre_encode.", "encoder.pre_encode."),
    ("enc.blocks.", "encoder.layers."),
    (".norm_ff", ".norm_feed_forward"),
    (".norm_attn.", ".norm_self_att."),
    (".ff1.", ".feed_forward1."),
    (".ff2.", ".feed_forward2."),
    (".attn.", ".self_attn."),
    (".pointwise", ".pointwise_conv"),
    (".depthwise.", ".depthwise_conv."),
    (".conv.bn.", ".conv.batch_norm."),
    ("pred.embed.", "decoder.prediction.embed."),
    ("pred.lstm.0.Wx", "decoder.prediction.dec_rnn.lstm.weight_ih_l0"),
    ("pred.lstm.0.Wh", "decoder.prediction.dec_rnn.lstm.weight_hh_l0"),
    ("pred.lstm.0.bias", "decoder.prediction.dec_rnn.lstm.bias_ih_l0"),
    ("joint.out.", "joint.joint_net.2."),
)
"""Parts of its tensors' names, and what NeMo calls them."""
HH = "decoder.prediction.dec_rnn.lstm.bias_hh_l0"


def of_nemo(path: Path) -> dict[str, Tensor]:
    with tarfile.open(path) as archive:
        (name,) = [name for name in archive.getnames() if name.endswith("model_weights.ckpt")]
        member = archive.extractfile(name)
        assert member is not None
        stored = torch.load(io.BytesIO(member.read()), map_location="cpu", weights_only=True)
    return {name: value for name, value in stored.items() if not name.startswith("preprocessor.")}


def of_gguf(path: Path) -> dict[str, Tensor]:
    """Its numbers as float32, under NeMo's names."""
    weights = {}
    for tensor in gguf.GGUFReader(path).tensors:
        name = tensor.name
        for part, other in OF_GGUF:
            name = name.replace(part, other)
        weights[name] = torch.from_numpy(np.array(tensor.data, np.float32))
    del weights["fb"]
    weights[HH] = torch.zeros_like(weights[HH.replace("hh", "ih")])  # the file holds the two biases' sum
    return weights


def start_from(model: Model, path: Path) -> None:
    """Takes all but the CTC head, which no file keeps. Raises ValueError where a shape differs."""
    weights = of_gguf(path) if path.suffix == ".gguf" else of_nemo(path)
    first = "encoder.pre_encode.conv.0."
    mean, deviation = model.config.mel_mean, model.config.mel_deviation  # undoes `fold_normalisation`
    weights[first + "weight"] = weights[first + "weight"] * deviation
    shift = weights[first + "weight"].sum((1, 2, 3)) * mean / deviation
    weights[first + "bias"] = weights[first + "bias"] + shift
    own = model.state_dict()
    wanted = {name for name in own if not name.startswith("ctc_decoder.")}
    differ = wanted ^ weights.keys()
    differ |= {name for name in wanted & weights.keys() if own[name].shape != weights[name].shape}
    if differ:
        raise ValueError(f"{path} is of another shape: {sorted(differ)}")
    model.load_state_dict(weights, strict=False)
