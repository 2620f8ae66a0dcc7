"""``stenod serve``: the daemon."""

import argparse
import asyncio
import sys

from ..server.app import Daemon
from .options import add_options, settings_of


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("serve", help="run the daemon", description=__doc__)
    add_options(parser, "--host", "--port", "--model", "--threads", "--language", "--task", "--sessions")
    parser.add_argument(
        "--allow-public",
        dest="server.allow_public",
        action="store_true",
        default=argparse.SUPPRESS,
        help="listen where other machines can reach it, without authentication",
    )
    parser.add_argument(
        "--mic", nargs="?", const="", metavar="DEVICE", help="capture a microphone into a channel"
    )
    parser.add_argument(
        "--channel",
        dest="microphone.channel",
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="the microphone's channel (mic)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT."""
    if options.mic is not None:
        vars(options)["microphone.enabled"] = True
    if options.mic:
        vars(options)["microphone.device"] = options.mic
    asyncio.run(_serve(Daemon(settings_of(options))))
    return 0


async def _serve(daemon: Daemon) -> None:
    daemon.stop_on_signals()
    await daemon.run(lambda address: print(f"stenod listens on {address}", file=sys.stderr))
