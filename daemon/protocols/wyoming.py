"""Wyoming, version 1: what Home Assistant and Rhasspy speak, over TCP. It knows no tokens."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from socket import IPPROTO_TCP, SO_KEEPALIVE, SOL_SOCKET, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from ..audio.pcm import AudioFormat
from ..channel import Subscription
from ..events import Commit, Ended, Error, Final
from ..hub import Hub, Refused
from ..rate import Rate
from ..session import Session
from ..settings import Server
from .exchange import CLOSE_S, audio_format, cancel
from .hints import usable
from .parsing import language_of
from .running_text import RunningText
from .wyoming_framing import HEADER_BYTES, BadMessage, Message, encoded, read

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 256
"""One that sends no audio takes no session's place, but is not free either."""
ENCODINGS = {2: "s16le", 3: "s24le", 4: "s32le"}
"""By bytes a sample."""
MAKERS = {"whisper": ("OpenAI", "https://github.com/openai/whisper")}
OTHER_MAKER = ("NVIDIA", "https://huggingface.co/nvidia")
"""Whose model it is, by family."""

Name = Annotated[str, Meta(max_length=2000)]
Fields = TypeVar("Fields", bound=Struct)


class Transcribe(Struct):
    """What is wanted of the audio that follows."""

    name: str | None = None
    language: str | None = None
    transcript_names: Annotated[tuple[Name, ...], Meta(max_length=100)] | None = None
    transcript_terms: Annotated[tuple[Name, ...], Meta(max_length=100)] | None = None


class Audio(Struct):
    """The layout of audio, with its start and with each piece of it."""

    rate: int
    width: int
    channels: int


