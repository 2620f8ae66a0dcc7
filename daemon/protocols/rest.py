"""OpenAI's transcription of recordings: ``POST /v1/audio/transcriptions``, as an ASGI application.

A recording is a session like others: it is heard as fast as there is time, and who speaks live comes first.
"""

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ..access import Grant
from ..audio.files import AudioFile, AudioFileError, open_audio
from ..audio.pcm import AudioFormat
from ..events import Commit, Ended, Error, Event, Final
from ..hub import Hub, Refused, Slot
from ..offline import SILENCE_MS
from ..session import Session
from ..utterance import Configuration
from .endpoint import require
from .rest_messages import Wanted, done, error, error_response, of_form, response, sent, status_of
from .running_text import RunningText

logger = logging.getLogger(__name__)

PATH = "/v1/audio/transcriptions"
MOST_FIELDS = 64
STEP_MS = 5000
"""Few looks at an utterance: nobody waits for its words while it is spoken."""

SHUTTING_DOWN = "the daemon is shutting down: try again later"

Identify = Callable[[Mapping[str, str], str | None, object], tuple[Grant, str | None]]
"""Of headers, token and address: what the sender may do, and whom its sessions are counted for."""
Result = TypeVar("Result")


def application(hub: Hub, identify: Identify) -> Starlette:
    """The application. ``identify`` raises ``Refused`` for whom it does not know."""
    pages = Middleware(
        CORSMiddleware,
        allow_origins=hub.settings.server.origins,
        allow_methods=["POST"],
        allow_headers=["*"],
    )
    return Starlette(
        routes=[Route(PATH, Transcriptions(hub, identify), methods=["POST"])],
        middleware=[pages],
        exception_handlers={
            HTTPException: _http_error,
            Refused: _refusal,
            AudioFileError: _audio_error,
            TimeoutError: _late,
        },
    )


