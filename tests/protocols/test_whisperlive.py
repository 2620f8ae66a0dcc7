"""WhisperLive's protocol, with its own client, but for the microphone."""

import json
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from hypothesis import given, settings
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.sync import client as sync

from ..streams import SAID, clip, pcm, plain
from .speech import messages

VERSION = "0.10.0"
FOLDER = Path(platformdirs.user_cache_dir("stenod")) / "tests"
OPTIONS = {"uid": "me", "language": "en", "task": "transcribe", "model": "small", "use_vad": True}


@pytest.fixture
def client_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """``whisper_live.client``, without what it needs to record and to transcribe (torch and more)."""
    wheel = FOLDER / f"whisper_live-{VERSION}-py3-none-any.whl"
    if not wheel.exists():
        command = ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", FOLDER]
        subprocess.run([sys.executable, *command, f"whisper-live=={VERSION}"], check=True)
    for name in ("pyaudio", "av", "scipy"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.syspath_prepend(str(wheel))
    import whisper_live.client

    yield whisper_live.client
    for name in [name for name in sys.modules if name.startswith("whisper_live")]:
        monkeypatch.delitem(sys.modules, name)


def test_its_own_client_hears_what_was_said(client_module: Any, ports: Mapping[str, int]):
    committed, partial = list[str](), list[str]()
    client = client_module.StreamingTranscriptionClient(
        "127.0.0.1",
        ports["whisperlive"],
        on_committed_transcript=lambda text, _: committed.append(text),
        on_partial_transcript=lambda text, _: partial.append(text),
    )
    with client:
        data = pcm(clip())
        for start in range(0, len(data), 8192):
            client.send(data[start : start + 8192])
    assert plain(" ".join(committed)) == SAID
    assert partial
    assert client._client.language == "en"
    [segment] = client._client.transcript
    assert 0 <= float(segment["start"]) < float(segment["end"])


async def test_words_have_times(small_ports: Mapping[str, int]):
    async with connect(f"ws://127.0.0.1:{small_ports['whisperlive']}") as socket:
        await socket.send(
            json.dumps(
                OPTIONS | {"word_timestamps": True, "audio_format": "int16", "hotwords": "three six,Zoë"}
            )
        )
        ready = json.loads(await socket.recv())
        assert (ready["uid"], ready["message"]) == ("me", "SERVER_READY")
        await socket.send(pcm(np.concatenate([clip("digits/theo_04.flac"), clip("digits/theo_03.flac")])))
        await socket.send(b"END_OF_AUDIO")
        told = [json.loads(message) async for message in socket]
    segments = told[-1]["segments"]
    texts = ["six four three six nine", "eight five seven eight three five"]
    assert [segment["text"] for segment in segments] == texts
    assert all(segment["completed"] for segment in segments)
    assert ["".join(word["word"] for word in segment["words"]).strip() for segment in segments] == texts
    assert float(segments[0]["end"]) <= float(segments[1]["words"][0]["start"])
    assert socket.close_code == 1000


@pytest.mark.parametrize("message", ["{", "[]", '{"language": "en"}', b"\0\0\0\0"])
async def test_without_options_there_is_nothing(ports: Mapping[str, int], message: str | bytes):
    async with connect(f"ws://127.0.0.1:{ports['whisperlive']}") as socket:
        await socket.send(message)
        error = json.loads(await socket.recv())
        assert (error["uid"], error["status"]) == (None, "ERROR")
        with pytest.raises(ConnectionClosed):
            await socket.recv()


async def test_an_unknown_language_is_told(ports: Mapping[str, int]):
    async with connect(f"ws://127.0.0.1:{ports['whisperlive']}") as socket:
        await socket.send(json.dumps(OPTIONS | {"language": "klingon"}))
        error = json.loads(await socket.recv())
        assert (error["uid"], error["status"]) == ("me", "ERROR")
        assert "klingon" in error["message"]


FIELDS = ("uid", "language", "task", "send_last_n_segments", "hotwords", "initial_prompt", "audio_format")


def with_uid(text: str) -> str:
    return text.replace('{"', '{"uid": "me", "', 1)


@given(text=messages(("x",), FIELDS) | messages(("x",), FIELDS).map(with_uid))
@settings(max_examples=30, deadline=None)
def test_whatever_is_said_is_told_in_its_manner(small_ports: Mapping[str, int], text: str):
    with sync.connect(f"ws://127.0.0.1:{small_ports['whisperlive']}") as socket:
        with suppress(ConnectionClosed):
            socket.send(text)
            socket.send(bytes(6400))
            socket.send(b"END_OF_AUDIO")
            while True:
                told = json.loads(socket.recv(30))
                assert told.get("message") == "SERVER_READY" or told["status"] == "ERROR"
        assert socket.close_code in (1000, 1008)
