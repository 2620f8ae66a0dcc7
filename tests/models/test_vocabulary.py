"""The numbers of Whisper's special tokens, and the byte alphabet."""

from pathlib import Path

import pytest
from stenod.models import ModelError
from stenod.models.vocabulary import CHARACTER_OF_BYTE, LANGUAGES, LAYOUTS, encode_bytes, layout_of


@pytest.mark.parametrize("size", LAYOUTS)
def test_ordinary_and_special_tokens_fill_the_vocabulary(size: int) -> None:
    layout = LAYOUTS[size]
    names = layout.special_names()
    assert layout.ordinary_count + len(names) == size
    assert len(set(names)) == len(names)
    assert names[0] == "<|endoftext|>"
    assert names[-1] == "<|30.00|>"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (51864, [50256, 50257, 50357, 50358, 50359, 50360, 50361, 50362, 50363]),
        (51865, [50257, 50258, 50358, 50359, 50360, 50361, 50362, 50363, 50364]),
        (51866, [50257, 50258, 50359, 50360, 50361, 50362, 50363, 50364, 50365]),
    ],
)
def test_special_ids(size: int, expected: list[int]) -> None:
    assert list(LAYOUTS[size].special_ids().values()) == expected


def test_languages() -> None:
    assert len(set(LANGUAGES)) == 100
    assert LAYOUTS[51864].languages() == ()
    assert LAYOUTS[51865].languages() == LANGUAGES[:99]
    assert LAYOUTS[51866].languages()[-1] == "yue"


def test_byte_alphabet() -> None:
    assert len(set(CHARACTER_OF_BYTE.values())) == 256
    assert encode_bytes(b" a\n") == "ĠaĊ"
    assert encode_bytes("é".encode()) == "Ã©"
    assert all(character.isprintable() for character in CHARACTER_OF_BYTE.values())


def test_unknown_size_is_refused() -> None:
    with pytest.raises(ModelError, match=r"^model: has a vocabulary of 50257 tokens"):
        layout_of(50257, Path("model"))
