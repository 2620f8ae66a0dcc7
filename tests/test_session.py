"""A session on the real engine: what is told, in which order, whatever its source does."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stenod import events, session
from stenod.engine import Engine
from stenod.events import (
    Commit,
    Discarded,
    Ended,
    Error,
    Event,
    Final,
    Flushed,
    Gap,
    Partial,
    SessionStarted,
    SpeechEnded,
    SpeechStarted,
)
from stenod.hub import Hub
from stenod.intake import MOST_REQUESTS
from stenod.segmenter import Endpointing

from . import recordings
from .streams import (
    OTHER_CLIP,
    OTHER_SAID,
    SAID,
    SILENCE,
    clip,
    committed,
    contexts_given,
    events_until,
    finals,
    hub_on,
    numbered,
    open_session,
    plain,
    told,
    transcribe,
)


def assert_in_order(told: Sequence[Event]) -> None:
    """The grammar of the native protocol: numbers without holes, utterances one after the other."""
    sequence = numbered(told)
    assert [event.seq for event in sequence] == list(range(1, len(sequence) + 1))
    assert isinstance(sequence[0], SessionStarted)
    assert isinstance(sequence[-1], Ended)
    state = "between"
    for event in sequence[1:-1]:
        match event:
            case SpeechStarted():
                assert state == "between"
                state = "speaking"
            case Commit():
                assert state in ("speaking", "ended")
            case SpeechEnded():
                assert state == "speaking"
                state = "ended"
            case Final() | Discarded():
                assert state == "ended"
                state = "between"
                if isinstance(event, Final):
                    assert event.text.startswith(committed(sequence, event.utterance))
            case Gap():
                pass
            case _:
                pytest.fail(f"{event} has no place here")
    assert state == "between"


def kinds(told: Sequence[Event]) -> list[type[Event]]:
    return [type(event) for event in numbered(told) if not isinstance(event, Commit)]


async def test_a_clip_is_told_from_speech_started_to_final(hub: Hub):
    told = await transcribe(hub, clip())
    assert_in_order(told)
    [final] = finals(told)
    assert plain(final.text) == SAID
    assert committed(told, 1) == final.text
    assert final.language == "en"
    assert 0 < final.confidence <= 1
    assert final.words is None
    ended = told[-1]
    assert isinstance(ended, Ended)
    assert (ended.reason, ended.utterances, ended.audio_s) == ("finished", 1, len(clip()) / 16000)


async def test_partials_show_the_utterance_and_what_is_committed_only_grows(hub: Hub):
    told = await transcribe(hub, clip())
    partials = [event for event in told if isinstance(event, Partial)]
    assert partials
    shown = ""
    for event in told:
        if isinstance(event, Commit):
            shown += event.text
        elif isinstance(event, Partial):
            assert event.committed == shown
    assert [event.rev for event in partials] == sorted({event.rev for event in partials})


async def test_words_are_told_where_asked_for(hub: Hub):
    told = await transcribe(hub, clip(), configuration=replace(hub.defaults, words=True))
    [final] = finals(told)
    assert final.words is not None
    assert [word.text for word in final.words] == final.text.split()
    assert all(final.start <= word.start <= word.end for word in final.words)
    starts = [word.start for word in final.words]
    assert starts == sorted(starts)


async def test_no_partials_where_they_are_not_wanted(hub: Hub):
    told = await transcribe(hub, clip(), configuration=replace(hub.defaults, partials=False))
    assert finals(told)
    assert not [event for event in told if isinstance(event, Partial)]


def told_in_chunks(engine: Engine, chunks: Sequence[int]) -> list[dict[str, object]]:
    async def run() -> list[dict[str, object]]:
        async with hub_on(engine) as hub:
            return told(await transcribe(hub, clip(OTHER_CLIP), chunks))

    return asyncio.run(run())


@pytest.fixture(scope="module")
def told_in_real_time_chunks(engine: Engine) -> list[dict[str, object]]:
    return told_in_chunks(engine, [640])


@settings(max_examples=3, deadline=None, derandomize=True)
@given(chunks=st.lists(st.integers(500, 60_000), min_size=1, max_size=5))
def test_however_the_audio_is_cut_the_same_is_told(
    engine: Engine, told_in_real_time_chunks: list[dict[str, object]], chunks: list[int]
):
    assert told_in_chunks(engine, chunks) == told_in_real_time_chunks


async def test_sessions_side_by_side_give_what_each_gives_alone(hub: Hub):
    """field-failures: N streams in parallel give exactly what each gives alone."""
    alone = [
        told(await transcribe(hub, clip(path))) for path in (OTHER_CLIP, "en_read/ljspeech/LJ001-0002.flac")
    ]
    together = await asyncio.gather(
        transcribe(hub, clip(OTHER_CLIP)), transcribe(hub, clip("en_read/ljspeech/LJ001-0002.flac"))
    )
    assert [told(events) for events in together] == alone


async def test_silence_is_no_speech(hub: Hub):
    told = await transcribe(hub, np.tile(SILENCE, 20))
    assert kinds(told) == [SessionStarted, Ended]
    assert [event.code for event in told if isinstance(event, events.Warning)] == ["silent_input"]


async def test_clipping_is_told(hub: Hub):
    loud = np.sign(np.sin(np.arange(32000) / 10)).astype(np.float32)
    told = await transcribe(hub, loud)
    assert "clipping" in [event.code for event in told if isinstance(event, events.Warning)]


async def test_no_audio_at_all(hub: Hub):
    assert kinds(await transcribe(hub, SILENCE[:0])) == [SessionStarted, Ended]


async def test_a_clip_without_silence_around_it_keeps_its_first_and_last_word(hub: Hub):
    told = await transcribe(hub, recordings.load("en_read/speechbrain/spk1_snt3.flac"))
    assert_in_order(told)
    [final] = finals(told)
    assert plain(final.text) == SAID


async def test_flush_ends_the_utterance_and_the_stream_goes_on(hub: Hub):
    source, sender = await open_session(hub)
    speech = clip()[: -len(SILENCE)]
    await source.push(speech)
    source.flush("here")
    first = await events_until(sender, Flushed)
    assert isinstance(first[-2], Final)
    assert first[-1] == Flushed("here")
    ends = [event.reason for event in first if isinstance(event, SpeechEnded)]
    assert ends == ["flush"]
    await source.push(speech)
    source.finish()
    rest = await events_until(sender)
    assert plain(finals(rest)[0].text) == plain(finals(first)[0].text) == SAID
    assert_in_order([*first, *rest])


async def test_flush_with_no_utterance_open_is_answered_at_once(hub: Hub):
    source, sender = await open_session(hub)
    source.flush()
    assert (await events_until(sender, Flushed))[-1] == Flushed(None)


async def test_clear_forgets_the_open_utterance(hub: Hub):
    source, sender = await open_session(hub)
    await source.push(clip()[: -len(SILENCE)])
    source.clear()
    await source.push(clip(OTHER_CLIP))
    source.finish()
    told = await events_until(sender)
    assert_in_order(told)
    [discarded] = [event for event in told if isinstance(event, Discarded)]
    [gap] = [event for event in told if isinstance(event, Gap)]
    [final] = finals(told)
    assert (discarded.utterance, discarded.reason, gap.reason) == (1, "client", "client")
    assert (final.utterance, plain(final.text)) == (2, OTHER_SAID)


async def test_clear_with_no_utterance_open_tells_nothing(hub: Hub):
    told = await transcribe(hub, SILENCE[:0], before_finish=lambda source: source.clear())
    assert kinds(told) == [SessionStarted, Ended]


async def test_the_audio_clock_goes_on_over_a_gap(hub: Hub):
    """field-failures: a gap is an event, and the audio clock goes on."""
    source, sender = await open_session(hub)
    await source.push(clip())
    source.gap(160_000)
    await source.push(clip())
    source.finish()
    told = await events_until(sender)
    assert_in_order(told)
    [gap] = [event for event in told if isinstance(event, Gap)]
    first, second = finals(told)
    assert (gap.end - gap.start, gap.reason) == (10.0, "client")
    assert second.start - first.start == pytest.approx(len(clip()) / 16000 + 10.0, abs=0.02)
    assert plain(second.text) == plain(first.text) == SAID


async def test_a_change_holds_from_the_next_utterance_on(hub: Hub):
    source, sender = await open_session(hub)
    speech = clip()
    await source.push(speech[:24000])
    source.configure(replace(source.configuration, words=True))
    await source.push(speech[24000:])
    await source.push(speech)
    source.finish()
    first, second = finals(await events_until(sender))
    assert first.words is None
    assert second.words is not None


async def test_without_endpointing_only_a_flush_ends_an_utterance(hub: Hub):
    never = replace(hub.defaults, endpointing=None)
    told = await transcribe(hub, np.concatenate([clip(), clip()]), configuration=never)
    assert kinds(told) == [SessionStarted, SpeechStarted, SpeechEnded, Final, Ended]


async def test_an_utterance_that_is_too_long_is_cut_and_nothing_lost_or_said_twice(hub: Hub):
    short = replace(hub.defaults, endpointing=Endpointing(silence_ms=600, max_utterance_s=5))
    speech = recordings.load("en_read/jfk.flac")
    told = await transcribe(hub, speech, configuration=short)
    assert_in_order(told)
    assert "max_length" in [event.reason for event in told if isinstance(event, SpeechEnded)]
    pieces = finals(told)
    for before, after in pairwise(pieces):
        assert after.start >= before.end
    said = plain(" ".join(final.text for final in pieces))
    assert said.count("fellow americans") == 1
    assert said.count("what your country can do for you") == 1
    assert said.count("what you can do for your country") == 1


async def test_a_sender_faster_than_the_engine_waits_and_nothing_is_dropped(hub: Hub):
    source, sender = await open_session(hub)
    speech = np.tile(clip(), 3)
    sending = asyncio.create_task(source.push(speech))
    first = await events_until(sender, SpeechStarted)
    assert source.holding_back
    assert not sending.done()
    await sending
    source.finish()
    told = [*first, *await events_until(sender)]
    assert len(finals(told)) == 3
    assert isinstance(told[-1], Ended)
    assert told[-1].audio_s == len(speech) / 16000


async def test_many_requests_hold_their_sender_back(hub: Hub):
    source, sender = await open_session(hub)
    for _ in range(MOST_REQUESTS + 1):
        source.clear()
    assert source.holding_back
    await source.room()
    source.finish()
    assert kinds(await events_until(sender)) == [SessionStarted, Ended]


async def test_a_stuck_decode_ends_that_session_alone(engine: Engine):
    """field-failures: one session's failure ends that session alone, with a typed error; the others go on."""
    async with hub_on(engine, decode_deadline_s=1e-4) as hub:
        silent, silent_sender = await open_session(hub)
        told = await transcribe(hub, clip())
        assert_in_order(told)
        assert told[-1].reason == "engine_failed"  # type: ignore[attr-defined]
        assert [event.code for event in told if isinstance(event, Error)] == ["engine_failed"]
        silent.finish()
        assert (await events_until(silent_sender))[-1].reason == "finished"  # type: ignore[attr-defined]


