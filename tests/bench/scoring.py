"""Word and character error rates, with Whisper's own text normalisers, and where two texts differ."""

from collections.abc import Iterator, Sequence

import jiwer
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

BY_CHARACTER = frozenset({"zh", "ja", "ko"})
"""Languages scored by the character."""

_english = EnglishTextNormalizer()
_basic = BasicTextNormalizer()
_split = BasicTextNormalizer(split_letters=True)


def normalise(text: str, language: str) -> str:
    """Words (in ``BY_CHARACTER`` languages characters) with one space between."""
    if language == "en":
        return str(_english(text)).strip()
    normaliser = _split if language in BY_CHARACTER else _basic
    return " ".join(normaliser(text).split())


class Score:
    """Errors pooled over texts: all errors over all words of the references."""

    def __init__(self) -> None:
        self.errors = 0
        self.words = 0

    def add(self, reference: str, hypothesis: str, language: str) -> None:
        """Counts one pair; both are normalised here."""
        expected, got = normalise(reference, language), normalise(hypothesis, language)
        counted = jiwer.process_words(expected, got)
        self.errors += counted.substitutions + counted.deletions + counted.insertions
        self.words += len(expected.split())

    @property
    def percent(self) -> float:
        return 100 * self.errors / self.words if self.words else 0.0


def differences(first: str, second: str, language: str) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """The stretches of words in which two texts differ, after normalising."""
    left, right = normalise(first, language).split(), normalise(second, language).split()
    for chunk in jiwer.process_words(" ".join(left), " ".join(right)).alignments[0]:
        if chunk.type != "equal":
            yield (
                left[chunk.ref_start_idx : chunk.ref_end_idx],
                right[chunk.hyp_start_idx : chunk.hyp_end_idx],
            )
