"""Who is let in, as a client sees it; and encryption."""

import asyncio
import json
import shutil
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from stenod.access import new_token, write_tokens
from stenod.clients import Refused, follow, send
from stenod.events import Error, Snapshot, Started
from stenod.server.address import check_host
from stenod.server.app import Daemon
from stenod.server.tls import Certificate
from stenod.settings import SettingsError, load
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from ..protocols.test_native import errors, own_daemon, rest, say
from ..recordings import SHIPPED

TLS = SHIPPED / "tls"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture
def secrets(tokens: Path) -> dict[str, str]:
    """Tokens by name."""
    made = {
        "sender": new_token("sender", ("send",), ("room",)),
        "reader": new_token("reader", ("read",), ("room",)),
        "admin": new_token("admin", ("admin",), ("*",)),
    }
    write_tokens(tokens, tuple(token for _, token in made.values()))
    return {name: secret for name, (secret, _) in made.items()}


def page(address: str, path: str, token: str | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(address.replace("ws:", "http:") + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def refusal(address: str, token: str | None) -> tuple[int, str]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with pytest.raises(InvalidStatus) as refused:
        await connect(address, additional_headers=headers)
    response = refused.value.response
    return response.status_code, json.loads(response.body or b"")["code"]


async def test_who_is_let_in_where_tokens_are_asked_for(
    model_path: Path, tokens: Path, secrets: dict[str, str]
):
    """field-failures: tokens are built in."""
    async with own_daemon(model_path, tokens=tokens) as (_, address):
        stream, room = f"{address}/v1/stream", f"{address}/v1/channels/room"
        assert await refusal(stream, None) == (401, "unauthorized")
        assert await refusal(stream, "guessed") == (401, "unauthorized")
        assert await refusal(stream, secrets["reader"]) == (403, "forbidden")
        assert await refusal(room, secrets["sender"]) == (403, "forbidden")
        assert await refusal(f"{address}/v1/channels/other", secrets["reader"]) == (403, "forbidden")

        async with send(address, token=secrets["sender"], channel="other") as sender:
            [error] = [event async for event in sender]
        assert isinstance(error, Error)
        assert (error.code, error.field) == ("forbidden", "channel")
        async with send(address, token=secrets["sender"], channel="room") as sender:
            await sender.finish()
            assert Started in [type(event) async for event in sender]
        for token, code in (("guessed", "unauthorized"), (secrets["reader"], "forbidden")):
            with pytest.raises(Refused) as turned_away:
                await send(address, token=token).__aenter__()
            assert (turned_away.value.code, turned_away.value.retry_after_s) == (code, None)
        with pytest.raises(Refused, match="token"):
            await anext(follow(address, "room"))
        following = follow(address, "room", token=secrets["reader"])
        assert isinstance(await anext(following), Snapshot)
        await following.aclose()  # type: ignore[attr-defined]

        statuses = {
            (path, name): await asyncio.to_thread(page, address, path, secrets.get(name))
            for path in ("/healthz", "/metrics", "/v1/sessions")
            for name in ("nobody", "sender", "admin")
        }
        assert statuses == {
            ("/healthz", "nobody"): 200,
            ("/healthz", "sender"): 200,
            ("/healthz", "admin"): 200,
            ("/metrics", "nobody"): 401,
            ("/metrics", "sender"): 403,
            ("/metrics", "admin"): 200,
            ("/v1/sessions", "nobody"): 401,
            ("/v1/sessions", "sender"): 403,
            ("/v1/sessions", "admin"): 200,
        }


async def test_a_page_offers_its_token_as_a_subprotocol(
    model_path: Path, tokens: Path, secrets: dict[str, str]
):
    async with own_daemon(model_path, tokens=tokens) as (_, address):
        origin = address.replace("ws://", "http://")
        offered = [f"stenod.token.{secrets['reader']}", "stenod.v1"]
        async with connect(
            f"{address}/v1/channels/room",
            origin=origin,  # type: ignore[arg-type]
            subprotocols=offered,  # type: ignore[arg-type]
        ) as socket:
            assert socket.subprotocol == "stenod.v1"
            await socket.recv()
        async with connect(f"{address}/v1/channels/room", origin=origin) as socket:  # type: ignore[arg-type]
            assert errors(await rest(socket)) == [("unauthorized", True)]
            assert socket.close_code == 4401


async def test_one_client_cannot_take_all_sessions(model_path: Path):
    """field-failures: over the limit: refused with the reason, before any audio is taken."""
    async with own_daemon(model_path, client_sessions=1) as (_, address):
        async with connect(f"{address}/v1/stream") as first:
            await say(first, {"type": "start"})
            await first.recv()
            assert await refusal(f"{address}/v1/stream", None) == (429, "too_many_sessions")
            with pytest.raises(Refused, match="finish one first") as full:
                await send(address).__aenter__()
            assert (full.value.code, full.value.retry_after_s) == ("too_many_sessions", 5.0)
            await say(first, {"type": "finish"})
            await rest(first)
        async with connect(f"{address}/v1/stream") as again:
            await say(again, {"type": "finish"})
            await rest(again)


@pytest.mark.parametrize(
    ("server", "allowed"), [({}, False), ({"allow_public": True}, True), ({"tokens": "tokens.json"}, True)]
)
async def test_a_public_address_wants_tokens_or_to_be_told(server: dict[str, object], allowed: bool):
    """field-failures: not on a public address without auth: refused at start unless told to."""
    chosen = load({"server": {"host": "0.0.0.0", **server}}).server
    if allowed:
        await check_host(chosen)
    else:
        with pytest.raises(SettingsError, match=r"server\.tokens"):
            await check_host(chosen)


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


async def test_encryption_and_a_certificate_that_is_renewed(model_path: Path, tmp_path: Path):
    """field-failures: TLS is built in."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"

    def use(name: str) -> None:
        shutil.copy(TLS / f"{name}.pem", certificate)
        shutil.copy(TLS / f"{name}.key.pem", key)

    use("first")
    async with own_daemon(model_path, tls_certificate=certificate, tls_key=key) as (daemon, address):
        assert address.startswith("wss://")
        room = f"{address}/v1/channels/room"
        async with connect(room, ssl=trusting(TLS / "first.pem")) as socket:
            await socket.recv()
        use("second")
        assert daemon._certificate is not None
        daemon._certificate.refresh()
        async with connect(room, ssl=trusting(TLS / "second.pem")) as socket:
            await socket.recv()
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(room, ssl=trusting(TLS / "first.pem"))


def test_a_pair_that_does_not_match_does_not_replace_one_that_does(tmp_path: Path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    shutil.copy(TLS / "first.pem", certificate)
    shutil.copy(TLS / "first.key.pem", key)
    used = Certificate(certificate, key)
    before = used.context.session_stats()
    shutil.copy(TLS / "second.pem", certificate)
    used.refresh()
    assert used.context.session_stats() == before
    shutil.copy(TLS / "second.key.pem", key)
    used.refresh()


@pytest.mark.parametrize("missing", ["tls_certificate", "tls_key"])
async def test_a_certificate_needs_its_key(missing: str):
    server = {"tls_certificate": TLS / "first.pem", "tls_key": TLS / "first.key.pem"}
    del server[missing]
    with pytest.raises(SettingsError, match=missing):
        await Daemon(load({"server": server})).run(lambda address: None)
