"""Whisper's vocabularies: which token has which number and name.

A vocabulary is a list of ordinary byte-pair tokens (taken from the model's own files) followed by
special tokens, whose names and order are the same in every Whisper model and written down here.
"""

from dataclasses import dataclass
from pathlib import Path

from .errors import ModelError

_CODES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg "
    "lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so "
    "af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue"
)
LANGUAGES = tuple(_CODES.split())
"""ISO codes in the order of their tokens; vocabularies differ only in how many of them they have."""

TIMESTAMP_COUNT = 1501
"""Tokens <|0.00|> to <|30.00|>, 20 ms apart."""

_TASK_TOKENS = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps", "0.00")
_TASK_ROLES = (
    "translate",
    "transcribe",
    "sot_lm",
    "sot_prev",
    "no_speech",
    "no_timestamps",
    "timestamp_begin",
)


@dataclass(frozen=True)
class VocabularyLayout:
    """How the numbers of one vocabulary are shared out between ordinary and special tokens."""

    ordinary_count: int
    language_count: int
    multilingual: bool
    """False: the language tokens have numbers, but the model was never trained to use them."""

    @property
    def end_of_text(self) -> int:
        """The first special token."""
        return self.ordinary_count

    def special_names(self) -> list[str]:
        """Names of all tokens from ``end_of_text`` on, in order."""
        names = ["endoftext", "startoftranscript", *LANGUAGES[: self.language_count], *_TASK_TOKENS]
        names += [f"{index * 0.02:.2f}" for index in range(1, TIMESTAMP_COUNT)]
        return [f"<|{name}|>" for name in names]

    def special_ids(self) -> dict[str, int]:
        """Numbers of the special tokens by the role they have in the GGUF file's ``whisper.token.*`` keys."""
        start = self.end_of_text + 1
        translate = start + 1 + self.language_count
        tasks = {role: translate + offset for offset, role in enumerate(_TASK_ROLES)}
        return {"eot": self.end_of_text, "sot": start} | tasks

    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that the model knows how to name; empty for English-only models."""
        return LANGUAGES[: self.language_count] if self.multilingual else ()


LAYOUTS = {
    51864: VocabularyLayout(ordinary_count=50256, language_count=99, multilingual=False),
    51865: VocabularyLayout(ordinary_count=50257, language_count=99, multilingual=True),
    51866: VocabularyLayout(ordinary_count=50257, language_count=100, multilingual=True),
}
"""The known vocabularies by their size."""


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's stand-ins: printable Latin-1 bytes stand for themselves, others are counted from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


CHARACTER_OF_BYTE = _byte_alphabet()
"""The character that stands for each byte in the names of ordinary tokens."""


def encode_bytes(data: bytes) -> str:
    """``data`` in GPT-2's byte alphabet."""
    return "".join(CHARACTER_OF_BYTE[byte] for byte in data)


def layout_of(size: int, path: Path) -> VocabularyLayout:
    """The layout of ``path``'s vocabulary of ``size`` tokens. Raises ModelError where none is known."""
    if size not in LAYOUTS:
        known = ", ".join(map(str, LAYOUTS))
        fault = f"has a vocabulary of {size} tokens, unlike Whisper ({known})"
        raise ModelError(path, fault, "choose a model with one of OpenAI's vocabularies")
    return LAYOUTS[size]
