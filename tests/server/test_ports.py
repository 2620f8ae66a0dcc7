"""Where protocols with a port of their own may listen."""

import socket
import ssl
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from stenod.access import Access, new_token, write_tokens
from stenod.engine import Engine
from stenod.hub import Hub
from stenod.scheduler import Scheduler
from stenod.server.address import AddressError
from stenod.server.ports import other_ports
from stenod.server.tls import Certificate
from stenod.settings import SettingsError, load
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from ..recordings import SHIPPED


def hub_with(engine: Engine, **settings: Any) -> Hub:
    return Hub(load(settings), engine, Scheduler(engine, 8, 60))


async def test_none_is_opened_unless_it_is_asked_for(engine: Engine):
    async with other_ports(hub_with(engine), Access(None), None) as ports:
        assert ports == {}


async def test_wyoming_is_not_spoken_where_others_reach_it_although_there_are_tokens(engine: Engine):
    server = {"host": "0.0.0.0", "tokens": "tokens.json"}
    hub = hub_with(engine, server=server, protocols={"wyoming": True, "wyoming_port": 0})
    with pytest.raises(SettingsError, match=r"^protocols\.wyoming: 0\.0\.0\.0 "):
        async with other_ports(hub, Access(None), None):
            pass


async def test_a_port_in_use_is_told_with_its_setting(engine: Engine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hub = hub_with(engine, protocols={"wyoming": True, "wyoming_port": port})
        with pytest.raises(AddressError, match=rf"^127\.0\.0\.1:{port}: .*protocols\.wyoming_port"):
            async with other_ports(hub, Access(None), None):
                pass


async def test_what_only_others_could_reach_needs_tokens(engine: Engine):
    hub = hub_with(engine, server={"host": "0.0.0.0"}, protocols={"vosk": True, "vosk_port": 0})
    with pytest.raises(SettingsError, match=r"^server\.host: "):
        async with other_ports(hub, Access(None), None):
            pass


async def test_an_extra_that_is_missing_is_named(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "stenod.server.asgi", raising=False)
    hub = hub_with(engine, protocols={"rest": True, "rest_port": 0})
    with pytest.raises(SettingsError, match=r"^protocols\.rest: .* uvicorn .*stenod\[rest\]"):
        async with other_ports(hub, Access(None), None):
            pass


@pytest.mark.parametrize("name", ["vosk", "whisperlive"])
async def test_a_token_is_asked_for(engine: Engine, name: str, tmp_path: Path):
    secret, token = new_token("alice", ("send",), ("*",))
    write_tokens(tmp_path / "tokens.json", (token,))
    hub = hub_with(engine, protocols={name: True, f"{name}_port": 0})
    async with other_ports(hub, Access(tmp_path / "tokens.json"), None) as ports:
        address = f"ws://127.0.0.1:{ports[name]}"
        with pytest.raises(InvalidStatus) as refused:
            await connect(address)
        assert refused.value.response.status_code == 401
        async with connect(address, additional_headers={"Authorization": f"Bearer {secret}"}):
            pass


async def test_they_are_encrypted_as_the_main_port_is(engine: Engine):
    file = SHIPPED / "tls" / "first.pem"
    trusting = ssl.create_default_context(cafile=file)
    on = {"vosk": True, "vosk_port": 0, "rest": True, "rest_port": 0}
    certificate = Certificate(file, file.with_suffix(".key.pem"))
    async with other_ports(hub_with(engine, protocols=on), Access(None), certificate) as ports:
        async with connect(f"wss://127.0.0.1:{ports['vosk']}", ssl=trusting):
            pass
        async with httpx.AsyncClient(verify=trusting) as client:
            assert (await client.get(f"https://127.0.0.1:{ports['rest']}/")).status_code == 404