async def test_a_cancelled_session_keeps_what_was_committed(hub: Hub):
    source, sender = await open_session(hub)
    await source.push(recordings.load("en_read/jfk.flac"))
    before = await events_until(sender, Commit)
    await hub.drain("shutdown", 0)
    told = [*before, *await events_until(sender)]
    assert_in_order(told)
    assert isinstance(told[-1], Ended)
    assert told[-1].reason == "shutdown"
    [gap] = [event for event in told if isinstance(event, Gap)]
    assert (gap.start, gap.end, gap.reason) == (finals(told)[0].end, 11.0, "overflow")
    assert finals(told)[0].text == committed(told, 1)


async def test_draining_gives_the_finals_of_what_was_accepted(hub: Hub):
    """field-failures: stop transcribes all the audio that was accepted."""
    source, sender = await open_session(hub)
    await source.push(clip())
    await hub.drain("shutdown", 60)
    told = await events_until(sender)
    assert plain(finals(told)[0].text) == SAID
    assert told[-1].reason == "shutdown"  # type: ignore[attr-defined]


async def test_a_detected_language_is_kept(hub: Hub):
    told = await transcribe(hub, np.concatenate([clip("multi/de/kerstin/de_rhasspy-0155.flac"), clip()]))
    assert [final.language for final in finals(told)] == ["de", "de"]


