"""The offline reference of live measurements: our own engine's words of the whole clip, with their times."""

from collections.abc import Sequence

from stenod._native import Model, TranscribeOptions, Worker
from stenod.events import Word
from stenod.transcript import CharacterDecoder, words_of

from ..recordings import load


def timed_words(model: str, clips: Sequence[str], language: str, threads: int) -> dict[str, list[Word]]:
    """The words of each clip."""
    worker = Worker(Model(model), threads)
    options = TranscribeOptions(language=language, full_window=True, condition_on_previous_text=False)
    references = {}
    for clip in clips:
        segments = worker.transcribe(load(clip), options)["segments"]
        tokens = [token for segment in segments for token in segment["tokens"]]
        references[clip] = words_of(CharacterDecoder().decode(tokens), language)
    return references
