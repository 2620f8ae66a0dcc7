"""The captions page and the overlay in a real browser, against a real daemon and real speech."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from stenod.captions import HEADERS, CueMaker, written
from stenod.clients.blocking import follow, send
from stenod.events import Final, Snapshot

from ..streams import CLIP, OTHER_CLIP, SAID, clip, pcm, plain
from ..test_captions import read_srt, read_vtt
from .conftest import PICTURES, Open
from .wire import wire

FINAL = ".utterance:not(.open) .committed"
OPEN = ".utterance.open"


KEEP = """
async () => {
    const { Outbox } = await import("./web/outbox.js");
    const outbox = new Outbox(5);
    const sent = () => {
        const pieces = [];
        for (let piece; (piece = outbox.next()) !== undefined;) pieces.push(piece.gap ?? [...piece.samples]);
        return pieces;
    };
    const told = [];
    for (const samples of [[1, 2], [3, 4], [5, 6]]) outbox.put(Int16Array.from(samples));
    told.push(sent());
    outbox.acknowledge(4);
    outbox.rewind(5);
    told.push(sent());
    outbox.skipTo(9);
    outbox.put(Int16Array.from([7]));
    told.push(sent());
    outbox.rewind(0);
    told.push(sent());
    told.push([outbox.restart(), sent(), outbox.end]);
    return told;
}
"""
"""Six samples where five may be kept; then a connection that breaks, a pause, and a session that is lost."""

LISTEN = """
window.aloud = "";
new MutationObserver((changes) => {
    for (const { addedNodes, removedNodes, target } of changes) {
        if (target.closest("[aria-hidden=true]")) continue;
        for (const node of addedNodes) if (!node.querySelector?.(".tentative")) aloud += node.textContent;
        for (const node of removedNodes) aloud += " TAKEN BACK: " + node.textContent;
    }
}).observe(document.querySelector("[aria-live=polite]"), { childList: true, subtree: true });
"""
"""Gathers what a screen reader is told of."""


def http(daemon: str) -> str:
    return daemon.replace("ws:", "http:")


def faults(page: Page) -> list[str]:
    """What axe-core calls serious, or worse."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html']}: {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def said(page: Page) -> str:
    """The first utterance, once it is over."""
    page.locator(FINAL).first.wait_for()
    return page.locator(".utterance").first.inner_text()


def start(page: Page, url: str, channel: str) -> None:
    """The microphone speaks into a channel."""
    page.goto(url)
    page.get_by_label("Language").select_option("en")
    page.get_by_role("button", name="Share").click()
    page.get_by_label("Speak into channel").fill(channel)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Start").click()


def downloaded(page: Page, button: str) -> str:
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    page.keyboard.press("Escape")
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_what_the_microphone_hears_appears(browser: Open, daemon: str) -> None:
    page = browser(CLIP).pages[0]
    start(page, http(daemon), "page")
    assert plain(said(page)) == SAID
    page.screenshot(path=PICTURES / "light.png")

    snapshot = next(follow(daemon, "page"))
    assert isinstance(snapshot, Snapshot)
    [final] = snapshot.utterances
    assert final.words
    cues = list(CueMaker().cues(final.words, final.language))
    for button, form, read in (("srt", "srt", read_srt), ("vtt", "vtt", read_vtt)):
        text = downloaded(page, button)
        assert text == HEADERS[form] + "".join(written(cue, n, form) for n, cue in enumerate(cues, 1))
        assert read(text)
    assert downloaded(page, "txt") == f"{final.text}\n"

    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped").wait_for()
    assert faults(page) == []


def test_it_goes_on_after_a_lost_connection_and_a_reload(browser: Open, daemon: str) -> None:
    with wire(daemon) as connection:
        page = browser(CLIP, OTHER_CLIP).pages[0]
        start(page, connection.url, "again")
        page.locator(OPEN).wait_for()
        connection.cut()
        page.locator("#status[data-state=waiting]").wait_for()
        assert plain(said(page)) == SAID  # also what was said while there was no connection
        page.locator(OPEN).wait_for()
        page.reload()
        page.locator(".utterance:not(.open)").filter(has_text="pure").nth(1).wait_for()  # said once more
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("Stopped").wait_for()
        shown = page.locator(".utterance").all_inner_texts()
    snapshot = next(follow(daemon, "again"))
    assert isinstance(snapshot, Snapshot)
    assert len({final.session for final in snapshot.utterances}) == 1
    assert shown == [final.text for final in snapshot.utterances]


