"""Text of tokens: nothing cut inside a character, committed text that only grows, words with times."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stenod.transcript import CharacterDecoder, Transcript, join, words_of

if TYPE_CHECKING:
    from stenod._native import Token


def tokens(*pieces: str | bytes, p: float = 0.9) -> list[Token]:
    """One token a piece, each half a second long."""
    raw = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return [{"id": i, "text": text, "start": i / 2, "end": (i + 1) / 2, "p": p} for i, text in enumerate(raw)]


def test_leading_space_is_not_shown_and_inner_space_is():
    transcript = Transcript(0.0)
    assert transcript.advance([], tokens(" Hello", " wor"), "en") == ("", [])
    assert (transcript.committed, transcript.tentative) == ("", "Hello wor")
    added, _ = transcript.advance(tokens(" Hello"), tokens(" world"), "en")
    assert added == "Hello"
    assert (transcript.committed, transcript.tentative) == ("Hello", " world")
    added, _ = transcript.advance(tokens(" world", "."), [], "en", final=True)
    assert added == " world."
    assert (transcript.committed, transcript.tentative) == ("Hello world.", "")


def test_trailing_space_waits_for_the_next_word():
    transcript = Transcript(0.0)
    assert transcript.advance(tokens(" one", " "), tokens("two"), "en")[0] == "one"
    assert transcript.tentative == " two"
    assert transcript.advance(tokens("two"), [], "en", final=True)[0] == " two"


def test_a_character_cut_between_tokens_waits_for_its_rest():
    first, second = "ä".encode()[:1], "ä".encode()[1:]
    transcript = Transcript(0.0)
    assert transcript.advance(tokens(" M", first), [], "de")[0] == "M"
    assert transcript.tentative == ""
    added, words = transcript.advance(tokens(second, "rz"), [], "de")
    assert added == "ärz"
    assert words[0].text == "ärz"


def test_tentative_text_does_not_disturb_a_waiting_character():
    first, second = "é".encode()[:1], "é".encode()[1:]
    transcript = Transcript(0.0)
    transcript.advance(tokens(" caf", first), tokens(second, " au"), "fr")
    assert transcript.committed + transcript.tentative == "café au"
    assert transcript.advance(tokens(second), [], "fr")[0] == "é"


def test_thai_waits_until_a_character_cannot_get_a_mark_any_more():
    transcript = Transcript(0.0)
    assert transcript.advance(tokens("น"), tokens("้ำ"), "th")[0] == ""
    assert transcript.advance(tokens("้", "ำ", "แ"), [], "th")[0] == "น้ำ"
    assert transcript.advance([], [], "th", final=True)[0] == "แ"
    assert [word.text for word in transcript.words] == ["น้ำ", "แ"]


def test_chinese_words_are_graphemes_and_do_not_wait():
    transcript = Transcript(0.0)
    added, words = transcript.advance(tokens("你好"), tokens("、世界"), "zh")
    assert added == "你好"
    assert [word.text for word in words] == ["你", "好"]
    assert transcript.tentative == "、世界"


def test_times_are_audio_time_and_shared_out_among_characters():
    transcript = Transcript(10.0)
    _, words = transcript.advance(tokens(" two", " words", "!"), [], "en")
    assert [(word.text, word.start, word.end) for word in words] == [
        ("two", 10.125, 10.5),
        ("words!", 10.583, 11.5),
    ]
    assert transcript.committed_end == 11.5


def test_time_never_runs_backwards():
    backwards = [
        {"id": 0, "text": b" late", "start": 5.0, "end": 6.0, "p": 1.0},
        {"id": 1, "text": b" early", "start": 1.0, "end": 2.0, "p": 1.0},
    ]
    first, second = words_of(CharacterDecoder().decode(backwards), "en")
    assert first.start <= second.start <= second.end


def test_words_tell_whether_they_are_committed():
    transcript = Transcript(0.0)
    transcript.advance(tokens(" sure"), tokens(" maybe"), "en")
    assert [(word.text, word.committed) for word in transcript.marked_words] == [
        ("sure", True),
        ("maybe", False),
    ]


def test_confidence_is_the_mean_over_words():
    transcript = Transcript(0.0)
    assert transcript.confidence == 0.0
    transcript.advance(tokens(" a", p=0.5) + tokens(" b", p=1.0), [], "en")
    assert transcript.confidence == pytest.approx(0.75)


@pytest.mark.parametrize(("language", "text"), [("en", "a b"), (None, "a b"), ("ja", "ab")])
def test_finals_are_joined_as_the_language_writes(language: str | None, text: str):
    assert join(["a", "", "b"], language) == text


@given(
    text=st.text(max_size=40),
    cuts=st.lists(st.integers(0, 160), max_size=6),
    language=st.sampled_from(["en", "th"]),
)
def test_however_tokens_cut_the_bytes_the_text_is_the_same(text: str, cuts: list[int], language: str):
    raw = text.encode()
    edges = [0, *sorted(cut for cut in cuts if cut <= len(raw)), len(raw)]
    pieces = [raw[a:b] for a, b in pairwise(edges)]
    transcript = Transcript(0.0)
    shown = ""
    for i, piece in enumerate(pieces):
        added, _ = transcript.advance(tokens(piece), tokens(*pieces[i + 1 :]), language)
        shown += added
        assert transcript.committed == shown
        assert (transcript.committed + transcript.tentative).strip() == text.strip()
    shown += transcript.advance([], [], language, final=True)[0]
    assert shown == text.strip()
