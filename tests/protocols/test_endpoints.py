"""How each protocol on the main port brings a token and is refused."""

import asyncio
import json
import urllib.request
from pathlib import Path

import pytest
from stenod.access import new_token, write_tokens
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from ..recordings import SHIPPED
from .test_native import own_daemon

SMALL = SHIPPED / "parakeet-tiny.gguf"

STREAM, REALTIME, LISTEN, TURNS, ASSEMBLYAI = (
    "/v1/stream",
    "/v1/realtime",
    "/v1/listen",
    "/v2/listen",
    "/v3/ws",
)


async def test_each_protocol_lets_in_and_refuses_in_its_own_way(tmp_path: Path):
    secret, token = new_token("sender", ("send",), ("*",))
    write_tokens(tmp_path / "tokens.json", (token,))
    async with own_daemon(SMALL, tokens=tmp_path / "tokens.json") as (_, address):
        for path, scheme in [
            (STREAM, "Bearer "),
            (REALTIME, "Bearer "),
            (LISTEN, "Token "),
            (TURNS, "Token "),
            (ASSEMBLYAI, ""),
        ]:
            headers = {"Authorization": f"{scheme}{secret}"}
            async with connect(address + path, additional_headers=headers) as socket:
                assert socket.subprotocol is None
        for path, offered in [
            (STREAM, ["stenod.v1", f"stenod.token.{secret}"]),
            (REALTIME, ["realtime", f"openai-insecure-api-key.{secret}"]),
            (REALTIME, ["realtime", f"openai-insecure-api-key.{secret}", "openai-beta.realtime-v1"]),
            (LISTEN, ["token", secret]),
            (TURNS, ["bearer", secret]),
        ]:
            async with connect(address + path, subprotocols=[Subprotocol(one) for one in offered]) as socket:
                assert socket.subprotocol == offered[0]
        for path in (REALTIME, LISTEN, TURNS):
            with pytest.raises(InvalidStatus) as refused:
                await connect(address + path, additional_headers={"Authorization": "Bearer guessed"})
            told = json.loads(refused.value.response.body or b"")
            assert refused.value.response.status_code == 401
            assert "invalid_api_key" in told["error"]["code"] if path == REALTIME else told["err_code"]


@pytest.mark.parametrize("path", [REALTIME, LISTEN, TURNS])
async def test_a_page_of_another_origin_is_told_why(small_daemon: str, path: str):
    async with connect(small_daemon + path, origin="https://elsewhere.test") as socket:  # type: ignore[arg-type]
        told = json.loads(await socket.recv())
        assert told["type"].lower() == "error"
        assert "server.origins" in json.dumps(told)
        await socket.wait_closed()
        assert socket.close_code == 4403


@pytest.mark.parametrize("path", [REALTIME, LISTEN, TURNS])
async def test_where_all_places_are_taken(path: str):
    async with own_daemon(SMALL, sessions=1) as (_, address), connect(address + path):
        with pytest.raises(InvalidStatus) as refused:
            await connect(address + path)
        assert refused.value.response.status_code == 429
        assert "too_many_sessions" in (refused.value.response.body or b"").decode().lower()


async def until_sessions(address: str, count: int) -> None:
    """Returns when there are so many."""
    page = f"{address.replace('ws', 'http')}/v1/sessions"
    there = None
    while there != count:
        with await asyncio.to_thread(urllib.request.urlopen, page, timeout=30) as answer:
            there = len(json.load(answer)["sessions"])


async def test_a_lost_connection_finishes_the_session():
    async with (
        own_daemon(SMALL) as (_, address),
        connect(address + REALTIME) as realtime,
        connect(address + LISTEN) as listen,
    ):
        await realtime.send(json.dumps({"type": "input_audio_buffer.append", "audio": "AAAA"}))
        await until_sessions(address, 2)
        for socket in (realtime, listen):
            socket.transport.abort()
        await until_sessions(address, 0)


async def test_a_shutdown_is_told_to_clients_that_have_not_begun():
    async with own_daemon(SMALL) as (running, address), connect(address + REALTIME) as socket:
        assert json.loads(await socket.recv())["type"] == "session.created"
        running.stop()
        assert json.loads(await socket.recv())["error"]["code"] == "shutting_down"
        await socket.wait_closed()
        assert socket.close_code == 4503
