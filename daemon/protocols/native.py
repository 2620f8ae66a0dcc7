"""The native protocol, version 1: ``/v1/stream`` sends audio. ``channels`` is its other half."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from msgspec import UNSET, structs
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed

from ..access import Grant
from ..audio.pcm import AudioFormat, UnsupportedAudio
from ..channel import Cursor
from ..events import Ack, Dropped, Ended, EndReason, Event, Flushed, Limits, Resumed, Started, encode
from ..hub import Hub, Refused, Slot
from ..journal import JournalError
from ..publication import Publication
from ..rate import Rate
from ..replay import follow, of_session
from ..segmenter import Endpointing
from ..session import Session
from .endpoint import Admission, Endpoint, bearer, offered, require
from .exchange import SLOW_CLOSE, cancel, close_code, close_unread, exchange, ignore_messages, keep_alive
from .messages import (
    ClearMessage,
    Configure,
    FinishMessage,
    FlushMessage,
    GapMessage,
    Message,
    Resume,
    Start,
    configured,
    error_of,
    parse,
)

logger = logging.getLogger(__name__)

ACK_S = 1.0
LONGEST_GAP_S = 24 * 3600
FATAL_CLOSE = 1008
EVICTED_CLOSE = 4409


TOKEN_PROTOCOL = "stenod.token."
"""How a page, which cannot send headers, offers its token among the subprotocols."""


class Native(Endpoint):
    """What both halves of the protocol have in common."""

    subprotocols = ("stenod.v1",)

    def token(self, headers: Headers) -> str | None:
        tokens = [one for one in offered(headers) if one.startswith(TOKEN_PROTOCOL)]
        return bearer(headers) or (tokens[0].removeprefix(TOKEN_PROTOCOL) if tokens else None)

    def refusal(self, refused: Refused) -> bytes:
        return encode(error_of(refused, fatal=True))


class Stream(Native):
    """Senders of audio."""

    def takes(self, path: str) -> bool:
        return path == "/v1/stream"

    def check(self, hub: Hub, admission: Admission) -> None:
        require(admission.grant, "send")
        if (refusal := hub.refusal(admission.client)) is not None and not hub.may_be_resumed:
            raise refusal

    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        await StreamConnection(socket, hub, admission.grant, admission.client).serve()


@dataclass(frozen=True)
class Opened:
    """A session that a client has opened, or come back to; ``session`` is None if it has ended."""

    id: str
    session: Session | None
    events: AsyncGenerator[Publication, None]
    """What is to be told."""
    first: str | bytes = b""
    """What it has to do first."""


class StreamConnection:
    """One client at ``/v1/stream``."""

    def __init__(self, socket: ServerConnection, hub: Hub, grant: Grant, client: str | None) -> None:
        """``client``: whom its sessions are counted for."""
        self._socket = socket
        self._client = client
        self._hub = hub
        self._grant = grant
        self._rate = Rate(hub.settings.limits.messages_per_s)
        assert socket.request is not None
        self._key = socket.request.headers["Sec-WebSocket-Key"]
        """Random, and so the name of this connection."""
        self._session: Session | None = None
        self._finished = False
        """Whether this client asked for the end."""
        self._known_bytes = 0
        """Of what it says again, what the session has."""
        self._evicted = asyncio.Event()
        self._gone = asyncio.Event()

    async def serve(self) -> None:
        """From the first message to the close frame."""
        watching = asyncio.create_task(self._watch())
        try:
            with self._hub.slot(self._client) as slot:
                opened = await self._open_in_time(slot)
                if opened is None:
                    return
                if opened.session is None:
                    await self._tell_rest(opened)
                else:
                    await self._run(opened, opened.session)
        except Refused as refused:
            await self._refuse(refused)
        finally:
            self._leave()
            watching.cancel()
            await asyncio.wait({watching})

    async def give_up(self) -> None:
        """Another connection takes over the session: returns when this one takes nothing more to it."""
        self._evicted.set()
        await self._gone.wait()

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

    async def _open_in_time(self, slot: Slot) -> Opened | None:
        """As ``_open``, unless the daemon shuts down before the client has said what it wants."""
        opening = asyncio.create_task(self._open(slot))
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
        await close_unread(self._socket, FATAL_CLOSE, refused.code)

    async def _open(self, slot: Slot) -> Opened | None:
        """What the first good message opens; None if the client left.

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
                return await self._start(slot, Start(), message)
            try:
                parsed = parse(message)
            except Refused as refused:
                if refused.code == "bad_field":
                    raise
                await self._socket.send(encode(error_of(refused, fatal=False)), text=True)
                continue
            if isinstance(parsed, Resume):
                return await self._resume(parsed)
            if isinstance(parsed, Start):
                return await self._start(slot, parsed)
            if isinstance(parsed, FinishMessage) or (at_once and isinstance(parsed, FlushMessage)):
                return await self._start(slot, Start(), message)
            misplaced = Refused("bad_message", "the first message is `start`, or audio")
            await self._socket.send(encode(error_of(misplaced, fatal=False)), text=True)
        return None

    async def _start(self, slot: Slot, start: Start, first: str | bytes = b"") -> Opened:
        if start.token is None:
            return await self._begin(slot, start, first)
        async with self._hub.opening(start.token):
            if (opened := await self._hub.opened_with(start.token)) is not None:
                return await self._resume(Resume(opened, 0, start.token), again=True)
            return await self._begin(slot, start, first)

    async def _begin(self, slot: Slot, start: Start, first: str | bytes) -> Opened:
        if slot.refusal is not None:
            raise slot.refusal
        if not self._grant.allows("send", start.channel):
            raise Refused("forbidden", f"this token may not send to channel {start.channel}", "channel")
        loaded = self._hub.engine.model.name
        if start.model not in (None, loaded):
            raise Refused("unknown_model", f"model {start.model!r} is not loaded; {loaded} is", "model")
        usual = self._hub.settings.audio
        given = structs.asdict(start.audio)
        chosen = {name: value for name, value in given.items() if value is not UNSET}
        try:
            audio = AudioFormat(**usual.model_dump() | chosen)
        except UnsupportedAudio as error:
            raise Refused("unsupported_audio", str(error), f"audio.{error.field}") from error
        defaults = self._hub.defaults
        configuration = replace(configured(defaults, defaults, start), lookahead_ms=start.lookahead_ms)
        session = await self._hub.open(audio, configuration, start.channel, start.take_over)
        self._hold(session)
        sender = session.attach_sender()
        session.answer(self._started(session.id, session.issue_token(start.token), configuration.endpointing))
        self._hub.start(session, slot)
        return Opened(session.id, session, aiter(sender), first)

    def _started(self, session: str, token: str, cut: Endpointing | None) -> Started:
        limits = self._hub.settings.limits
        told = Limits(limits.frame_bytes, limits.buffer_s, cut.max_utterance_s if cut else None)
        return Started(session, token, self._hub.departures.resume_for_s, told)

    async def _resume(self, resume: Resume, again: bool = False) -> Opened:
        """``again``: with ``start``, by a sender that does not know that it was heard, and says all again."""
        if not again:
            self._refuse_copy(self._hub.sessions.get(resume.session))
        resumption = await self._hub.resume(resume.session, resume.token, resume.last_seq)
        session = resumption.session
        if not again:
            self._refuse_copy(session)
        if session is not None:
            self._hold(session)
        back: Event = Resumed(resumption.frames)
        if again:
            cut = session.configuration.endpointing if session is not None else None
            back = self._started(resume.session, resume.token, cut)
            self._known_bytes = resumption.frames * session.audio.frame_bytes if session is not None else 0
        for answer in (back, *map(Flushed, resumption.flushes)):
            await self._socket.send(encode(answer), text=True)
        told = follow(
            resumption.channel,
            self._hub.journal,
            of_session,
            Cursor(resume.session, resume.last_seq),
            attached=session.attach_sender if session is not None else None,
        )
        return Opened(resume.session, session, told)

    def _refuse_copy(self, session: Session | None) -> None:
        """A network that doubles a connection gives its copy what goes on from an answer to the other."""
        if session is not None and self._key in session.held_by:
            raise Refused("bad_message", "another connection had this Sec-WebSocket-Key: choose one for each")

    def _hold(self, session: Session) -> None:
        self._session = session
        session.held_by.append(self._key)
        self._hub.departures.hold(session, self)

    async def _run(self, opened: Opened, session: Session) -> None:
        """Serves a session until it has ended and its client was told, or the client is gone."""
        try:
            await exchange(
                self._send(opened),
                self._hub.ended(session),
                self._receive(session, opened.first),
                self._acknowledge(session),
                self._evicted.wait(),
            )
        finally:
            self._leave()
        if self._evicted.is_set():
            await self._socket.close(EVICTED_CLOSE, "resumed elsewhere")
        else:
            await self._close(opened.id, session.end_reason)

    async def _tell_rest(self, opened: Opened) -> None:
        """The session has ended while its client was away."""
        sending = asyncio.create_task(self._send(opened))
        leaving = asyncio.create_task(ignore_messages(self._socket))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel({sending, leaving})
        await self._close(opened.id, None if sending.cancelled() else sending.result())

    async def _close(self, session: str, reason: EndReason | None) -> None:
        await self._socket.close(close_code(reason))
        if reason is not None and self._socket.protocol.close_rcvd is not None:
            self._hub.departures.told_all(session)

    def _leave(self) -> None:
        if self._session is not None:
            self._hub.departures.leave(self._session, self)
        self._gone.set()

    async def _send(self, opened: Opened) -> EndReason | None:
        """Sends the session's events until its last one. A client that does not read them is closed."""
        try:
            async with aclosing(opened.events) as events:
                async for publication in events:
                    await self._socket.send(publication.json, text=True)
                    match publication.event:
                        case Started():
                            pong = asyncio.ensure_future(await self._socket.ping())
                            pong.add_done_callback(self._claim)
                        case Ended(session=ended, reason=reason) if ended == opened.id:
                            return reason
                        case Dropped():
                            await self._socket.close(SLOW_CLOSE, "slow")
        except ConnectionClosed:
            pass  # the client may come back
        except JournalError as error:
            logger.error("session %s: %s", opened.id, error)
        return None

    def _claim(self, pong: asyncio.Future[float]) -> None:
        """What came before the ping has arrived, the session's token among it."""
        if self._session is not None and not pong.cancelled() and pong.exception() is None:
            self._session.claimed = True

    async def _receive(self, session: Session, first: str | bytes) -> None:
        """Takes what the client sends, until the connection is lost or closed."""
        try:
            await self._take(session, first)
            async for message in self._socket:
                await self._take(session, message)
        except ConnectionClosed:
            pass  # lost rather than closed: the same holds

    async def _acknowledge(self, session: Session) -> None:
        """Tells about once a second what the client need not keep."""
        acknowledged = 0
        while True:
            await asyncio.sleep(ACK_S)
            if (kept := session.keep()) != acknowledged:
                acknowledged = kept
                session.answer(Ack(kept))

    async def _take(self, session: Session, message: str | bytes) -> None:
        await self._rate.next()
        if isinstance(message, bytes):
            known = min(self._known_bytes, len(message))
            self._known_bytes -= known
            await session.feed(message[known:])
        else:
            self._answer(session, message)
            await session.room()

    def _answer(self, session: Session, text: str) -> None:
        try:
            message = parse(text)
            if self._known_bytes:
                if isinstance(message, GapMessage):
                    gap = message.samples * session.audio.frame_bytes
                    self._known_bytes = max(0, self._known_bytes - gap)
                return
            if self._finished:
                raise Refused("bad_message", "nothing may follow `finish`")
            if not session.finishing:  # else its sender does not know yet that it ends
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
                if frames > LONGEST_GAP_S * session.audio.sample_rate:
                    raise Refused("bad_field", "samples: a gap of more than a day", "samples")
                session.gap(frames)
            case FinishMessage():
                self._finished = True
                session.finish()
