"""A session outlives its connection: no event lost, none told twice, wherever the connection breaks."""

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from stenod.events import (
    Ack,
    AnyEvent,
    Discarded,
    Ended,
    Error,
    Final,
    Flushed,
    Numbered,
    Partial,
    Resumed,
    SessionStarted,
    SpeechStarted,
    Started,
    decode,
)
from stenod.hub import Hub, Slot
from stenod.journal import Reader
from stenod.journal.store import Store
from stenod.protocols.native import Opened, StreamConnection
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from ..streams import SAID, clip, finals, numbered, pcm, plain
from .test_native import errors, own_daemon, reading, rest, say, until

START = {"type": "start", "language": "en"}


def resume(started: Started, told: Sequence[AnyEvent], **changes: object) -> dict[str, object]:
    """The message that resumes a session after all of ``told``."""
    last_seq = max((event.seq for event in told if isinstance(event, Numbered)), default=0)
    return {
        "type": "resume",
        "session": started.session,
        "token": started.token,
        "last_seq": last_seq,
    } | changes


async def lose(socket: ClientConnection) -> None:
    """The connection is lost without a word."""
    socket.transport.abort()
    await socket.wait_closed()


async def start(socket: ClientConnection, **fields: object) -> tuple[Started, list[AnyEvent]]:
    await say(socket, START | fields)
    told = await until(socket, SessionStarted)
    assert isinstance(told[0], Started)
    return told[0], told


def sequence(told: Sequence[AnyEvent]) -> list[int]:
    return [event.seq for event in told if isinstance(event, Numbered)]


@pytest.mark.parametrize("broken_at", [1000, 20_001, 60_000, 103_000])
async def test_a_session_goes_on_where_its_connection_broke(daemon: str, broken_at: int):
    audio = pcm(clip())
    async with connect(f"{daemon}/v1/stream") as first:
        started, told = await start(first)
        await say(first, audio[:broken_at])
        await first.ping()
        await lose(first)
        told += await rest(first)
    async with connect(f"{daemon}/v1/stream") as second:
        await say(second, resume(started, told))
        resumed = decode(await second.recv())
        assert isinstance(resumed, Resumed)
        assert resumed.received_samples <= broken_at // 2
        await say(second, audio[2 * resumed.received_samples :], {"type": "finish"})
        told += await rest(second)
    assert sequence(told) == list(range(1, len(sequence(told)) + 1))
    [final] = finals(told)
    assert plain(final.text) == SAID
    ended = told[-1]
    assert isinstance(ended, Ended)
    assert (ended.reason, ended.audio_s) == ("finished", len(clip()) / 16000)


async def test_what_was_told_while_the_sender_was_away_is_told_again_in_order(daemon: str):
    room = uuid4().hex
    async with reading(daemon, room) as reader, connect(f"{daemon}/v1/stream") as first:
        started, told = await start(first, channel=room)
        await say(first, pcm(clip()), {"type": "flush"})
        await until(reader, SpeechStarted)  # the daemon has the beginning, and will have the rest in time
        await until(first, Flushed)
        await lose(first)
    async with connect(f"{daemon}/v1/stream") as second:
        await say(second, resume(started, told), {"type": "finish"})
        again = await rest(second)
    assert isinstance(again[0], Resumed)
    assert sequence(again) == list(range(2, 2 + len(sequence(again))))
    assert finals(again)
    assert isinstance(again[-1], Ended)


async def test_a_resumed_session_evicts_its_old_connection(daemon: str):
    async with connect(f"{daemon}/v1/stream") as first, connect(f"{daemon}/v1/stream") as second:
        started, told = await start(first)
        await say(first, pcm(clip())[:5001])
        await say(second, resume(started, told))
        assert isinstance(decode(await second.recv()), Resumed)
        await rest(first)
        assert first.close_code == 4409
        await say(second, {"type": "finish"})
        assert isinstance((await rest(second))[-1], Ended)


