"""The native protocol against a daemon that runs: both directions, and everything that can be wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stenod.events import (
    AnyEvent,
    Ended,
    Error,
    Final,
    Flushed,
    SessionStarted,
    Snapshot,
    SpeechStarted,
    Started,
    decode,
)
from stenod.hub import Refused
from stenod.protocols.messages import Configure, FlushMessage, Message, configured, parse
from stenod.segmenter import Endpointing
from stenod.server.app import Daemon
from stenod.settings import Limits, load
from stenod.utterance import Configuration
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ..streams import SAID, clip, finals, pcm, plain

CLOSE_TIMEOUT_S = 10.0
"""Of websockets: so long it waits for the answer to a close."""
DEFAULT = Configuration(endpointing=Endpointing(silence_ms=1000, max_utterance_s=25))
MESSAGES = ("start", "configure", "flush", "clear", "gap", "finish", "resume")


def refusal(text: str) -> Refused:
    with pytest.raises(Refused) as refused:
        parse(text)
    return refused.value


DEEP = '{"x":' * 100_000


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"type":"start"', DEEP, '{"type":NaN}'])
def test_what_is_no_json_is_bad_json(text: str):
    assert refusal(text).code == "bad_json"


@pytest.mark.parametrize(
    "text", ["[]", "1", "null", "{}", '{"type":5}', '{"type":"sing"}', '{"types":"start"}']
)
def test_what_is_no_message_is_a_bad_message(text: str):
    assert refusal(text).code == "bad_message"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": "start", "audio": {"sample_rate": "fast"}}, "audio.sample_rate"),
        ({"type": "start", "task": "sing"}, "task"),
        ({"type": "start", "channel": "a/b"}, "channel"),
        ({"type": "start", "endpointing": {"silence_ms": 1}}, "endpointing.silence_ms"),
        ({"type": "configure", "words": "yes"}, "words"),
        ({"type": "gap", "samples": -1}, "samples"),
        ({"type": "gap"}, "samples"),
        ({"type": "resume", "session": "a", "last_seq": 1}, "token"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], field: str):
    refused = refusal(json.dumps(fields))
    assert (refused.code, refused.field) == ("bad_field", field)


@pytest.mark.parametrize("text", ['{"type":"sing"}', "{}"])
def test_what_types_there_are_is_told(text: str):
    refused = refusal(text)
    assert (refused.field, refused.message.partition(":")[0]) == ("type", "type")
    assert refused.message.endswith(", ".join(MESSAGES))


def test_half_of_a_surrogate_pair_is_told():
    assert "surrogate" in refusal(r'{"type":"\ud800"}').message


def test_unknown_fields_are_ignored():
    assert parse('{"type":"flush","id":"a","new":{"deep":[1]}}') == FlushMessage("a")


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    ).map(json.dumps)
    | st.fixed_dictionaries(
        {"type": st.sampled_from(MESSAGES)},
        optional={
            name: st.none() | st.integers() | st.text() | st.booleans() | st.lists(st.integers(), max_size=2)
            for name in (
                "audio",
                "language",
                "task",
                "channel",
                "phrases",
                "endpointing",
                "samples",
                "id",
                "take_over",
            )
        },
    ).map(json.dumps)
)
def test_whatever_is_sent_is_a_message_or_a_typed_refusal(text: str):
    try:
        assert isinstance(parse(text), Message)
    except Refused as refused:
        assert refused.code in ("bad_json", "bad_message", "bad_field")


def test_choices_change_what_they_name_and_nothing_else():
    message = parse('{"type":"configure","language":"de","words":true}')
    assert isinstance(message, Configure)
    changed = configured(DEFAULT, DEFAULT, message)
    assert (changed.language, changed.words) == ("de", True)
    assert (changed.task, changed.endpointing) == (DEFAULT.task, DEFAULT.endpointing)


@pytest.mark.parametrize(
    ("endpointing", "expected"),
    [
        ("null", None),
        ("{}", Endpointing(1000, 25)),
        ('{"silence_ms":900}', Endpointing(900, 25)),
        ('{"max_utterance_s":9}', Endpointing(1000, 9)),
    ],
)
def test_endpointing_is_completed_by_the_defaults(endpointing: str, expected: Endpointing | None):
    message = parse(f'{{"type":"configure","endpointing":{endpointing}}}')
    assert isinstance(message, Configure)
    assert configured(DEFAULT, DEFAULT, message).endpointing == expected


async def rest(socket: ClientConnection) -> list[AnyEvent]:
    """What is told until the connection is closed."""
    events = []
    try:
        async for message in socket:
            events.append(decode(message))
    except ConnectionClosed:
        pass
    return events


async def until(socket: ClientConnection, kind: type[AnyEvent]) -> list[AnyEvent]:
    events = [decode(await socket.recv())]
    while not isinstance(events[-1], kind):
        events.append(decode(await socket.recv()))
    return events


@asynccontextmanager
async def reading(address: str, channel: str) -> AsyncIterator[ClientConnection]:
    """A reader that is told all that comes from now on: what was told before its snapshot is in that only."""
    async with connect(f"{address}/v1/channels/{channel}") as reader:
        assert isinstance(decode(await reader.recv()), Snapshot)
        yield reader


async def say(socket: ClientConnection, *messages: dict[str, Any] | str | bytes) -> None:
    for message in messages:
        await socket.send(json.dumps(message) if isinstance(message, dict) else message)


def errors(events: Sequence[AnyEvent]) -> list[tuple[str, bool]]:
    return [(event.code, event.fatal) for event in events if isinstance(event, Error)]


async def test_a_conversation(daemon: str):
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, {"type": "start", "language": "en"}, pcm(clip()), {"type": "finish"})
        events = await rest(socket)
        assert isinstance(events[0], Started)
        assert events[0].resume_for_s == 120
        assert events[0].token
        assert isinstance(events[1], SessionStarted)
        assert plain(finals(events)[0].text) == SAID
        assert isinstance(events[-1], Ended)
        assert (events[-1].reason, socket.close_code) == ("finished", 1000)


async def test_audio_first_opens_a_session_with_the_defaults(daemon: str):
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, b"\0\0\0", {"type": "start"}, {"type": "finish"})
        events = await rest(socket)
        assert isinstance(events[0], Started)
        assert errors(events) == [("bad_message", False)]
        assert isinstance(events[-1], Ended)


@pytest.mark.parametrize("broken", [[], ["{"]])
async def test_finish_first_opens_a_session_and_ends_it(broken: list[str], daemon: str):
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, *broken, {"type": "finish"})
        events = await rest(socket)
        assert errors(events) == [("bad_json", False)] * len(broken)
        assert [type(event) for event in events[len(broken) :]] == [Started, SessionStarted, Ended]
        assert socket.close_code == 1000


async def test_flush_first_opens_a_session_and_is_answered(daemon: str):
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, {"type": "flush", "id": 1})
        assert (await until(socket, Flushed))[-1] == Flushed(1)
        await say(socket, {"type": "finish"})
        assert isinstance((await rest(socket))[-1], Ended)


async def test_any_declared_format_is_understood(daemon: str):
    """field-failures: a declared rate or format is resampled or converted."""
    wide = np.repeat(clip(), 2)  # twice the rate, on both channels, of which one is silent
    stereo = np.stack([wide, np.zeros_like(wide)], axis=1).astype("<f4").tobytes()
    audio = {"encoding": "f32le", "sample_rate": 32000, "channels": 2}
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, {"type": "start", "audio": audio, "language": "en"})
        for start in range(0, len(stereo), 99_999):
            await say(socket, stereo[start : start + 99_999])
        await say(socket, {"type": "finish"})
        assert plain(finals(await rest(socket))[0].text) == SAID


async def test_bytes_that_are_no_sound_end_a_session_as_any_do(daemon: str):
    """field-failures: no input kills the process. Here: bytes that are no sound at all, as loud as can be."""
    audio = {"encoding": "f32le", "sample_rate": 16000, "channels": 1}
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, {"type": "start", "audio": audio, "language": "en"})
        await say(socket, np.random.default_rng(0).bytes(64_001), {"type": "finish"})
        events = await rest(socket)
    assert not errors(events)
    assert isinstance(events[-1], Ended)
    assert events[-1].reason == "finished"


@pytest.mark.parametrize(
    ("start", "code", "field"),
    [
        ({"audio": {"encoding": "opus"}}, "unsupported_audio", "audio.encoding"),
        ({"audio": {"encoding": "s17"}}, "unsupported_audio", "audio.encoding"),
        ({"audio": {"sample_rate": 0}}, "unsupported_audio", "audio.sample_rate"),
        ({"audio": {"channels": 9}}, "unsupported_audio", "audio.channels"),
        ({"model": "whisper-huge"}, "unknown_model", "model"),
        ({"language": "klingon"}, "bad_field", "language"),
        ({"channel": "?"}, "bad_field", "channel"),
    ],
)
async def test_a_start_that_is_refused_names_the_field_and_closes(
    daemon: str, start: dict[str, Any], code: str, field: str
):
    """field-failures: an unknown format gets an error that names the field."""
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, {"type": "start", **start})
        [error] = await rest(socket)
        assert isinstance(error, Error)
        assert (error.code, error.field, error.fatal) == (code, field, True)


async def test_what_was_never_opened_is_not_resumed(daemon: str):
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, {"type": "resume", "session": "a", "last_seq": 1, "token": "t"})
        assert errors(await rest(socket)) == [("not_resumable", True)]


async def test_bad_messages_are_answered_and_the_stream_goes_on(daemon: str):
    """field-failures: a bad control message gets an error reply and the stream goes on."""
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, "{", {"type": "sing"}, {"type": "flush"}, {"type": "start", "language": "en"})
        await say(socket, "{", {"type": "sing"}, {"type": "start"}, {"type": "gap", "samples": 0})
        await say(socket, {"type": "configure", "language": "klingon"}, {"type": "gap", "samples": 10**12})
        await say(socket, pcm(clip()), {"type": "flush", "id": 9}, {"type": "finish"}, {"type": "clear"})
        events = await rest(socket)
        assert errors(events) == [
            ("bad_json", False),
            ("bad_message", False),
            ("bad_message", False),
            ("bad_json", False),
            ("bad_message", False),
            ("bad_message", False),
            ("bad_field", False),
            ("bad_field", False),
            ("bad_field", False),
            ("bad_message", False),
        ]
        assert plain(finals(events)[0].text) == SAID
        assert Flushed(9) in events


async def test_audio_after_a_failed_first_message_is_not_guessed_at(daemon: str):
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, '{"type":"start","audio":', b"\0\0")
        assert errors(await rest(socket)) == [("bad_json", False), ("bad_message", True)]


@pytest.fixture
def room() -> str:
    """A channel of the test's own: sessions of former tests may still be draining in the shared daemon."""
    return uuid4().hex


