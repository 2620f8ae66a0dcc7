"""Writes a trained model as a `.nemo`, as NVIDIA's toolkit would: `stenod models convert` makes a GGUF of it.

python -m tests.tiny_parakeet.export CHECKPOINT OUT.nemo
"""

import argparse
import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import yaml

from . import vocabulary
from .clips import SAMPLE_RATE
from .data import MelFilters
from .evaluate import read
from .model import CONTEXTS, Config, Model


def tokenizer() -> bytes:
    """A SentencePiece model with a piece for each word, in the order of the vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder, "tokenizer")
        # A word model takes the most frequent words first.
        count = len(vocabulary.WORDS)
        sentences = [word for place, word in enumerate(vocabulary.WORDS) for _ in range(count - place)]
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_prefix=str(prefix),
            model_type="word",
            vocab_size=count + 1,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            normalization_rule_name="identity",
            minloglevel=2,
        )
        return prefix.with_suffix(".model").read_bytes()


def pieces(model: bytes) -> list[str]:
    """The tokenizer's pieces; raises ValueError if they are not in the order that the training uses."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    found = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    if found != ["<unk>", *("▁" + word for word in vocabulary.WORDS)]:
        raise ValueError(f"the tokenizer orders its pieces differently: {found}")
    return found


def description(config: Config, labels: list[str]) -> dict[str, Any]:
    """`model_config.yaml`: what a reader needs of it."""
    durations = list(config.durations)
    return {
        "target": "nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel",
        "sample_rate": SAMPLE_RATE,
        "labels": labels,
        "model_defaults": {
            "enc_hidden": config.width,
            "pred_hidden": config.predictor,
            "joint_hidden": config.joint,
            "tdt_durations": durations,
            "num_tdt_durations": len(durations),
        },
        "tokenizer": {
            "dir": None,
            "type": "bpe",
            "model_path": "nemo:tokenizer.model",
            "vocab_path": "nemo:vocab.txt",
        },
        "preprocessor": {
            "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
            "sample_rate": SAMPLE_RATE,
            "normalize": "NA",
            "window_size": 0.025,
            "window_stride": 0.01,
            "window": "hann",
            "features": config.mels,
            "n_fft": 512,
            "frame_splicing": 1,
            "dither": 0.0,
            "pad_to": 0,
        },
        "encoder": {
            "_target_": "nemo.collections.asr.modules.ConformerEncoder",
            "feat_in": config.mels,
            "feat_out": -1,
            "n_layers": config.layers,
            "d_model": config.width,
            "use_bias": False,
            "subsampling": "dw_striding",
            "subsampling_factor": 8,
            "subsampling_conv_channels": config.channels,
            "causal_downsampling": True,
            "ff_expansion_factor": 4,
            "self_attention_model": "rel_pos",
            "n_heads": config.heads,
            "att_context_size": [list(context) for context in CONTEXTS],
            "att_context_style": "chunked_limited",
            "xscaling": False,
            "untie_biases": True,
            "pos_emb_max_len": 5000,
            "conv_kernel_size": config.kernel,
            "conv_norm_type": "layer_norm",
            "conv_context_size": "causal",
            "dropout": 0.1,
            "dropout_pre_encoder": 0.1,
            "dropout_emb": 0.0,
            "dropout_att": 0.0,
        },
        "decoder": {
            "_target_": "nemo.collections.asr.modules.RNNTDecoder",
            "normalization_mode": None,
            "random_state_sampling": False,
            "blank_as_pad": True,
            "vocab_size": config.vocabulary,
            "prednet": {"pred_hidden": config.predictor, "pred_rnn_layers": 1, "t_max": None, "dropout": 0.0},
        },
        "joint": {
            "_target_": "nemo.collections.asr.modules.RNNTJoint",
            "log_softmax": None,
            "preserve_memory": False,
            "fuse_loss_wer": False,
            "fused_batch_size": 4,
            "jointnet": {
                "joint_hidden": config.joint,
                "activation": "relu",
                "dropout": 0.1,
                "encoder_hidden": config.width,
                "pred_hidden": config.predictor,
            },
            "num_extra_outputs": len(durations),
            "num_classes": config.vocabulary,
            "vocabulary": labels,
        },
        "decoding": {
            "strategy": "greedy_batch",
            "model_type": "tdt",
            "durations": durations,
            "greedy": {"max_symbols": 10},
        },
        "loss": {"loss_name": "tdt", "tdt_kwargs": {"durations": durations, "sigma": 0.02, "omega": 0.0}},
    }


def weights(model: Model) -> dict[str, torch.Tensor]:
    """The state as NeMo has it: the front end's tables, no auxiliary head, the normalisation folded in."""
    model.encoder.pre_encode.fold_normalisation()
    filters = MelFilters(model.config.mels)
    state = {
        "preprocessor.featurizer.window": torch.hann_window(400, periodic=False),
        "preprocessor.featurizer.fb": torch.from_numpy(filters.matrix().T.copy())[None],
    }
    for name, value in model.state_dict().items():
        if not name.startswith("ctc_decoder."):
            state[name] = value.detach().clone(memory_format=torch.contiguous_format)
    return state


def write(path: Path, model: Model) -> None:
    """The archive, the same bytes for the same weights."""
    stored = io.BytesIO()
    torch.save(weights(model), stored)
    spoken = tokenizer()
    labels = pieces(spoken)
    members = {
        "model_config.yaml": yaml.safe_dump(description(model.config, labels), allow_unicode=True).encode(),
        "model_weights.ckpt": stored.getvalue(),
        "tokenizer.model": spoken,
        "vocab.txt": "".join(f"{word}\n" for word in vocabulary.WORDS).encode(),
    }
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    write(options.out, read(options.checkpoint))


if __name__ == "__main__":
    main()
