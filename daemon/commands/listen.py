"""``stenod listen``: the microphone as live text in the terminal.

A daemon that runs already does the work; else it is done in this process.
"""

import argparse
import asyncio
import signal

from ..audio.microphone import Microphone
from ..hub import running
from ..listening import Listening, feed_until, in_process, through_daemon
from ..settings import Settings
from ..terminal import LiveText
from .options import add_options, settings_of


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("listen", help="live text of the microphone", description=__doc__)
    add_options(
        parser, "--host", "--port", "--model", "--threads", "--language", "--task", "--prompt", "--mic"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Listens until SIGINT or SIGTERM; what was said before is shown to its end."""
    asyncio.run(_listen(settings_of(options)))
    return 0


async def _listen(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Microphone(settings.microphone.device) as microphone:
        with LiveText() as text:
            try:
                async with through_daemon(settings) as listening:
                    await _show_until(stop, listening, microphone, text)
            except OSError:  # no daemon answers
                async with running(settings) as hub, in_process(hub) as listening:
                    await _show_until(stop, listening, microphone, text)


async def _show_until(
    stop: asyncio.Event, listening: Listening, microphone: Microphone, text: LiveText
) -> None:
    async def show() -> None:
        async for event in listening:
            text.show(event)

    showing = asyncio.create_task(show())
    await feed_until(stop, showing, microphone, listening.take)
    if showing.done():
        showing.result()  # it may tell better than a closed connection why
    await listening.finish()
    await showing
