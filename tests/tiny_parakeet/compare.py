"""Word error rates of a model file in our engine, whole recordings beside streams of them.

TEST_RECORDINGS=FOLDER python -m tests.tiny_parakeet.compare parakeet-tiny.gguf
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import jiwer
import numpy as np
from stenod._native import Model, Stream, StreamOptions, Worker

from ..parakeet import committed_tokens, transcribed
from ..recordings import FOLDER
from .held_out import digit_strings, real_words

if TYPE_CHECKING:
    from stenod._native import Token

LOOK_AHEADS_MS = (1040, 480, 80, 0)
PIECE = 1600
"""Samples in a push: 100 ms."""
STRINGS = 60


def text(tokens: "list[Token]") -> str:
    return b"".join(token["text"] for token in tokens).decode().strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    model = Model(str(parser.parse_args().model))
    if FOLDER is None:
        parser.error("TEST_RECORDINGS names no folder of recordings")
    worker = Worker(model, 1)
    for name, utterances in (
        ("strings of digits by a held-out speaker", digit_strings(FOLDER / "digits_fsdd", STRINGS)),
        ("real words", real_words(FOLDER)),
    ):
        said = [words for _, words in utterances]
        whole = [text(transcribed(worker, samples)) for samples, _ in utterances]
        print(f"{name} ({len(said)}): whole {100 * jiwer.wer(said, whole):.2f} %", flush=True)
        for lookahead_ms in LOOK_AHEADS_MS:
            stream = Stream(model, StreamOptions(lookahead_ms=lookahead_ms))
            heard = []
            for samples, _ in utterances:
                pieces = np.array_split(samples, len(samples) // PIECE + 1)
                heard.append(text(committed_tokens(worker, stream, pieces)))
                stream.reset()
            same = sum(one == other for one, other in zip(whole, heard, strict=True))
            print(
                f"  stream, {lookahead_ms} ms: {100 * jiwer.wer(said, heard):.2f} %, {same} the same",
                flush=True,
            )


if __name__ == "__main__":
    main()
