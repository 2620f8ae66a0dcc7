"""Writes the small models, or any other, in the formats of other programs: what our readers are tested with.

A model is given as NeMo's arrays by NeMo's names, and as the checkpoint that our reader made of its settings.
Arrays are asked for one after the other, so that a mapping that makes them may be larger than the memory.
"""

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray
from safetensors.numpy import save_file
from stenod.models.gguf_read import read_gguf
from stenod.models.mel_filters import mel_filters
from stenod.models.parakeet import nemo
from stenod.models.parakeet.checkpoint import Checkpoint, Transducer
from stenod.models.parakeet.torch_archive import read_tensors

from .golden import members, nemo_file

Arrays = Mapping[str, NDArray[np.float32]]

HF_FOLDER = Path(__file__).parent / "hf"
"""``config.json``, ``processor_config.json`` and ``tokenizer.json`` as transformers saved them, by model."""

LSTM = "decoder.prediction.dec_rnn.lstm."


@cache
def nemo_arrays(name: str, folder: Path) -> Arrays:
    """All of a small model's arrays with a point, by NeMo's names."""
    path = folder / f"{name}.ckpt"
    path.write_bytes(members(name)["model_weights.ckpt"])
    with path.open("rb") as file:
        return {key: tensor.load() for key, tensor in read_tensors(file, path, 0).items()}


def checkpoint_of(name: str) -> Checkpoint:
    """A small model as our reader of NeMo's files has it."""
    return nemo.read(nemo_file(name)).sound()


def transducer_of(checkpoint: Checkpoint) -> Transducer:
    """The transducer of a model that has one."""
    if checkpoint.transducer is None:
        raise ValueError("a CTC model")
    return checkpoint.transducer


# --- Hugging Face

_HF_PARTS = (
    ("encoder.pre_encode.conv.", "encoder.subsampling.layers."),
    ("encoder.pre_encode.out.", "encoder.subsampling.linear."),
    ("linear_q.", "q_proj."),
    ("linear_k.", "k_proj."),
    ("linear_v.", "v_proj."),
    ("linear_out.", "o_proj."),
    ("linear_pos.", "relative_k_proj."),
    ("pos_bias_", "bias_"),
    ("conv.batch_norm.", "conv.norm."),
    ("joint.enc.", "encoder_projector."),
    ("joint.pred.", "decoder.decoder_projector."),
    ("joint.joint_net.1.", "joint.head."),
    ("joint.joint_net.2.", "joint.head."),
    ("decoder.prediction.embed.", "decoder.embedding."),
    (LSTM, "decoder.lstm."),
    ("decoder.decoder_layers.0.", "ctc_head."),
)
_HF_STREAMING_PARTS = (
    ("encoder.subsampling.layers.0.", "encoder.subsampling.conv_in."),
    ("encoder.subsampling.layers.2.", "encoder.subsampling.layers.0.depthwise_conv."),
    ("encoder.subsampling.layers.3.", "encoder.subsampling.layers.0.pointwise_conv."),
    ("encoder.subsampling.layers.5.", "encoder.subsampling.layers.1.depthwise_conv."),
    ("encoder.subsampling.layers.6.", "encoder.subsampling.layers.1.pointwise_conv."),
)


def hf_name(name: str, is_streaming: bool) -> str:
    """Hugging Face's name of a tensor."""
    for theirs, hf in _HF_PARTS:
        name = name.replace(theirs, hf)
    for offline, streaming in _HF_STREAMING_PARTS if is_streaming else ():
        if name.startswith(offline):
            return name.replace(offline, streaming)
    return name


def write_hf(folder: Path, name: str, arrays: Arrays) -> Path:
    """A Hugging Face folder of a small model; of the streaming one, which it knows as RNN-T only, without
    durations."""
    folder.mkdir()
    for file in (HF_FOLDER / name).iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    is_streaming = name == "streaming"
    vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
    found = {hf_name(key, is_streaming): values for key, values in arrays.items() if "featurizer" not in key}
    if is_streaming:
        found |= {key: found[key][:vocabulary].copy() for key in ("joint.head.weight", "joint.head.bias")}
    save_file(found, folder / "model.safetensors")
    return folder


