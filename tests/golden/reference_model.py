"""The reference: Whisper of `transformers` in float32, with the weights of a CTranslate2 folder.

The file is read here, not by the project's converter, so that a fault of one cannot hide in the other.
"""

import json
import struct
from pathlib import Path

import numpy as np
import torch
from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration
from transformers.utils import ModelOutput

DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
LAYER_NORMS = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}
MODULES = {
    "self_attention/layer_norm": ["self_attn_layer_norm"],
    "self_attention/linear_0": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "self_attention/linear_1": ["self_attn.out_proj"],
    "attention/layer_norm": ["encoder_attn_layer_norm"],
    "attention/linear_0": ["encoder_attn.q_proj"],
    "attention/linear_1": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "attention/linear_2": ["encoder_attn.out_proj"],
    "ffn/layer_norm": ["final_layer_norm"],
    "ffn/linear_0": ["fc1"],
    "ffn/linear_1": ["fc2"],
}
EMBEDDINGS = {
    "encoder/position_encodings/encodings": "model.encoder.embed_positions.weight",
    "decoder/position_encodings/encodings": "model.decoder.embed_positions.weight",
    "decoder/embeddings/weight": "model.decoder.embed_tokens.weight",
}


class ReferenceWhisper(WhisperForConditionalGeneration):
    """Aligns all that was generated, as OpenAI's own code does.

    `transformers` leaves out the row of attention that predicts the first token; it takes part in the
    normalisation over all rows and in the path through them, so that other tokens' times move as well.
    """

    def _extract_token_timestamps(
        self, generated: ModelOutput, heads: list[list[int]], *, num_frames: torch.Tensor, num_input_ids: int
    ) -> torch.Tensor:
        return super()._extract_token_timestamps(
            generated, heads, num_frames=num_frames, num_input_ids=num_input_ids - 1
        )


def read_variables(path: Path) -> dict[str, np.ndarray]:
    """The variables of a CTranslate2 ``model.bin`` (binary version 6) by name."""
    data = path.read_bytes()
    at = 0

    def take(layout: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from("<" + layout, data, at)
        at += struct.calcsize("<" + layout)
        return int(value)

    def text() -> str:
        nonlocal at
        length = take("H")
        at += length
        return data[at - length : at - 1].decode()

    take("I"), text(), take("I")
    variables = {}
    for _ in range(take("I")):
        name = text()
        shape = [take("I") for _ in range(take("B"))]
        dtype = np.dtype(DTYPES[take("B")])
        size = take("I")
        variables[name] = np.frombuffer(data, dtype, size // dtype.itemsize, at).reshape(shape)
        at += size
    return variables


def state_dict(variables: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The same weights under the names of `transformers`, in float32; fused projections taken apart."""
    state = {}
    for name, array in variables.items():
        if array.ndim == 0:
            continue
        tensor = torch.from_numpy(array.astype(np.float32))
        half, _, rest = name.partition("/")
        module, _, parameter = rest.rpartition("/")
        if name in EMBEDDINGS:
            state[EMBEDDINGS[name]] = tensor
        elif module.startswith("layer_") and module != "layer_norm":
            layer, _, module = module.partition("/")
            prefix = f"model.{half}.layers.{layer.removeprefix('layer_')}"
            parts = MODULES[module]
            for part, piece in zip(parts, tensor.chunk(len(parts)), strict=True):
                if not (part.endswith("k_proj") and parameter == "bias"):  # keys have none
                    state[f"{prefix}.{part}.{LAYER_NORMS[parameter]}"] = piece
        else:
            state[f"model.{half}.{module}.{LAYER_NORMS[parameter]}"] = tensor
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    return state


def load_reference(folder: Path) -> ReferenceWhisper:
    """Multilingual Whisper of any size with 80 mel bands, ready for ``generate``."""
    weights = state_dict(read_variables(folder / "model.bin"))
    described = json.loads((folder / "config.json").read_text())
    vocabulary, width = weights["model.decoder.embed_tokens.weight"].shape
    layers = 1 + max(int(name.split(".")[3]) for name in weights if name.startswith("model.encoder.layers."))
    heads, feed_forward = width // 64, 4 * width
    config = WhisperConfig(
        vocab_size=vocabulary, d_model=width, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=heads, decoder_attention_heads=heads,
        encoder_ffn_dim=feed_forward, decoder_ffn_dim=feed_forward, attn_implementation="eager",
    )  # fmt: skip
    model = ReferenceWhisper(config)
    model.load_state_dict(weights, strict=True)
    tokens = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    ids = {token: number for number, token in enumerate(tokens) if token.startswith("<|")}
    end = ids["<|endoftext|>"]
    model.generation_config = GenerationConfig(
        alignment_heads=described["alignment_heads"],
        begin_suppress_tokens=described["suppress_ids_begin"],
        suppress_tokens=described["suppress_ids"],
        decoder_start_token_id=ids["<|startoftranscript|>"],
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        no_timestamps_token_id=ids["<|notimestamps|>"],
        prev_sot_token_id=ids["<|startofprev|>"],
        lang_to_id={tokens[number]: number for number in described["lang_ids"]},
        task_to_id={task: ids[f"<|{task}|>"] for task in ("transcribe", "translate")},
        is_multilingual=True,
        max_initial_timestamp_index=50,
        max_length=448,
    )
    return model.eval()
