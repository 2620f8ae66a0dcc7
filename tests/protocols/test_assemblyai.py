"""AssemblyAI's protocol, spoken by AssemblyAI's own client and by hand, against a daemon that runs."""

import json
from itertools import pairwise
from typing import Any

import pytest
from assemblyai.streaming.v3 import (
    AsyncStreamingClient,
    BeginEvent,
    StreamingClientOptions,
    StreamingEvents,
    StreamingParameters,
    TerminationEvent,
    TurnEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ..streams import plain
from .speech import Speech, messages, pieces

TYPES = ("KeepAlive", "ForceEndpoint", "UpdateConfiguration")


async def test_turns(dialogue: Speech):
    data = dialogue.pcm(16000)
    expected = dialogue.words(data, 16000)
    told: list[Any] = []
    client = AsyncStreamingClient(
        StreamingClientOptions(api_key="any", api_host=dialogue.daemon, terminate_timeout=60)
    )
    for kind in (
        StreamingEvents.Begin,
        StreamingEvents.Turn,
        StreamingEvents.Termination,
        StreamingEvents.Error,
    ):
        client.on(kind, lambda _, event: told.append(event))
    await client.connect(StreamingParameters(sample_rate=16000, language_code="en", format_turns=True))
    for piece in pieces(data):
        await client.stream(piece)
    await client.disconnect(terminate=True)
    begin, *turns, termination = told
    assert isinstance(begin, BeginEvent)
    assert isinstance(termination, TerminationEvent)
    assert termination.audio_duration_seconds == round(len(data) / 32000)
    assert all(isinstance(turn, TurnEvent) for turn in turns)
    ends = [turn for turn in turns if turn.end_of_turn]
    assert [plain(turn.transcript) for turn in ends] == expected
    assert [turn.turn_order for turn in ends] == list(range(len(expected)))
    for end in ends:
        assert [word.text for word in end.words] == end.transcript.split()
        assert all(word.word_is_final for word in end.words)
    for turn, following in pairwise(turns):
        if turn.turn_order == following.turn_order:
            assert following.transcript.startswith(turn.transcript)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("encoding=opus", "encoding"),
        ("keyterms_prompt=a", "keyterms_prompt"),
        ("redact_pii=true", "redact_pii"),
    ],
)
def test_an_address_that_cannot_be_is_refused(small_daemon: str, query: str, name: str):
    with pytest.raises(InvalidStatus) as refused:
        connect(f"{small_daemon}/v3/ws?{query}")
    assert refused.value.response.status_code == 400
    assert name in json.loads(refused.value.response.body or b"")["error"]


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(messages(TYPES, ("keyterms_prompt", "prompt")), max_size=10))
def test_whatever_is_said_is_answered_and_the_connection_lives(small_daemon: str, texts: list[str]):
    with connect(f"{small_daemon}/v3/ws") as socket:
        for text in [*texts, '{"type": "Sing"}', '{"type": "Terminate"}']:
            socket.send(text)
        kinds = [json.loads(message)["type"] for message in socket]
    assert [kinds[0], kinds[-1]] == ["Begin", "Termination"]
    assert set(kinds[1:-1]) == {"Error"}
    assert socket.close_code == 1000
