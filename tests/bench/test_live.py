from stenod.events import Word

from .live import Moment, contained, judge


def test_text_is_aligned_with_a_prefix_of_the_reference() -> None:
    reference = ["the", "cat", "sat", "on", "the", "mat"]
    assert contained(["the", "cat"], reference) == [0, 1]
    assert contained(["a", "cat", "sat"], reference) == [1, 2]
    assert contained(["the", "cat", "sat", "down", "on"], reference) == [0, 1, 2, 3]
    assert contained(["the", "sat"], reference) == [0, 2]
    assert contained([], reference) == []
    assert contained(["the"], []) == []


def test_delays_count_from_the_end_of_a_word_to_its_first_appearance_and_commitment() -> None:
    reference = [Word("The", 0.0, 0.5, 1.0), Word("cat,", 0.5, 1.0, 1.0), Word("sat.", 1.0, 1.5, 1.0)]
    moments = [
        Moment(0.75, "", "The cap"),
        Moment(1.25, "The", " cat"),
        Moment(2.0, "The cat", ""),
    ]
    report = judge(moments, reference)
    assert report.appearance == [0.25, 0.25]
    assert report.commitment == [0.75, 1.0]
    assert report.never_appeared == 1
    assert report.never_committed == 1
    assert report.revised == 1
    assert report.committed_revised == 0


def test_a_committed_word_that_changes_is_counted() -> None:
    moments = [Moment(1.0, "The cap", ""), Moment(2.0, "The cat", "")]
    assert judge(moments, [Word("The", 0.0, 0.5, 1.0)]).committed_revised == 1
