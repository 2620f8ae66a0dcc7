"""``stenod captions``: what is said in a channel, in the terminal, as subtitles, or for OBS."""

import argparse
import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from ssl import SSLCertVerificationError

from websockets.exceptions import InvalidHandshake, InvalidURI

from ..caption_outputs import CaptionOutput, ObsText, Subtitles, TextFile, news
from ..clients import ConnectionLost, Refused, follow
from ..connecting import TOKEN_VARIABLE, not_let_in, token
from ..events import AnyEvent
from ..server.address import AddressError
from ..settings import CHANNEL_NAME, SettingsError
from ..terminal import LiveText
from .options import add_options, settings_of

TARGETS = ("terminal", "srt", "vtt", "file", "obs")
QUIET_S = 8.0
"""After so long a pause there is nothing to be read any more."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser(
        "captions",
        help="shows or writes what is said in a channel",
        description=__doc__,
        epilog=f"Where the daemon asks for a token, {TOKEN_VARIABLE} holds it.",
    )
    add_options(parser, "--host", "--port")
    parser.add_argument("--channel", required=True, metavar="NAME", help="the channel to read")
    parser.add_argument(
        "--to",
        choices=TARGETS,
        default="terminal",
        help="live text in the terminal (default); subtitles that grow; file: plain text that grows; "
        "obs: a file with the last two lines, for a text source",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="for all but terminal; default: standard output"
    )
    parser.add_argument("--url", metavar="URL", help="another daemon's address, such as wss://host:8790")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Reads until SIGINT or SIGTERM."""
    if not re.match(CHANNEL_NAME, options.channel):
        raise SettingsError("--channel: a name has letters, digits, '.', '_', '-', at most 64")
    server = settings_of(options).server
    url = (options.url or server.url).rstrip("/")
    with ExitStack() as stack:
        asyncio.run(_read(url, options.channel, _output(options.to, options.output, stack)))
    return 0


def _output(target: str, path: Path | None, stack: ExitStack) -> CaptionOutput:
    match target:
        case "srt" | "vtt" as form:
            return Subtitles(form, path)
        case "file":
            return TextFile(path)
        case "obs" if path is not None:
            return ObsText(path)
        case "terminal" if path is None:
            return stack.enter_context(LiveText())
    raise SettingsError(
        "--to obs: needs a file (-o FILE)" if target == "obs" else "--to terminal: has no file (-o)"
    )


async def _read(url: str, channel: str, output: CaptionOutput) -> None:
    """Raises ``AddressError``, ``OutputError``, and ``SettingsError`` where ``url`` is none."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await _show(news(follow(url, channel, token=token())), output, stop)
    except InvalidURI as error:
        raise SettingsError(f"--url: {error}") from error
    except (Refused, InvalidHandshake) as error:
        raise not_let_in(url, error) from error
    except ConnectionLost as error:
        raise AddressError(str(error)) from error
    except SSLCertVerificationError as error:
        hint = "SSL_CERT_FILE may have to name its certificate"
        raise AddressError(
            f"{url}: its certificate is not trusted ({error.verify_message}); {hint}"
        ) from error
    except OSError as error:
        raise AddressError(f"{url}: no connection ({error}); does `stenod serve` run there?") from error


async def _show(events: AsyncIterator[AnyEvent], output: CaptionOutput, stop: asyncio.Event) -> None:
    stopping = asyncio.create_task(stop.wait())
    coming = asyncio.ensure_future(anext(events))
    try:
        while not stopping.done():
            await asyncio.wait({coming, stopping}, timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                output.show(coming.result())
                coming = asyncio.ensure_future(anext(events))
            elif not stopping.done():
                output.quiet()
    finally:
        for task in (stopping, coming):
            task.cancel()
        await asyncio.gather(stopping, coming, return_exceptions=True)
