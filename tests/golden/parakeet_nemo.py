"""Small random Parakeet models in NeMo, for the maker of the goldens."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from nemo.collections.asr.models import EncDecCTCModelBPE, EncDecHybridRNNTCTCBPEModel, EncDecRNNTBPEModel
from omegaconf import DictConfig, OmegaConf, open_dict

from .parakeet_cases import CLIPS, Case

WIDTH, HIDDEN, PIECES = 32, 16, 40
END_OF_UTTERANCE = 1
DURATIONS = (0, 1, 2, 3, 4)

_TEXT = """and so my fellow americans ask not what your country can do for you
ask what you can do for your country, my friends. and so, my friends, ask not!"""
_PARTS = "nemo.collections.asr.modules."
_CLASSES = {
    "tdt": EncDecRNNTBPEModel,
    "rnnt": EncDecRNNTBPEModel,
    "ctc": EncDecCTCModelBPE,
    "hybrid": EncDecHybridRNNTCTCBPEModel,
}


def build(case: Case, seed: int, folder: Path) -> Any:
    """The model of a case. Norms, biases and embeddings are random too; greedy search emits something.

    The tokenizer is made in ``folder``, which must be there until the model is saved.
    """
    torch.manual_seed(seed)
    _train_tokenizer(folder, is_realtime=case.is_streaming)
    model = _CLASSES[case.head](cfg=_config(case, str(folder))).eval()
    with torch.no_grad():
        _randomise(model, torch.Generator().manual_seed(seed))
        _balance(model, case)
    return model


def decode_with_nemo(
    model: Any, case: Case, encoded: torch.Tensor
) -> Iterator[tuple[list[int], list[int] | None]]:
    """Tokens and frames (None: not told) as NeMo's own greedy searches find them in [T, width]."""
    length = torch.tensor([len(encoded)])
    if case.head == "ctc":
        scores = model.decoder(encoder_output=encoded.T[None])
        (found,) = model.decoding.ctc_decoder_predictions_tensor(scores, length, return_hypotheses=True)
        collapsed = [int(token) for token in torch.unique_consecutive(scores[0].argmax(1))]
        yield [token for token in collapsed if token != model.tokenizer.vocab_size], None
        assert found.text == model.tokenizer.ids_to_text(
            [t for t in collapsed if t != model.tokenizer.vocab_size]
        )
        return
    for strategy in ("greedy", "greedy_batch"):
        decoding = copy.deepcopy(model.cfg.decoding)
        with open_dict(decoding):
            decoding.strategy = strategy
            decoding.preserve_alignments = decoding.compute_timestamps = False
            decoding.greedy.use_cuda_graph_decoder = False
        model.change_decoding_strategy(decoding, verbose=False)
        (found,) = model.decoding.rnnt_decoder_predictions_tensor(
            encoder_output=encoded.T[None], encoded_lengths=length, return_hypotheses=True
        )
        yield [int(token) for token in found.y_sequence], [int(frame) for frame in found.timestamp]


