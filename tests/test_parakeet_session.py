"""Sessions on a Parakeet: the same commands, events and guarantees as with Whisper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import pytest_asyncio
from stenod import events
from stenod._native import Worker
from stenod.audio.pcm import AudioFormat
from stenod.audio.resample import SAMPLE_RATE
from stenod.engine import Engine
from stenod.hub import Hub, Refused

from .golden.parakeet_cases import CLIPS
from .parakeet import transcribed
from .streams import SILENCE, committed, finals, hub_on, numbered, pcm, told, transcribe

if TYPE_CHECKING:
    from stenod._native import Model

SPEECH = np.concatenate([SILENCE[:4000], CLIPS["long"], SILENCE, CLIPS["long"][8000:], SILENCE])
"""The weights are random: what is said is nonsense, but always the same."""


@pytest_asyncio.fixture(params=["streaming", "tdt"])
async def hub_of_parakeet(
    request: pytest.FixtureRequest, parakeet: Callable[[str], Model]
) -> AsyncIterator[Hub]:
    engine = Engine(parakeet(request.param), workers=1, threads=1)
    async with hub_on(engine) as hub:
        yield hub
    engine.close()


@pytest_asyncio.fixture
async def hub_with_turns(parakeet: Callable[[str], Model]) -> AsyncIterator[Hub]:
    """On the model that tells when a turn ends."""
    engine = Engine(parakeet("streaming"), workers=1, threads=1)
    async with hub_on(engine) as hub:
        yield hub
    engine.close()


async def test_what_is_told_depends_on_the_audio_alone(hub_of_parakeet: Hub) -> None:
    first = await transcribe(hub_of_parakeet, SPEECH, (len(pcm(SPEECH)),))
    for chunks in ((320,), (1, 3001, 17), (100_000, 2)):
        assert told(await transcribe(hub_of_parakeet, SPEECH, chunks)) == told(first)
    assert len(finals(first)) >= 2


async def test_finals_are_what_was_committed(hub_of_parakeet: Hub) -> None:
    told_of = await transcribe(hub_of_parakeet, SPEECH)
    for final in finals(told_of):
        assert final.text == committed(told_of, final.utterance)
    sequence = [event.seq for event in numbered(told_of)]
    assert sequence == list(range(sequence[0], sequence[0] + len(sequence)))


async def test_a_turn_that_ends_is_an_endpoint(hub_with_turns: Hub) -> None:
    told_of = await transcribe(hub_with_turns, SPEECH)
    ends = [event for event in told_of if isinstance(event, events.SpeechEnded)]
    assert "end_of_turn" in [end.reason for end in ends]
    starts = [event.start for event in told_of if isinstance(event, events.SpeechStarted)]
    assert all(start >= end.end for end, start in zip(ends, starts[1:], strict=False))


async def test_a_turn_ends_nothing_where_only_a_flush_may(hub_with_turns: Hub) -> None:
    configuration = replace(hub_with_turns.defaults, endpointing=None)
    told_of = await transcribe(hub_with_turns, SPEECH, configuration=configuration)
    reasons = [event.reason for event in told_of if isinstance(event, events.SpeechEnded)]
    assert reasons == ["finish"]


async def test_look_ahead_is_the_sessions_choice(hub_with_turns: Hub) -> None:
    narrow = replace(hub_with_turns.defaults, lookahead_ms=0)
    assert told(await transcribe(hub_with_turns, SPEECH, configuration=narrow)) != told(
        await transcribe(hub_with_turns, SPEECH)
    )


async def test_a_live_utterance_has_the_text_of_a_recording_of_it(parakeet: Callable[[str], Model]) -> None:
    engine = Engine(parakeet("streaming"), workers=1, threads=1)
    async with hub_on(engine) as hub:
        told_of = await transcribe(hub, SPEECH, configuration=replace(hub.defaults, endpointing=None))
    [start] = [event.start for event in told_of if isinstance(event, events.SpeechStarted)]
    sent = np.frombuffer(pcm(SPEECH), "<i2").astype(np.float32) / 32768
    tokens = transcribed(Worker(engine.model, 1), sent[round(start * SAMPLE_RATE) :])
    engine.close()
    text = b"".join(token["text"] for token in tokens).decode()
    assert [final.text for final in finals(told_of)] == [text.strip()]


async def test_phrases_that_cannot_be_spelled_are_refused(hub_with_turns: Hub) -> None:
    with pytest.raises(Refused) as refusal:
        await hub_with_turns.open(
            AudioFormat(), replace(hub_with_turns.defaults, phrases=("\u4f60\u597d",)), None
        )
    assert (refusal.value.code, refusal.value.field) == ("bad_field", "phrases")
