"""Deepgram's protocols, spoken by Deepgram's own client and by hand, against a daemon that runs."""

import asyncio
import json
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from deepgram import AsyncDeepgramClient
from deepgram.environment import DeepgramClientEnvironment
from deepgram.listen.v1.types import (
    ListenV1Metadata,
    ListenV1Results,
    ListenV1SpeechStarted,
    ListenV1UtteranceEnd,
)
from deepgram.listen.v2.types import ListenV2Connected, ListenV2TurnInfo
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from ..streams import clip, plain
from .speech import Speech, messages, pieces

MODELS: dict[str, type[BaseModel]] = {
    "Results": ListenV1Results,
    "Metadata": ListenV1Metadata,
    "SpeechStarted": ListenV1SpeechStarted,
    "UtteranceEnd": ListenV1UtteranceEnd,
    "Connected": ListenV2Connected,
    "TurnInfo": ListenV2TurnInfo,
}
TYPES = ("KeepAlive", "Finalize", "ForceEndTurn", "Configure")


def client(daemon: str) -> AsyncDeepgramClient:
    """Deepgram's client."""
    base = daemon.replace("ws", "http")
    ours = DeepgramClientEnvironment(base=base, production=daemon, agent=daemon, agent_rest=base)
    return AsyncDeepgramClient(api_key="any", environment=ours)


def hear(socket: ClientConnection) -> list[dict[str, Any]]:
    """All that is told, to the end; what Deepgram's client knows has the fields that it needs."""
    told = [json.loads(message) for message in socket]
    for message in told:
        if message["type"] in MODELS:
            MODELS[message["type"]].model_validate(message)
    return told


def transcript(result: dict[str, Any]) -> str:
    said: str = result["channel"]["alternatives"][0]["transcript"]
    return said


def utterances(results: list[dict[str, Any]]) -> list[str]:
    """The words of each utterance, put together as Deepgram's guide says: empty results are skipped."""
    said: list[str] = []
    parts: list[str] = []
    for result in results:
        if result["is_final"] and transcript(result):
            parts.append(transcript(result))
            if result["speech_final"]:
                said.append(plain(" ".join(parts)))
                parts = []
    assert not parts
    return said


async def test_version_1(speech: Speech):
    data = speech.pcm(16000)
    expected = speech.words(data, 16000)
    told: list[Any] = []
    async with client(speech.daemon).listen.v1.connect(
        model="nova-3",
        language="en-US",
        encoding="linear16",
        sample_rate=16000,
        interim_results=True,
        smart_format=True,
        vad_events=True,
        utterance_end_ms=500,
    ) as connection:

        async def listen() -> None:
            async for message in connection:
                told.append(message)

        listening = asyncio.create_task(listen())
        await connection.send_keep_alive()
        for piece in pieces(data):
            await connection.send_media(piece)
        await connection.send_close_stream()
        await listening
    results = [message.model_dump() for message in told if isinstance(message, ListenV1Results)]
    assert utterances(results) == expected
    assert [result for result in results if not result["is_final"]]
    assert isinstance(told[-1], ListenV1Metadata)
    assert told[-1].duration == pytest.approx(len(data) / 32000, abs=0.001)
    assert sum(isinstance(message, ListenV1SpeechStarted) for message in told) == len(expected)
    words = [
        word
        for result in results
        if result["is_final"]
        for word in result["channel"]["alternatives"][0]["words"]
    ]
    assert all(0 < word["confidence"] <= 1 for word in words)
    assert [word["start"] for word in words] == sorted(word["start"] for word in words)
    assert words[0]["punctuated_word"].lower() == words[0]["word"]
    ends = [message for message in told if isinstance(message, ListenV1UtteranceEnd)]
    assert len(ends) == len(expected)
    assert {end.last_word_end for end in ends} < {word["end"] for word in words}


def test_final_results_alone(digits: Speech):
    """As mu-law at 8 kHz, without punctuation; what was said is finalized by the client."""
    data = digits.mulaw()
    with connect(
        f"{digits.daemon}/v1/listen?encoding=mulaw&sample_rate=8000&language=en&endpointing=600"
    ) as socket:
        for piece in pieces(data):
            socket.send(piece)
        socket.send('{"type": "Finalize"}')
        socket.send('{"type": "CloseStream"}')
        told = hear(socket)
    *results, metadata = told
    assert metadata["type"] == "Metadata"
    assert {result["is_final"] for result in results} == {True}
    assert utterances(results) == digits.words(data, 8000, "mulaw")
    assert [result["from_finalize"] for result in results].count(True) == 1
    said = " ".join(transcript(result) for result in results if transcript(result))
    assert said == plain(said)


@pytest.mark.parametrize("how", ["keyterm", "keywords", "Configure"])
def test_words_that_are_likely(digits: Speech, how: str):
    data = digits.pcm(16000)
    expected = digits.words(data, 16000, phrases=["nine nine six"])
    assert digits.words(data, 16000) != expected == ["seven nine nine six"]
    terms = {
        "keyterm": "&keyterm=nine+nine+six&keyterm=Zürich",
        "keywords": "&keywords=nine+nine+six:2",
        "Configure": "",
    }
    query = terms[how]  # a term that the model cannot spell is no fault
    with connect(f"{digits.daemon}/v1/listen?language=en{query}") as socket:
        if how == "Configure":
            socket.send('{"type": "Configure", "keyterms": ["nine nine six", "Zürich"]}')
        for piece in pieces(data):
            socket.send(piece)
        socket.send('{"type": "CloseStream"}')
        told = hear(socket)
    assert utterances([message for message in told if message["type"] == "Results"]) == expected


