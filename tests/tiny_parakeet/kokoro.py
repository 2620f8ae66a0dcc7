"""Kokoro-82M with the times of its words: the durations that it predicts for each phoneme."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import soxr
from kokoro_onnx.tokenizer import Tokenizer

from .clips import SAMPLE_RATE, Clip, Words

RATE = 24000
DURATIONS = "/encoder/Clip_output_0"
"""Inside the network: how many frames each phoneme lasts."""
FRAME = 600
"""Samples at 24 kHz."""
MARGIN = 0.06
"""Seconds of the pause kept at both ends of a phrase."""


class Kokoro:
    """Kokoro on one core. `folder` holds ``model.int8.onnx`` and ``voices/*.bin``."""

    def __init__(self, folder: Path) -> None:
        model = onnx.load(folder / "model.int8.onnx")
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(DURATIONS))
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
        self._tokenizer = Tokenizer()
        self._phonemes: dict[tuple[str, bool], str] = {}
        self.voices = {
            path.stem: np.fromfile(path, np.float32).reshape(510, 256)
            for path in sorted((folder / "voices").glob("*.bin"))
        }

    def speak(
        self, voice: str, style: np.ndarray, phrases: list[list[str]], speed: float, british: bool
    ) -> Iterator[Clip]:
        """Each phrase as a clip of its own, cut out of one utterance."""
        samples, spans = self._synthesize(style, phrases, speed, british)
        margin = int(MARGIN * SAMPLE_RATE)
        previous_end = 0
        starts = [spoken[0][1] for spoken in spans] + [len(samples)]
        for spoken, following in zip(spans, starts[1:], strict=True):
            first = max(spoken[0][1] - margin, (previous_end + spoken[0][1]) // 2)
            last = min(spoken[-1][2] + margin, (spoken[-1][2] + following) // 2)
            words = [(word, start - first, end - first) for word, start, end in spoken]
            yield Clip(voice, samples[first:last], words)
            previous_end = spoken[-1][2]

    def utterance(
        self, voice: str, style: np.ndarray, phrases: list[list[str]], speed: float, british: bool
    ) -> Clip:
        """All phrases in one clip."""
        samples, spans = self._synthesize(style, phrases, speed, british)
        return Clip(voice, samples, [word for spoken in spans for word in spoken])

    def _synthesize(
        self, style: np.ndarray, phrases: list[list[str]], speed: float, british: bool
    ) -> tuple[np.ndarray, list[Words]]:
        """Samples at 16 kHz, and the words of each phrase with their times."""
        tokens = [0]
        places: list[list[tuple[str, int, int]]] = []
        for words in phrases:
            placed = []
            for position, word in enumerate(words):
                if position:
                    tokens += self._tokenizer.tokenize(" ")
                first = len(tokens)
                tokens += self._tokenizer.tokenize(self._phonemize(word, british))
                placed.append((word, first, len(tokens)))
            places.append(placed)
            tokens += self._tokenizer.tokenize("." if words is phrases[-1] else ", ")
        tokens.append(0)
        row = style[min(len(tokens) - 2, len(style)) - 1]
        inputs = {
            "tokens": np.array([tokens], np.int64),
            "style": row[None].astype(np.float32),
            "speed": np.array([speed], np.float32),
        }
        audio, durations = self._session.run(["audio", DURATIONS], inputs)
        times = (
            np.concatenate([[0], np.cumsum(np.asarray(durations).reshape(-1))]) * FRAME / RATE * SAMPLE_RATE
        )
        spans = [
            [(word, int(times[first]), int(times[last])) for word, first, last in placed] for placed in places
        ]
        return soxr.resample(np.asarray(audio, np.float32).reshape(-1), RATE, SAMPLE_RATE), spans

    def _phonemize(self, word: str, british: bool) -> str:
        """One word's phonemes, remembered."""
        key = (word, british)
        if key not in self._phonemes:
            self._phonemes[key] = self._tokenizer.phonemize(word, "en-gb" if british else "en-us")
        return self._phonemes[key]
