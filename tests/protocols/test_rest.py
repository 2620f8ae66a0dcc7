"""OpenAI's transcription of recordings, with OpenAI's client, against daemons that run; and through nginx."""

import asyncio
import io
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import webvtt
from openai import AsyncOpenAI, BadRequestError
from stenod._native import Model
from stenod.access import Access, new_token, write_tokens
from stenod.clients import send
from stenod.engine import Engine
from stenod.formats import segment_text
from stenod.hub import Hub
from stenod.offline import Choices, transcribe_utterances
from stenod.protocols.rest import PATH, application
from stenod.server import http
from stenod.server.asgi import listening
from stenod.settings import Segmentation

from ..recordings import PROJECT, SHIPPED, load
from ..server.test_service import free_port
from ..streams import CLIP, SAID, SILENCE, hub_on, plain
from ..threaded_daemon import Running

CONFIGURATION = PROJECT / "configs" / "nginx" / "stenod.conf"
SPEECH = np.concatenate([load("digits/theo_03.flac"), SILENCE, SILENCE, SILENCE, load("digits/theo_04.flac")])
"""Two utterances, also where nobody waits for an end."""
FIELDS: dict[str, Any] = {"model": "whisper-1", "language": "en"}


@contextmanager
def nginx(running: Running, folder: Path) -> Iterator[int]:
    """The port of an nginx with our configuration, before a daemon."""
    port = free_port()
    text = CONFIGURATION.read_text()
    places = {"8080": port, "8790": running.address.rpartition(":")[2], "8791": running.ports["rest"]}
    for usual, actual in places.items():
        assert text.count(f"127.0.0.1:{usual};") == 1
        text = text.replace(f"127.0.0.1:{usual};", f"127.0.0.1:{actual};")
    (folder / "stenod.conf").write_text(text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; user root; pid {folder}/pid; error_log stderr; events {{}}"
        f"http {{ access_log off; {temporary} include {folder}/stenod.conf; }}"
    )
    with subprocess.Popen(
        ["/usr/sbin/nginx", "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf"]
    ) as process:
        try:
            while process.poll() is None and not listens(port):
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_one_address_for_all(running_daemon: Running, tmp_path: Path):
    with nginx(running_daemon, tmp_path) as port:
        address = f"127.0.0.1:{port}"
        async with AsyncOpenAI(base_url=f"http://{address}/v1", api_key="any") as client:
            answer = await client.audio.transcriptions.create(file=SHIPPED / CLIP, **FIELDS)
            async with client.realtime.connect(model="whisper-1") as connection:
                assert (await connection.recv()).type == "session.created"
            [model] = [model.id async for model in client.models.list()]
        assert (plain(answer.text), model) == (SAID, "whisper-base")
        async with send(f"ws://{address}") as sender:
            await sender.finish()
            assert [type(event).__name__ for event in [event async for event in sender]][-1] == "Ended"


