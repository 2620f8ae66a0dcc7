"""Tokens to text: what of an utterance is committed, what is tentative, and the words with their times.

The engine decides what is committed; here it becomes text. Tokens are bytes that may cut a character,
so text is handled by the character, each with the times and the probability of its tokens.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from .events import Word

if TYPE_CHECKING:
    from ._native import Token

JOINED_LANGUAGES = frozenset({"zh", "yue", "ja", "th", "lo", "my", "km", "bo"})
"""Languages written without spaces between words: a word is a grapheme, sentences are not spaced."""

_EXTENDING = frozenset("\u0e33\u0eb3\u200d")
"""Thai and Lao AM and the zero-width joiner: letters by category, yet part of the character before."""


class Character(NamedTuple):
    """One code point, the seconds it was spoken at, and the probability of its tokens."""

    text: str
    start: float
    end: float
    p: float


class CharacterDecoder:
    """Makes characters of tokens; the bytes of one that is not complete yet wait for the next token."""

    def __init__(self, origin_s: float = 0.0) -> None:
        """``origin_s`` is added to the tokens' times."""
        self._origin_s = origin_s
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: Character | None = None

    def decode(self, tokens: Iterable[Token]) -> list[Character]:
        """The characters that ``tokens`` complete; a token's time is shared out among its characters."""
        characters = []
        for token in tokens:
            start, end, p = token["start"] + self._origin_s, token["end"] + self._origin_s, token["p"]
            if self._waiting is not None:
                start, p = self._waiting.start, min(p, self._waiting.p)
            text = self._utf8.decode(token["text"])
            share = (end - start) / max(1, len(text))
            characters += [
                Character(one, start + share * i, start + share * (i + 1), p) for i, one in enumerate(text)
            ]
            incomplete = bool(self._utf8.getstate()[0])
            self._waiting = Character("", start, end, p) if incomplete else None
        return characters

    def preview(self, tokens: Iterable[Token]) -> list[Character]:
        """As ``decode``, but what was decoded before stays the state."""
        state, waiting = self._utf8.getstate(), self._waiting
        characters = self.decode(tokens)
        self._utf8.setstate(state)
        self._waiting = waiting
        return characters


class Transcript:
    """The text of one utterance, while it grows. ``committed`` only ever gets longer."""

    def __init__(self, origin_s: float) -> None:
        """``origin_s``: audio time of the utterance's first sample, to which tokens' times relate."""
        self._decoder = CharacterDecoder(origin_s)
        self._settled: list[Character] = []
        self._committed = 0
        self._tail: list[Character] = []
        self._language: str | None = None

    def advance(
        self,
        committed: Sequence[Token],
        tentative: Sequence[Token],
        language: str | None,
        *,
        final: bool = False,
    ) -> tuple[str, list[Word]]:
        """Takes a hypothesis: tokens newly committed, and the whole tentative tail.

        Returns the text that this adds to the committed text, and its words. White space at the end, and
        a character that may still get a mark, wait for what follows; with ``final`` nothing waits.
        """
        self._language = language
        self._settled += self._decoder.decode(committed)
        while self._settled and not self._committed and self._settled[0].text.isspace():
            del self._settled[0]
        end = self._settled_end(final)
        added = self._settled[self._committed : end]
        self._committed = end
        tail = self._settled[end:] + self._decoder.preview(tentative)
        self._tail = tail if end else _without_leading_space(tail)
        return _text(added), words_of(added, language)

    @property
    def committed(self) -> str:
        """The committed text: it ends at the end of a character that is complete, never in white space."""
        return _text(self._settled[: self._committed])

    @property
    def tentative(self) -> str:
        """What follows the committed text, as it looks now, white space included."""
        return _text(self._tail)

    @property
    def committed_end(self) -> float | None:
        """Seconds at which the last committed word ends; None if nothing is committed."""
        return self._settled[self._committed - 1].end if self._committed else None

    @property
    def words(self) -> list[Word]:
        """The words of the committed text."""
        return words_of(self._settled[: self._committed], self._language)

    @property
    def marked_words(self) -> list[Word]:
        """All words, each told whether it is committed."""
        marked = [(word, True) for word in self.words]
        marked += [(word, False) for word in words_of(self._tail, self._language)]
        return [Word(word.text, word.start, word.end, word.confidence, flag) for word, flag in marked]

    @property
    def confidence(self) -> float:
        """Mean probability of the committed words, 0 without any."""
        return fmean(word.confidence for word in self.words) if self._committed else 0.0

    def _settled_end(self, final: bool) -> int:
        end = len(self._settled)
        if not final and self._language in JOINED_LANGUAGES:
            end = self._last_grapheme(end)
        while end > self._committed and self._settled[end - 1].text.isspace():
            end -= 1
        return end

    def _last_grapheme(self, end: int) -> int:
        """Where the last grapheme begins if a mark could still join it, else ``end``.

        Ideographs and kana take no marks, so Chinese and Japanese do not wait.
        """
        if end == self._committed or unicodedata.east_asian_width(self._settled[end - 1].text) in "WF":
            return end
        start = end - 1
        while start > self._committed and _extends(self._settled[start].text):
            start -= 1
        return start


def words_of(characters: Sequence[Character], language: str | None) -> list[Word]:
    """The words of a text: split at white space, or by graphemes where the language writes none."""
    joined = language in JOINED_LANGUAGES
    words: list[Word] = []
    open_word: list[Character] = []
    for character in characters:
        space = character.text.isspace()
        if open_word and (space or (joined and not _extends(character.text))):
            words.append(_word(open_word, words))
            open_word = []
        if not space:
            open_word.append(character)
    if open_word:
        words.append(_word(open_word, words))
    return words


def join(texts: Iterable[str], language: str | None) -> str:
    """Finals as one text: with one space between them, or none where the language writes none."""
    return ("" if language in JOINED_LANGUAGES else " ").join(text for text in texts if text)


def _word(characters: Sequence[Character], before: Sequence[Word]) -> Word:
    """One word; its time never runs backwards from the word before."""
    start = max(characters[0].start, before[-1].start if before else 0.0)
    end = max(characters[-1].end, start)
    return Word(_text(characters), round(start, 3), round(end, 3), round(fmean(c.p for c in characters), 4))


def _extends(character: str) -> bool:
    """Whether a code point belongs to the one before it: a mark, a sign, or punctuation."""
    return character in _EXTENDING or unicodedata.category(character)[0] in "MP"


def _text(characters: Iterable[Character]) -> str:
    return "".join(character.text for character in characters)


def _without_leading_space(characters: list[Character]) -> list[Character]:
    start = next((i for i, one in enumerate(characters) if not one.text.isspace()), len(characters))
    return characters[start:]