async def test_a_copy_of_a_connection_takes_nothing_over(daemon: str, monkeypatch: pytest.MonkeyPatch):
    """A network that doubles connections: what goes on where the one was answered would be heard twice."""
    async with connect(f"{daemon}/v1/stream") as first:
        started, told = await start(first)
        await say(first, pcm(clip())[:32000])
        await lose(first)
    monkeypatch.setattr("websockets.client.generate_key", lambda: "c3Rlbm9kIHNheXMgaGV5IQ==")
    async with connect(f"{daemon}/v1/stream") as second, connect(f"{daemon}/v1/stream") as copy:
        await say(second, resume(started, told))
        resumed = decode(await second.recv())
        assert isinstance(resumed, Resumed)
        left = pcm(clip())[2 * resumed.received_samples :]
        await say(second, left[:8000])
        await say(copy, resume(started, told), left[:8000])
        assert errors(await rest(copy)) == [("bad_message", True)]
        await say(second, left[8000:], {"type": "finish"})
        ended = (await rest(second))[-1]
        assert isinstance(ended, Ended)
        assert (ended.reason, ended.audio_s) == ("finished", len(clip()) / 16000)


async def test_a_session_that_ended_while_its_sender_was_away_tells_its_end(daemon: str):
    async with connect(f"{daemon}/v1/stream") as first:
        started, told = await start(first)
        await say(first, pcm(clip())[: 2 * 16000], {"type": "flush", "id": "a"}, {"type": "finish"})
        await until(first, SpeechStarted)
        await lose(first)
    async with connect(f"{daemon}/v1/stream") as second:
        await say(second, resume(started, told))
        again = await rest(second)
    assert Flushed("a") in again
    assert isinstance(again[-1], Ended)
    assert again[-1].reason == "finished"
    assert sequence(again)[0] == 2
    assert second.close_code == 1000


