"""Transcripts as txt, json, srt and vtt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stenod.formats import Transcript, formatted

if TYPE_CHECKING:
    from stenod._native import Segment


def segment(start: float, *words: str) -> Segment:
    """Words of half a second each."""
    return {
        "start": start,
        "end": start + len(words) / 2,
        "tokens": [
            {"id": i, "text": word.encode(), "start": start + i / 2, "end": start + (i + 1) / 2, "p": 0.75}
            for i, word in enumerate(words)
        ],
        "avg_logprob": -0.25,
        "no_speech_prob": 0.01,
        "compression_ratio": 1.0,
        "temperature": 0.0,
    }


ONE = Transcript("a.wav", 4.0, "en", [segment(0.0, " One", " two."), segment(3723.5, " Three")])


def test_txt_is_a_line_a_segment():
    assert formatted(ONE, "txt") == "One two.\nThree\n"


def test_json_is_one_line_with_words_and_tokens():
    text = formatted(ONE, "json")
    assert text.count("\n") == 1
    read = json.loads(text)
    assert (read["file"], read["text"], read["language"], read["duration"]) == (
        "a.wav",
        "One two. Three",
        "en",
        4.0,
    )
    first = read["segments"][0]
    assert set(first) == {
        "start", "end", "text", "avg_logprob", "no_speech_prob", "temperature", "tokens", "words",
    }  # fmt: skip
    assert first["tokens"][1] == {"id": 1, "text": " two.", "start": 0.5, "end": 1.0, "p": 0.75}
    assert [word["text"] for word in first["words"]] == ["One", "two."]
    assert first["words"][1]["confidence"] == 0.75


def test_srt_numbers_its_cues_and_writes_hours():
    assert formatted(ONE, "srt") == (
        "1\n00:00:00,125 --> 00:00:01,125\nOne two.\n\n2\n01:02:03,583 --> 01:02:04,583\nThree\n\n"
    )


def test_vtt_has_its_header_and_points():
    assert formatted(ONE, "vtt").startswith("WEBVTT\n\n00:00:00.125 --> 00:00:01.125\nOne two.\n\n")


def test_nothing_said_is_an_empty_transcript():
    empty = Transcript("a.wav", 4.0, None, [])
    assert (formatted(empty, "txt"), formatted(empty, "srt"), formatted(empty, "vtt")) == (
        "",
        "",
        "WEBVTT\n\n",
    )
    assert json.loads(formatted(empty, "json"))["text"] == ""
