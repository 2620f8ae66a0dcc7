"""``stenod tokens``: who may connect to the daemon."""

import argparse
import sys
from pathlib import Path

from ..access import SCOPES, new_token, read_tokens, write_tokens
from ..settings import Settings, SettingsError
from ..standard_output import standard_output
from .options import add_options, settings_of


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("tokens", help="say who may connect", description=__doc__)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    action = actions.add_parser("add", help="make a token; it is shown once, only its digest is kept")
    action.add_argument("name", metavar="NAME", help="whom it is for")
    action.add_argument(
        "--scope", dest="scopes", action="append", choices=SCOPES, help="what it may do (send and read)"
    )
    action.add_argument(
        "--only-channel",
        dest="channels",
        action="append",
        metavar="PATTERN",
        help="a channel that it may use, such as 'lecture-*' (all)",
    )
    action.set_defaults(run=_add)

    action = actions.add_parser("list", help="show who has a token")
    action.set_defaults(run=_list)

    action = actions.add_parser("remove", help="a token stops working, for connections to come")
    action.add_argument("name", metavar="NAME")
    action.set_defaults(run=_remove)

    for action in actions.choices.values():
        add_options(action)
        action.add_argument(
            "--file",
            dest="server.tokens",
            metavar="FILE",
            default=argparse.SUPPRESS,
            help="the file that keeps them; default: the setting server.tokens",
        )


def _add(options: argparse.Namespace) -> int:
    if not options.name.strip():
        raise SettingsError("NAME: say whose token it is")
    path = _file(settings_of(options))
    tokens = read_tokens(path) if path.exists() else ()
    if any(token.name == options.name for token in tokens):
        raise SettingsError(f"{options.name}: has a token already; remove it first, or choose another name")
    scopes = tuple(dict.fromkeys(options.scopes or ("send", "read")))
    secret, token = new_token(options.name, scopes, tuple(options.channels or ("*",)))
    write_tokens(path, (*tokens, token))
    with standard_output():
        print(secret)
    return 0


def _list(options: argparse.Namespace) -> int:
    with standard_output():
        for token in read_tokens(_file(settings_of(options))):
            print(f"{token.name}  {','.join(token.scopes)}  {' '.join(token.channels)}")
    return 0


def _remove(options: argparse.Namespace) -> int:
    path = _file(settings_of(options))
    tokens = read_tokens(path)
    left = tuple(token for token in tokens if token.name != options.name)
    if left == tokens:
        raise SettingsError(f"{options.name}: has no token in {path}")
    write_tokens(path, left)
    print(f"the token of {options.name} is removed", file=sys.stderr)
    return 0


def _file(settings: Settings) -> Path:
    if settings.server.tokens is None:
        raise SettingsError("server.tokens: say which file keeps the tokens, here or with --file")
    return settings.server.tokens
