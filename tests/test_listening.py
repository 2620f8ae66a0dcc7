"""Text of a microphone through a daemon of this machine, as its settings describe it."""

from pathlib import Path

import pytest
from stenod.access import new_token, write_tokens
from stenod.events import Ended
from stenod.listening import through_daemon
from stenod.server.address import AddressError
from stenod.settings import load

from .protocols.conftest import SMALL
from .recordings import SHIPPED
from .threaded_daemon import threaded_daemon

CERTIFICATE = SHIPPED / "tls" / "first.pem"


async def test_a_daemon_with_tokens_and_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    secret, token = new_token("me", ("send",), ("*",))
    write_tokens(tmp_path / "tokens.json", [token])
    server = {
        "tokens": tmp_path / "tokens.json",
        "tls_certificate": CERTIFICATE,
        "tls_key": CERTIFICATE.with_suffix(".key.pem"),
    }
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with threaded_daemon(SMALL, server=server, journal={"enabled": False}) as running:
        settings = load({"server": server | {"port": running.address.rpartition(":")[2]}})
        with pytest.raises(AddressError, match="STENOD_TOKEN"):
            async with through_daemon(settings):
                pass
        monkeypatch.setenv("STENOD_TOKEN", secret)
        async with through_daemon(settings) as listening:
            await listening.finish()
            assert isinstance([event async for event in listening][-1], Ended)
