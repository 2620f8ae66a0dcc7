"""Wyoming, as Home Assistant speaks it: its own client against a daemon that runs."""

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stenod._native import Model
from stenod.engine import Engine
from stenod.hub import Hub
from stenod.protocols.wyoming import listening
from stenod.protocols.wyoming_framing import HEADER_BYTES, BadMessage, Message, encoded, read
from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event, Eventable, write_event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

from ..recordings import SHIPPED
from ..streams import SAID, clip, hub_on, pcm, plain

PAYLOAD = 1 << 12


@pytest.fixture
async def client(ports: Mapping[str, int]) -> AsyncIterator[AsyncTcpClient]:
    async with AsyncTcpClient("127.0.0.1", ports["wyoming"]) as client:
        yield client


@pytest.fixture
async def digits(small_ports: Mapping[str, int]) -> AsyncIterator[AsyncTcpClient]:
    """A client of the daemon that knows digits alone."""
    async with AsyncTcpClient("127.0.0.1", small_ports["wyoming"]) as client:
        yield client


async def say(client: AsyncTcpClient, data: bytes, rate: int = 16000, width: int = 2) -> None:
    """Audio as Home Assistant sends it, but for its end."""
    await client.write_event(AudioStart(rate, width, 1).event())
    for start in range(0, len(data), 2048):
        await client.write_event(AudioChunk(rate, width, 1, data[start : start + 2048]).event())


async def until(client: AsyncTcpClient, kind: type[Eventable]) -> list[Event]:
    events: list[Event] = []
    while not events or not kind.is_type(events[-1].type):
        event = await client.read_event()
        assert event is not None, events
        events.append(event)
    return events


async def stop(client: AsyncTcpClient) -> Transcript:
    """Ends the audio, and gives what was heard."""
    await client.write_event(AudioStop().event())
    return Transcript.from_event((await until(client, TranscriptStop))[-2])


async def test_speech_is_told_as_it_is_committed_and_then_all_of_it(client: AsyncTcpClient):
    await client.write_event(Transcribe(language="en-US").event())
    await say(client, pcm(clip()))
    await client.write_event(AudioStop().event())
    first, *chunks, transcript, _ = await until(client, TranscriptStop)
    assert TranscriptStart.is_type(first.type)
    told = Transcript.from_event(transcript)
    assert plain(told.text) == SAID
    assert told.language == "en"
    assert "".join(TranscriptChunk.from_event(chunk).text for chunk in chunks) == told.text


async def test_one_request_after_the_other_on_a_connection(digits: AsyncTcpClient):
    """Each is told as the native protocol tells it, whatever the layout of its audio."""
    speech = np.concatenate([clip("digits/theo_04.flac"), clip("digits/theo_03.flac")])
    await say(digits, bytes(8000))
    assert (await stop(digits)).text == ""
    await digits.write_event(Ping(text="still there?").event())
    assert Pong.from_event((await until(digits, Pong))[0]).text == "still there?"
    await digits.write_event(Event("invented-later"))
    await digits.write_event(Transcribe(transcript_names=["seven", "Zoë"]).event())
    await say(digits, pcm(speech))
    await digits.write_event(AudioStop().event())
    _, *chunks, transcript, _ = await until(digits, TranscriptStop)
    text = Transcript.from_event(transcript).text
    assert text == "".join(TranscriptChunk.from_event(chunk).text for chunk in chunks)
    assert text == "six four three six nine eight five seven eight three five"
    await say(digits, (np.repeat(speech, 3) * 2**30).astype("<i4").tobytes(), rate=48000, width=4)
    assert (await stop(digits)).text == text


async def test_whisper_is_described(client: AsyncTcpClient):
    await client.write_event(Describe().event())
    [program] = Info.from_event((await until(client, Info))[0]).asr
    assert program.supports_transcript_streaming
    [model] = program.models
    assert (model.name, model.attribution.name) == ("whisper-base", "OpenAI")
    assert {"en", "de"} <= set(model.languages)


