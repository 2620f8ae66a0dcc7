"""OpenAI's Realtime protocol, spoken by OpenAI's own client and by hand, against a daemon that runs."""

import json
from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection, AsyncRealtimeConnectionManager
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from ..streams import plain
from .speech import Speech, base64_pieces, messages, one_turn

ITEM = "conversation.item.input_audio_transcription"
COMPLETED = f"{ITEM}.completed"
COMMITTED = "input_audio_buffer.committed"
TYPES = (
    "session.update",
    "transcription_session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
)
FIELDS = (
    "event_id",
    "session",
    "audio",
    "input",
    "format",
    "type",
    "rate",
    "transcription",
    "language",
    "prompt",
    "turn_detection",
    "input_audio_format",
)

_server_event: TypeAdapter[RealtimeServerEvent] = TypeAdapter(RealtimeServerEvent)


def client(daemon: str) -> AsyncOpenAI:
    """OpenAI's client."""
    return AsyncOpenAI(api_key="any", base_url=f"{daemon.replace('ws', 'http')}/v1")


def connected(daemon: str) -> AsyncRealtimeConnectionManager:
    """A connection of OpenAI's client."""
    return client(daemon).realtime.connect(model="gpt-4o-transcribe", extra_query={"intent": "transcription"})


def session(rate: int, turn_detection: dict[str, Any] | None) -> Any:
    """A session as clients describe it now."""
    return {
        "type": "transcription",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": rate},
                "transcription": {"model": "gpt-4o-transcribe", "language": "en"},
                "turn_detection": turn_detection,
            }
        },
    }


async def until(connection: AsyncRealtimeConnection, kind: str, count: int = 1) -> list[Any]:
    """The events up to the one of a kind that is the last wanted."""
    events: list[Any] = []
    while sum(event.type == kind for event in events) < count:
        events.append(await connection.recv())
    return events


def items(events: list[Any]) -> list[str]:
    """The words of each item; they come in order, and the deltas of each are what is completed."""
    deltas: dict[str, str] = defaultdict(str)
    committed: list[str | None] = [None]
    transcripts = []
    for event in events:
        assert event.event_id
        if event.type == f"{ITEM}.delta":
            deltas[event.item_id] += event.delta
        elif event.type == COMMITTED:
            assert event.previous_item_id == committed[-1]
            committed.append(event.item_id)
        elif event.type == COMPLETED:
            assert event.item_id == committed[-1]
            assert event.transcript == deltas[event.item_id]
            transcripts.append(plain(event.transcript))
    return transcripts


async def test_turns_that_the_server_finds(speech: Speech):
    await check_turns(speech, 16000, {"type": "server_vad"})


async def test_turns_that_the_model_may_find(dialogue: Speech):
    await check_turns(dialogue, 48000, {"type": "semantic_vad"})


async def check_turns(speech: Speech, rate: int, turn_detection: dict[str, Any]) -> None:
    data = speech.pcm(rate)
    expected = speech.words(data, rate)
    async with connected(speech.daemon) as connection:
        await connection.session.update(session=session(rate, turn_detection))
        for audio in base64_pieces(data):
            await connection.input_audio_buffer.append(audio=audio)
        events = await until(connection, COMPLETED, len(expected))
    assert [event.type for event in events[:2]] == ["session.created", "session.updated"]
    assert items(events) == expected
    turns = [event for event in events if event.type.startswith("input_audio_buffer.speech")]
    assert [event.type.rpartition("_")[2] for event in turns] == ["started", "stopped"] * len(expected)
    moments = [event.audio_end_ms if "stopped" in event.type else event.audio_start_ms for event in turns]
    assert moments == sorted(moments)


async def test_turns_that_the_client_commits(digits: Speech):
    """One of speech; one that is cleared; one of silence."""
    data = digits.pcm(16000)
    async with connected(digits.daemon) as connection:
        await connection.session.update(session=session(16000, None))
        for audio in base64_pieces(data):
            await connection.input_audio_buffer.append(audio=audio)
        await connection.input_audio_buffer.commit()
        for audio in base64_pieces(data[:50_000]):
            await connection.input_audio_buffer.append(audio=audio)
        await connection.input_audio_buffer.clear()
        for audio in base64_pieces(bytes(32000)):
            await connection.input_audio_buffer.append(audio=audio)
        await connection.input_audio_buffer.commit()
        await connection.input_audio_buffer.commit()
        events = await until(connection, COMPLETED, 2)
    assert items(events) == [*digits.words(data, 16000, endpointing=None), ""]
    kinds = [event.type for event in events]
    assert not [kind for kind in kinds if "speech" in kind]
    assert kinds.count("input_audio_buffer.cleared") == 1
    [error] = [event.error for event in events if event.type == "error"]
    assert (error.type, error.code) == ("invalid_request_error", "input_audio_buffer_commit_empty")


async def test_the_model_is_listed(small_daemon: str):
    [model] = [model async for model in client(small_daemon).models.list()]
    assert model.id == "parakeet-tiny"


def say(socket: ClientConnection, **message: Any) -> None:
    socket.send(json.dumps(message))


