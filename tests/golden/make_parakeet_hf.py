"""Holds the goldens of Parakeet against transformers, and makes what its model folders have beside weights.

    pip install . transformers==5.24.0 torch==2.13.0 sentencepiece protobuf
    python -m tests.golden.make_parakeet_hf

The JSON files in ``tests/models/parakeet/hf`` are committed. That the same weights give the same in both
reference implementations is told, and an error where they do not: encoder outputs, and the tokens of greedy
search. transformers knows the streaming model as RNN-T alone, with one left context for all look-aheads.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stenod.models.parakeet.checkpoint import Checkpoint
from transformers import (
    NemotronAsrStreamingConfig,
    NemotronAsrStreamingFeatureExtractor,
    NemotronAsrStreamingForRNNT,
    NemotronAsrStreamingProcessor,
    ParakeetCTCConfig,
    ParakeetFeatureExtractor,
    ParakeetForCTC,
    ParakeetForRNNT,
    ParakeetForTDT,
    ParakeetProcessor,
    ParakeetRNNTConfig,
    ParakeetTDTConfig,
    ParakeetTokenizer,
)
from transformers.convert_slow_tokenizer import ParakeetConverter

from ..models.parakeet.formats import HF_FOLDER, Arrays, checkpoint_of, hf_name, nemo_arrays
from ..models.parakeet.golden import members
from .parakeet_cases import CLIPS, FOLDER

CLASSES = {
    "tdt": (ParakeetForTDT, ParakeetTDTConfig),
    "rnnt": (ParakeetForRNNT, ParakeetRNNTConfig),
    "ctc": (ParakeetForCTC, ParakeetCTCConfig),
    "streaming": (NemotronAsrStreamingForRNNT, NemotronAsrStreamingConfig),
}
KEPT = ("config.json", "processor_config.json", "tokenizer.json")
CLIP = "long"
TOLERANCE = 1e-5


def build(name: str, checkpoint: Checkpoint, arrays: Arrays) -> Any:
    """transformers' model with a golden's weights."""
    encoder, blank = checkpoint.encoder, len(checkpoint.pieces)
    sizes: dict[str, Any] = {
        "hidden_size": encoder.width,
        "num_hidden_layers": encoder.block_count,
        "num_attention_heads": encoder.head_count,
        "intermediate_size": encoder.feed_forward_length,
        "attention_bias": encoder.has_biases,
        "convolution_bias": encoder.has_biases,
        "conv_kernel_size": encoder.kernel,
        "subsampling_conv_channels": encoder.subsampling_channels,
        "num_mel_bins": checkpoint.front_end.mel_bands,
        "scale_input": encoder.scales_input,
    }
    if name == "streaming":
        left, right = encoder.contexts[0]
        sizes |= {"sliding_window": left + 1, "default_num_lookahead_tokens": right}
    settings: dict[str, Any] = {"vocab_size": blank + 1, "encoder_config": sizes, "pad_token_id": blank}
    if transducer := checkpoint.transducer:
        settings |= {
            "pad_token_id": 0,
            "blank_token_id": blank,
            "decoder_hidden_size": transducer.hidden,
            "num_decoder_layers": transducer.layer_count,
            "max_symbols_per_step": transducer.max_symbols,
        }
    model_class, config_class = CLASSES[name]
    model = model_class(config_class(**settings)).eval()
    weights = {hf_name(key, name == "streaming"): torch.from_numpy(values) for key, values in arrays.items()}
    weights = {key: values for key, values in weights.items() if "featurizer" not in key}
    if name == "streaming":
        weights |= {key: weights[key][: blank + 1] for key in ("joint.head.weight", "joint.head.bias")}
    found = model.load_state_dict(weights, strict=False)
    missing = [key for key in found.missing_keys if "num_batches_tracked" not in key]
    assert not missing and not found.unexpected_keys, found
    return model


def extractor_of(name: str, checkpoint: Checkpoint) -> Any:
    """transformers' front end of a model."""
    kind = NemotronAsrStreamingFeatureExtractor if name == "streaming" else ParakeetFeatureExtractor
    return kind(feature_size=checkpoint.front_end.mel_bands)


def compare(name: str, model: Any, extractor: Any) -> None:
    """Raises AssertionError where transformers and NeMo differ."""
    with np.load(FOLDER / f"{name}.npz") as arrays:
        golden = dict(arrays)
    mel = extractor(CLIPS[CLIP], sampling_rate=16000, return_tensors="pt")
    if name == "streaming":
        frames = len(CLIPS[CLIP]) // 160
        encoded = model.encoder(mel["input_features"][:, :frames], num_lookahead_tokens=13).last_hidden_state[
            0
        ]
        require_close(name, encoded, golden[f"{CLIP}/13/encoder"])
        return
    inputs = {"input_features": mel["input_features"], "attention_mask": mel["attention_mask"]}
    require_close(name, model.encoder(**inputs).last_hidden_state[0], golden[f"{CLIP}/encoder"])
    if name == "ctc":
        require_close(name, model(**inputs).logits[0].log_softmax(-1), golden[f"{CLIP}/logits"], 1e-4)
        return
    blank = model.config.blank_token_id
    found = model.generate(**inputs, max_new_tokens=400, decoder_start_token_id=blank)
    tokens = [token for token in found.sequences[0].tolist() if token != blank]
    assert tokens == golden[f"{CLIP}/tokens"].tolist(), (name, tokens)
    print(f"{name}: the same {len(tokens)} tokens")


def require_close(name: str, found: torch.Tensor, expected: np.ndarray, tolerance: float = TOLERANCE) -> None:
    """Raises AssertionError where they differ by more."""
    difference = np.abs(found.numpy()[: len(expected)] - expected).max()
    assert difference < tolerance, (name, difference)
    print(f"{name}: differs by {difference:.1e}")


def save_settings(name: str, model: Any, extractor: Any, folder: Path) -> None:
    """Keeps what transformers saves beside the weights."""
    (content,) = [data for key, data in members(name).items() if key.endswith("tokenizer.model")]
    (folder / "tokenizer.model").write_bytes(content)
    converted = ParakeetConverter(str(folder / "tokenizer.model")).converted()
    tokenizer = ParakeetTokenizer(tokenizer_object=converted, unk_token="<unk>")
    blank = {"pad_token": "<pad>"} if name == "ctc" else {"additional_special_tokens": ["<blank>"]}
    tokenizer.add_special_tokens(blank)
    model.save_pretrained(folder)
    processor = NemotronAsrStreamingProcessor if name == "streaming" else ParakeetProcessor
    processor(extractor, tokenizer).save_pretrained(folder)
    (HF_FOLDER / name).mkdir(parents=True, exist_ok=True)
    for file in KEPT:
        (HF_FOLDER / name / file).write_bytes((folder / file).read_bytes())


def main() -> None:
    for name in CLASSES:
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            checkpoint = checkpoint_of(name)
            model = build(name, checkpoint, nemo_arrays(name, Path(folder)))
            extractor = extractor_of(name, checkpoint)
            compare(name, model, extractor)
            save_settings(name, model, extractor, Path(folder))


if __name__ == "__main__":
    main()