@pytest.fixture(scope="module")
def recording() -> bytes:
    written = io.BytesIO()
    soundfile.write(written, SPEECH, 16000, format="FLAC")
    return written.getvalue()


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What ``stenod transcribe`` makes of each utterance."""
    engine = Engine(Model(str(SHIPPED / "parakeet-tiny.gguf")), workers=1, threads=1)
    choices = Choices(language="en", task="transcribe", prompt="", beam_size=1)
    heard = transcribe_utterances(engine, [SPEECH], Segmentation(), choices)
    texts = [segment_text(segment) for _, one in heard for segment in one["segments"]]
    engine.close()
    return texts


@pytest.fixture
async def client(small_ports: Mapping[str, int]) -> AsyncIterator[AsyncOpenAI]:
    address = f"http://127.0.0.1:{small_ports['rest']}/v1"
    async with AsyncOpenAI(base_url=address, api_key="any", max_retries=0) as client:
        yield client


async def test_all_formats(client: AsyncOpenAI, recording: bytes, said: list[str]):
    create = partial(client.audio.transcriptions.create, file=("digits.flac", recording), **FIELDS)
    text = " ".join(said)
    assert len(said) == 2
    short = await create()
    assert short.text == text
    assert short.usage is not None
    assert short.usage.type == "duration"
    assert await create(response_format="text") == text + "\n"
    subtitles = io.StringIO(await create(response_format="srt"))
    cues = [cue.text for cue in webvtt.from_buffer(subtitles, format="srt")]
    assert cues == [cue.text for cue in webvtt.from_string(await create(response_format="vtt"))]
    assert " ".join(cues).replace("\n", " ") == text


async def test_times(client: AsyncOpenAI, recording: bytes, said: list[str]):
    told = await client.audio.transcriptions.create(
        file=("digits.flac", recording),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        **FIELDS,
    )
    assert told.text == " ".join(said)
    assert told.duration == pytest.approx(len(SPEECH) / 16000, abs=0.01)
    assert told.segments is not None
    assert [segment.text for segment in told.segments] == said
    assert told.segments[0].avg_logprob < 0
    assert told.words is not None
    assert " ".join(word.word for word in told.words) == told.text
    assert told.segments[0].start <= told.words[0].start < told.words[-1].end <= told.segments[-1].end
    only = await client.audio.transcriptions.create(
        file=("digits.flac", recording), response_format="verbose_json", **FIELDS
    )
    assert only.words is None


async def test_streamed(client: AsyncOpenAI, recording: bytes, said: list[str]):
    stream = await client.audio.transcriptions.create(file=("digits.flac", recording), stream=True, **FIELDS)
    *deltas, last = [event async for event in stream]
    assert {event.type for event in deltas} == {"transcript.text.delta"}
    assert last.type == "transcript.text.done"
    assert last.text == "".join(event.delta for event in deltas) == " ".join(said)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"file": ("a.wav", b"RIFF but not really")}, "file"),
        ({"file": ("a.wav", b"")}, "file"),
        ({"language": "klingon"}, "language"),
        ({"prompt": "x" * 2001}, "prompt"),
        ({"response_format": "poem"}, "response_format"),
        ({"timestamp_granularities": ["second"]}, "timestamp_granularities"),
        ({"stream": True, "response_format": "srt"}, "stream"),
    ],
)
async def test_what_cannot_be_is_an_error_of_openai(
    client: AsyncOpenAI, recording: bytes, fields: dict[str, Any], param: str
):
    with pytest.raises(BadRequestError) as refused:
        await client.audio.transcriptions.create(**{"file": ("a.flac", recording), **FIELDS, **fields})
    assert isinstance(refused.value.body, dict)
    assert (refused.value.param, refused.value.type) == (param, "invalid_request_error")
    assert "/" not in refused.value.body["message"]  # no path of ours


async def test_what_is_no_request_is_an_error_of_openai(small_ports: Mapping[str, int]):
    address = f"http://127.0.0.1:{small_ports['rest']}"

    async def more_than_announced() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        yield bytes(1 << 21)

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        unannounced = await client.post(PATH, content=more_than_announced(), headers=headers)
        assert unannounced.status_code == 413
        answers = {
            400: await client.post(PATH),
            404: await client.get("/"),
            405: await client.get(PATH),
            413: await client.post(PATH, files={"file": bytes(1 << 21)}),
        }
        for status, answer in answers.items():
            assert answer.status_code == status, answer.text
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_tokens_and_origins(hub: Hub, tmp_path: Path):
    secret, token = new_token("alice", ("send",), ("*",))
    reading, reader = new_token("bob", ("read",), ("*",))
    write_tokens(tmp_path / "tokens.json", (token, reader))
    app = application(hub, partial(http.identify, hub, Access(tmp_path / "tokens.json")))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://stenod") as client:
        statuses = [
            (await client.post(PATH, headers=headers)).status_code
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": f"Bearer {reading}"},
                {"Authorization": f"Bearer {secret}", "Origin": "https://example.org"},
                {"Authorization": f"Bearer {secret}"},  # what is missing now is the recording
            )
        ]
    assert statuses == [401, 401, 403, 403, 400]


async def test_a_client_that_leaves_ends_its_session(hub: Hub):
    app = application(hub, partial(http.identify, hub, Access(None)))
    jfk = (SHIPPED / "en_read" / "jfk.flac").read_bytes()
    async with listening(app, None, "127.0.0.1", 0) as port, httpx.AsyncClient(timeout=60) as client:
        posting = asyncio.create_task(
            client.post(f"http://127.0.0.1:{port}{PATH}", files={"file": jfk}, data=FIELDS)
        )
        while not hub.sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        [session] = hub.sessions.values()
        posting.cancel()
        await hub.ended(session)
        assert session.end_reason == "expired"
        assert not hub.sessions


async def test_a_daemon_that_ends_does_not_tell_a_part_for_the_whole():
    engine = Engine(Model(str(SHIPPED / "parakeet-tiny.gguf")), workers=1, threads=1)
    long = io.BytesIO()
    soundfile.write(long, np.tile(SPEECH, 8), 16000, format="WAV")
    async with hub_on(engine) as hub:
        app = application(hub, partial(http.identify, hub, Access(None)))
        async with listening(app, None, "127.0.0.1", 0) as port, httpx.AsyncClient(timeout=60) as client:
            posting = asyncio.create_task(
                client.post(f"http://127.0.0.1:{port}{PATH}", files={"file": long.getvalue()})
            )
            while not hub.sessions:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await hub.drain("shutdown", 60)
            answer = await posting
    engine.close()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")


async def test_no_place_is_told(hub: Hub):
    app = application(hub, partial(http.identify, hub, Access(None)))
    await hub.drain("shutdown", 1)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://stenod") as client:
        answer = await client.post(PATH, files={"file": b"x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    assert answer.headers["Retry-After"]