def hear(socket: ClientConnection) -> dict[str, Any]:
    """The next event; it is one that OpenAI's client knows."""
    event = json.loads(socket.recv(timeout=60))
    if not event["type"].startswith("transcription_session"):
        assert _server_event.validate_python(event).type == event["type"]
    return event


@pytest.mark.parametrize("encoding", ["pcm16", "g711_ulaw"])
def test_the_older_form(digits: Speech, encoding: str):
    linear = encoding == "pcm16"
    data, rate = (digits.pcm(24000), 24000) if linear else (digits.mulaw(), 8000)
    headers = {"OpenAI-Beta": "realtime=v1"}
    with connect(f"{digits.daemon}/v1/realtime?intent=transcription", additional_headers=headers) as socket:
        assert hear(socket)["type"] == "transcription_session.created"
        old = {
            "input_audio_format": encoding,
            "input_audio_transcription": {"model": "whisper-1", "prompt": "", "language": "en"},
            "turn_detection": {"type": "server_vad", "threshold": 0.5, "silence_duration_ms": 600},
            "input_audio_noise_reduction": None,
        }
        say(socket, type="transcription_session.update", session=old)
        updated = hear(socket)
        assert updated["type"] == "transcription_session.updated"
        assert updated["session"]["turn_detection"]["silence_duration_ms"] == 600
        for audio in base64_pieces(data):
            say(socket, type="input_audio_buffer.append", audio=audio)
        while (event := hear(socket))["type"] != COMPLETED:
            pass
    assert [plain(event["transcript"])] == digits.words(data, rate, "s16le" if linear else "mulaw")


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"type": "semantic_vad", "eagerness": "low"}, {"type": "semantic_vad", "eagerness": "low"}),
        (
            {"type": "server_vad", "silence_duration_ms": 1, "threshold": 0.1},
            {"type": "server_vad", "prefix_padding_ms": 300, "silence_duration_ms": 100},
        ),
        (None, None),
    ],
)
def test_what_holds_is_told(small_daemon: str, chosen: dict[str, Any] | None, told: dict[str, Any] | None):
    with connect(f"{small_daemon}/v1/realtime?model=gpt-realtime") as socket:
        assert hear(socket)["type"] == "session.created"
        say(socket, type="session.update", session=session(24000, chosen))
        given = hear(socket)["session"]["audio"]["input"]
        assert given["turn_detection"] == told
        assert given["format"] == {"type": "audio/pcm", "rate": 24000}
        assert given["transcription"]["language"] == "en"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (
            {"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/opus"}}}}},
            "format",
        ),
        ({"type": "session.update", "session": {"input_audio_format": "mp3"}}, "format"),
        ({"type": "session.update", "session": session(1, None)}, "sample_rate"),
        ({"type": "session.update", "session": {"turn_detection": {"type": "none"}}}, "turn_detection"),
        (
            {"type": "session.update", "session": {"input_audio_transcription": {"keywords": ["a"] * 101}}},
            "keywords",
        ),
        ({"type": "input_audio_buffer.append", "audio": "?"}, "audio"),
        ({"type": "input_audio_buffer.append"}, "audio"),
        ({"type": "response.create"}, "type"),
    ],
)
def test_what_cannot_be_is_an_error_that_names_it(small_daemon: str, message: dict[str, Any], param: str):
    with connect(f"{small_daemon}/v1/realtime") as socket:
        created = hear(socket)
        say(socket, **message, event_id="mine")
        error = hear(socket)["error"]
        assert param in error["param"]
        assert (error["type"], error["event_id"]) == ("invalid_request_error", "mine")
        say(socket, type="session.update", session={})
        assert hear(socket)["session"] == created["session"]


def test_an_engine_that_fails_is_told(failing_daemon: str):
    with connect(f"{failing_daemon}/v1/realtime") as socket:
        for audio in base64_pieces(Speech(failing_daemon, one_turn()).pcm(24000)):
            say(socket, type="input_audio_buffer.append", audio=audio)
        events: list[dict[str, Any]] = []
        with suppress(ConnectionClosedError):
            while True:
                events.append(hear(socket))
    [error] = [event["error"] for event in events if event["type"] == "error"]
    assert (error["type"], error["code"]) == ("server_error", "engine_failed")
    [failed] = [event for event in events if event["type"] == f"{ITEM}.failed"]
    assert failed["error"]["code"] == "engine_failed"
    assert socket.close_code == 1011


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(messages(TYPES, FIELDS), max_size=10))
def test_whatever_is_said_is_answered_and_the_connection_lives(small_daemon: str, texts: list[str]):
    with connect(f"{small_daemon}/v1/realtime") as socket:
        for text in texts:
            socket.send(text)
        socket.send(b"\0\0")
        say(socket, type="session.update", event_id="last", session={"audio": 5})
        kinds = []
        while (event := hear(socket)).get("error", {}).get("event_id") != "last":
            kinds.append(event["type"])
        assert set(kinds) <= {
            "session.created",
            "session.updated",
            "transcription_session.updated",
            "error",
            "input_audio_buffer.cleared",
            COMMITTED,
            COMPLETED,
        }
        assert kinds[-1] == "error"  # binary