# --- whisper.cpp


def ggml_bin(
    checkpoint: Checkpoint, arrays: Arrays, type: GGMLQuantizationType = GGMLQuantizationType.F32
) -> Iterator[bytes]:
    """The parts of a ``.bin`` of whisper.cpp, whose matrices have the ``type``."""
    encoder, transducer = checkpoint.encoder, transducer_of(checkpoint)
    bands, pieces = checkpoint.front_end.mel_bands, checkpoint.pieces
    is_plain = type in (GGMLQuantizationType.F32, GGMLQuantizationType.F16)
    sizes = (len(pieces), 5000, encoder.width, encoder.head_count, encoder.block_count, bands)
    sizes += (type if is_plain else 2007, 512, 8, encoder.subsampling_channels, encoder.kernel)
    sizes += (transducer.hidden, transducer.layer_count, len(transducer.durations), transducer.max_symbols)
    yield struct.pack("<I15i", 0x67676D6C, *sizes)
    yield struct.pack("<2i", bands, 257) + mel_filters(bands, 512).tobytes()
    yield struct.pack("<i", 400) + np.hanning(400).astype(np.float32).tobytes()
    yield struct.pack(f"<{len(transducer.durations)}I", *transducer.durations)
    yield struct.pack("<i", len(pieces))
    for piece in pieces:
        text = piece.text.encode()
        yield struct.pack("<I", len(text)) + text
    for name, values in arrays.items():
        if "featurizer" not in name and "bias_ih" not in name:
            yield _ggml_tensor(name, values, arrays, type)
    if encoder.norm == "batch_norm":
        for index in range(encoder.block_count):  # a count of training's steps, which whisper.cpp insists on
            name = f"encoder.layers.{index}.conv.batch_norm.num_batches_tracked"
            yield _ggml_tensor(name, np.zeros(1, np.float32), arrays, GGMLQuantizationType.F32)


def _ggml_tensor(name: str, values: NDArray[np.float32], arrays: Arrays, type: GGMLQuantizationType) -> bytes:
    if name.startswith(LSTM):
        if "bias_hh" in name:
            values = values + arrays[name.replace("bias_hh", "bias_ih")]
            name = name.replace("bias_hh", "bias_h")
        gates = np.split(values, 4)
        values = np.concatenate([gates[0], gates[1], gates[3], gates[2]])
    name = name.replace("joint_net.1.", "joint_net.2.")
    is_subsampling = ".pre_encode.conv." in name
    values = values if is_subsampling and values.ndim == 4 else np.atleast_1d(values.squeeze())
    stored = type
    if values.ndim < 2 or "bias" in name or is_subsampling or "depthwise" in name:
        stored = GGMLQuantizationType.F32
    if is_subsampling and values.ndim == 1:
        values = values.reshape(1, -1, 1, 1)
    if values.shape[-1] % gguf.GGML_QUANT_SIZES[stored][0]:
        stored = GGMLQuantizationType.F16
    header = struct.pack("<3i", values.ndim, len(name), stored)
    header += struct.pack(f"<{values.ndim}i", *values.shape[::-1])
    return header + name.encode() + gguf.quants.quantize(values, stored).tobytes()


# --- GGUF, as other programs lay it out


