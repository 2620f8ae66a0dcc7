"""The clients of OpenAI and Deepgram for Node, over TLS, against a daemon that runs."""

import fcntl
import filecmp
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..protocols.speech import CERTIFICATE, Speech, one_turn
from ..recordings import PROJECT, SHIPPED
from ..streams import plain
from ..threaded_daemon import threaded_daemon

HERE = Path(__file__).parent
BUILT = PROJECT / "build" / "clients_js"
"""Where the packages are installed, once for all runs."""

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="there is no Node here")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs, with the packages that they need."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        files = [*HERE.glob("*.json"), *HERE.glob("*.mjs")]
        same, _, _ = filecmp.cmpfiles(HERE, BUILT, [file.name for file in files], shallow=False)
        installed = BUILT / "node_modules" / ".package-lock.json"
        if len(same) < len(files) or not installed.exists():
            for file in files:
                shutil.copy(file, BUILT)
            subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund"], cwd=BUILT, check=True, capture_output=True
            )
    return BUILT


@pytest.fixture(scope="module")
def secure_daemon() -> Iterator[str]:
    """The address of a daemon with TLS and the small model."""
    server = {"tls_certificate": CERTIFICATE, "tls_key": CERTIFICATE.with_suffix(".key.pem")}
    model = SHIPPED / "parakeet-tiny.gguf"
    with threaded_daemon(model, server=server, journal={"enabled": False}) as running:
        yield running.address


@pytest.mark.parametrize(("program", "rate"), [("openai_client.mjs", 24000), ("deepgram_client.mjs", 16000)])
def test_client(program: str, rate: int, programs: Path, secure_daemon: str, tmp_path: Path) -> None:
    speech = Speech(secure_daemon, one_turn())
    audio = tmp_path / "audio"
    audio.write_bytes(speech.pcm(rate))
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
    assert said == speech.words(audio.read_bytes(), rate)
