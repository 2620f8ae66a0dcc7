"""Who may do what: tokens, of which only digests are kept."""

import json
import secrets
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Literal, get_args

import msgspec

Scope = Literal["send", "read", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
TOKEN_BYTES = 32


class AccessError(Exception):
    """The file of tokens cannot be used; the message names it and says what to do."""


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token as it is kept. It is random, so a digest without salt tells nothing about it."""

    name: str
    sha256: str
    scopes: tuple[Scope, ...]
    channels: tuple[str, ...] = ("*",)
    """Patterns, as file names have them, of the channels that it may send to or read."""


@dataclass(frozen=True)
class Grant:
    """What a client may do."""

    name: str | None = None
    """Of its token; None: nobody is asked for one."""
    scopes: frozenset[Scope] = frozenset(SCOPES)
    channels: tuple[str, ...] = ("*",)

    def allows(self, scope: Scope, channel: str | None = None) -> bool:
        """Whether it may do that, in that channel if one is named."""
        named = channel is None or any(fnmatchcase(channel, pattern) for pattern in self.channels)
        return scope in self.scopes and named


@dataclass
class Access:
    """The tokens of a file, read again whenever it has changed. ``path`` None: everybody may do all."""

    path: Path | None
    _tokens: tuple[Token, ...] = ()
    _stamp: tuple[int, int] | None = field(default=None)

    def grant(self, token: str | None) -> Grant | None:
        """What a client with this token may do; None: nothing, it is unknown. Raises ``AccessError``."""
        if self.path is None:
            return Grant()
        self.check()
        digest = digest_of(token or "")
        found = None
        for one in self._tokens:  # all of them, so that the time taken tells nothing
            if compare_digest(one.sha256, digest):
                found = one
        return None if found is None else Grant(found.name, frozenset(found.scopes), found.channels)

    def check(self) -> None:
        """Reads the file if it has changed. Raises ``AccessError``."""
        if self.path is None:
            return
        try:
            status = self.path.stat()
        except OSError as error:
            raise AccessError(f"{self.path}: {error.strerror}; `stenod tokens add` makes it") from error
        stamp = status.st_mtime_ns, status.st_ino
        if stamp != self._stamp:
            self._tokens = read_tokens(self.path)
            self._stamp = stamp


def digest_of(token: str) -> str:
    """What is kept of a token."""
    return sha256(token.encode()).hexdigest()


def new_token(name: str, scopes: tuple[Scope, ...], channels: tuple[str, ...]) -> tuple[str, Token]:
    """A token to be given away, and what is to be kept of it."""
    secret = secrets.token_urlsafe(TOKEN_BYTES)
    return secret, Token(name, digest_of(secret), scopes, channels)


def read_tokens(path: Path) -> tuple[Token, ...]:
    """The tokens of a file. Raises ``AccessError``."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[Token, ...])
    except OSError as error:
        raise AccessError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise AccessError(f"{path}: is no file of tokens ({error}); `stenod tokens` makes one") from error


def write_tokens(path: Path, tokens: tuple[Token, ...]) -> None:
    """Replaces the file, which nobody else may read. Raises ``AccessError``."""
    new = path.with_name(f".{path.name}.new")
    text = json.dumps(msgspec.to_builtins(tokens), indent=1) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise AccessError(f"{path}: cannot be written: {error.strerror}") from error
