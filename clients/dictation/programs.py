"""Other programs, run to their end."""

import asyncio
import os
from tempfile import TemporaryFile
from typing import IO

from .errors import CannotType

TIMEOUT_S = 30.0


async def run(*command: str, text: str = "") -> str:
    """Runs a program with ``text`` as its input, and returns what it prints.

    Raises ``CannotType`` with what it complains of.
    """
    # Without a UTF-8 locale, as under systemd, xdotool takes umlauts for broken text.
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    # Files, not pipes: a child that keeps the clipboard goes on and never closes its output.
    with TemporaryFile() as output, TemporaryFile() as errors:
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=output, stderr=errors, env=environment
            )
        except OSError as error:
            raise CannotType(f"{command[0]} cannot be run: {error.strerror}") from error
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await process.communicate(text.encode())
        except TimeoutError as error:
            raise CannotType(f"{command[0]} hangs") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        printed, complaints = _content(output), _content(errors).strip().splitlines()
    if process.returncode:
        reason = complaints[-1] if complaints else f"exit code {process.returncode}"
        raise CannotType(f"{command[0]}: {reason}")
    return printed


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
