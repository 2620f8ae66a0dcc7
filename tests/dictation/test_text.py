"""Spoken commands, spaces and capitals: what would be typed, without a window."""

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stenod.clients.dictation.prose import Prose
from stenod.clients.dictation.spoken import TABLES, Scratch, SpokenText, table_of
from stenod.settings import DictationRule, load

from tests.recordings import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")
PLAIN = DictationRule(window="")


def typed(commits: Iterable[str], rule: DictationRule = PLAIN, before: str = "") -> str:
    """What stands there after one utterance; ``<scratch>`` where something is to be taken back."""
    spoken, prose, text = SpokenText(table_of(None)), Prose(rule, before), before
    pieces = [piece for commit in commits for piece in spoken.feed(commit)] + list(spoken.end())
    for piece in pieces:
        if isinstance(piece, Scratch):
            text += "<scratch>"
        else:
            edit = prose.edit(piece)
            text = text[: len(text) - edit.erase] + edit.text
    return text


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("Hello world.", "Hello world."),
        ("Dear Anna, new line, how are you?", "Dear Anna,\nHow are you?"),
        ("Dear Anna comma new paragraph thank you", "Dear Anna,\n\nThank you"),
        ("Hello, comma, world. Full stop. and more", "Hello, world. And more"),
        ("Is it so? Question mark. Yes", "Is it so? Yes"),
        ("see open bracket the next close bracket full stop", "see (the next)."),
        ("he said open quote no close quote period", "he said “no”."),
        ("a newspaper in a renewed commander", "a newspaper in a renewed commander"),
        ("Something new. Line up", "Something new. Line up"),
        ("the new", "the new"),
        ("the newline is gone", "the\nIs gone"),
        ("hello, scratch that. Good", "hello,<scratch> Good"),
        ("Guten Tag Komma neue Zeile wie geht es Fragezeichen", "Guten Tag,\nWie geht es?"),
        ("er sagt Anführungszeichen auf nein Anführungszeichen zu und geht", "er sagt „nein“ und geht"),
        ("It costs 3.5 dollars, e.g. here…", "It costs 3.5 dollars, e.g. here…"),
        ("  spaces \n and   more  ", "spaces and more"),
        ("日本語です。", "日本語です。"),
        ("😀 👨‍👩‍👧 !", "😀 👨‍👩‍👧 !"),
    ],
)
def test_what_is_said_and_what_is_typed(said: str, wanted: str) -> None:
    assert typed([said]) == wanted


@pytest.mark.parametrize(
    ("before", "said", "wanted"),
    [
        ("Hello.", "how are you", "Hello. How are you"),
        ("I went to the", "store", "I went to the store"),
        ("I see.", "Question mark.", "I see?"),
        ("Done.", "full stop", "Done."),
        ("Line\n", "and next", "Line\nAnd next"),
        ("今天天气。", "很好", "今天天气。很好"),
        ("안녕하세요.", "반갑습니다", "안녕하세요. 반갑습니다"),
        ("see (", "below", "see (below"),
    ],
)
def test_between_utterances(before: str, said: str, wanted: str) -> None:
    assert typed([said], before=before) == wanted


def test_rules() -> None:
    said = ["List Files new line in Here. full stop And there"]
    assert typed(said, DictationRule(window="", newline="space", capitals=False)) == (
        "list files in here. and there"
    )


def test_only_whole_words_are_commands_and_nothing_else_waits() -> None:
    spoken = SpokenText(TABLES["en"])
    told = [
        [getattr(piece, "text", piece) for piece in spoken.feed(text)]
        for text in (
            "I",
            " want",
            " a new",
            " pen",
            " with a",
            " full",
            " stop",
            " comma",
            "nd",
        )
    ]
    assert told == [
        ["I"],
        ["want"],
        ["a"],
        ["new", "pen"],
        ["with", "a"],
        [],
        [],
        [
            ".",
        ],
        ["command"],
    ]


def test_the_rules_of_the_readme(tmp_path: Path) -> None:
    [block] = re.findall(r"^```toml\n(\[\[dictation.*?)^```", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "stenod.toml").write_text(block)
    [rule] = load({}, tmp_path / "stenod.toml").dictation.rules
    assert (rule.newline, rule.trailing_space, rule.capitals) == ("shift+return", False, True)


@pytest.mark.parametrize("phrase", ["new line", "new paragraph", "full stop", "close quote", "scratch that"])
def test_the_commands_of_the_readme(phrase: str) -> None:
    assert f'"{phrase}"' in README
    assert phrase in TABLES["en"]


WORDS = [word for phrase in table_of(None) for word in phrase.split()]
said = st.lists(
    st.sampled_from([*WORDS, "Hello", "don't", "3.5", "日本語", "😀", "Straße", "ГОД"]).flatmap(
        lambda word: st.sampled_from(
            [f"{word} ", f" {word}", f" {word},", f" {word.title()}. ", word, f"{word}?! "]
        )
    ),
    max_size=12,
).map("".join)


@given(said, st.lists(st.integers(0, 200)), st.booleans())
def test_any_split_of_the_commits_types_the_same(text: str, cuts: list[int], capitals: bool) -> None:
    rule = DictationRule(window="", capitals=capitals)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert typed(pieces, rule, "Before.") == typed([text], rule, "Before.") == typed(text, rule, "Before.")