async def test_what_is_not_understood_in_the_detected_language_is_not_lost(hub: Hub):
    german, english = clip("multi/de/kerstin/de_rhasspy-0155.flac"), clip("en_read/matthes/LJ001-0107.flac")
    told = await transcribe(hub, np.concatenate([german, english]))
    first, second = finals(told)
    assert (first.language, second.language) == ("de", "en")
    assert plain(second.text) == "to say a few words on the principles of design and typography"


async def test_an_utterance_is_heard_with_the_end_of_the_one_before(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
):
    """But not after a long pause, in another language or task, or after ``clear``."""
    given = contexts_given(monkeypatch)
    english = replace(hub.defaults, language="en")
    source, sender = await open_session(hub, configuration=english)
    speech, pause = clip(), np.zeros(25 * 16000, np.float32)
    for sound in (speech, speech, np.concatenate([pause, speech])):
        await source.push(sound)
    source.configure(replace(english, task="translate"))
    await source.push(speech)
    source.configure(replace(english, language="de"))
    await source.push(speech)
    source.configure(english)
    await source.push(np.concatenate([speech, speech[: -len(SILENCE)]]))
    source.clear()
    await source.push(speech)
    source.finish()
    told = finals(await events_until(sender))
    assert [plain(told[which].text) for which in (0, 1, 2, 5, 6)] == [SAID] * 5
    assert [context is not None for context in given] == [
        False,
        True,
        False,
        False,
        False,
        False,
        True,
        False,
    ]
    assert given[1] is not None
    assert given[1].end == round(told[0].end * 16000)


async def test_audio_that_stops_inside_an_utterance_is_told(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "SLOW_INPUT_S", 0.01)
    stalled, sender = await open_session(hub)
    await stalled.push(clip()[:32000])
    warning = (await events_until(sender, events.Warning))[-1]
    assert isinstance(warning, events.Warning)
    assert warning.code == "slow_input"
    stalled.finish()
    assert finals(await events_until(sender))
