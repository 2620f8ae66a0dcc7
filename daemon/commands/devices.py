"""``stenod devices``: the microphones."""

import argparse

from rich.console import Console
from rich.table import Table

from ..audio.microphone import NoMicrophone, list_devices
from ..standard_output import standard_output


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("devices", help="list the microphones", description=__doc__)
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Lists them; raises ``NoMicrophone`` if there is none."""
    devices = list_devices()
    if not devices:
        raise NoMicrophone("no microphone was found; plug one in, or check that the sound service runs")
    table = Table("name", "channels", "rate", "default", box=None)
    for device in devices:
        table.add_row(
            device.name, str(device.channels), f"{device.sample_rate} Hz", "*" if device.is_default else ""
        )
    with standard_output():
        Console().print(table)
    return 0
