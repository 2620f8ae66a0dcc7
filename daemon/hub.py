"""All sessions and channels of a running engine: who may open one, and how they end."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from .audio.pcm import AudioFormat
from .channel import Channel
from .departures import Departures, may_resume
from .engine import Engine, Unsupported
from .events import EndReason, ErrorCode, Overload
from .journal import Journal, JournalError, ResumableRow
from .metrics import SESSIONS_RESUMED, SESSIONS_TAKEN_UP
from .publication import Publication
from .recovery import TakenUp
from .scheduler import Scheduler
from .segmenter import Endpointing
from .session import Session, digest
from .settings import Settings
from .utterance import Configuration

logger = logging.getLogger(__name__)

READY_FOR_S = 60.0
"""How long a successful inference counts as lately."""
PROBE_TIMEOUT_S = 10.0
NOT_KEPT = "the journal cannot be written: what is said is told, but not kept"


class Refused(Exception):
    """What a client asked is not possible; ``field`` names the field at fault, if it is one."""

    def __init__(self, code: ErrorCode, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field


class Slot:
    """A place among the sessions; ``refusal`` says why no session can be opened in it, if none can."""

    def __init__(self, refusal: Refused | None, client: str | None) -> None:
        self.refusal = refusal
        self.client = client
        self.held = True


class Resumption(NamedTuple):
    """What a sender comes back to; ``session`` is None if it has ended, and its last events are left."""

    session: Session | None
    channel: Channel
    frames: int
    """Received at the declared rate; audio goes on from there."""
    flushes: tuple[str | int | None, ...] = ()
    """Those that a session which has ended answered last."""


class Hub:
    """Opens sessions and channels within the limits. Get one from ``running``."""

    def __init__(
        self, settings: Settings, engine: Engine, scheduler: Scheduler, journal: Journal | None = None
    ) -> None:
        self.settings = settings
        self.engine = engine
        self.scheduler = scheduler
        self.journal = journal
        self.closing = asyncio.Event()
        """Set once no further session is accepted."""
        self.channels: dict[str, Channel] = {}
        self.sessions: dict[str, Session] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._slots = 0
        self._resuming = 0
        self._clients: Counter[str] = Counter()
        """Sessions, and those that may become one, of each client that is counted."""
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.departures = Departures(settings.server.resume_for_s)
        scheduler.on_overload = self._tell_overload
        if journal is not None:
            journal.on_failure = self._warn_of_journal

    @property
    def defaults(self) -> Configuration:
        """What a session does whose source chooses nothing."""
        chosen, cut = self.settings.session, self.settings.segmentation
        return Configuration(
            endpointing=Endpointing(cut.silence_ms, cut.max_utterance_s),
            language=chosen.language,
            task=chosen.task,
            prompt=chosen.prompt,
            words=chosen.words,
            partials=chosen.partials,
        )

    def refusal(self, client: str | None = None) -> Refused | None:
        """Why no further session can be opened now, by this client; None if one can."""
        if self.closing.is_set():
            return Refused("shutting_down", "the daemon is shutting down: try again later")
        if not self.scheduler.running:
            return Refused("engine_failed", "the engine does not run: restart the daemon")
        if self._slots + len(self.sessions) >= self.settings.limits.sessions:
            taken = self.settings.limits.sessions
            return Refused("too_many_sessions", f"all {taken} sessions are taken: try again later")
        most = self.settings.limits.client_sessions
        if client is not None and most and self._clients[client] >= most:
            return Refused("too_many_sessions", f"you have {most} sessions already: finish one first")
        if self.scheduler.ladder.rung.refusing:
            return Refused("too_many_sessions", "the machine cannot keep up with one more: try again later")
        return None

    @property
    def may_be_resumed(self) -> bool:
        """Whether a connection may be let in that could resume a session, though it cannot open one."""
        return not self.closing.is_set() and self._resuming < self.departures.count

    @contextmanager
    def slot(self, client: str | None = None) -> Iterator["Slot"]:
        """Room for one session of a client, until it is started or its source is gone.

        Raises ``Refused`` if no session can be opened, nor one be resumed.
        """
        slot = Slot(self.refusal(client), client)
        if slot.refusal is not None and not self.may_be_resumed:
            raise slot.refusal
        self._hold(slot, 1)
        try:
            yield slot
        finally:
            self._release(slot)

    def _hold(self, slot: "Slot", count: int) -> None:
        self._count(slot.client, count)
        if slot.refusal is None:
            self._slots += count
        else:
            self._resuming += count

    def _count(self, client: str | None, count: int) -> None:
        if client is not None:
            self._clients[client] += count
            if not self._clients[client]:
                del self._clients[client]

    def _release(self, slot: "Slot") -> None:
        if slot.held:
            slot.held = False
            self._hold(slot, -1)

    def channel(self, name: str | None) -> Channel:
        """The channel of that name, made if need be; None: one that nobody else finds.

        Raises ``Refused`` if there are too many.
        """
        limits = self.settings.limits
        if name is None:
            return Channel(None, limits.replay_events, limits.subscriber_queue)
        if name not in self.channels:
            if len(self.channels) >= limits.channels:
                self._forget_idle_channel()
            self.channels[name] = Channel(name, limits.replay_events, limits.subscriber_queue)
        return self.channels[name]

    def check(self, configuration: Configuration) -> None:
        """Raises ``Refused`` if the model cannot do what is chosen."""
        try:
            self.engine.check(configuration.language, configuration.task, configuration.phrases)
        except Unsupported as error:
            raise Refused("bad_field", str(error), error.field) from error

    async def open(
        self, audio: AudioFormat, configuration: Configuration, channel: str | None, take_over: bool = False
    ) -> Session:
        """A session that is yet to be started. With ``take_over`` it ends the channel's present source."""
        self.check(configuration)
        place = self.channel(channel)
        while (source := place.source) is not None:
            if self.departures.is_ghost(source):
                source.clear()  # its sender says it all again
            elif not (take_over or source.finishing):
                raise Refused("channel_busy", f"channel {channel} has a source already", "channel")
            source.finish("expired")
            await self.ended(source)
        return self._session(place, audio, configuration, None)

    def take_up(self, taken: TakenUp) -> Session:
        """A session that outlived its daemon, yet to be started. Raises ``Refused``."""
        checkpoint = taken.checkpoint
        place = self.channel(checkpoint.channel)
        if place.source is not None:
            raise Refused("channel_busy", f"channel {place.name} has a source already", "channel")
        SESSIONS_TAKEN_UP.inc()
        return self._session(place, checkpoint.audio, checkpoint.configuration, taken)

    def _session(
        self, place: Channel, audio: AudioFormat, configuration: Configuration, taken_up: TakenUp | None
    ) -> Session:
        cut = self.settings.segmentation
        session = Session(
            lane=self.scheduler.open((configuration.step_ms or self.settings.session.step_ms) / 1000),
            channel=place,
            model=self.engine.model.name,
            audio=audio,
            configuration=configuration,
            preroll_ms=cut.preroll_ms,
            vad_mode=cut.vad_mode,
            buffer_s=self.settings.limits.buffer_s,
            journal=self.journal,
            taken_up=taken_up,
        )
        place.source = session
        return session

    async def resume(self, wanted: str, token: str, last_seq: int) -> Resumption:
        """A sender comes back; whoever holds its session gives it up. Raises ``Refused``."""
        session = self.sessions.get(wanted)
        if session is not None and may_resume(session.token, token) and last_seq <= session.last_seq:
            await self.departures.evict(session)
            if session.end_reason is None:
                SESSIONS_RESUMED.inc()
                return Resumption(session, session.channel, session.realign())
            await self.ended(session)  # its last events are about to be told
        ended = self.departures.find(token)
        if ended is not None and ended.id == wanted and last_seq <= ended.last_seq:
            return Resumption(None, ended.channel, ended.received_frames, ended.flushes)
        kept = await self._kept(token)
        if kept is not None and kept.id == wanted and kept.ended_at and last_seq <= (kept.last_seq or 0):
            return Resumption(None, self.channel(None), kept.frames or 0)
        raise Refused(
            "not_resumable",
            "there is no such session any more, or not with this token and last_seq",
            "session",
        )

    def opening(self, token: str) -> asyncio.Lock:
        """Who opens a session with that token of its sender's choice holds this lock."""
        return self._opening.setdefault(token, asyncio.Lock())

    async def opened_with(self, token: str) -> str | None:
        """The session that was opened with that token of its sender's choice; None: none was."""
        for session in self.sessions.values():
            if may_resume(session.token, token):
                return session.id
        found = self.departures.find(token) or await self._kept(token)
        return found.id if found is not None else None

    async def _kept(self, token: str) -> ResumableRow | None:
        """The session of that token, if the journal has it."""
        if self.journal is None:
            return None
        try:
            return await self.journal.read(lambda reader: reader.resumable(digest(token)))
        except JournalError as error:
            logger.error("%s", error)
            return None

    def start(self, session: Session, slot: "Slot | None" = None) -> None:
        """Lets an opened session run; it takes the ``slot``'s place."""
        client = slot.client if slot is not None else None
        if slot is not None:
            self._release(slot)
        self._count(client, 1)
        self.sessions[session.id] = session
        task = asyncio.create_task(session.run(), name=f"session {session.id}")
        self._tasks[session.id] = task
        task.add_done_callback(lambda done: self._forget(session, client, done))
        if self.journal is not None and self.journal.failed:
            session.warn("journal_failed", NOT_KEPT)

    async def ended(self, session: Session) -> None:
        """Returns when the session has ended, however it did."""
        await session.over.wait()

    async def ready(self) -> bool:
        """Whether inference worked lately, and there is room for one more session."""
        if self.refusal() is not None:
            return False
        succeeded_at = self.engine.succeeded_at
        if succeeded_at is not None and time.monotonic() - succeeded_at < READY_FOR_S:
            return True
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                return await self.engine.probe()
        except TimeoutError:
            return False

    async def drain(self, reason: EndReason, deadline_s: float) -> None:
        """No new sessions; those there are get their finals within the deadline, then all are ended."""
        self.closing.set()
        for session in self.sessions.values():
            session.finish(reason)
        tasks = set(self._tasks.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=deadline_s)
            for task in late:
                task.cancel()
            if late:
                logger.error("%d sessions did not drain within %.0f s", len(late), deadline_s)
                await asyncio.wait(late)
        self.departures.close()
        for channel in self.channels.values():
            channel.drop_subscribers()

    def _forget(self, session: Session, client: str | None, task: asyncio.Task[None]) -> None:
        self._count(client, -1)
        del self.sessions[session.id], self._tasks[session.id]
        session.channel.source = None
        session.over.set()
        self.departures.ended(session)
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("the session failed", exc_info=failure, extra={"session": session.id})

    def _forget_idle_channel(self) -> None:
        """Makes room for a channel: the oldest one goes that nobody sends to or reads."""
        for name, channel in self.channels.items():
            if not channel.in_use:
                del self.channels[name]
                return
        raise Refused("too_many_sessions", f"all {len(self.channels)} channels are in use", "channel")

    def _tell_overload(self, event: Overload) -> None:
        publication = Publication(event)
        for session in self.sessions.values():
            session.channel.publish(publication)

    def _warn_of_journal(self, failure: str) -> None:
        for session in self.sessions.values():
            session.warn("journal_failed", f"{NOT_KEPT} ({failure})")


@asynccontextmanager
async def running(settings: Settings, journal: Journal | None = None) -> AsyncIterator[Hub]:
    """A hub whose engine is loaded and runs; on leaving, all sessions drain. Raises as ``Engine.load``."""
    engine = await asyncio.to_thread(Engine.load, settings.engine, settings.session)
    scheduler = Scheduler(engine, settings.engine.batch, settings.engine.decode_deadline_s)
    stepping = asyncio.create_task(scheduler.run(), name="scheduler")
    hub = Hub(settings, engine, scheduler, journal)
    try:
        yield hub
    finally:
        await hub.drain("shutdown", settings.server.shutdown_deadline_s)
        stepping.cancel()
        await asyncio.wait({stepping})
        await asyncio.to_thread(engine.close)
