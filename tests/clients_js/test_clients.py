"""The clients of OpenAI and Deepgram for Node, over TLS, against a daemon that runs."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..protocols.speech import at_rate, natively, one_turn
from ..recordings import PROJECT, SHIPPED
from ..streams import plain
from ..threaded_daemon import threaded_daemon

HERE = Path(__file__).parent
BUILT = PROJECT / "build" / "clients_js"
"""Where the packages are installed, once for all runs."""
CERTIFICATE = SHIPPED / "tls" / "first.pem"

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="there is no Node here")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs, with the packages that they need."""
    BUILT.mkdir(parents=True, exist_ok=True)
    lock = BUILT / "package-lock.json"
    wanted = (HERE / "package-lock.json").read_text()
    if not lock.exists() or lock.read_text() != wanted or not (BUILT / "node_modules").exists():
        shutil.copy(HERE / "package.json", BUILT)
        lock.write_text(wanted)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=BUILT, check=True, capture_output=True)
    for program in HERE.glob("*.mjs"):
        shutil.copy(program, BUILT)
    return BUILT


@pytest.fixture(scope="module")
def secure_daemon(model_path: Path) -> Iterator[str]:
    """The address of a daemon with TLS."""
    server = {"tls_certificate": CERTIFICATE, "tls_key": CERTIFICATE.with_suffix(".key.pem")}
    with threaded_daemon(model_path, server=server, journal={"enabled": False}) as address:
        yield address


@pytest.mark.parametrize(("program", "rate"), [("openai_client.mjs", 24000), ("deepgram_client.mjs", 16000)])
def test_client(
    program: str, rate: int, programs: Path, secure_daemon: str, daemon: str, tmp_path: Path
) -> None:
    audio = tmp_path / "audio"
    audio.write_bytes(at_rate(one_turn(), rate))
    done = subprocess.run(
        ["node", program, secure_daemon.replace("wss", "https"), str(audio)],
        cwd=programs,
        env=os.environ | {"NODE_EXTRA_CA_CERTS": str(CERTIFICATE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = [plain(json.loads(line)) for line in done.stdout.splitlines()]
    assert said == natively(daemon, audio.read_bytes(), rate)