class Connection:
    """One client, and one session of it at a time."""

    def __init__(
        self, hub: Hub, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: str | None
    ) -> None:
        """``client``: whom its sessions are counted for."""
        self._hub = hub
        self._reader = reader
        self._writer = writer
        self._client = client
        self._rate = Rate(hub.settings.limits.messages_per_s)
        self._wanted = Transcribe()
        self._session: Session | None = None
        self._layout: Audio | None = None
        self._telling: asyncio.Task[None] | None = None
        self._over: asyncio.Future[Refused | None] = asyncio.get_running_loop().create_future()
        """Why nothing more comes of the connection, if that is to be told."""

    async def serve(self) -> None:
        """Until the client leaves, or says what cannot be, or its session fails."""
        _notice_when_gone(self._writer, self._hub.settings.server)
        taking = asyncio.create_task(self._take_all())
        waiting: set[asyncio.Future[Any]] = {taking, self._over}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused = self._over.result() if self._over.done() else taking.result()
            if refused is not None:
                await self._refuse(refused)
        finally:
            if self._session is not None:
                self._session.finish("expired")
            await cancel({taking, self._telling} if self._telling is not None else {taking})
            self._writer.close()

    async def end(self) -> None:
        """Ends it once a session that has ended was told of."""
        if self._telling is not None:
            await asyncio.wait({self._telling}, timeout=CLOSE_S)
        if not self._over.done():
            self._over.set_result(None)

    async def _take_all(self) -> Refused | None:
        """Obeys what the client says; returns what of it cannot be, or None when it has left."""
        try:
            while (message := await read(self._reader, self._hub.settings.limits.frame_bytes)) is not None:
                await self._rate.next()
                await self._answer(message)
        except BadMessage as error:
            return Refused("bad_message", str(error))
        except Refused as refused:
            return refused
        except ConnectionError:
            logger.debug("a client left")
        return None

    async def _answer(self, message: Message) -> None:
        match message.type:
            case "describe":
                await self._send("info", described(self._hub))
            case "ping":
                await self._send("pong", {"text": message.data.get("text")})
            case "transcribe":
                self._wanted = _fields(message, Transcribe)
            case "audio-start":
                await self._begin(_fields(message, Audio))
            case "audio-chunk":
                await self._hear(_fields(message, Audio), message.payload)
            case "audio-stop":
                await self._end()
            case _:
                logger.debug("a message of type %s is not for us", message.type)

    async def _begin(self, layout: Audio) -> None:
        if self._session is not None:
            raise Refused("bad_message", "audio-start before the audio-stop of what was begun")
        with self._hub.slot(self._client) as slot:
            if slot.refusal is not None:
                raise slot.refusal
            wanted = self._wanted
            loaded = self._hub.engine.model.name
            if wanted.name not in (None, loaded):
                raise Refused("unknown_model", f"model {wanted.name!r} is not loaded; {loaded} is", "name")
            configuration = replace(
                self._hub.defaults,
                language=language_of(wanted.language) or self._hub.defaults.language,
                phrases=usable(
                    self._hub, (*(wanted.transcript_names or ()), *(wanted.transcript_terms or ()))
                ),
            )
            session = await self._hub.open(_format(layout), configuration, None)
            events = session.attach_sender()
            self._hub.start(session, slot)
        self._session, self._layout = session, layout
        self._telling = asyncio.create_task(self._tell_all(events))

    async def _hear(self, layout: Audio, payload: bytes) -> None:
        if self._session is None:
            await self._begin(layout)
        if layout != self._layout:
            raise Refused("unsupported_audio", "the layout of audio changed; begin anew with audio-start")
        assert self._session is not None
        await self._session.feed(payload)

    async def _end(self) -> None:
        if self._session is None:
            await self._begin(Audio(16000, 2, 1))
        assert self._session is not None
        assert self._telling is not None
        self._session.finish()
        await self._telling
        self._session, self._telling, self._wanted = None, None, Transcribe()

    async def _tell_all(self, events: Subscription) -> None:
        """Tells what comes of a session; where nothing more can, the connection ends."""
        try:
            await self._tell(events)
        except Refused as refused:
            if not self._over.done():
                self._over.set_result(refused)
        except ConnectionError:
            logger.debug("a client left")

    async def _tell(self, events: Subscription) -> None:
        """Tells what the session commits, then all of it. Raises ``Refused`` where it fails."""
        said, started = RunningText(), False
        async for publication in events:
            match publication.event:
                case Commit() as commit:
                    if not started:
                        await self._send("transcript-start", {})
                        started = True
                    await self._send("transcript-chunk", {"text": said.commit(commit)})
                case Final() as final:
                    said.final(final)
                case Error(code=code, message=message, fatal=True):
                    raise Refused(code, message)
                case Ended():
                    break
        else:
            raise Refused("buffer_overflow", "what was told was not read")
        if not started:
            await self._send("transcript-start", {})
        await self._send("transcript", {"text": said.text, "language": said.language})
        await self._send("transcript-stop", {})

    async def _refuse(self, refused: Refused) -> None:
        """Tells a refusal as the last thing. What still comes is read, else the client might not get it."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._send("error", {"text": refused.message, "code": refused.code})
                self._writer.write_eof()
                while await self._reader.read(HEADER_BYTES):
                    pass
        except (ConnectionError, TimeoutError):
            logger.debug("a client did not wait to be told: %s", refused.message)

    async def _send(self, kind: str, data: dict[str, Any]) -> None:
        self._writer.write(encoded(kind, data))
        await self._writer.drain()


def described(hub: Hub) -> dict[str, Any]:
    """What the daemon can do: the ``info`` that answers ``describe``."""
    model = hub.engine.model
    maker, address = MAKERS.get(model.family, OTHER_MAKER)
    common = {"installed": True, "version": version("stenod")}
    heard = {
        "name": model.name,
        "description": f"{model.name} ({model.family})",
        "attribution": {"name": maker, "url": address},
        "languages": model.languages or ["en"],
        **common,
    }
    program = {
        "name": "stenod",
        "description": "Transcription while you speak",
        "attribution": {"name": "stenod", "url": ""},
        "models": [heard],
        "supports_transcript_streaming": True,
        "requires_external_vad": True,
        "prefers_auto_gain_enabled": False,
        "prefers_noise_reduction_enabled": False,
        **common,
    }
    return {"asr": [program]}


@asynccontextmanager
async def listening(hub: Hub, host: str, port: int) -> AsyncIterator[int]:
    """Serves Wyoming at an address until left; gives the port. Raises ``OSError``."""
    connections: dict[asyncio.Task[None], Connection] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(connections) >= MOST_CONNECTIONS:
            writer.close()
            return
        connections[task] = Connection(hub, reader, writer, writer.get_extra_info("peername")[0])
        try:
            await connections[task].serve()
        finally:
            del connections[task]

    async with await asyncio.start_server(handle, host, port, limit=HEADER_BYTES) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await asyncio.gather(*(connection.end() for connection in connections.values()))
            if connections:
                await asyncio.wait(connections, timeout=CLOSE_S)


def _fields(message: Message, kind: type[Fields]) -> Fields:
    """The message's data. Raises ``Refused``."""
    try:
        return msgspec.convert(message.data, kind)
    except msgspec.ValidationError as error:
        raise Refused("bad_field", f"{message.type}: {error}") from error


def _format(layout: Audio) -> AudioFormat:
    """Raises ``Refused`` for audio that the daemon does not take."""
    if layout.width not in ENCODINGS:
        raise Refused("unsupported_audio", f"width: {layout.width} bytes a sample; accepted: 2, 3, 4")
    return audio_format(ENCODINGS[layout.width], layout.rate, layout.channels)


def _notice_when_gone(writer: asyncio.StreamWriter, server: Server) -> None:
    """Lets the system end the connection of a client that is gone without a word."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
    connection.setsockopt(IPPROTO_TCP, TCP_KEEPIDLE, max(1, int(server.ping_s)))
    connection.setsockopt(IPPROTO_TCP, TCP_KEEPINTVL, max(1, int(server.ping_s)))
    connection.setsockopt(IPPROTO_TCP, TCP_KEEPCNT, max(1, int(server.idle_s / server.ping_s)))
