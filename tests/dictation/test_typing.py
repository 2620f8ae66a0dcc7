"""What arrives in a real text field on a real X server."""

import os

import numpy as np
import pytest
from stenod.audio.microphone import Sound
from stenod.clients.dictation.errors import CannotType, CannotUndo
from stenod.clients.dictation.focus import focus_of
from stenod.clients.dictation.programs import run
from stenod.clients.dictation.spoken import table_of
from stenod.clients.dictation.typists import Dotool, Paste, Typist, Ydotool, choose
from stenod.clients.dictation.writer import Writer
from stenod.clients.dictation.xdotool import XdoTool
from stenod.events import Commit, Final, Partial
from stenod.hub import Hub
from stenod.listening import in_process
from stenod.settings import DictationRule

from tests.streams import SAID, clip, plain

from .conftest import Field, OpenField

TEXT = """äöü ÄÖÜß é, “so” he said: «it's» 3 — no, 4…! 日本語の文章、ひらがなとカタカナ。 안녕 Привет €
😀 👍🏽 👨‍👩‍👧 -- --help $HOME `^~ <a@b.c> {x[0]} \\n Zz Yy Qq #""".replace("\n", " ")
END = "|"


async def held(field: Field, typist: Typist) -> str:
    """What the field holds once everything that was typed has come: a last key tells."""
    await typist.type(END)
    text = await field.until(lambda text: text.endswith(END))
    await typist.press("BackSpace")
    await field.until(lambda text: not text.endswith(END))
    return text.removesuffix(END)


@pytest.mark.parametrize("layout", ["de", "ru,us"])
async def test_every_character_arrives_on_every_layout(layout: str, field: OpenField) -> None:
    await run("setxkbmap", layout)
    typist = XdoTool()
    async with field() as window:
        await typist.type(TEXT)
        assert await held(window, typist) == TEXT


async def test_a_long_text_at_speed(field: OpenField) -> None:
    await run("setxkbmap", "de")
    typist = XdoTool()
    text = " ".join(
        f"{number}. Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich." for number in range(10)
    )
    async with field() as window:
        await typist.type(text)
        assert await held(window, typist) == text


async def test_capslock_and_a_held_key_change_nothing(field: OpenField) -> None:
    await run("setxkbmap", "us")
    typist = XdoTool()
    async with field() as window:
        await run("xdotool", "key", "Caps_Lock", "keydown", "Control_R")
        try:
            await typist.type("Ctrl+A deletes nothing, Äpfel")
        finally:
            await run("xdotool", "keyup", "Control_R")
        assert await held(window, typist) == "Ctrl+A deletes nothing, Äpfel"


async def test_pasting(field: OpenField) -> None:
    typist = await choose("paste", os.environ)
    assert isinstance(typist, Paste)
    async with field() as window:
        for word in TEXT.split(" ")[:2]:
            await typist.type(word + " ")
        await typist.press("BackSpace", 2)
        assert await held(window, typist) == " ".join(TEXT.split(" ")[:2])[:-1]


def writer(typist: Typist, *rules: DictationRule) -> Writer:
    return Writer(typist, focus_of(os.environ), rules, table_of("en"))


async def dictate(writer: Writer, *utterances: str) -> None:
    """One dictation, each word committed alone."""
    writer.begin()
    for utterance in utterances:
        for number, word in enumerate(utterance.split(" ")):
            await writer.commit(f" {word}" if number else word)
        await writer.end()
    await writer.finish()


async def test_scratch_that_and_undo(field: OpenField) -> None:
    typist = XdoTool()
    writing = writer(typist)
    async with field() as window:
        await dictate(
            writing,
            "One.",
            "Two wörds 😀 e\u0301!",
            "Scratch that.",
            "Three new line four",
            "and scratch that 五 full stop",
        )
        assert await held(window, typist) == "One. Three\nFour五. "
        await writing.undo()
        await writing.undo()
        assert await held(window, typist) == "One."
        await writing.undo()
        with pytest.raises(CannotUndo, match="nothing is left"):
            await writing.undo()
        assert await held(window, typist) == ""


async def test_revisions_are_not_typed(field: OpenField, hub: Hub) -> None:
    """What is tentative changes while a recording is heard; what is typed is what became of it, once."""
    partials, finals = list[str](), list[str]()
    typist = XdoTool()
    writing = writer(typist)
    writing.begin()
    async with field() as window, in_process(hub) as listening:
        for block in np.split(clip(), range(1600, len(clip()), 1600)):
            await listening.take(Sound(block))
        await listening.finish()
        async for event in listening:
            match event:
                case Partial(committed=committed, tentative=tentative):
                    partials.append(committed + tentative)
                case Commit(text=text):
                    await writing.commit(text)
                case Final(text=text):
                    finals.append(text)
                    await writing.end()
        assert await held(window, typist) == " ".join(finals)
    assert plain(" ".join(finals)) == SAID
    assert any(not finals[0].startswith(partial) for partial in partials)


async def test_nothing_is_deleted_in_another_window(field: OpenField) -> None:
    typist = XdoTool()
    writing = writer(typist)
    async with field() as first:
        await dictate(writing, "Here")
        assert await held(first, typist) == "Here "
        async with field() as second:
            await typist.type("mine")
            with pytest.raises(CannotUndo, match="another window"):
                await writing.undo()
            writing.begin()
            with pytest.raises(CannotUndo, match="another window"):
                await writing.commit("Scratch that and there")
            await writing.end()
            await writing.finish()
            assert await held(second, typist) == "mineand there "


async def test_a_terminal_gets_no_new_line_and_rules_are_heeded(field: OpenField) -> None:
    typist = XdoTool()
    chat = DictationRule(window="Chat", newline="shift+return", capitals=False, trailing_space=False)
    plain = DictationRule(window="pl.*", commands=False)
    told = {}
    for kind in ("XTerm", "Chat", "Plain"):
        async with field(kind) as window:
            await dictate(writer(typist, chat, plain), "List Files new line", "Now.")
            told[kind] = await held(window, typist)
    assert told == {
        "XTerm": "List Files Now. ",
        "Chat": "list files\nnow.",
        "Plain": "List Files new line Now. ",
    }


@pytest.mark.parametrize("typist", [Ydotool(), Dotool()])
async def test_who_types_by_keycodes_refuses_what_it_cannot(typist: Typist) -> None:
    with pytest.raises(CannotType, match="types what is on a US keyboard, and 'ü' is not"):
        await typist.type("für")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("auto", "nothing can type here: xdotool needs X11, and DISPLAY is not set; "),
        ("paste", "nothing can type here: xclip needs X11, and DISPLAY is not set"),
        ("dotool", "nothing can type here: dotool is not installed"),
    ],
)
async def test_why_nothing_can_type(wanted: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CannotType, match=reason):
        await choose(wanted, {})
