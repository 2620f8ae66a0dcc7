"""``stenod captions``, as README says it, while somebody speaks; the files are read by others' parsers."""

import json
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stenod.captions import HEADERS, LINE_COLUMNS, LINES, columns
from stenod.cli import main
from stenod.clients.blocking import send
from stenod.events import Final

from ..streams import OTHER_CLIP, OTHER_SAID, SAID, clip, pcm, plain
from ..test_captions import SOON, read_srt, read_vtt
from ..test_readme import CAPTIONS as SHOWN

STENOD = Path(sys.executable).with_name("stenod")
CHANNEL = "meeting"
POLL_S = 0.02
WAIT_S = 60.0
"""For what has to come; how long it takes depends on what else the machine does."""


@contextmanager
def running(daemon: str, folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """The commands of README, all of them reading this daemon."""
    processes = [
        subprocess.Popen(
            [STENOD, *shlex.split(command)[1:], "--port", daemon.rpartition(":")[2]],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        for command in SHOWN
    ]
    try:
        while (count := readers(daemon)) != len(SHOWN):
            assert all(process.poll() is None for process in processes), count
            time.sleep(0.05)
        yield processes
    finally:
        for process in processes:
            process.kill()


def readers(daemon: str) -> int:
    """How many read the channel."""
    with urllib.request.urlopen(daemon.replace("ws:", "http:") + "/v1/channels") as answer:
        channels = json.load(answer)["channels"]
    return sum(one["subscribers"] for one in channels if one["channel"] == CHANNEL)


def grown(file: Path, before: str) -> str:
    """What is in a file, once it is more than before."""
    text = once(lambda: file.read_text(encoding="utf-8"), lambda text: len(text) > len(before))
    assert text.startswith(before)
    return text


def once(read: Callable[[], str], is_enough: Callable[[str], bool]) -> str:
    """What is read, once it is enough."""
    for _ in range(round(WAIT_S / POLL_S)):
        if is_enough(text := read()):
            return text
        time.sleep(POLL_S)
    raise AssertionError(f"nothing more comes than {text!r}")


def test_captions_grow_while_somebody_speaks(daemon: str, tmp_path: Path) -> None:
    srt, vtt, txt, obs = (
        tmp_path / name for name in ("meeting.srt", "meeting.vtt", "meeting.txt", "obs.txt")
    )
    with running(daemon, tmp_path) as processes:
        with send(daemon, channel=CHANNEL, language="en", words=True) as sender:
            sender.audio(pcm(clip()))
            sender.flush()
            shown = grown(obs, "").splitlines()
            first_srt, first_vtt = grown(srt, ""), grown(vtt, HEADERS["vtt"])
            assert plain(" ".join(text for _, _, text in read_srt(first_srt))) == SAID
            assert read_vtt(first_vtt) == read_srt(first_srt)
            assert len(shown) <= LINES
            assert max(map(columns, shown)) <= LINE_COLUMNS

            sender.audio(pcm(clip(OTHER_CLIP)))
            sender.finish()
            finals = [event for event in sender if isinstance(event, Final)]
        grown(srt, first_srt)
        grown(vtt, first_vtt)
        grown(txt, finals[0].text + "\n")
        once(obs.read_text, lambda text: OTHER_SAID in plain(text))
        for process in processes:
            process.send_signal(signal.SIGINT)
        printed = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * len(SHOWN)
    text = "".join(f"{final.text}\n" for final in finals)
    assert "".join(printed) == text
    assert txt.read_text() == text
    cues = read_srt(srt.read_text())
    assert plain(" ".join(text for _, _, text in cues)) == f"{SAID} {OTHER_SAID}"
    assert read_vtt(vtt.read_text()) == cues
    assert all(one.start <= cues[i][0] / 1000 + SOON for i, one in enumerate(finals))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--channel", "a/b"], 2, "--channel: a name has"),
        (["--channel", "a", "--to", "obs"], 2, "needs a file"),
        (["--channel", "a", "--to", "srt", "-o", "no/such/folder.srt"], 1, "cannot be written"),
        (["--channel", "a", "--url", "ws://127.0.0.1:1"], 5, "no connection"),
        (["--channel", "a", "--url", "127.0.0.1:1"], 2, "--url: "),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["captions", *arguments]) == code
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
