"""``stenod listen``: the microphone as live text in the terminal.

A daemon that runs already does the work; else it is done in this process.
"""

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable

from websockets.exceptions import InvalidHandshake

from ..audio.microphone import Back, Item, Lost, Microphone, Overflow, Sound
from ..audio.pcm import AudioFormat
from ..clients import ConnectionLost, Sender, send
from ..events import Ended, Error
from ..hub import running
from ..server.address import AddressError
from ..server.microphone import take
from ..settings import Settings, SettingsError
from ..terminal import LiveText, show_all
from .options import add_options, settings_of


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("listen", help="live text of the microphone", description=__doc__)
    add_options(parser, "--host", "--port", "--model", "--threads", "--language", "--task", "--prompt")
    parser.add_argument(
        "--mic",
        dest="microphone.device",
        metavar="DEVICE",
        default=argparse.SUPPRESS,
        help="part of the device's name; default: the system's default",
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
                await _through_daemon(settings, microphone, text, stop)
            except OSError:  # no daemon answers
                await _in_process(settings, microphone, text, stop)


async def _through_daemon(
    settings: Settings, microphone: Microphone, text: LiveText, stop: asyncio.Event
) -> None:
    """Raises ``OSError`` where no daemon answers, ``AddressError`` or ``SettingsError`` where one refuses."""
    url = f"ws://{settings.server.host}:{settings.server.port}"
    chosen = settings.session
    opening = send(url, encoding="f32le", language=chosen.language, task=chosen.task, prompt=chosen.prompt)
    try:
        async with opening as sender:
            showing = asyncio.create_task(_show(sender, text))
            await _feed_until(stop, showing, microphone, lambda item: _send(sender, item))
            if showing.done():
                showing.result()  # it may tell better than a closed connection why
            await sender.finish()
            await showing
    except InvalidHandshake as error:
        raise AddressError(f"{url}: what answers there is no daemon with room for us ({error})") from error
    except ConnectionLost as error:
        raise AddressError(str(error)) from error


async def _show(sender: Sender, text: LiveText) -> None:
    async for event in sender:
        if isinstance(event, Error) and event.field is not None:
            raise SettingsError(f"session.{event.field}: {event.message}")
        text.show(event)
        if isinstance(event, Ended):
            return


async def _send(sender: Sender, item: Item) -> None:
    match item:
        case Sound(samples):
            await sender.audio(samples.astype("<f4").tobytes())
        case Overflow(samples) | Back(samples):
            await sender.gap(samples)
        case Lost():
            await sender.flush()


async def _in_process(
    settings: Settings, microphone: Microphone, text: LiveText, stop: asyncio.Event
) -> None:
    async with running(settings) as hub:
        session = await hub.open(AudioFormat(), hub.defaults, None)
        showing = asyncio.create_task(show_all(session.attach_sender(), text))
        hub.start(session)
        await _feed_until(stop, showing, microphone, lambda item: take(session, item))
        session.finish()
        await showing


async def _feed_until(
    stop: asyncio.Event,
    showing: asyncio.Task[None],
    microphone: Microphone,
    use: Callable[[Item], Awaitable[None]],
) -> None:
    """Uses what the microphone hears until we are to stop, or nothing more is to be shown."""

    async def feed() -> None:
        async for item in microphone:
            await use(item)

    feeding = asyncio.create_task(feed())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({feeding, stopping, showing}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    feeding.cancel()
    await asyncio.wait({feeding, stopping})