async def test_a_channel_is_read_by_many_and_by_late_ones(daemon: str, room: str):
    async with connect(f"{daemon}/v1/channels/{room}") as early, connect(f"{daemon}/v1/stream") as source:
        assert decode(await early.recv()) == Snapshot((), ":0")
        await say(source, {"type": "start", "channel": room, "language": "en"}, pcm(clip()))
        await say(source, {"type": "flush"})
        told = await until(early, Final)
        async with connect(f"{daemon}/v1/channels/{room}?only=finals") as late:
            snapshot = decode(await late.recv())
            assert isinstance(snapshot, Snapshot)
            assert list(snapshot.utterances) == finals(told)
        async with connect(f"{daemon}/v1/channels/{room}?since={snapshot.cursor}") as follower:
            await say(source, {"type": "finish"})
            assert isinstance(decode(await follower.recv()), Ended)
            await rest(source)


async def test_a_channel_has_one_source_unless_another_takes_over(daemon: str, room: str):
    async with connect(f"{daemon}/v1/stream") as first, connect(f"{daemon}/v1/stream") as second:
        await say(first, {"type": "start", "channel": room})
        await until(first, SessionStarted)
        await say(second, {"type": "start", "channel": room})
        assert errors(await rest(second)) == [("channel_busy", True)]
        async with connect(f"{daemon}/v1/stream") as third:
            await say(third, {"type": "start", "channel": room, "take_over": True})
            await until(third, SessionStarted)
            ended = (await rest(first))[-1]
            assert isinstance(ended, Ended)
            assert ended.reason == "expired"


