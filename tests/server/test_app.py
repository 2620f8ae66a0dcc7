"""The daemon as a process: its pages, its signals, its ends."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stenod.clients import send
from stenod.events import Ack, Commit, Dropped, Ended, Event, Final, Numbered, decode
from stenod.journal import Reader
from websockets.asyncio.client import connect

from ..recordings import PROJECT
from ..streams import SAID, clip, pcm, plain

STENOD = Path(sys.executable).with_name("stenod")
SPEAKERS = 4


@contextmanager
def daemon_process(
    model: Path, journal: Path | None = None, *, patient: bool = False
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A daemon of its own, and its address; it keeps what it tells only in the folder ``journal``.

    A patient one never sheds load.
    """
    program = [sys.executable, "-m", "tests.faults.patient_daemon"] if patient else [STENOD, "serve"]
    command = [*program, "--port", "0", "--model", model, "--threads", "1"]
    keeping = {"STENOD_JOURNAL__ENABLED": str(journal is not None), "STENOD_JOURNAL__FOLDER": str(journal)}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | keeping, cwd=PROJECT
    ) as process:
        try:
            assert process.stderr is not None
            yield process, process.stderr.readline().split()[-1]
        finally:
            process.kill()


def get(daemon: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(daemon.replace("ws:", "http:") + path, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/v1/models", "/v1/sessions", "/v1/channels"]
)
def test_pages(daemon: str, path: str):
    status, body = get(daemon, path)
    assert status == 200
    assert body


def test_the_model_is_told(daemon: str):
    [model] = json.loads(get(daemon, "/v1/models")[1])["models"]
    assert model["name"] == "whisper-base"
    assert "de" in model["languages"]


def test_there_is_nothing_elsewhere(daemon: str):
    assert get(daemon, "/etc/passwd")[0] == 404


async def test_an_open_session_and_its_channel_are_listed(daemon: str):
    async with send(daemon, channel="listed") as sender:
        async for event in sender:
            if event.__class__.__name__ == "SessionStarted":
                break
        sessions = json.loads((await asyncio.to_thread(get, daemon, "/v1/sessions"))[1])["sessions"]
        channels = json.loads((await asyncio.to_thread(get, daemon, "/v1/channels"))[1])["channels"]
    [session] = [session for session in sessions if session["channel"] == "listed"]
    [channel] = [channel for channel in channels if channel["channel"] == "listed"]
    assert channel["session"] == session["session"]


async def test_sigterm_in_mid_decode_drains_all_to_their_finals_and_tells_everybody(model_path: Path):
    """field-failures: sources stop, sessions drain to their finals, exit within the deadline."""
    speaking = asyncio.Barrier(SPEAKERS + 1)

    async def speak(address: str, number: int) -> list[Event]:
        told: list[Event] = []
        async with send(address, channel=f"room{number}", language="en") as sender:
            await sender.audio(pcm(clip())[: 3 * 32000])
            async for event in sender:
                told.append(event)
                if event == Ack(3 * 16000):  # all of it was accepted
                    await speaking.wait()
        return told

    with daemon_process(model_path) as (process, address):
        async with connect(f"{address}/v1/channels/room0") as reader:
            conversations = [asyncio.create_task(speak(address, number)) for number in range(SPEAKERS)]
            await speaking.wait()
            process.send_signal(signal.SIGTERM)
            for told in await asyncio.gather(*conversations):
                final, ended = told[-2:]
                assert isinstance(final, Final)
                assert plain(final.text) == SAID
                assert isinstance(ended, Ended)
                assert ended.reason == "shutdown"
            heard = [decode(message) async for message in reader]
            assert heard[-1] == Dropped("shutdown")
        assert await asyncio.to_thread(process.wait) == 0
        assert process.stderr is not None
        assert "did not drain" not in process.stderr.read()


def test_a_second_daemon_at_an_address_is_told_so_before_anything_else(daemon: str):
    address = daemon.removeprefix("ws://")
    command = [STENOD, "serve", "--port", address.rpartition(":")[2], "--model", "no-such-model"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stderr.startswith(f"stenod: {address}: ")
    assert done.stderr.count("\n") == 1


async def test_a_daemon_that_is_killed_has_kept_all_that_it_told(model_path: Path, tmp_path: Path):
    with daemon_process(model_path, tmp_path) as (process, address):
        told = []
        async with send(address, channel="room", language="en") as sender:
            await sender.audio(pcm(clip("en_read/jfk.flac")))
            async for event in sender:
                told.append(event)
                if isinstance(event, Commit):
                    process.kill()
                    break
    numbered = [event for event in told if isinstance(event, Numbered)]
    assert numbered
    kept = Reader.open(tmp_path).events_after("room", numbered[0].session, 0, 1000)
    assert kept is not None
    assert [decode(event) for event in kept][: len(numbered)] == numbered


def test_two_daemons_do_not_share_a_journal(model_path: Path, tmp_path: Path):
    with daemon_process(model_path, tmp_path), daemon_process(model_path, tmp_path) as (second, _):
        assert second.wait() == 2


def test_a_port_in_use_is_one_line_and_exit_code_5(model_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [STENOD, "serve", "--port", port, "--model", model_path, "--threads", "1"]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 5
    [line] = done.stderr.splitlines()
    assert line.startswith(f"stenod: 127.0.0.1:{port}: ")


def test_a_foreign_model_file_is_one_line_and_exit_code_3(tmp_path: Path):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF but not really")
    done = subprocess.run([STENOD, "serve", "--model", model], capture_output=True, text=True)
    assert done.returncode == 3
    [line] = done.stderr.splitlines()
    assert str(model) in line
