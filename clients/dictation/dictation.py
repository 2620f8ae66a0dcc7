"""From the microphone to the focused window, as it is told to start and stop."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, Self

from ...audio.microphone import Item, Microphone, NoMicrophone
from ...audio.microphone import Sound as Heard
from ...events import Commit, Discarded, Ended, Error, Final, Warning
from ...hub import Hub, Refused, running
from ...listening import Listening, feed_until, in_process, through_daemon
from ...models import ModelError
from ...server.address import AddressError
from ...settings import Settings, SettingsError
from .control import Command
from .errors import CannotType, CannotUndo
from .sounds import Sounds
from .writer import Writer

logger = logging.getLogger(__name__)

FINISHES_WITHIN_S = 60.0
"""How long the last words may take once the microphone is closed."""
FAULTS = (NoMicrophone, AddressError, SettingsError, ModelError, Refused, CannotType, TimeoutError)
"""What ends a dictation, and is told; the next one may go well."""


class Ears:
    """Opens sessions at a daemon that runs, else in this process, where the model then stays loaded."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._hub: Hub | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Listening]:
        """A session. Raises those of ``FAULTS`` that are about it."""
        async with AsyncExitStack() as stack:
            try:
                listening = await stack.enter_async_context(through_daemon(self._settings))
            except OSError:  # no daemon answers
                listening = await stack.enter_async_context(in_process(await self.own_hub()))
            yield listening

    async def prepare(self) -> None:
        """Loads the model now where no daemon answers yet, so that the first dictation need not wait."""
        server = self._settings.server
        try:
            _, writer = await asyncio.open_connection(server.host, server.port)
            writer.close()
        except OSError:
            await self.own_hub()

    async def own_hub(self) -> Hub:
        """The engine in this process; the first call loads it."""
        if self._hub is None:
            self._hub = await self._stack.enter_async_context(running(self._settings))
        return self._hub


class Dictation:
    """One at a time: ``off``, ``starting``, ``listening``, ``finishing``; or ``error: ...``, which is off."""

    def __init__(
        self, settings: Settings, ears: Ears, writer: Writer, sounds: Sounds, show: Callable[[str], None]
    ) -> None:
        self._device = settings.microphone.device
        self._ears = ears
        self._writer = writer
        self._sounds = sounds
        self._show = show
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._cancelled = False
        self.may_type = asyncio.Event()
        """Clear it while a modifier is held down."""
        self.may_type.set()
        self.state = ""
        self._tell("off")

    async def obey(self, command: Command) -> str:
        """Does what it is told, and returns the state, or why it cannot. Waits only for an undo."""
        match command:
            case "toggle" | "start" | "stop" | "cancel":
                self.order(command)
            case "undo":
                try:
                    await self._writer.undo()
                except (CannotType, CannotUndo) as error:
                    self._sounds.play("wrong")
                    return f"error: {error}"
        return self.state

    def order(self, command: Literal["toggle", "start", "stop", "cancel"]) -> None:
        """Starts or stops, where that changes anything; does not wait."""
        if self._task is not None and not self._task.done():
            if command != "start":
                self._cancelled |= command == "cancel"
                self._stop.set()
        elif command in ("toggle", "start"):
            self._stop.clear()
            self._cancelled = False
            self._tell("starting")
            self._task = asyncio.create_task(self._dictate())

    async def close(self) -> None:
        """Stops listening, and waits until what was said is typed."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _dictate(self) -> None:
        try:
            await self._listen()
        except FAULTS as error:
            self._sounds.play("wrong")
            reason = str(error) or "the last words did not come in time"
            logger.warning("%s", reason)
            self._tell(f"error: {' '.join(reason.split())}")
        except Exception:
            logger.exception("dictation failed")
            self._tell("error: dictation failed; the log says more")
        else:
            self._sounds.play("end")
            self._tell("off")

    async def _listen(self) -> None:
        self._writer.begin()
        async with Microphone(self._device) as microphone, self._ears.open() as listening:

            async def take(item: Item) -> None:
                if self.state == "starting" and isinstance(item, Heard):
                    self._tell("listening")
                    self._sounds.play("begin")
                await listening.take(item)

            writing = asyncio.create_task(self._write(listening))
            try:
                await feed_until(self._stop, writing, microphone, take)
                self._tell("finishing")
                if not writing.done():
                    if self._cancelled:
                        await listening.clear()
                    await listening.finish()
                async with asyncio.timeout(FINISHES_WITHIN_S):
                    await writing
            finally:
                writing.cancel()
                await asyncio.wait({writing})

    async def _write(self, listening: Listening) -> None:
        async for event in listening:
            match event:
                case Commit(text=text):
                    await self._typed(self._writer.commit, text)
                case Final() | Discarded():
                    await self._typed(self._writer.end)
                case Error(message=message, fatal=True):
                    raise AddressError(message)
                case Ended(reason=reason) if reason != "finished":
                    raise AddressError(f"the session ended: {reason.replace('_', ' ')}")
                case Warning(message=message) | Error(message=message):
                    logger.warning("%s", message)
        await self._typed(self._writer.finish)

    async def _typed(self, write: Callable[..., Awaitable[None]], *text: str) -> None:
        await self.may_type.wait()
        if self._cancelled:
            return
        try:
            await write(*text)
        except CannotUndo as error:  # said, not meant for the text: the dictation goes on
            self._sounds.play("wrong")
            logger.warning("%s", error)

    def _tell(self, state: str) -> None:
        self.state = state
        self._show(state)
