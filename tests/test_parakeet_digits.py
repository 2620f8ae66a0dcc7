"""The little Parakeet model on real speech: digits of a speaker whom it never heard."""

import json

import jiwer
from stenod._native import Model, Stream, StreamOptions, Worker

from .parakeet import committed_tokens, transcribed
from .recordings import SHIPPED, load

PIECE = 1600
"""Samples in a push: 100 ms."""


def test_digits_of_an_unheard_speaker_streamed_and_whole() -> None:
    """An utterance has the same tokens both ways; of these 65 words the model itself mishears five."""
    model = Model(str(SHIPPED / "parakeet-tiny.gguf"))
    worker = Worker(model, 1)
    references: dict[str, str] = json.loads((SHIPPED / "digits" / "references.json").read_text())
    heard = []
    for name in references:
        samples = load(f"digits/{name}")
        pieces = [samples[start : start + PIECE] for start in range(0, len(samples), PIECE)]
        tokens = committed_tokens(worker, Stream(model, StreamOptions()), pieces)
        assert [token["id"] for token in tokens] == [token["id"] for token in transcribed(worker, samples)]
        heard.append(b"".join(token["text"] for token in tokens).decode().strip())
    assert jiwer.wer(list(references.values()), heard) <= 0.1
