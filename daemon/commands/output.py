"""Where transcripts go: stdout, one file, or a folder with a file for each."""

from collections.abc import Iterable
from pathlib import Path

from ..formats import Format, Transcript, formatted
from ..settings import SettingsError
from ..standard_output import OutputError, standard_output


class Output:
    """Writes transcripts in one format."""

    def __init__(self, target: str | None, form: Format, count: int) -> None:
        """``count`` recordings go to ``target``. If they cannot: ``SettingsError`` or ``OutputError``."""
        self._form = form
        self._target = Path(target) if target is not None else None
        self._folder = target is not None and (target.endswith("/") or Path(target).is_dir())
        self._written: set[Path] = set()
        if count > 1 and form in ("srt", "vtt") and not self._folder:
            raise SettingsError(
                f"--format {form}: several recordings need a folder each gets a file in (-o DIR/)"
            )
        if self._target is not None and not self._folder and not self._target.parent.is_dir():
            raise OutputError(
                f"{target}: cannot be written: there is no folder {self._target.parent}; make it, "
                "or choose another"
            )

    @property
    def _streaming(self) -> bool:
        return self._target is None and self._form == "txt"

    def show(self, lines: Iterable[str]) -> None:
        """Text as it comes: on stdout at once, if that is where it goes as plain text."""
        if self._streaming:
            for line in lines:
                with standard_output():
                    print(line)

    def write(self, transcript: Transcript) -> None:
        """Writes a transcript whose text was shown before. Raises ``OutputError``."""
        if self._streaming:
            return
        text = formatted(transcript, self._form)
        if self._target is None:
            with standard_output():
                print(text, end="")
            return
        path = self._path(transcript.file)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a" if path in self._written else "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
        self._written.add(path)

    def _path(self, file: str) -> Path:
        """The file to write to; two recordings of one name get two files."""
        assert self._target is not None
        if not self._folder:
            return self._target
        stem = "stdin" if file == "-" else Path(file).stem
        path = self._target / f"{stem}.{self._form}"
        number = 2
        while path in self._written:
            path = self._target / f"{stem}-{number}.{self._form}"
            number += 1
        return path
