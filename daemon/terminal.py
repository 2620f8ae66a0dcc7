"""Live text in a terminal: what is committed in normal type, what is tentative dimmed."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from .channel import Subscription
from .events import Ended, Error, Event, Final, Gap, Overload, Partial, Snapshot, Warning
from .standard_output import standard_output


class LiveText:
    """Shows a session's events. Finals go to stdout, where they stay; all else that is said, to stderr.

    Where stdout is no terminal it gets the finals alone, one a line.
    """

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._remarks = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        """Shows an event, if it is one that a reader wants to see. Raises ``OutputError``."""
        match event:
            case Partial(committed=committed, tentative=tentative):
                self._draw(Text(committed).append(tentative, style="dim"))
            case Final(text=text):
                self._draw(Text())
                with standard_output():
                    self._console.print(Text(text))
            case Snapshot(partial=Partial() as partial):
                self.show(partial)
            case Gap(start=start, end=end, reason=reason):
                self._remark(f"{end - start:.1f} s of audio are missing ({reason})")
            case Overload(lag_s=lag_s, action=action):
                self._remark(f"{action.replace('_', ' ')}: {lag_s:.1f} s behind")
            case Warning(message=message) | Error(message=message):
                self._remark(message)
            case Ended(reason=reason) if reason != "finished":
                self._remark(f"the session ended: {reason.replace('_', ' ')}")

    def quiet(self) -> None:
        """Nothing has come for a while: what was said stays."""

    def _draw(self, text: Text) -> None:
        if self._console.is_terminal:
            self._live.update(text, refresh=True)

    def _remark(self, message: str) -> None:
        self._remarks.print(f"stenod: {message}", style="yellow", markup=False)


async def show_all(events: Subscription, text: LiveText) -> None:
    """Shows a session that runs in this process, to its end."""
    async for publication in events:
        text.show(publication.event)
        if isinstance(publication.event, Ended):
            return
