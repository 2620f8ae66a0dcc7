"""The command line: ``stenod COMMAND``."""

import argparse
import logging
import sys
from importlib.metadata import version

from .access import AccessError
from .audio.files import AudioFileError
from .audio.microphone import NoMicrophone
from .clients.dictation.errors import DictationError
from .commands import (
    captions,
    devices,
    dictate,
    doctor,
    history,
    listen,
    models,
    serve,
    tokens,
    transcribe,
)
from .journal import JournalError
from .log_format import log_to_stderr
from .models import ModelError, NotWritten
from .server.address import AddressError
from .server.app import EngineNotReady
from .server.service import ServiceError
from .settings import SettingsError
from .standard_output import OutputError, discard_standard_output

COMMANDS = (serve, listen, dictate, transcribe, captions, history, tokens, devices, models, doctor)

EXIT_CODES: dict[type[Exception], int] = {
    OutputError: 1,
    NotWritten: 1,
    SettingsError: 2,
    JournalError: 2,
    AccessError: 2,
    ModelError: 3,
    EngineNotReady: 3,
    AudioFileError: 4,
    NoMicrophone: 4,
    AddressError: 5,
    ServiceError: 5,
    DictationError: 5,
}
"""What a person can do something about: one line, no traceback."""
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code. Text goes to stdout, all else to stderr."""
    options = _parser().parse_args(arguments)
    # A daemon's log is read by programs where no terminal shows it.
    text = options.run is not serve.run or sys.stderr.isatty()
    log_to_stderr(logging.DEBUG if options.verbose else logging.WARNING, text=text)
    try:
        return int(options.run(options))
    except tuple(EXIT_CODES) as error:
        print(f"stenod: {error}", file=sys.stderr)
        return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_standard_output()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stenod",
        description="Live transcription: speech in, committed text out, word by word.",
        epilog="Exit codes: 0 done; 1 some inputs failed; 2 usage or settings; 3 model; "
        "4 audio input or device; 5 address in use or network; 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"stenod {version('stenod')}")
    parser.add_argument("-v", "--verbose", action="store_true", help="log what is done")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser
