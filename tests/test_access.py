"""Tokens: kept as digests, known by nothing but themselves, and taken away while the daemon runs."""

import os
from pathlib import Path

import pytest
from stenod.access import Access, AccessError, Grant, Token, new_token, read_tokens, write_tokens
from stenod.cli import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def test_where_nobody_is_asked_everybody_may_do_everything():
    grant = Access(None).grant(None)
    assert grant is not None
    assert grant.allows("admin", "any")


def test_a_token_is_known_and_only_its_digest_is_kept(path: Path):
    secret, token = new_token("alice", ("send",), ("room-*",))
    write_tokens(path, (token,))
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert Access(path).grant(secret) == Grant("alice", frozenset({"send"}), ("room-*",))


@pytest.mark.parametrize("wrong", [None, "", "x", "alice"])
def test_what_is_no_token_is_not_known(path: Path, wrong: str | None):
    _, token = new_token("alice", ("send",), ("*",))
    write_tokens(path, (token,))
    access = Access(path)
    assert access.grant(wrong) is None
    assert access.grant(token.sha256) is None


@pytest.mark.parametrize(
    ("scope", "channel", "allowed"),
    [("read", "room-1", True), ("read", None, True), ("read", "other", False), ("send", "room-1", False)],
)
def test_a_grant_is_for_a_scope_and_for_channels(scope: str, channel: str | None, allowed: bool):
    grant = Grant("screen", frozenset({"read"}), ("room-*", "hall"))
    assert grant.allows(scope, channel) is allowed  # type: ignore[arg-type]


def test_a_change_of_the_file_holds_at_once(path: Path):
    secret, token = new_token("alice", ("send",), ("*",))
    write_tokens(path, (token,))
    access = Access(path)
    assert access.grant(secret) is not None
    write_tokens(path, ())
    assert access.grant(secret) is None


@pytest.mark.parametrize("content", [None, "{", "[1]", '[{"name":"a","sha256":"","scopes":["all"]}]'])
def test_a_file_that_cannot_be_used_is_named(path: Path, content: str | None):
    if content is not None:
        path.write_text(content)
    with pytest.raises(AccessError, match=str(path)):
        Access(path).check()


def test_tokens_are_made_listed_and_removed(path: Path, capsys: pytest.CaptureFixture[str]):
    file = ["--file", str(path)]
    assert main(["tokens", "add", " ", *file]) == 2
    assert main(["tokens", "add", "alice", *file]) == 0
    secret = capsys.readouterr().out.strip()
    assert main(["tokens", "add", "hall", "--scope", "read", "--only-channel", "hall", *file]) == 0
    capsys.readouterr()
    assert main(["tokens", "list", *file]) == 0
    assert capsys.readouterr().out == "alice  send,read  *\nhall  read  hall\n"
    assert Access(path).grant(secret) == Grant("alice", frozenset({"send", "read"}), ("*",))
    assert main(["tokens", "remove", "alice", *file]) == 0
    assert [token.name for token in read_tokens(path)] == ["hall"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["remove", "bob"], "bob: has no token"), (["add", "alice"], "alice: has a token already")],
)
def test_what_cannot_be_done_is_one_line(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
):
    write_tokens(path, (Token("alice", "0", ("send",)),))
    assert main(["tokens", *arguments, "--file", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_without_a_file_the_setting_is_named(capsys: pytest.CaptureFixture[str]):
    os.environ.pop("STENOD_SERVER__TOKENS", None)
    assert main(["tokens", "list"]) == 2
    assert "server.tokens" in capsys.readouterr().err
