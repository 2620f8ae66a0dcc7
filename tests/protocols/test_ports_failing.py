"""An engine that fails, as each protocol with a port of its own tells it."""

import io
import json
from collections.abc import Mapping

import httpx
import pytest
import soundfile
from stenod.protocols.rest import PATH
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error

from ..streams import pcm
from ..threaded_daemon import Running
from .speech import one_turn


@pytest.fixture
def failing(failing_running_daemon: Running) -> Mapping[str, int]:
    return failing_running_daemon.ports


async def test_it_is_told(failing: Mapping[str, int]):
    speech = pcm(one_turn())
    async with AsyncTcpClient("127.0.0.1", failing["wyoming"]) as client:
        await client.write_event(AudioStart(16000, 2, 1).event())
        await client.write_event(AudioChunk(16000, 2, 1, speech).event())
        await client.write_event(AudioStop().event())
        while (event := await client.read_event()) is not None and not Error.is_type(event.type):
            pass
        assert event is not None
        assert Error.from_event(event).code == "engine_failed"
        assert await client.read_event() is None

    async with connect(f"ws://127.0.0.1:{failing['vosk']}") as socket:
        await socket.send(speech)
        await socket.send('{"eof" : 1}')
        assert json.loads(await socket.recv()) == {"partial": ""}
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1011

    async with connect(f"ws://127.0.0.1:{failing['whisperlive']}") as socket:
        await socket.send('{"uid": "me", "audio_format": "int16"}')
        await socket.send(speech)
        told = []
        with pytest.raises(ConnectionClosed):
            while True:
                told.append(json.loads(await socket.recv()))
        assert "ERROR" in [one.get("status") for one in told]
        assert told[-1]["message"] == "DISCONNECT"

    recording = io.BytesIO()
    soundfile.write(recording, one_turn(), 16000, format="WAV")
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{failing['rest']}") as client_of_rest:
        answer = await client_of_rest.post(PATH, files={"file": recording.getvalue()})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "engine_failed")