class Transcriptions:
    """Answers requests, each with a session of its own."""

    def __init__(self, hub: Hub, identify: Identify) -> None:
        self._hub = hub
        self._identify = identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request. Raises ``Refused``, ``AudioFileError``, ``HTTPException`` before it has answered."""
        request = Request(scope, receive)
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else None
        grant, client = self._identify(request.headers, given, request.client)
        require(grant, "send")
        with self._hub.slot(client) as slot:
            if slot.refusal is not None:
                raise slot.refusal
            try:
                async with self._recording(request) as (wanted, audio):
                    await self._answer(slot, wanted, audio, request, send)
            except ClientDisconnect:
                logger.debug("a client left")

    @asynccontextmanager
    async def _recording(self, request: Request) -> AsyncIterator[tuple[Wanted, AudioFile]]:
        """What is wanted, and of which recording."""
        settings = self._hub.settings
        most = int(settings.limits.upload_mb * 1e6)
        if int(request.headers.get("Content-Length", "0")) > most:  # what is no number the server refuses
            raise _too_large(most)
        limited = Request(request.scope, _limited(request.receive, most, settings.server.idle_s))
        async with limited.form(max_files=1, max_fields=MOST_FIELDS) as form:
            wanted, file = of_form(form), form.get("file")
            if not isinstance(file, UploadFile):
                raise Refused("bad_field", "file: there is no recording in the form", "file")
            with NamedTemporaryFile(prefix="stenod-") as kept:
                await asyncio.to_thread(shutil.copyfileobj, file.file, kept)
                kept.flush()
                name = file.filename or "the recording"
                try:
                    async with _opened(kept.name) as audio:
                        audio.name = name
                        audio.problem = audio.problem and audio.problem.replace(kept.name, name)
                        yield wanted, audio
                except AudioFileError as failure:
                    raise AudioFileError(str(failure).replace(kept.name, name)) from failure

    async def _answer(
        self, slot: Slot, wanted: Wanted, audio: AudioFile, request: Request, send: Send
    ) -> None:
        configuration = replace(
            self._hub.defaults,
            language=wanted.language or self._hub.defaults.language,
            prompt=wanted.prompt or self._hub.defaults.prompt,
            words=True,
            partials=False,
            step_ms=STEP_MS,
        )
        if configuration.endpointing is not None:  # nobody waits for an end, and context helps
            longer = replace(configuration.endpointing, silence_ms=SILENCE_MS)
            configuration = replace(configuration, endpointing=longer)
        self._hub.check(configuration)
        events = _events(self._hub, configuration, slot, audio)
        if wanted.stream:
            async with aclosing(_streamed(events)) as streamed:
                streaming = StreamingResponse(streamed, media_type="text/event-stream")
                await streaming(request.scope, request.receive, send)
            return
        answering = asyncio.create_task(_whole(events, wanted))
        leaving = asyncio.create_task(_left(request.receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await answering.result()(request.scope, request.receive, send)
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.wait({answering, leaving})


async def _whole(events: AsyncGenerator[Event, None], wanted: Wanted) -> Response:
    """The answer that has all of it. Raises ``Refused`` and ``AudioFileError``."""
    said, audio_s = RunningText(), 0.0
    async with aclosing(events):
        async for event in events:
            match event:
                case Final():
                    said.final(event)
                case Ended():
                    audio_s = event.audio_s
    return response(wanted, said, audio_s)


async def _streamed(events: AsyncGenerator[Event, None]) -> AsyncGenerator[str, None]:
    """Server-sent events, as text is committed; the last is ``done``, or an error."""
    said = RunningText()
    try:
        async with aclosing(events):
            async for event in events:
                match event:
                    case Commit():
                        yield sent({"type": "transcript.text.delta", "delta": said.commit(event)})
                    case Final():
                        said.final(event)
        yield sent(done(said))
    except Refused as refused:
        yield sent(error(status_of(refused), refused.message, refused.code, refused.field))
    except AudioFileError as failure:
        yield sent(error(400, str(failure), "bad_audio", "file"))


async def _events(
    hub: Hub, configuration: Configuration, slot: Slot, audio: AudioFile
) -> AsyncGenerator[Event, None]:
    """What a session tells of a recording. Raises ``Refused`` and ``AudioFileError``."""
    if hub.closing.is_set():  # while the recording came
        raise Refused("shutting_down", SHUTTING_DOWN)
    session = await hub.open(AudioFormat(), configuration, None)
    told = session.attach_sender()
    hub.start(session, slot)
    hearing = asyncio.create_task(_hear(session, audio))
    try:
        async for publication in told:
            yield publication.event
            match publication.event:
                case Error(code=code, message=message, fatal=True):
                    raise Refused(code, message)
                case Ended(reason="finished"):
                    await hearing
                    return
                case Ended():
                    break
        raise Refused("shutting_down", SHUTTING_DOWN)
    finally:
        session.channel.unsubscribe(told)
        session.finish("expired")
        hearing.cancel()
        await asyncio.wait({hearing})


async def _hear(session: Session, audio: AudioFile) -> None:
    """Takes a recording to a session. Raises ``AudioFileError`` if a part of it cannot be decoded."""
    try:
        while (block := await _in_thread(next, audio.blocks, None)) is not None:
            await session.push(block)
    finally:
        session.finish()
    if audio.problem is not None:
        raise AudioFileError(audio.problem)


@asynccontextmanager
async def _opened(path: str) -> AsyncIterator[AudioFile]:
    """As ``open_audio``, which blocks."""
    opening = open_audio(path)
    try:
        yield await _in_thread(opening.__enter__)
    finally:
        await _in_thread(opening.__exit__, None, None, None)


async def _in_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """What a function returns that blocks for a short time; it ends before the caller does."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    finally:
        await asyncio.wait({work})


def _limited(receive: Receive, most: int, idle_s: float) -> Receive:
    """``receive``, up to so many bytes of a body, none of which may be so long in coming."""
    left = most

    async def limited() -> Message:
        nonlocal left
        async with asyncio.timeout(idle_s):
            message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise _too_large(most)
        return message

    return limited


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the request is larger than {most / 1e6:g} MB (limits.upload_mb)")


async def _left(receive: Receive) -> None:
    """Returns when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refusal(_: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    return error_response(status_of(refused), refused.message, refused.code, refused.field)


async def _audio_error(_: Request, failure: Exception) -> Response:
    return error_response(400, str(failure), "bad_audio", "file")


async def _http_error(_: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    return error_response(failure.status_code, failure.detail)


async def _late(_: Request, failure: Exception) -> Response:
    return error_response(408, "the rest of the request did not come")
