"""vosk-server's protocol, spoken as its own client does: in lock-step, with a frame of 0.2 s at a time."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.sync import client as sync

from ..streams import SAID, clip, pcm, plain
from .speech import messages

FRAME = 6400
FIELDS = ("config", "eof", "reset", "sample_rate", "phrase_list", "words", "max_alternatives")


@pytest.fixture
def address(ports: Mapping[str, int]) -> str:
    return f"ws://127.0.0.1:{ports['vosk']}"


async def reply(socket: ClientConnection, message: str | bytes) -> dict[str, Any]:
    """The one reply to a frame."""
    await socket.send(message)
    answer: dict[str, Any] = json.loads(await socket.recv())
    return answer


async def speak(socket: ClientConnection, data: bytes) -> list[dict[str, Any]]:
    return [await reply(socket, data[start : start + FRAME]) for start in range(0, len(data), FRAME)]


def text(replies: list[dict[str, Any]]) -> str:
    return plain(" ".join(one["text"] for one in replies if "text" in one))


async def test_each_frame_has_one_reply_and_the_results_are_what_was_said(address: str):
    async with connect(f"{address}/any/path") as socket:
        await socket.send('{ "config" : { "sample_rate" : 16000, "phrase_list" : ["pin", "[unk]"] } }')
        first = await speak(socket, pcm(clip()))
        assert all(("partial" in one) != ("text" in one) for one in first)
        first.append(await reply(socket, '{"eof" : 1}'))
        assert text(first) == SAID
        for result in (one for one in first if one.get("text")):
            assert " ".join(word["word"] for word in result["result"]) == result["text"]
            assert all(0 < word["conf"] <= 1 for word in result["result"])
            times = [time for word in result["result"] for time in (word["start"], word["end"])]
            assert times == sorted(times)
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1000


async def test_after_a_reset_it_goes_on(small_ports: Mapping[str, int]):
    async with connect(f"ws://127.0.0.1:{small_ports['vosk']}") as socket:
        await socket.send('{"config": {"words": 0, "phrase_list": ["three six", "[unk]", "Zoë"]}}')
        first = await speak(socket, pcm(clip("digits/theo_04.flac")))
        first.append(await reply(socket, '{"reset" : 1}'))
        second = await speak(socket, pcm(clip("digits/theo_03.flac")))
        second.append(await reply(socket, '{"eof" : 1}'))
    assert (text(first), text(second)) == ("six four three six nine", "eight five seven eight three five")
    assert all(one.keys() in ({"partial"}, {"text"}) for one in first + second)


@pytest.mark.parametrize(
    ("config", "result"),
    [
        ("{}", {"text": ""}),
        ('{"max_alternatives": 1}', {"alternatives": [{"confidence": 1.0, "text": ""}]}),
    ],
)
async def test_nothing_said(address: str, config: str, result: dict[str, Any]):
    async with connect(address) as socket:
        await socket.send(f'{{"config": {config}}}')
        assert await reply(socket, bytes(FRAME)) == {"partial": ""}
        assert await reply(socket, '{"eof" : 1}') == result


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("{", "JSON object"),
        ("{}", "config, eof and reset"),
        ('{"config": {"words": "all"}}', "words"),
        ('{"config": {"sample_rate": 1}}', "sample_rate"),
        ('{"config": {"sample_rate": 1e999}}', "sample_rate"),
    ],
)
async def test_what_cannot_be_closes_the_connection_with_the_reason(address: str, message: str, reason: str):
    async with connect(address) as socket:
        await socket.send(message)
        with pytest.raises(ConnectionClosed):
            await reply(socket, bytes(FRAME))
        assert socket.close_code == 1008
        assert reason in (socket.close_reason or "")


@given(text=messages(("x",), FIELDS) | messages(("x",), FIELDS).map('{{"config": {}}}'.format))
@settings(max_examples=30, deadline=None)
def test_whatever_is_said_is_replied_to_or_closes_the_connection(small_ports: Mapping[str, int], text: str):
    with sync.connect(f"ws://127.0.0.1:{small_ports['vosk']}") as socket:
        with suppress(ConnectionClosed):
            socket.send(text)
            socket.send(bytes(FRAME))
            socket.send('{"eof": 1}')
            while True:
                assert json.loads(socket.recv(30)).keys() & {"partial", "text", "alternatives"}
        assert socket.close_code in (1000, 1008)