def _write_gguf(
    path: Path,
    add: Callable[[gguf.GGUFWriter], None],
    tensors: Iterable[tuple[str, NDArray[np.float32], GGMLQuantizationType]],
) -> Path:
    writer = gguf.GGUFWriter(path, "parakeet", use_temp_file=True)
    add(writer)
    for name, values, type in tensors:
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values), type), raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_parakeet_cpp(path: Path, checkpoint: Checkpoint, arrays: Arrays) -> Path:
    """A file of parakeet.cpp: NeMo's names."""

    def add(writer: gguf.GGUFWriter) -> None:
        encoder, transducer = checkpoint.encoder, checkpoint.transducer
        kind = checkpoint.head_kind
        is_hybrid = transducer is not None and any(name.startswith("ctc_decoder.") for name in arrays)
        writer.add_string("parakeet.arch", f"hybrid_{kind}_ctc" if is_hybrid else kind)
        for key, number in {
            "encoder.feat_in": checkpoint.front_end.mel_bands,
            "encoder.d_model": encoder.width,
            "encoder.n_layers": encoder.block_count,
            "encoder.n_heads": encoder.head_count,
            "encoder.ff_dim": encoder.feed_forward_length,
            "encoder.conv_kernel": encoder.kernel,
            "encoder.subsampling_factor": 8,
            "encoder.subsampling_conv_channels": encoder.subsampling_channels,
            "encoder.pos_emb_max_len": 5000,
            "preprocessor.sample_rate": 16000,
            "preprocessor.n_mels": checkpoint.front_end.mel_bands,
            "preprocessor.n_fft": 512,
            "preprocessor.win_length": 400,
            "preprocessor.hop_length": 160,
            "vocab_size": len(checkpoint.pieces),
            "blank_id": len(checkpoint.pieces),
        }.items():
            writer.add_uint32(f"parakeet.{key}", number)
        writer.add_string("parakeet.encoder.conv_norm_type", encoder.norm)
        writer.add_bool("parakeet.encoder.xscaling", encoder.scales_input)
        writer.add_bool("parakeet.encoder.use_bias", encoder.has_biases)
        if encoder.style != "regular":
            writer.add_array(
                "parakeet.encoder.att_context_presets", [n for pair in encoder.contexts for n in pair]
            )
            writer.add_int32("parakeet.encoder.att_context_left", encoder.contexts[0][0])
            writer.add_int32("parakeet.encoder.att_context_right", encoder.contexts[0][1])
            writer.add_string("parakeet.encoder.att_context_style", encoder.style)
            writer.add_bool("parakeet.encoder.causal_downsampling", encoder.is_causal)
            writer.add_bool("parakeet.encoder.conv_causal", encoder.is_causal)
        writer.add_float32("parakeet.preprocessor.preemph", 0.97)
        writer.add_float32("parakeet.preprocessor.mag_power", 2.0)
        normalize = "NA" if checkpoint.front_end.normalize == "none" else checkpoint.front_end.normalize
        writer.add_string("parakeet.preprocessor.normalize", normalize)
        writer.add_float32("parakeet.preprocessor.log_zero_guard", 2**-24)
        writer.add_array("parakeet.tokenizer.pieces", [piece.text for piece in checkpoint.pieces])
        if transducer:
            writer.add_uint32("parakeet.decoder.pred_hidden", transducer.hidden)
            writer.add_uint32("parakeet.decoder.pred_rnn_layers", transducer.layer_count)
            writer.add_uint32("parakeet.joint.joint_hidden", transducer.joint_hidden)
            writer.add_string("parakeet.joint.activation", "relu")
            writer.add_uint32("parakeet.decoding.max_symbols", transducer.max_symbols)
            if transducer.durations:
                writer.add_array("parakeet.tdt.durations", list(transducer.durations))

    return _write_gguf(path, add, ((*item, GGMLQuantizationType.F32) for item in arrays.items()))


_CRISPASR_PARTS = (
    ("preprocessor.featurizer.", "preprocessor."),
    ("encoder.pre_encode.", "encoder.pre."),
    ("norm_feed_forward", "norm_ff"),
    ("feed_forward", "ff"),
    ("norm_self_att.", "norm_attn."),
    ("self_attn.linear_", "attn."),
    ("self_attn.", "attn."),
    ("conv.pointwise_conv", "conv.pw"),
    ("conv.depthwise_conv.", "conv.dw."),
    ("conv.batch_norm.", "conv.bn."),
    ("decoder.prediction.embed.", "decoder.embed."),
    ("joint.joint_net.1.", "joint.out."),
    ("joint.joint_net.2.", "joint.out."),
    ("ctc_decoder.decoder_layers.0.", "ctc."),
)