async def test_a_session_that_ends_while_its_sender_comes_back_tells_its_end(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """However busy the machine is: here it is not served before the session has ended."""
    open_in_time = StreamConnection._open_in_time
    lost = asyncio.Event()

    async def served_late(self: StreamConnection, slot: Slot) -> Opened | None:
        opened = await open_in_time(self, slot)
        if opened is not None and opened.session is not None and lost.is_set():
            await opened.session.over.wait()
        return opened

    monkeypatch.setattr(StreamConnection, "_open_in_time", served_late)
    async with own_daemon(model_path, journal=tmp_path) as (_, address):
        async with connect(f"{address}/v1/stream") as first:
            started, told = await start(first)
            await say(first, pcm(clip()), {"type": "finish"})
            told += await until(first, SpeechStarted)
            await lose(first)
            lost.set()
        async with connect(f"{address}/v1/stream") as second:
            await say(second, resume(started, told))
            told += await rest(second)
    assert isinstance(told[-1], Ended)
    kept = [decode(event) for event in Reader.open(tmp_path).session_events(started.session, 0)]
    assert kept == numbered(told)


async def test_a_session_whose_end_is_not_kept_yet_is_waited_for(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with (
        own_daemon(model_path, journal=tmp_path) as (_, address),
        connect(f"{address}/v1/stream") as first,
    ):
        started, told = await start(first)
        monkeypatch.setattr(Store, "write", lambda *_: time.sleep(0.5))  # the disk is busy
        await say(first, {"type": "finish"})
        await lose(first)
        async with connect(f"{address}/v1/stream") as second:
            await say(second, resume(started, told))
            told += await rest(second)
    assert isinstance(told[-1], Ended)


async def test_flushes_are_answered_again(daemon: str):
    async with connect(f"{daemon}/v1/stream") as first:
        started, told = await start(first)
        await say(first, {"type": "flush", "id": "a"})
        told += await until(first, Flushed)
        await lose(first)
    async with connect(f"{daemon}/v1/stream") as second:
        await say(second, resume(started, told))
        again = await until(second, Flushed)
        assert again[-1] == Flushed("a")
        await say(second, {"type": "finish"})
        await rest(second)


async def test_received_audio_is_acknowledged(daemon: str):
    async with connect(f"{daemon}/v1/stream") as socket:
        await start(socket)
        await say(socket, bytes(3200))
        acknowledged = (await until(socket, Ack))[-1]
        assert isinstance(acknowledged, Ack)
        assert acknowledged.received_samples == 1600
        await say(socket, {"type": "finish"})
        await rest(socket)


@pytest.mark.parametrize(
    "changes", [{"token": "wrong"}, {"session": "nobody"}, {"last_seq": 9999}, {"token": ""}]
)
async def test_what_cannot_be_resumed_is_refused(daemon: str, changes: dict[str, object]):
    async with connect(f"{daemon}/v1/stream") as first, connect(f"{daemon}/v1/stream") as second:
        started, told = await start(first)
        await say(second, resume(started, told, **changes))
        assert errors(await rest(second)) == [("not_resumable", True)]
        await say(first, {"type": "finish"})
        assert isinstance((await rest(first))[-1], Ended)


async def test_a_sender_that_stays_away_ends_its_session_after_the_finals(model_path: Path):
    async with (
        own_daemon(model_path, resume_for_s=0.5) as (_, address),
        reading(address, "room") as reader,
    ):
        async with connect(f"{address}/v1/stream") as source:
            await start(source, channel="room")
            await say(source, pcm(clip())[: 3 * 32000])
            await until(source, SpeechStarted)
            await lose(source)
        heard = await until(reader, Ended)
        assert finals(heard)
        ended = heard[-1]
        assert isinstance(ended, Ended)
        assert ended.reason == "expired"


async def test_a_source_that_is_away_holds_its_channel_unless_another_takes_over(daemon: str):
    room = uuid4().hex
    async with connect(f"{daemon}/v1/stream") as first:
        started, told = await start(first, channel=room)
        await lose(first)
    async with connect(f"{daemon}/v1/stream") as second:
        await say(second, START | {"channel": room})
        assert errors(await rest(second)) == [("channel_busy", True)]
    async with connect(f"{daemon}/v1/stream") as third:
        await start(third, channel=room, take_over=True)
        async with connect(f"{daemon}/v1/stream") as late:
            await say(late, resume(started, told))
            [*_, ended] = await rest(late)
            assert isinstance(ended, Ended)
            assert ended.reason == "expired"
        await say(third, {"type": "finish"})
        await rest(third)


async def test_a_sender_that_lost_its_connection_before_started_came_finds_its_session(daemon: str):
    room, token = uuid4().hex, uuid4().hex
    async with connect(f"{daemon}/v1/stream") as first:
        await say(first, START | {"channel": room, "token": token}, pcm(clip())[:16000])
        await say(first, {"type": "gap", "samples": 1600}, pcm(clip())[16000:32001])
        told = await until(first, SpeechStarted)  # the daemon has it; its sender does not know
        await lose(first)
    async with connect(f"{daemon}/v1/stream") as second:
        await say(second, START | {"channel": room, "token": token}, pcm(clip())[:16000])
        await say(second, {"type": "gap", "samples": 1600}, pcm(clip())[16000:], {"type": "finish"})
        events = await rest(second)
    assert isinstance(events[0], Started)
    assert events[0].token == token
    assert numbered(events)[: len(numbered(told))] == numbered(told)
    assert plain(finals(events)[0].text) == SAID
    assert numbered(events)[-1].audio_s == pytest.approx(len(clip()) / 16000 + 0.1)  # type: ignore[attr-defined]
    assert sequence(events) == list(range(1, len(sequence(events)) + 1))


async def test_two_starts_with_one_token_at_once_open_one_session(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """However long the journal is asked whether the token is known."""
    opened_with = Hub.opened_with

    async def opened_long_ago(self: Hub, token: str) -> str | None:
        found = await opened_with(self, token)
        await asyncio.sleep(0.2)
        return found

    monkeypatch.setattr(Hub, "opened_with", opened_long_ago)
    said = START | {"channel": "room", "token": uuid4().hex}
    async with (
        own_daemon(model_path, journal=tmp_path) as (_, address),
        connect(f"{address}/v1/stream") as lost,
        connect(f"{address}/v1/stream") as second,
    ):
        await say(lost, said)
        await say(second, said)
        started = decode(await second.recv())
        assert isinstance(started, Started)
        assert await until(lost, Started) == [started]
        await say(second, {"type": "finish"})
        await rest(second)


async def test_a_source_that_was_lost_before_started_came_does_not_hold_its_channel(daemon: str):
    """Nobody knows how to come back to it: what it was told of its utterance is withdrawn."""
    room = uuid4().hex
    async with reading(daemon, room) as reader:
        async with connect(f"{daemon}/v1/stream") as first:
            first.transport.pause_reading()  # so it does not answer a ping either
            await say(first, START | {"channel": room}, pcm(clip())[:32000])
            told = await until(reader, SpeechStarted)
            await lose(first)
        async with connect(f"{daemon}/v1/stream") as second:
            _, events = await start(second, channel=room)
            await say(second, {"type": "finish"})
            events += await rest(second)
        told += await until(reader, Ended)
        assert [event.reason for event in told if isinstance(event, Discarded)] == ["client"]
        assert isinstance(events[-1], Ended)


async def test_a_full_daemon_lets_those_in_who_come_back(model_path: Path):
    async with own_daemon(model_path, sessions=1) as (_, address):
        async with connect(f"{address}/v1/stream") as first:
            started, told = await start(first)
            await lose(first)
        async with connect(f"{address}/v1/stream") as stranger:
            await say(stranger, START)
            assert errors(await rest(stranger)) == [("too_many_sessions", True)]
        async with connect(f"{address}/v1/stream") as second:
            await say(second, resume(started, told), {"type": "finish"})
            assert isinstance((await rest(second))[-1], Ended)


async def test_a_reader_far_behind_is_told_from_the_journal(model_path: Path, tmp_path: Path):
    """More than the channel remembers, also of later sessions; then what comes."""
    async with own_daemon(model_path, journal=tmp_path, replay_events=16) as (_, address):
        names = []
        for _ in range(10):
            async with connect(f"{address}/v1/stream") as source:
                started, _ = await start(source, channel="room")
                names.append(started.session)
                await say(source, {"type": "finish"})
                await rest(source)
        async with connect(f"{address}/v1/channels/room?since={names[0]}:0") as reader:
            heard = [decode(await reader.recv()) for _ in range(20)]
            async with connect(f"{address}/v1/stream") as source:
                await start(source, channel="room")
                heard.append(decode(await reader.recv()))
                await say(source, {"type": "finish"})
                await rest(source)
        told = [(event.session, event.seq) for event in heard if isinstance(event, Numbered)]
        assert told[:-1] == [(name, seq) for name in names for seq in (1, 2)]
        assert told[-1][1] == 1


async def test_a_partial_is_right_again_after_the_connection_broke(daemon: str):
    """Text on a screen: what is committed never shrinks, also not over a resumption."""
    async with connect(f"{daemon}/v1/stream") as first:
        started, told = await start(first)
        await say(first, pcm(clip("en_read/jfk.flac"))[: 5 * 32000])
        told += await until(first, Partial)
        await lose(first)
        told += await rest(first)
    async with connect(f"{daemon}/v1/stream") as second:
        await say(second, resume(started, told))
        resumed = decode(await second.recv())
        assert isinstance(resumed, Resumed)
        await say(second, pcm(clip("en_read/jfk.flac"))[2 * resumed.received_samples :], {"type": "finish"})
        told += await rest(second)
    committed = ""
    for event in told:
        if isinstance(event, Final | SpeechStarted):
            committed = ""
        elif isinstance(event, Partial):
            assert event.committed.startswith(committed)
            committed = event.committed
    assert sequence(told) == list(range(1, len(sequence(told)) + 1))


async def test_a_message_that_resumes_in_mid_session_is_an_error(daemon: str):
    async with connect(f"{daemon}/v1/stream") as socket:
        started, told = await start(socket)
        await say(socket, json.dumps(resume(started, told)), {"type": "finish"})
        assert errors(await rest(socket)) == [("bad_message", False)]


async def test_of_many_that_resume_at_once_one_goes_on(daemon: str):
    async with connect(f"{daemon}/v1/stream") as first:
        started, told = await start(first)
        await lose(first)

    async def come_back(socket: ClientConnection) -> list[AnyEvent]:
        with suppress(ConnectionClosed):
            await say(socket, resume(started, told))
        return await rest(socket)

    async with (
        connect(f"{daemon}/v1/stream") as one,
        connect(f"{daemon}/v1/stream") as another,
        connect(f"{daemon}/v1/stream") as third,
    ):
        sockets = [one, another, third]
        resumptions = {asyncio.create_task(come_back(socket)): socket for socket in sockets}
        pending = set(resumptions)
        while len(pending) > 1:
            evicted, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            assert not [event for task in evicted for event in task.result() if isinstance(event, Ended)]
        [last] = pending
        await say(resumptions[last], {"type": "finish"})
        events = await last
    assert isinstance(events[-1], Ended)
    assert not [
        event for task in resumptions for event in task.result() if isinstance(event, Error) and event.fatal
    ]
