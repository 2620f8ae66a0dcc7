"""Progress of long work on stderr: bars in a terminal, else a line for each thing that is begun."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class ProgressBars:
    """A context manager whose ``show`` is handed to work that tells bytes done, bytes in all, and a label."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, done: int, total: int, label: str) -> None:
        """Draws the bar of ``label``; a ``total`` of 0 is not known."""
        if label not in self._tasks:
            self._tasks[label] = self._progress.add_task(label)
            if not self._console.is_terminal:
                self._console.print(label, markup=False)
        self._progress.update(self._tasks[label], completed=done, total=total or None)
