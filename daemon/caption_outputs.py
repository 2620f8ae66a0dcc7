"""What ``stenod captions`` makes of a channel: subtitles, plain text, a text source of OBS.

Subtitles and plain text are only ever added to, a whole cue or line at once, so that the file is a good one
at every moment.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol, TextIO

from .captions import HEADERS, LINES, CaptionFormat, CueMaker, spread, wrapped, written
from .events import AnyEvent, Discarded, Final, Partial, SessionStarted, Snapshot
from .standard_output import OutputError, standard_output


class CaptionOutput(Protocol):
    """Takes the events of a channel. Both raise ``OutputError``."""

    def show(self, event: AnyEvent) -> None:
        """An event, in the order of the channel; finals of a snapshot come as finals."""

    def quiet(self) -> None:
        """Nothing has come for a while."""


async def news(events: AsyncIterator[AnyEvent]) -> AsyncIterator[AnyEvent]:
    """The events from now on. Finals that only a later snapshot tells come before it, each once."""
    told: dict[str, int] = {}
    first = True
    async for event in events:
        finals = event.utterances if isinstance(event, Snapshot) else ()
        for final in (event,) if isinstance(event, Final) else finals:
            if final.utterance > told.get(final.session, 0):
                told[final.session] = final.utterance
                if not (first and finals):
                    yield final
        if isinstance(event, Snapshot):
            first = False
        if not isinstance(event, Final):
            yield event


class _Timeline:
    """Times of several sessions as seconds since the first one's beginning."""

    def __init__(self) -> None:
        self._bases: dict[str, float] = {}
        self._first_started_at: float | None = None
        self._end = 0.0

    def begin(self, session: str, started_at: float) -> None:
        """A session began at that time, in seconds since the epoch."""
        if self._first_started_at is None:
            self._first_started_at = started_at - self._end
        self._bases.setdefault(session, max(started_at - self._first_started_at, self._end))

    def base(self, final: Final) -> float:
        """What is to be added to the times of a final."""
        base = self._bases.setdefault(final.session, self._end)
        self._end = max(self._end, base + final.end)
        return base


class Subtitles:
    """SRT or WebVTT, cue by cue."""

    def __init__(self, form: CaptionFormat, path: Path | None) -> None:
        """``path`` None: standard output. Raises ``OutputError``."""
        self._form = form
        self._file = _Growing(path)
        self._maker = CueMaker()
        self._timeline = _Timeline()
        self._count = 0
        self._file.add(HEADERS[form])

    def show(self, event: AnyEvent) -> None:
        """A final becomes cues."""
        if isinstance(event, SessionStarted):
            self._timeline.begin(event.session, event.started_at)
        elif isinstance(event, Final):
            base = self._timeline.base(event)
            words = event.words or spread(event.text, event.start, event.end, event.language)
            for cue in self._maker.cues(words, event.language, base):
                self._count += 1
                self._file.add(written(cue, self._count, self._form))

    def quiet(self) -> None:
        """Nothing is to be done."""


class TextFile:
    """Plain text, a line an utterance."""

    def __init__(self, path: Path | None) -> None:
        """``path`` None: standard output. Raises ``OutputError``."""
        self._file = _Growing(path)

    def show(self, event: AnyEvent) -> None:
        """A final becomes a line."""
        if isinstance(event, Final):
            self._file.add(f"{event.text}\n")

    def quiet(self) -> None:
        """Nothing is to be done."""


class ObsText:
    """A file for a text source of OBS: the last two lines of what is being said; nothing in a pause."""

    def __init__(self, path: Path) -> None:
        """Raises ``OutputError``."""
        self._path = path
        self._before: tuple[str, ...] = ()
        """The last lines of the utterances that are over."""
        self._language: str | None = None
        self._shown: Sequence[str] | None = None
        self._write(())

    def show(self, event: AnyEvent) -> None:
        """Text appears as it is told, tentative words too."""
        match event:
            case Partial(committed=committed, tentative=tentative):
                self._write([*self._before, *self._lines(committed + tentative)])
            case Final(text=text, language=language):
                self._language = language
                self._before = (*self._before, *self._lines(text))[-LINES:]
                self._write(self._before)
            case Discarded():
                self._write(self._before)
            case Snapshot(partial=Partial() as partial):
                self.show(partial)

    def quiet(self) -> None:
        """The text goes."""
        self._before = ()
        self._write(())

    def _lines(self, text: str) -> tuple[str, ...]:
        return wrapped([word.text for word in spread(text, 0.0, 0.0, self._language)], self._language)

    def _write(self, lines: Sequence[str]) -> None:
        """Replaces the file, so that OBS never reads half of it."""
        if lines == self._shown:
            return
        new = self._path.with_name(f".{self._path.name}.new")
        try:
            new.write_text("\n".join(lines[-LINES:]), encoding="utf-8")
            new.replace(self._path)
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror}") from error
        self._shown = lines


class _Growing:
    """A file, or standard output, to which whole pieces are added."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        if path is not None:
            try:
                self._file = path.open("w", encoding="utf-8", newline="\n")
            except OSError as error:
                raise OutputError(f"{path}: cannot be written: {error.strerror}") from error

    def add(self, text: str) -> None:
        """Adds a piece; it is there for others to read at once. Raises ``OutputError``."""
        if self._file is None:
            with standard_output():
                sys.stdout.write(text)
            return
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror}") from error
