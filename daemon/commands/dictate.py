"""``stenod dictate``: what you say is typed into the window that has the focus.

Without a COMMAND it waits to be told when to listen: by ``stenod dictate COMMAND``, by the signals SIGUSR1
(toggle) and SIGUSR2 (stop), or by the key that is set as ``dictation.hotkey``. Its state is a line in the
file ``dictation`` of its runtime folder, for status bars.
"""

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from ..clients.dictation.control import COMMANDS, answering, ask, folder, only_one
from ..clients.dictation.dictation import Dictation, Ears
from ..clients.dictation.focus import focus_of
from ..clients.dictation.hotkey import Hotkey, pressing
from ..clients.dictation.sounds import Sounds
from ..clients.dictation.spoken import table_of
from ..clients.dictation.typists import choose
from ..clients.dictation.writer import Writer
from ..settings import Dictation as Chosen
from ..settings import Settings
from ..standard_output import standard_output
from .options import add_options, settings_of

STATUS = "dictation"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("dictate", help="type what you say into any window", description=__doc__)
    parser.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND", help=", ".join(COMMANDS))
    add_options(parser, "--host", "--port", "--model", "--threads", "--language", "--prompt", "--mic")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serves until SIGINT or SIGTERM, or tells the one that serves; 1 if that refuses."""
    if options.command is None:
        asyncio.run(_serve(settings_of(options)))
        return 0
    reply = asyncio.run(ask(folder(), options.command))
    with standard_output():
        print(reply, flush=True)
    return int(reply.startswith("error:"))


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    chosen, place = settings.dictation, folder()
    with only_one(place):
        typist = await choose(chosen.typist, os.environ)
        writer = Writer(typist, focus_of(os.environ), chosen.rules, table_of(settings.session.language))
        sounds = Sounds(place, chosen.sounds)
        async with Ears(settings) as ears:
            await ears.prepare()
            dictation = Dictation(settings, ears, writer, sounds, lambda state: _show(place, state))
            loop.add_signal_handler(signal.SIGUSR1, dictation.order, "toggle")
            loop.add_signal_handler(signal.SIGUSR2, dictation.order, "stop")
            async with answering(place, dictation.obey), asyncio.TaskGroup() as group:
                watching = group.create_task(_watch(dictation, chosen))
                print("stenod waits to be told: stenod dictate toggle", file=sys.stderr, flush=True)
                await stop.wait()
                watching.cancel()
                await dictation.close()
        await sounds.close()
        (place / STATUS).unlink()


async def _watch(dictation: Dictation, chosen: Chosen) -> None:
    """The hotkey, if there is one."""
    if chosen.hotkey is not None:
        await Hotkey(chosen.hotkey, pressing(dictation, chosen.hotkey, chosen.hotkey_mode)).watch()


def _show(place: Path, state: str) -> None:
    """Replaces the status, so that nobody reads half a line."""
    fresh = place / f"{STATUS}.new"
    fresh.write_text(f"{state}\n", encoding="utf-8")
    fresh.replace(place / STATUS)
