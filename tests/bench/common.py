"""What the command lines of this folder have in common."""

import argparse
import os


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with ``--threads``; ``description`` is shown as it is written."""
    made = argparse.ArgumentParser(
        description=description,
        epilog="The environment variable TEST_RECORDINGS names the folder of recordings.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="default: all cores")
    return made
