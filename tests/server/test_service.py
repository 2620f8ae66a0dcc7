"""What a service manager does, with real sockets, as it does it; and the unit files, as it reads them."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from stenod.clients import send
from stenod.events import Ended

from ..recordings import PROJECT

UNITS = PROJECT / "configs" / "systemd"
ACTIVATE = """
import os, socket, sys
listening = socket.socket(socket.AF_INET)
listening.bind(("127.0.0.1", int(sys.argv[1])))
listening.listen()
os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)
os.environ |= {"LISTEN_FDS": sys.argv[2], "LISTEN_PID": str(os.getpid())}
os.execv(sys.executable, [sys.executable, "-m", "tests.faults.patient_daemon", *sys.argv[3:]])
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


async def test_readiness_watchdog_and_socket_activation(model_path: Path, tmp_path: Path):
    """Ready once it serves; fed while inference works; the socket is the one that was handed over."""
    port, path = free_port(), tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(120)
        environment = os.environ | {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "400000"}
        arguments = ["--model", str(model_path), "--threads", "1", "--port", "1"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ACTIVATE, str(port), "1", *arguments, cwd=PROJECT, env=environment
        )
        try:
            told = [await asyncio.to_thread(manager.recv, 100) for _ in range(3)]
            assert told == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            async with send(f"ws://127.0.0.1:{port}") as sender:
                await sender.finish()
                assert Ended in [type(event) async for event in sender]
            process.send_signal(signal.SIGTERM)
            while (said := await asyncio.to_thread(manager.recv, 100)) == b"WATCHDOG=1":
                pass
            assert said == b"STOPPING=1"
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()


def test_more_than_one_socket_is_refused(model_path: Path):
    command = [sys.executable, "-c", ACTIVATE, str(free_port()), "2", "--model", str(model_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 5
    assert "2 sockets" in done.stderr


def test_the_log_is_json_where_no_terminal_shows_it(tmp_path: Path, model_path: Path):
    """The journal's folder cannot be made: that is logged, and all goes on."""
    (tmp_path / "file").write_text("")
    environment = os.environ | {
        "STENOD_JOURNAL__ENABLED": "1",
        "STENOD_JOURNAL__FOLDER": str(tmp_path / "file"),
    }
    module = "tests.faults.patient_daemon"
    command = [sys.executable, "-m", module, "--port", "0", "--model", str(model_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        logged = next(json.loads(line) for line in process.stderr if line.startswith("{"))
        process.terminate()
        process.stderr.read()
    assert logged["logger"] == "stenod.journal.journal"
    assert {"time", "level", "message"} <= set(logged)
    assert process.returncode == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", sorted(UNITS.rglob("*.s*")), ids=lambda unit: str(unit.relative_to(UNITS)))
def test_a_unit_is_one(unit: Path, tmp_path: Path):
    """Read by systemd itself, with a program that is there."""
    folder = tmp_path / "units"
    folder.mkdir()
    for other in unit.parent.glob("stenod*.*"):
        text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", other.read_text())
        (folder / other.name).write_text(text)
    manager = ["--user"] if unit.parent.name == "user" else []
    command = ["systemd-analyze", "verify", *manager, str(folder / unit.name)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    )
    assert str(folder) not in done.stderr, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_system_unit_is_well_confined():
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", UNITS / "stenod.service"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
