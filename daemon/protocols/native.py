"""The native protocol, version 1: ``/v1/stream`` sends audio, ``/v1/channels/NAME`` reads a channel."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from ..audio.pcm import AudioFormat, UnsupportedAudio
from ..channel import Cursor, Only, Subscription
from ..events import Ack, Dropped, Ended, Error, Limits, Started, encode
from ..hub import Hub, Refused
from ..segmenter import Endpointing
from ..session import Session
from ..settings import CHANNEL_NAME, Task
from ..utterance import Configuration

ACK_S = 1.0
CLOSE_S = 10.0
"""How long a client may take to read what is left when its session has ended."""
LONGEST_GAP_S = 24 * 3600
FATAL_CLOSE = 1008
CLOSE_CODES = {"finished": 1000, "engine_failed": 1011}
"""Other ends of a session: going away (1001)."""

Text = Annotated[str, Meta(max_length=2000)]


class AudioFields(Struct):
    """What binary frames hold; what is left out is as the settings say."""

    encoding: str | UnsetType = UNSET
    sample_rate: int | UnsetType = UNSET
    channels: int | UnsetType = UNSET


class EndpointingFields(Struct):
    """Where utterances end by themselves."""

    silence_ms: Annotated[int, Meta(ge=100, le=10000)] | UnsetType = UNSET
    max_utterance_s: Annotated[float, Meta(ge=5, le=28)] | UnsetType = UNSET


class Choices(Struct):
    """What ``start`` and ``configure`` have in common."""

    language: str | UnsetType | None = UNSET
    task: Task | UnsetType = UNSET
    prompt: Text | UnsetType = UNSET
    phrases: Annotated[tuple[Text, ...], Meta(max_length=100)] | UnsetType = UNSET
    words: bool | UnsetType = UNSET
    partials: bool | UnsetType = UNSET
    endpointing: EndpointingFields | UnsetType | None = UNSET


class Start(Choices, tag="start"):
    """Opens a session."""

    audio: AudioFields = msgspec.field(default_factory=AudioFields)
    model: str | None = None
    channel: Annotated[str, Meta(pattern=CHANNEL_NAME)] | None = None
    take_over: bool = False


class Configure(Choices, tag="configure"):
    """Holds from the next utterance on."""


class FlushMessage(Struct, tag="flush"):
    """End the utterance now."""

    id: str | int | None = None


class ClearMessage(Struct, tag="clear"):
    """Forget the open utterance."""


class GapMessage(Struct, tag="gap"):
    """The client lost so many sample frames."""

    samples: Annotated[int, Meta(ge=1)]


class FinishMessage(Struct, tag="finish"):
    """No more audio."""


class Resume(Struct, tag="resume"):
    """Go on with a session after the connection was lost."""

    session: str
    last_seq: int
    token: str


Message = Start | Configure | FlushMessage | ClearMessage | GapMessage | FinishMessage | Resume

TYPES = ", ".join(kind.__struct_config__.tag for kind in get_args(Message))
"""Of all messages, as they are told to a client."""

_LONE_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def parse(text: str) -> Message:
    """The message of a text frame. Raises ``Refused`` with ``bad_json``, ``bad_message`` or ``bad_field``."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        field = path.strip(".`").replace("...", "")
        missing = re.search(r"missing required field `(\w+)`", problem)
        if missing and not field:
            field = missing[1]
        if field == "type":
            raise Refused("bad_message", f"type: {problem}; it is one of {TYPES}", field) from error
        if not field:
            raise Refused("bad_message", problem) from error
        raise Refused("bad_field", f"{field}: {problem}", field) from error
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        problem = "half of a surrogate pair is no text" if _LONE_SURROGATE.search(text) else str(error)
        raise Refused("bad_json", f"a text frame is a JSON object: {problem}") from error


def configured(old: Configuration, default: Configuration, choices: Choices) -> Configuration:
    """``old`` with what ``choices`` changes; ``default`` completes an ``endpointing`` given in part."""
    names = ("language", "task", "prompt", "phrases", "words", "partials")
    changes = {name: value for name in names if (value := getattr(choices, name)) is not UNSET}
    endpointing = old.endpointing
    if choices.endpointing is None:
        endpointing = None
    elif choices.endpointing is not UNSET:
        usual = old.endpointing or default.endpointing
        given = msgspec.structs.asdict(choices.endpointing)
        chosen = {name: value for name, value in given.items() if value is not UNSET}
        endpointing = replace(usual, **chosen) if usual else Endpointing(**chosen)
    return replace(old, endpointing=endpointing, **changes)


def error_of(refused: Refused, *, fatal: bool) -> Error:
    """The ``error`` that tells a refusal."""
    return Error(refused.code, refused.message, fatal, refused.field)


class StreamConnection:
    """One client at ``/v1/stream``."""

    def __init__(self, socket: ServerConnection, hub: Hub) -> None:
        self._socket = socket
        self._hub = hub
        self._session: Session | None = None

    async def serve(self) -> None:
        """From the first message to the close frame."""
        watching = asyncio.create_task(self._watch())
        try:
            with self._hub.slot():
                if (opened := await self._open_in_time()) is not None:
                    self._session, first = opened
                    await self._run(self._session, first)
        except Refused as refused:
            await self._refuse(refused)
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _watch(self) -> None:
        """Ends what a client began that is gone without a word."""
        server = self._hub.settings.server
        await keep_alive(self._socket, server.ping_s, server.idle_s, self._received)
        if self._session is None:
            await self._socket.close()
        else:
            self._session.finish("idle")

    def _received(self) -> int:
        return self._session.received_frames if self._session else 0

    async def _open_in_time(self) -> tuple[Session, str | bytes] | None:
        """As ``_open``, unless the daemon shuts down before the client has said what it wants."""
        opening = asyncio.create_task(self._open())
        closing = asyncio.create_task(self._hub.closing.wait())
        try:
            await asyncio.wait({opening, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                raise Refused("shutting_down", "the daemon is shutting down: try again later")
            return opening.result()
        finally:
            opening.cancel()
            closing.cancel()
            await asyncio.wait({opening, closing})

    async def _refuse(self, refused: Refused) -> None:
        await self._socket.send(encode(error_of(refused, fatal=True)), text=True)
        await self._socket.close(FATAL_CLOSE, refused.code)

    async def _open(self) -> tuple[Session, str | bytes] | None:
        """The session of the first good message, and what it has to do first; None if the client left.

        A message that is no ``start`` at all is answered and forgotten. A ``start`` that is refused ends the
        connection: audio that may already be under way must not be taken for something that it is not.
        ``finish``, or ``flush`` at once, opens a session too: its client waits for what follows from it.
        """
        first = True
        async for message in self._socket:
            at_once, first = first, False
            if isinstance(message, bytes):
                if not at_once:
                    raise Refused("bad_message", "audio before `start`")
                return await self._start(Start()), message
            try:
                parsed = parse(message)
            except Refused as refused:
                if refused.code == "bad_field":
                    raise
                await self._socket.send(encode(error_of(refused, fatal=False)), text=True)
                continue
            if isinstance(parsed, Resume):
                raise Refused("not_resumable", "sessions of this daemon end with their connection")
            if isinstance(parsed, Start):
                return await self._start(parsed), b""
            if isinstance(parsed, FinishMessage) or (at_once and isinstance(parsed, FlushMessage)):
                return await self._start(Start()), message
            misplaced = Refused("bad_message", "the first message is `start`, or audio")
            await self._socket.send(encode(error_of(misplaced, fatal=False)), text=True)
        return None

    async def _start(self, start: Start) -> Session:
        loaded = self._hub.engine.model.name
        if start.model not in (None, loaded):
            raise Refused("unknown_model", f"model {start.model!r} is not loaded; {loaded} is", "model")
        usual = self._hub.settings.audio
        given = msgspec.structs.asdict(start.audio)
        chosen = {name: value for name, value in given.items() if value is not UNSET}
        try:
            audio = AudioFormat(**usual.model_dump() | chosen)
        except UnsupportedAudio as error:
            raise Refused("unsupported_audio", str(error), f"audio.{error.field}") from error
        defaults = self._hub.defaults
        configuration = configured(defaults, defaults, start)
        return await self._hub.open(audio, configuration, start.channel, start.take_over)

    async def _run(self, session: Session, first: str | bytes) -> None:
        """Serves a session until it has ended and its client was told."""
        limits, cut = self._hub.settings.limits, session.configuration.endpointing
        told = Limits(limits.frame_bytes, limits.buffer_s, cut.max_utterance_s if cut else None)
        sender = session.attach_sender()
        session.answer(Started(session.id, "", 0.0, told))
        self._hub.start(session)
        sending = asyncio.create_task(self._send(session, sender))
        receiving = asyncio.create_task(self._receive(session, first))
        try:
            await self._hub.ended(session)
            sender.close()
            await asyncio.wait({sending}, timeout=CLOSE_S)
        finally:
            session.finish("expired")
            session.channel.unsubscribe(sender)
            sending.cancel()
            receiving.cancel()
            await asyncio.wait({sending, receiving})
        await self._socket.close(CLOSE_CODES.get(session.end_reason or "", 1001))

    async def _send(self, session: Session, sender: Subscription) -> None:
        """Sends the session's events until its last one. A client that does not read them is closed."""
        try:
            async for publication in sender:
                await self._socket.send(publication.json, text=True)
                match publication.event:
                    case Ended(session=ended) if ended == session.id:
                        return
                    case Dropped():
                        await self._socket.close(FATAL_CLOSE, "slow")
        except ConnectionClosed:
            return  # the receiving side ends the session

    async def _receive(self, session: Session, first: str | bytes) -> None:
        """Takes what the client sends; a connection that is lost ends the session, after its finals."""
        acknowledged_at = time.monotonic()
        try:
            await self._take(session, first)
            async for message in self._socket:
                await self._take(session, message)
                if time.monotonic() - acknowledged_at >= ACK_S:
                    acknowledged_at = time.monotonic()
                    session.answer(Ack(session.received_frames))
        except ConnectionClosed:
            pass  # lost rather than closed: the same holds
        session.finish("expired")

    async def _take(self, session: Session, message: str | bytes) -> None:
        if isinstance(message, bytes):
            await session.feed(message)
        else:
            self._answer(session, message)
            await session.room()

    def _answer(self, session: Session, text: str) -> None:
        try:
            message = parse(text)
            if session.finishing:
                raise Refused("bad_message", "nothing may follow `finish`")
            self._obey(session, message)
        except Refused as refused:
            session.answer(error_of(refused, fatal=False))

    def _obey(self, session: Session, message: Message) -> None:
        match message:
            case Start() | Resume():
                raise Refused("bad_message", "the session is open already")
            case Configure():
                changed = configured(session.configuration, self._hub.defaults, message)
                self._hub.check(changed)
                session.configure(changed)
            case FlushMessage(id=flush_id):
                session.flush(flush_id)
            case ClearMessage():
                session.clear()
            case GapMessage(samples=frames):
                if frames > LONGEST_GAP_S * session.sample_rate:
                    raise Refused("bad_field", "samples: a gap of more than a day", "samples")
                session.gap(frames)
            case FinishMessage():
                session.finish()


async def read_channel(
    socket: ServerConnection, hub: Hub, name: str, only: Only | None, since: Cursor | None
) -> None:
    """One subscriber at ``/v1/channels/NAME``, until it leaves or is dropped. Raises ``Refused``."""
    channel = hub.channel(name)
    subscription = channel.subscribe(only, since)
    leaving = [
        asyncio.create_task(_ignore_messages(socket)),
        asyncio.create_task(keep_alive(socket, hub.settings.server.ping_s, hub.settings.server.idle_s)),
    ]
    for task in leaving:
        task.add_done_callback(lambda done: subscription.close())
    try:
        async for publication in subscription:
            await socket.send(publication.json, text=True)
        await socket.close()
    except ConnectionClosed:
        pass  # it left while it was being told something
    finally:
        channel.unsubscribe(subscription)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)


async def keep_alive(
    socket: ServerConnection, ping_s: float, idle_s: float, received: Callable[[], int] = lambda: 0
) -> None:
    """Pings a client and returns when it is gone: for ``idle_s`` neither a pong nor anything else came.

    A pong can be long in coming from a client that we are holding back: it waits behind the client's audio.
    """
    try:
        while True:
            await asyncio.sleep(ping_s)
            pong = asyncio.ensure_future(await socket.ping())
            so_far = received()
            while not (await asyncio.wait({pong}, timeout=idle_s))[0]:
                if received() == so_far:
                    return
                so_far = received()
    except ConnectionClosed:
        return


async def _ignore_messages(socket: ServerConnection) -> None:
    """Returns when the subscriber has left."""
    async for _ in socket:
        pass