@pytest.mark.parametrize(
    ("path", "field"), [("a%2Fb", "channel"), ("room?only=all", "only"), ("room?since=yesterday", "since")]
)
async def test_a_bad_subscription_is_refused_before_the_upgrade(daemon: str, path: str, field: str):
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{daemon}/v1/channels/{path}")
    assert refused.value.response.status_code == 400
    assert json.loads(refused.value.response.body or b"")["field"] == field


async def test_sound_behind_a_start_that_is_refused_does_not_hold_up_the_end(daemon: str):
    """The client's answer to our close comes behind all that it had sent."""
    async with connect(f"{daemon}/v1/stream") as socket:
        await say(socket, {"type": "start", "channel": "../room"}, *12 * [bytes(32000)])
        async with asyncio.timeout(CLOSE_TIMEOUT_S / 2):
            assert errors(await rest(socket)) == [("bad_field", True)]
            await socket.wait_closed()


async def test_pages_of_other_sites_are_told_after_the_upgrade(daemon: str):
    async with connect(f"{daemon}/v1/stream", origin="http://elsewhere.example") as socket:  # type: ignore[arg-type]
        assert errors(await rest(socket)) == [("forbidden", True)]
        assert socket.close_code == 4403


async def test_our_own_pages_and_our_subprotocol_are_welcome(daemon: str):
    own = daemon.replace("ws://", "http://")
    async with connect(
        f"{daemon}/v1/channels/room",
        origin=own,  # type: ignore[arg-type]
        subprotocols=["stenod.token.abc", "stenod.v1"],  # type: ignore[list-item]
    ) as socket:
        assert socket.subprotocol == "stenod.v1"
        assert isinstance(decode(await socket.recv()), Snapshot)


