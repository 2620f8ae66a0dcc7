"""The same recording by ``stenod transcribe`` and by a daemon: the same words, to the probability."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile
from stenod.cli import main
from stenod.clients import send
from stenod.events import Final

from ..bench.daemon import serving
from ..recordings import SHIPPED

MODEL = SHIPPED / "parakeet-tiny.gguf"
UTTERANCES = [SHIPPED / "digits" / f"theo_{number:02}.flac" for number in (3, 6, 8)]
"""Without a pause that would end an utterance live."""


@pytest.fixture(scope="module")
def daemon() -> Iterator[str]:
    with serving(str(MODEL), threads=1) as address:
        yield address


def words_of_transcription(file: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["transcribe", "--model", str(MODEL), "--format", "json", str(file)]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    return [word for segment in segments for word in segment["words"]]


async def words_of_daemon(file: Path, address: str) -> list[dict[str, Any]]:
    samples, rate = soundfile.read(file, dtype="int16")
    words: list[dict[str, Any]] = []
    async with send(address, sample_rate=rate, words=True) as sender:
        for start in range(0, len(samples), 1600):
            await sender.audio(samples[start : start + 1600].tobytes())
        await sender.finish()
        async for event in sender:
            if isinstance(event, Final):
                words += [
                    {"text": word.text, "start": word.start, "end": word.end, "confidence": word.confidence}
                    for word in event.words or ()
                ]
    return words


@pytest.mark.parametrize("file", UTTERANCES, ids=lambda file: file.stem)
async def test_offline_and_live_words_are_identical(
    file: Path, daemon: str, capsys: pytest.CaptureFixture[str]
) -> None:
    live = await words_of_daemon(file, daemon)
    assert len(live) >= 3
    assert live == words_of_transcription(file, capsys)