def _train_tokenizer(folder: Path, is_realtime: bool) -> None:
    (folder / "text.txt").write_text("\n".join([_TEXT] * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=PIECES,
        model_type="bpe",
        bos_id=-1,
        eos_id=-1,
        unk_id=0,
        user_defined_symbols=["<EOU>", "<EOB>"] if is_realtime else [],
        normalization_rule_name="identity",
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    names = [pieces.id_to_piece(number) for number in range(1, PIECES)]
    (folder / "vocab.txt").write_text("".join(f"{name}\n" for name in names))


def _config(case: Case, tokenizer: str) -> DictConfig:
    durations = DURATIONS if case.head in ("tdt", "hybrid") else ()
    encoder = {
        "_target_": f"{_PARTS}ConformerEncoder",
        "feat_in": case.mel_bands,
        "n_layers": 2,
        "d_model": WIDTH,
        "n_heads": 4,
        "ff_expansion_factor": 2,
        "subsampling": "dw_striding",
        "subsampling_factor": 8,
        "subsampling_conv_channels": 8,
        "self_attention_model": "rel_pos",
        "att_context_size": [-1, -1],
        "conv_kernel_size": 9,
        "use_bias": False,
        "xscaling": False,
    }
    config: dict[str, Any] = {
        "sample_rate": 16000,
        "tokenizer": {"dir": tokenizer, "type": "bpe"},
        "preprocessor": {
            "_target_": f"{_PARTS}AudioToMelSpectrogramPreprocessor",
            "features": case.mel_bands,
            "normalize": case.normalize,
            "n_fft": 512,
            "window_size": 0.025,
            "window_stride": 0.01,
            "window": "hann",
            "dither": 0.0,
            "pad_to": 0,
        },
        "encoder": encoder | dict(case.encoder),
        "optim": {"name": "adamw", "lr": 1e-3},
    }
    ctc = {
        "_target_": f"{_PARTS}ConvASRDecoder",
        "feat_in": WIDTH,
        "num_classes": -1,
        "vocabulary": [],
    }
    ctc_decoding = {"strategy": "greedy"}
    if case.head == "ctc":
        return OmegaConf.create(config | {"decoder": ctc, "decoding": ctc_decoding})
    config |= {
        "model_defaults": {"enc_hidden": WIDTH, "pred_hidden": HIDDEN, "joint_hidden": HIDDEN},
        "decoder": {
            "_target_": f"{_PARTS}RNNTDecoder",
            "blank_as_pad": True,
            "prednet": {"pred_hidden": HIDDEN, "pred_rnn_layers": case.predictor_layers, "dropout": 0.0},
        },
        "joint": {
            "_target_": f"{_PARTS}RNNTJoint",
            "log_softmax": None,
            # with a dropout, NeMo gives the output layer another name
            "jointnet": {
                "joint_hidden": HIDDEN,
                "activation": "relu",
                "dropout": 0.0 if case.head == "rnnt" else 0.2,
            },
            "num_extra_outputs": len(durations),
        },
        "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 10}, "beam": {"beam_size": 2}},
        "loss": {"loss_name": "default"},
    }
    if durations:
        config["model_defaults"]["tdt_durations"] = list(durations)
        config["decoding"] |= {"model_type": "tdt", "durations": list(durations)}
        config["loss"] = {"loss_name": "tdt", "tdt_kwargs": {"durations": list(durations)}}
    if case.head == "hybrid":
        config["aux_ctc"] = {"ctc_loss_weight": 0.3, "decoder": ctc, "decoding": ctc_decoding}
    return OmegaConf.create(config)


def _randomise(model: Any, generator: torch.Generator) -> None:
    for name, parameter in model.named_parameters():
        if "pos_bias" in name:
            parameter.normal_(0, 0.3, generator=generator)
        elif "norm" in name and name.endswith("weight"):
            parameter.uniform_(0.6, 1.4, generator=generator)
        elif "norm" in name:
            parameter.normal_(0, 0.2, generator=generator)
        elif "embed" in name:
            parameter[:-1].normal_(0, 1.0, generator=generator)
        elif "lstm.weight" in name:
            parameter.mul_(2)
        elif name.startswith(("joint.", "decoder.decoder_layers")) and name.endswith("weight"):
            parameter.normal_(0, 0.5, generator=generator)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.2, generator=generator)
        elif name.endswith("running_var"):
            buffer.uniform_(0.3, 2.0, generator=generator)


def _balance(model: Any, case: Case) -> None:
    """Makes each token as likely as any other on speech, and adds the case's biases."""
    samples = torch.from_numpy(CLIPS["speech"])[None]
    mel, frames = model.preprocessor(input_signal=samples, length=torch.tensor([samples.shape[1]]))
    encoded, _ = model.encoder(audio_signal=mel, length=frames)
    blank = model.tokenizer.vocab_size
    if case.head == "ctc":
        layer = model.decoder.decoder_layers[0]
        _standardise(layer, model.decoder.decoder_layers(encoded)[0].T)
        layer.bias[blank] += case.blank_bias
        return
    projected = model.joint.project_encoder(encoded.transpose(1, 2))
    predicted = [
        model.joint.project_prednet(model.decoder.predict(torch.tensor([[token]]), None, add_sos=False)[0])
        for token in range(0, blank + 1, 4)
    ]
    logits = [model.joint.joint_net(projected[:, :, None] + one[:, None])[0, :, 0] for one in predicted]
    layer = model.joint.joint_net[-1]
    _standardise(layer, torch.cat(logits))
    layer.bias[blank] += case.blank_bias
    if case.is_streaming:
        layer.bias[END_OF_UTTERANCE] += 1.2
    if case.head != "rnnt":
        layer.bias[blank + 1] += case.duration_bias


def _standardise(layer: Any, logits: torch.Tensor) -> None:
    """Gives each of ``layer``'s outputs, [samples, outputs] as they are, the mean 0 and the deviation 1."""
    layer.bias -= logits.mean(0)
    layer.bias /= logits.std(0)
    layer.weight /= logits.std(0).reshape(-1, *[1] * (layer.weight.ndim - 1))