async def test_clients_are_answered_while_the_engine_is_busy(daemon: str):
    """field-failures: inference never blocks the event loop."""
    async with connect(f"{daemon}/v1/stream") as busy, connect(f"{daemon}/v1/channels/room") as other:
        await say(busy, {"type": "start"}, pcm(np.tile(clip(), 3)))
        await until(busy, SessionStarted)
        for _ in range(3):
            await (await other.ping())
        await say(busy, {"type": "finish"})
        assert isinstance((await rest(busy))[-1], Ended)


@asynccontextmanager
async def own_daemon(
    model_path: Path, journal: Path | None = None, **chosen: Any
) -> AsyncIterator[tuple[Daemon, str]]:
    """A daemon of its own, in this loop; ``chosen`` are settings of its server, and limits."""
    limits = {name: chosen.pop(name) for name in Limits.model_fields if name in chosen}
    options = {
        "server": {"port": 0, **chosen},
        "engine": {"model": str(model_path), "threads": 1},
        "session": {"step_ms": 800},
        "limits": limits,
        "journal": {"enabled": journal is not None, "folder": journal},
    }
    running = Daemon(load(options))
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(running.run(address.set_result))
    await asyncio.wait({task, address}, return_when=asyncio.FIRST_COMPLETED)
    yield running, address.result()
    running.stop()
    await task


async def test_a_client_that_is_gone_without_a_word_is_ended_with_idle(model_path: Path):
    async with (
        own_daemon(model_path, ping_s=0.01, idle_s=0.1) as (_, address),
        reading(address, "room") as reader,
        connect(f"{address}/v1/stream") as gone,
    ):
        await say(gone, {"type": "start", "channel": "room"})
        await until(gone, SessionStarted)
        gone.transport.pause_reading()  # answers no ping any more
        ended = (await until(reader, Ended))[-1]
        assert isinstance(ended, Ended)
        assert ended.reason == "idle"
        gone.transport.abort()


async def test_clients_that_have_not_begun_do_not_delay_a_shutdown(model_path: Path):
    async with own_daemon(model_path) as (running, address), connect(f"{address}/v1/stream") as socket:
        running.stop()
        assert errors(await rest(socket)) == [("shutting_down", True)]


async def test_a_client_that_asks_for_something_while_the_daemon_shuts_down_is_not_blamed(model_path: Path):
    async with own_daemon(model_path) as (running, address), connect(f"{address}/v1/stream") as socket:
        await say(socket, {"type": "start"}, pcm(clip()))
        await until(socket, SpeechStarted)
        running.stop()  # which takes hold before a message can arrive
        await say(socket, {"type": "flush"}, pcm(clip()), {"type": "finish"})
        told = await rest(socket)
        assert errors(told) == []
        assert isinstance(told[-1], Ended)
        assert told[-1].reason == "shutdown"


async def test_a_client_that_does_not_read_its_events_does_not_stop_the_others(daemon: str):
    async with reading(daemon, "crowd") as stalled, connect(f"{daemon}/v1/stream") as source:
        stalled.transport.pause_reading()
        await say(
            source, {"type": "start", "channel": "crowd", "language": "en"}, pcm(clip()), {"type": "finish"}
        )
        assert plain(finals(await rest(source))[0].text) == SAID
        stalled.transport.abort()
