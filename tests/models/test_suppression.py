"""The computed lists equal those that OpenAI's models come with."""

from pathlib import Path

import gguf
import pytest
from stenod.models import ModelError, resolve
from stenod.models.suppression import begin_suppressed_tokens, suppressed_tokens
from stenod.models.vocabulary import LAYOUTS


@pytest.mark.parametrize("name", ["whisper-base", "whisper-tiny.en"])
def test_lists_are_those_of_the_real_model(name: str) -> None:
    try:
        path: Path = resolve(name)
    except ModelError:
        pytest.skip(f"{name} is not on this machine")
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    layout = LAYOUTS[len(tokens)]
    ordinary = tokens[: layout.ordinary_count]
    assert suppressed_tokens(ordinary, layout) == fields["whisper.suppress_tokens"].contents()
    assert begin_suppressed_tokens(ordinary, layout) == fields["whisper.begin_suppress_tokens"].contents()