def crispasr_name(name: str) -> str:
    """CrispASR's name of a tensor."""
    if name.startswith(LSTM):
        kind, layer = name.removeprefix(LSTM).split("_l")
        return f"decoder.lstm.{layer}.{kind.replace('weight', 'w').replace('bias', 'b')}"
    for theirs, crispasr in _CRISPASR_PARTS:
        name = name.replace(theirs, crispasr)
    return name


def write_crispasr(
    path: Path,
    checkpoint: Checkpoint,
    arrays: Arrays,
    type: GGMLQuantizationType = GGMLQuantizationType.F32,
) -> Path:
    """A file of CrispASR, whose matrices have the ``type``."""

    def tensors() -> Iterator[tuple[str, NDArray[np.float32], GGMLQuantizationType]]:
        for name, values in arrays.items():
            yield _crispasr_tensor(crispasr_name(name), values, type)
        for index in range(checkpoint.encoder.block_count):
            name = f"encoder.layers.{index}.conv.dw.bias"
            if name.replace("conv.dw", "conv.depthwise_conv") not in arrays:
                yield name, np.zeros(checkpoint.encoder.width, np.float32), GGMLQuantizationType.F32

    def add(writer: gguf.GGUFWriter) -> None:
        encoder, transducer = checkpoint.encoder, transducer_of(checkpoint)
        for key, number in {
            "sample_rate": 16000,
            "n_mels": checkpoint.front_end.mel_bands,
            "n_fft": 512,
            "win_length": 400,
            "hop_length": 160,
            "d_model": encoder.width,
            "n_layers": encoder.block_count,
            "n_heads": encoder.head_count,
            "head_dim": encoder.width // encoder.head_count,
            "ff_dim": encoder.feed_forward_length,
            "subsampling_factor": 8,
            "subsampling_channels": encoder.subsampling_channels,
            "conv_kernel": encoder.kernel,
            "pred_hidden": transducer.hidden,
            "pred_layers": transducer.layer_count,
            "joint_hidden": transducer.joint_hidden,
            "vocab_size": len(checkpoint.pieces),
            "blank_id": len(checkpoint.pieces),
            "n_tdt_durations": len(transducer.durations),
            "frame_dur_cs": 8,
        }.items():
            writer.add_uint32(f"parakeet.{key}", number)
        if transducer.durations:
            writer.add_array("parakeet.tdt_durations", list(transducer.durations))
        writer.add_bool("parakeet.xscaling", encoder.scales_input)
        writer.add_int32("parakeet.att_context_left", encoder.contexts[0][0])
        writer.add_int32("parakeet.att_context_right", encoder.contexts[0][1])
        writer.add_bool("parakeet.has_ctc", any(name.startswith("ctc_decoder.") for name in arrays))
        writer.add_array("tokenizer.ggml.tokens", [piece.text for piece in checkpoint.pieces])

    return _write_gguf(path, add, tensors())


def _crispasr_tensor(
    name: str, values: NDArray[np.float32], type: GGMLQuantizationType
) -> tuple[str, NDArray[np.float32], GGMLQuantizationType]:
    if name == "preprocessor.fb":
        values = values.reshape(-1, 257)
    if values.ndim < 2 or any(part in name for part in ("preprocessor.", "norm", "bn", "pos_bias")):
        return name, values, GGMLQuantizationType.F32
    block_length, _ = gguf.GGML_QUANT_SIZES[type]
    if block_length > 1 and ".pw" in name:
        values = values.squeeze(-1)
    return name, values, type if values.shape[-1] % block_length == 0 else GGMLQuantizationType.F16


def without_filterbank(
    source: Path, target: Path, without: tuple[str, ...] = (), further: Arrays = MappingProxyType({})
) -> Path:
    """One of our files as transcribe.cpp writes them, without the keys that contain one of ``without``, and
    with ``further`` tensors."""
    model = read_gguf(source)
    writer = gguf.GGUFWriter(target, "parakeet")
    for name, values in further.items():
        writer.add_tensor(name, values)
    for key, field in model.fields.items():
        if key != "general.architecture" and not any(part in key for part in without):
            writer.add_key_value(key, field.value, field.type, field.item_type)
    for name, tensor in model.tensors.items():
        if name != "fb":
            writer.add_tensor(name, tensor.load())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
