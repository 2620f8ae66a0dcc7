"""As README says it for other machines: encrypted, with a token, from an origin that is listed."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stenod.access import SCOPES, new_token, write_tokens
from stenod.captions import HEADERS

from ..commands.test_captions import once
from ..recordings import SHIPPED
from ..test_captions import read_vtt
from .conftest import Open

STENOD = Path(sys.executable).with_name("stenod")
HOST = "captions.test"
CERTIFICATE = SHIPPED / "tls" / "first.pem"
MODEL = SHIPPED / "parakeet-tiny.gguf"
CLIP = "digits/theo_08.flac"


@contextmanager
def daemon(tokens: Path) -> Iterator[int]:
    """The port of a daemon as others may reach it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "PORT": str(port),
        "TOKENS": str(tokens),
        "TLS_CERTIFICATE": str(CERTIFICATE),
        "TLS_KEY": str(CERTIFICATE.with_suffix(".key.pem")),
        "ORIGINS": f'["https://{HOST}:{port}"]',
    }
    environment = os.environ | {f"STENOD_SERVER__{name}": value for name, value in settings.items()}
    command = [STENOD, "serve", "--model", MODEL, "--threads", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            assert "wss://" in process.stderr.readline()
            yield port
        finally:
            process.kill()


@contextmanager
def captions(port: int, token: str, channel: str, file: Path) -> Iterator[None]:
    """``stenod captions`` of another machine, once it reads the channel."""
    address = f"127.0.0.1:{port}"
    command = [
        STENOD,
        "captions",
        "--url",
        f"wss://{address}",
        "--channel",
        channel,
        "--to",
        "vtt",
        "-o",
        file,
    ]
    environment = os.environ | {"STENOD_TOKEN": token, "SSL_CERT_FILE": str(CERTIFICATE)}
    listing = urllib.request.Request(
        f"https://{address}/v1/channels", headers={"Authorization": f"Bearer {token}"}
    )
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    with subprocess.Popen(command, env=environment) as process:
        try:
            while b'"subscribers": 1' not in urllib.request.urlopen(listing, context=trusting).read():
                assert process.poll() is None
                time.sleep(0.1)
            yield
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        finally:
            process.kill()


def test_a_page_and_captions_from_another_machine(browser: Open, tmp_path: Path) -> None:
    tokens, subtitles = tmp_path / "tokens.json", tmp_path / "lan.vtt"
    secret, token = new_token("lan", SCOPES, ("*",))
    write_tokens(tokens, (token,))
    with daemon(tokens) as port, captions(port, secret, "lan", subtitles):
        arguments = [f"--host-resolver-rules=MAP {HOST} 127.0.0.1", "--ignore-certificate-errors"]
        page = browser(CLIP, arguments=arguments).pages[0]
        page.goto(f"https://{HOST}:{port}")
        page.get_by_role("button", name="Share").click()
        page.get_by_label("Speak into channel").fill("lan")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Start").click()
        page.get_by_label("Token", exact=True).fill(secret)
        page.get_by_role("button", name="Connect").click()
        page.locator(".utterance:not(.open) .committed").first.wait_for()
        shown = page.locator(".utterance").first.inner_text()
        once(subtitles.read_text, lambda text: len(text) > len(HEADERS["vtt"]))
    assert "nine" in shown
    assert read_vtt(subtitles.read_text())[0][2].replace("\n", " ") in shown