def test_a_long_utterance_is_told_in_several_final_results(small_daemon: str):
    speech = Speech(small_daemon, clip("digits/theo_10.flac"))
    data = speech.pcm(16000)
    with connect(f"{small_daemon}/v1/listen?language=en&interim_results=true") as socket:
        for piece in pieces(data):
            socket.send(piece)
        socket.send('{"type": "CloseStream"}')
        *results, _ = hear(socket)
    told = [result for result in results if result["is_final"]]
    assert [result["speech_final"] for result in told] == [*[False] * (len(told) - 1), True]
    assert len(told) > 1
    assert utterances(results) == speech.words(data, 16000)
    for result, following in pairwise(told):
        assert following["start"] == pytest.approx(result["start"] + result["duration"], abs=0.002)


def test_what_is_finalized_in_mid_utterance(digits: Speech):
    data = digits.pcm(16000)[: 2 * 16000 * 2]
    with connect(f"{digits.daemon}/v1/listen?language=en&endpointing=false") as socket:
        for piece in pieces(data):
            socket.send(piece)
        socket.send('{"type": "Finalize"}')
        socket.send('{"type": "CloseStream"}')
        *results, _ = hear(socket)
    assert [transcript(result) for result in results if result["from_finalize"]] != [""]
    assert not any(result["speech_final"] for result in results)


async def test_version_2(dialogue: Speech):
    data = dialogue.pcm(16000)
    expected = dialogue.words(data, 16000)
    told: list[Any] = []
    async with client(dialogue.daemon).listen.v2.connect(
        model="flux-general-en", encoding="linear16", sample_rate=16000
    ) as connection:

        async def listen() -> None:
            async for message in connection:
                told.append(message)

        listening = asyncio.create_task(listen())
        for piece in pieces(data):
            await connection.send_media(piece)
        await connection.send_close_stream()
        await listening
    assert isinstance(told[0], ListenV2Connected)
    assert [message.sequence_id for message in told] == list(range(len(told)))
    turns = [message for message in told if isinstance(message, ListenV2TurnInfo)]
    ends = [turn for turn in turns if turn.event == "EndOfTurn"]
    assert [plain(turn.transcript) for turn in ends] == expected
    assert [turn.turn_index for turn in ends] == list(range(len(expected)))
    for end in ends:
        events = [turn.event for turn in turns if turn.turn_index == end.turn_index]
        assert events == ["StartOfTurn", *["Update"] * (len(events) - 2), "EndOfTurn"]
        assert [word.word for word in end.words] == end.transcript.split()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/listen?encoding=opus", "encoding"),
        ("/v1/listen?sample_rate=fast", "sample_rate"),
        ("/v1/listen?language=klingon", "language"),
        ("/v1/listen?redact=pci", "redact"),
        ("/v1/listen?multichannel=true", "multichannel"),
        ("/v2/listen?encoding=ogg-opus", "encoding"),
    ],
)
def test_an_address_that_cannot_be_is_refused(small_daemon: str, path: str, name: str):
    with pytest.raises(InvalidStatus) as refused:
        connect(small_daemon + path)
    assert refused.value.response.status_code == 400
    assert name in json.loads(refused.value.response.body or b"")["err_msg"]


def test_a_file_is_refused_by_name(small_daemon: str):
    with connect(f"{small_daemon}/v1/listen") as socket:
        socket.send(b"\x1a\x45\xdf\xa3" + bytes(9600))
        error, metadata = hear(socket)
    assert "WebM" in error["description"]
    assert (error["type"], metadata["type"]) == ("Error", "Metadata")


def test_an_empty_frame_ends_the_audio(small_daemon: str):
    with connect(f"{small_daemon}/v1/listen") as socket:
        socket.send(bytes(3200))
        socket.send(b"")
        [metadata] = hear(socket)
    assert metadata["duration"] == 0.1
    assert metadata["sha256"] == sha256(bytes(3200)).hexdigest()


def test_who_says_nothing_is_gone(small_daemon: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("stenod.protocols.deepgram.SILENCE_S", 0.05)
    with connect(f"{small_daemon}/v1/listen") as socket:
        told = hear(socket)
    assert [message["type"] for message in told] == ["Error", "Metadata"]
    assert told[0]["variant"] == "NET-0001"


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(messages(TYPES, ("keyterms", "type", "features")), max_size=10))
@pytest.mark.parametrize(("path", "error"), [("/v1/listen", "Error"), ("/v2/listen", "Warning")])
def test_whatever_is_said_is_answered_and_the_connection_lives(
    small_daemon: str, path: str, error: str, texts: list[str]
):
    with connect(small_daemon + path) as socket:
        for text in [*texts, '{"type": "Sing"}', '{"type": "CloseStream"}']:
            socket.send(text)
        kinds = [message["type"] for message in hear(socket)]
    assert error in kinds
    assert set(kinds) <= {error, "Results", "Metadata", "Connected", "ConfigureSuccess"}
    assert socket.close_code == 1000
