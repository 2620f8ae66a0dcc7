"""What the commands that are clients of a daemon tell where it does not let them in."""

import os

from websockets.exceptions import InvalidHandshake

from .clients import Refused
from .server.address import AddressError

TOKEN_VARIABLE = "STENOD_TOKEN"
"""Holds the token, where the daemon asks for one: others could see an option."""


def token() -> str | None:
    """The user's token, if there is one."""
    return os.environ.get(TOKEN_VARIABLE)


def not_let_in(url: str, error: Refused | InvalidHandshake) -> AddressError:
    """What to tell a user."""
    if isinstance(error, InvalidHandshake):
        return AddressError(
            f"{url}: what answers there is no stenod daemon, or speaks TLS where we do not ({error})"
        )
    match error.code:
        case "unauthorized":
            return AddressError(f"{url}: the daemon asks for a token: put a valid one into {TOKEN_VARIABLE}")
        case "forbidden":
            return AddressError(f"{url}: the token in {TOKEN_VARIABLE} does not allow that")
    return AddressError(str(error))