async def test_parakeet_is_described(digits: AsyncTcpClient):
    await digits.write_event(Describe().event())
    [program] = Info.from_event((await until(digits, Info))[0]).asr
    assert (program.models[0].name, program.models[0].languages) == ("parakeet-tiny", ["en"])


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (AudioStart(16000, 1, 1).event(), "unsupported_audio"),
        (AudioStart(1, 2, 1).event(), "unsupported_audio"),
        (Event("audio-start", {"rate": "fast", "width": 2, "channels": 1}), "bad_field"),
        (Event("audio-chunk"), "bad_field"),
        (Event("transcribe", {"transcript_terms": 5}), "bad_field"),
        (Transcribe(language="klingon").event(), "bad_field"),
        (Transcribe(name="whisper-huge").event(), "unknown_model"),
    ],
)
async def test_what_cannot_be_is_told_and_ends_the_connection(
    client: AsyncTcpClient, event: Event, code: str
):
    await client.write_event(event)
    await client.write_event(AudioStart(16000, 2, 1).event())
    assert Error.from_event((await until(client, Error))[0]).code == code
    assert await client.read_event() is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b'{"type":5}\n',
        b'{"type":"ping","data_length":-1}\n',
        b'{"type":"ping","data_length":5}\n12345',
        b'{"type":"ping","data_length":99999999999}\n',
        b'{"type":"audio-chunk","payload_length":99999999999}\n',
        b"x" * (HEADER_BYTES + 1),
        b'{"type":"ping","data":' * 2000 + b"\n",
    ],
)
async def test_what_is_no_message_is_told_and_ends_the_connection(ports: Mapping[str, int], data: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", ports["wyoming"])
    writer.write(data)
    error = await read(reader, 0)
    assert error is not None
    assert (error.type, error.data["code"]) == ("error", "bad_message")
    assert await reader.read() == b""
    writer.close()


async def test_what_a_client_does_wrong_is_no_failure_of_the_daemon(
    hub: Hub, caplog: pytest.LogCaptureFixture
):
    async with listening(hub, "127.0.0.1", 0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"[]\n")
        error = await read(reader, 0)
        assert error is not None
        assert error.type == "error"
        writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_client_that_leaves_ends_its_session(hub: Hub):
    async with listening(hub, "127.0.0.1", 0) as port:
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await say(client, bytes(8000))
            await client.write_event(Ping().event())
            await until(client, Pong)
            [session] = hub.sessions.values()
        await hub.ended(session)
        assert session.end_reason == "expired"


async def test_a_daemon_that_ends_tells_what_it_heard():
    engine = Engine(Model(str(SHIPPED / "parakeet-tiny.gguf")), workers=1, threads=1)
    async with (
        hub_on(engine) as hub,
        listening(hub, "127.0.0.1", 0) as port,
        AsyncTcpClient("127.0.0.1", port) as client,
    ):
        await say(client, pcm(clip("digits/theo_04.flac")))
        await client.write_event(Ping().event())
        told = await until(client, Pong)
        await hub.drain("shutdown", 60)
        told += await until(client, TranscriptStop)
        assert Transcript.from_event(told[-2]).text == "six four three six nine"
        await client.write_event(AudioStop().event())
        await client.write_event(AudioStart(16000, 2, 1).event())
        assert Error.from_event((await until(client, Error))[0]).code == "shutting_down"
    engine.close()


def read_all(data: bytes) -> list[Message]:
    """The messages up to the end; raises ``BadMessage``."""

    async def messages() -> list[Message]:
        reader = asyncio.StreamReader(limit=HEADER_BYTES)
        reader.feed_data(data)
        reader.feed_eof()
        found = []
        while (message := await read(reader, PAYLOAD)) is not None:
            found.append(message)
        return found

    return asyncio.run(messages())


DATA = st.dictionaries(st.text(), st.none() | st.integers(-(2**53), 2**53) | st.text() | st.booleans())


@given(st.lists(st.builds(Event, st.text(), DATA, st.none() | st.binary(max_size=100)), max_size=3))
def test_what_its_own_client_writes_is_read(events: list[Event]):
    written = io.BytesIO()
    for event in events:
        write_event(event, written)
    assert read_all(written.getvalue()) == [(e.type, e.data, e.payload or b"") for e in events]


@given(st.text(), DATA)
def test_what_we_write_is_read(kind: str, data: dict[str, Any]):
    assert read_all(encoded(kind, data)) == [(kind, data, b"")]


@given(
    st.binary()
    | st.builds(
        lambda header, rest: json.dumps(header).encode() + b"\n" + rest,
        st.dictionaries(
            st.sampled_from(["type", "data", "data_length", "payload_length"]),
            st.none() | st.integers() | st.text() | st.floats() | DATA,
        ),
        st.binary(max_size=200),
    )
)
def test_whatever_comes_is_messages_or_a_typed_refusal(data: bytes):
    try:
        assert all(isinstance(message, Message) for message in read_all(data))
    except BadMessage as error:
        assert str(error)
