"""All sessions and channels of a running engine: who may open one, and how they end."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from .audio.pcm import AudioFormat
from .channel import Channel
from .engine import Engine, Unsupported
from .events import EndReason, ErrorCode, Overload
from .journal import Journal
from .publication import Publication
from .scheduler import Scheduler
from .segmenter import Endpointing
from .session import Session
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

    def refusal(self) -> Refused | None:
        """Why no further session can be opened now; None if one can."""
        if self.closing.is_set():
            return Refused("shutting_down", "the daemon is shutting down: try again later")
        if not self.scheduler.running:
            return Refused("engine_failed", "the engine does not run: restart the daemon")
        if self._slots >= self.settings.limits.sessions:
            return Refused("too_many_sessions", f"all {self._slots} sessions are taken: try again later")
        if self.scheduler.ladder.rung.refusing:
            return Refused("too_many_sessions", "the machine cannot keep up with one more: try again later")
        return None

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Room for one session, for as long as its source is there. Raises ``Refused``."""
        if (refusal := self.refusal()) is not None:
            raise refusal
        self._slots += 1
        try:
            yield
        finally:
            self._slots -= 1

    def channel(self, name: str) -> Channel:
        """The channel of that name, made if need be. Raises ``Refused`` if there are too many."""
        if name not in self.channels:
            limits = self.settings.limits
            if len(self.channels) >= limits.channels:
                self._forget_idle_channel()
            self.channels[name] = Channel(name, limits.replay_events, limits.subscriber_queue)
        return self.channels[name]

    def check(self, configuration: Configuration) -> None:
        """Raises ``Refused`` if the model cannot do what is chosen."""
        try:
            self.engine.check(configuration.language, configuration.task)
        except Unsupported as error:
            raise Refused("bad_field", str(error), error.field) from error

    async def open(
        self, audio: AudioFormat, configuration: Configuration, channel: str | None, take_over: bool = False
    ) -> Session:
        """A session that is yet to be started. With ``take_over`` it ends the channel's present source."""
        self.check(configuration)
        limits, cut = self.settings.limits, self.settings.segmentation
        place = Channel(None, 1, limits.subscriber_queue) if channel is None else self.channel(channel)
        while place.source is not None:
            if not take_over:
                raise Refused("channel_busy", f"channel {channel} has a source already", "channel")
            place.source.finish("expired")
            await self.ended(place.source)
        session = Session(
            lane=self.scheduler.open(self.settings.session.step_ms / 1000),
            channel=place,
            model=self.engine.model.name,
            audio=audio,
            configuration=configuration,
            preroll_ms=cut.preroll_ms,
            vad_mode=cut.vad_mode,
            buffer_s=limits.buffer_s,
            journal=self.journal,
        )
        place.source = session
        return session

    def start(self, session: Session) -> None:
        """Lets an opened session run."""
        self.sessions[session.id] = session
        task = asyncio.create_task(session.run(), name=f"session {session.id}")
        self._tasks[session.id] = task
        task.add_done_callback(lambda done: self._forget(session, done))
        if self.journal is not None and self.journal.failed:
            session.warn("journal_failed", NOT_KEPT)

    async def ended(self, session: Session) -> None:
        """Returns when the session has ended, however it did."""
        if (task := self._tasks.get(session.id)) is not None:
            await asyncio.wait({task})

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
        for channel in self.channels.values():
            channel.drop_subscribers()

    def _forget(self, session: Session, task: asyncio.Task[None]) -> None:
        del self.sessions[session.id], self._tasks[session.id]
        session.channel.source = None
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("session %s failed", session.id, exc_info=failure)

    def _forget_idle_channel(self) -> None:
        """Makes room for a channel: the oldest one goes that nobody sends to or reads."""
        for name, channel in self.channels.items():
            if channel.source is None and not channel.subscribers:
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
