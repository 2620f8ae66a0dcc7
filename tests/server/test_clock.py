"""The wall clock may be set at any moment: nothing but ``started_at`` depends on it.

The daemon runs with libfaketime, whose clock a file sets; the monotonic clock is the real one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from stenod.clients import Sender, send
from stenod.events import Event, SessionStarted, SpeechStarted
from stenod.journal import Reader

from ..streams import clip, finals, numbered, pcm, told
from .test_app import daemon_process

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@contextmanager
def daemon_with_a_clock(
    model: Path, folder: Path, clock: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    with monkeypatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(LIBRARY))
        patch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
        patch.setenv("FAKETIME_NO_CACHE", "1")
        patch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        patch.setenv("STENOD_SESSION__STEP_MS", "800")
        with daemon_process(model, folder, patient=True) as (_, address):
            yield address


def set_clock(clock: Path, time: str) -> None:
    new = clock.with_suffix(".new")
    new.write_text(time)
    new.replace(clock)


async def speak(sender: Sender, clock: Path) -> list[Event]:
    """The clock jumps, by more than anything is kept, before and while something is said."""
    data = pcm(clip())
    events: list[Event] = []
    async for event in sender:
        events.append(event)
        if isinstance(event, SessionStarted):
            set_clock(clock, "+400d")
            await sender.audio(data[:48000])
        elif isinstance(event, SpeechStarted):
            set_clock(clock, "-400d")
            await sender.audio(data[48000:])
            await sender.finish()
    return events


@pytest.mark.skipif(LIBRARY is None, reason="faketime is not installed")
async def test_a_clock_that_jumps_changes_nothing(
    daemon: str, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = tmp_path / "clock"
    set_clock(clock, "+0d")
    with daemon_with_a_clock(model_path, tmp_path, clock, monkeypatch) as address:
        async with send(address, language="en") as sender:
            jumped = await speak(sender, clock)
    async with send(daemon, language="en") as sender:
        undisturbed = await speak(sender, clock)
    assert told(jumped) == told(undisturbed)
    kept = Reader.open(tmp_path)
    [session] = kept.sessions()
    assert [one.text for one in kept.utterances(session.id)] == [one.text for one in finals(undisturbed)]
    assert len(kept.session_events(session.id, 0)) == len(numbered(undisturbed))
