"""The wire form of events."""

import json

import msgspec
import pytest
from stenod import events
from stenod.events import AnyEvent, Final, Partial, Started, Word, decode, encode

EVERY_EVENT: list[AnyEvent] = [
    events.SessionStarted("s", 1, model="whisper-base", started_at=1.5, channel="room"),
    events.SpeechStarted("s", 2, utterance=1, start=0.5),
    events.Commit("s", 3, utterance=1, text="Grüße", words=(Word("Grüße", 0.5, 0.9, 0.8),)),
    events.SpeechEnded("s", 4, utterance=1, end=2.0, reason="silence"),
    Final("s", 5, utterance=1, start=0.5, end=2.0, text="Grüße", language=None, confidence=0.8),
    events.Discarded("s", 6, utterance=2, reason="no_words"),
    events.Gap("s", 7, start=3.0, end=4.0, reason="overflow"),
    events.Ended("s", 8, reason="finished", audio_s=9.0, utterances=2),
    Partial(utterance=1, seq=2, rev=1, start=0.5, end=0.9, committed="", tentative=" 日本"),
    events.Overload(1.2, "fewer_partials"),
    events.Warning("clipping", "too loud"),
    Started("s", "", 0.0, events.Limits(1 << 20, 10.0, None)),
    events.Resumed(16000),
    events.Ack(16000),
    events.Flushed("a"),
    events.Error("bad_field", "no", fatal=False, field="task"),
    events.Snapshot((), "s:8"),
    events.Dropped("slow"),
]


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_an_event_survives_its_wire_form(event: AnyEvent):
    assert decode(encode(event)) == event


def test_what_is_not_set_is_left_out_and_what_is_null_is_not():
    final = json.loads(encode(EVERY_EVENT[4]))
    assert "words" not in final
    assert final["language"] is None


def test_a_partial_keeps_its_white_space():
    assert json.loads(encode(EVERY_EVENT[8]))["tentative"] == " 日本"


def test_unknown_fields_are_ignored():
    assert decode('{"type":"ack","received_samples":5,"new":[1]}') == events.Ack(5)


def test_an_unknown_event_is_an_error():
    with pytest.raises(msgspec.ValidationError):
        decode('{"type":"nonsense"}')
