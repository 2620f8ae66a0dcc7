"""Cues, and the files they are written to, read by parsers that are not ours."""

import html
from io import StringIO
from itertools import pairwise

import webvtt
from hypothesis import given, settings
from hypothesis import strategies as st
from stenod.captions import (
    HEADERS,
    LINE_COLUMNS,
    LINES,
    LONGEST_S,
    MOST_LATE_S,
    READ_COLUMNS_PER_S,
    SHORTEST_S,
    Cue,
    CueMaker,
    columns,
    spread,
    wrapped,
    written,
)
from stenod.events import Word

SOON = 0.001
"""Seconds that rounding may cost."""

texts = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=50)
lengths = st.sampled_from([0.0, 0.05, 0.3, 1.0, 8.0])
spoken_words = st.lists(st.tuples(texts, lengths, lengths), min_size=1, max_size=40)
"""Each a text, the pause before it, and how long it takes."""
few = settings(max_examples=30, deadline=None)


def utterances_of(spoken: list[tuple[str, float, float]]) -> list[list[Word]]:
    """Utterances of seven words each."""
    clock, words = 0.0, []
    for text, pause, length in spoken:
        words.append(Word(text, clock + pause, clock + pause + length, 1.0))
        clock += pause + length
    return [words[i : i + 7] for i in range(0, len(words), 7)]


def cues_of(utterances: list[list[Word]], language: str = "en") -> list[Cue]:
    maker = CueMaker()
    return [cue for words in utterances for cue in maker.cues(words, language)]


@few
@given(spoken_words, st.sampled_from(["en", "ja"]))
def test_every_cue_can_be_read_and_no_word_is_lost(
    spoken: list[tuple[str, float, float]], language: str
) -> None:
    utterances = utterances_of(spoken)
    cues = cues_of(utterances, language)
    joint = "" if language == "ja" else " "
    said = "".join(word.text for words in utterances for word in words)
    assert "".join(joint.join(cue.lines) for cue in cues).replace(" ", "") == said.replace(" ", "")
    for cue in cues:
        assert len(cue.lines) <= LINES
        assert max(map(columns, cue.lines)) <= LINE_COLUMNS
        assert SHORTEST_S - SOON <= cue.end - cue.start <= LONGEST_S + SOON
    assert all(one.end <= other.start for one, other in pairwise(cues))


@few
@given(spoken_words)
def test_a_cue_is_shown_long_enough_unless_it_came_too_late(spoken: list[tuple[str, float, float]]) -> None:
    utterances = utterances_of(spoken)
    cues = cues_of(utterances)
    for i, cue in enumerate(cues):
        to_read = sum(map(columns, cue.lines)) / READ_COLUMNS_PER_S
        late = i > 0 and cue.start == cues[i - 1].end
        assert late or cue.end - cue.start >= min(to_read, LONGEST_S) - SOON


def test_fast_speech_is_caught_up_with() -> None:
    """One speaks 40 characters a second for a minute: captions are late, but not more and more."""
    words = [Word("quick", i / 8, (i + 1) / 8, 1.0) for i in range(480)]
    assert max(cue.start - spoken for cue, spoken in zip(cues_of([words]), starts(words), strict=True)) < (
        MOST_LATE_S + LONGEST_S
    )


def starts(words: list[Word]) -> list[float]:
    """When the first word of each cue is spoken."""
    found, position = [], 0
    for cue in cues_of([words]):
        found.append(words[position].start)
        position += len(" ".join(cue.lines).split())
    return found


def test_a_pair_of_lines_is_balanced() -> None:
    text = "one two three four five six seven eight nine ten"
    [cue] = cues_of([spread(text, 0.0, 5.0, "en")])
    assert cue.lines == ("one two three four five", "six seven eight nine ten")


def test_ideographs_are_wide() -> None:
    text = "いろはにほへと散りぬるを我が世誰ぞ常ならん" * 2
    [cue] = cues_of([spread(text, 0.0, 6.0, "ja")], "ja")
    assert [len(line) for line in cue.lines] == [21, 21]
    assert "".join(wrapped([text[:21], text[21:]], "ja")) == text


@few
@given(spoken_words)
def test_others_read_at_any_moment_what_is_written(spoken: list[tuple[str, float, float]]) -> None:
    """A file that grows is a good one after every cue."""
    utterances = utterances_of(spoken)
    cues = cues_of(utterances)
    srt_text, vtt_text = HEADERS["srt"], HEADERS["vtt"]
    for count, cue in enumerate(cues, 1):
        srt_text += written(cue, count, "srt")
        vtt_text += written(cue, count, "vtt")
        if count in (1, len(cues)):
            assert read_srt(srt_text) == seen(cues[:count])
            assert read_vtt(vtt_text) == seen(cues[:count])


Seen = list[tuple[int, int, str]]
"""Milliseconds, milliseconds, text."""


def seen(cues: list[Cue]) -> Seen:
    return [(round(cue.start * 1000), round(cue.end * 1000), "\n".join(cue.lines)) for cue in cues]


def read_srt(text: str) -> Seen:
    """As PyPI's ``webvtt-py`` does, which reads both; numbers it does not look at."""
    if not text:
        return []
    parsed = webvtt.from_buffer(StringIO(text), format="srt").captions
    numbers = [line for block in text.split("\n\n") for line in block.splitlines()[:1]]
    assert numbers == [str(number) for number in range(1, len(parsed) + 1)]
    return [(milliseconds(one.start), milliseconds(one.end), one.text) for one in parsed]


def read_vtt(text: str) -> Seen:
    """As PyPI's ``webvtt-py`` does."""
    parsed = webvtt.from_string(text)
    return [(milliseconds(one.start), milliseconds(one.end), html.unescape(one.text)) for one in parsed]


def milliseconds(clock: str) -> int:
    hours, minutes, seconds = clock.split(":")
    return round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)