def test_a_channel_is_read_by_the_page_and_the_overlay(browser: Open, daemon: str) -> None:
    opened = browser()
    page, overlay = opened.pages[0], opened.new_page()
    page.emulate_media(color_scheme="dark")
    page.goto(f"{http(daemon)}/?channel=read")
    page.get_by_text("Reading read").wait_for()
    overlay.goto(f"{http(daemon)}/overlay?channel=read&size=40&lines=2&hide=1")
    page.evaluate(LISTEN)
    with send(daemon, channel="read", language="en") as sender:
        half = len(pcm(clip())) // 2
        sender.audio(pcm(clip())[:half])
        for shown in (page, overlay):
            shown.locator(OPEN).wait_for()
        page.locator(".tentative").last.wait_for()
        page.screenshot(path=PICTURES / "dark.png")
        sender.audio(pcm(clip())[half:])
        sender.finish()
        [final] = [event for event in sender if isinstance(event, Final)]
    assert plain(final.text) == SAID
    for shown in (page, overlay):
        shown.locator(FINAL).first.wait_for()
        assert shown.locator(".utterance").all_inner_texts() == [final.text]
    assert page.evaluate("window.aloud") == final.text
    assert overlay.evaluate("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"
    overlay.add_style_tag(content=".utterance { letter-spacing: 3px; }")  # as OBS adds its users' styles
    assert overlay.evaluate("getComputedStyle(document.querySelector('.utterance')).letterSpacing") == "3px"
    overlay.screenshot(path=PICTURES / "overlay.png", omit_background=True)
    assert faults(overlay) == []
    overlay.locator(".utterance").wait_for(state="detached")

    page.get_by_role("button", name="Display").click()
    page.get_by_label("Contrast").select_option("contrast")
    page.get_by_label("Lines").select_option("2")
    page.get_by_label("Position").select_option("top")
    page.get_by_label("Size").fill("60")
    page.screenshot(path=PICTURES / "contrast.png")
    assert faults(page) == []
    page.reload()
    page.locator(FINAL).first.wait_for()
    kept = page.evaluate("({...document.documentElement.dataset})")
    assert (kept["theme"], kept["position"]) == ("contrast", "top")
    assert page.evaluate("getComputedStyle(document.getElementById('captions')).fontSize") == "60px"


def test_audio_that_waits_is_bounded_and_what_is_given_up_is_a_gap(browser: Open, daemon: str) -> None:
    page = browser().pages[0]
    page.goto(http(daemon))
    assert page.evaluate(KEEP) == [
        [2, [3, 4], [5, 6]],
        [[6]],
        [3, [7]],
        [4, [5, 6], 3, [7]],
        [4, [[5, 6], 3, [7]], 6],
    ]


@pytest.mark.parametrize(
    ("host", "argument", "title", "step"),
    [
        (
            "captions.test",
            "--host-resolver-rules=MAP captions.test 127.0.0.1",
            "forbids the microphone",
            "https://captions.test",
        ),
        ("127.0.0.1", "--use-fake-ui-for-media-stream=deny", "is not allowed", "left of the address"),
    ],
)
def test_a_microphone_that_is_forbidden(
    browser: Open, daemon: str, host: str, argument: str, title: str, step: str
) -> None:
    """field-failures: over plain http from another host the page says so, and how to get https."""
    page = browser(arguments=[argument]).pages[0]
    page.goto(http(daemon).replace("127.0.0.1", host))
    page.get_by_role("button", name="Start").click()
    page.get_by_role("heading", name=re.compile(title)).wait_for()
    assert step in page.get_by_role("alert").inner_text()
    assert faults(page) == []
    page.screenshot(path=PICTURES / f"forbidden-{host}.png")
