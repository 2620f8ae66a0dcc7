"""What a model file says about itself."""

from math import prod
from pathlib import Path

import pytest
from stenod.models import ModelError, convert, info
from stenod.models.parakeet import nemo

from ..golden.parakeet_cases import FOLDER
from .small_models import small_model, write_hf


@pytest.mark.parametrize(("vocab_size", "languages"), [(51864, 1), (51866, 100)])
def test_info(vocab_size: int, languages: int, tmp_path: Path) -> None:
    model = small_model(vocab_size)
    path = tmp_path / "small.gguf"
    convert(write_hf(tmp_path / "small", model), path, "q8_0")
    found = info(path)
    assert (found.path, found.name, found.family, found.type) == (path, "small", "whisper", "q8_0")
    assert found.bytes == path.stat().st_size
    assert found.parameters == sum(values.size for values in model.tensors.values())
    assert found.settings["vocab_size"] == vocab_size
    assert found.settings["decoder.block_count"] == 2
    assert len(found.settings) == 12
    assert len(found.languages) == languages
    assert found.languages[0] == "en"


def test_parakeet(tmp_path: Path) -> None:
    path = tmp_path / "streaming.gguf"
    convert(FOLDER / "streaming.nemo", path, "q8_0")
    found = info(path)
    assert (found.name, found.family, found.type) == ("streaming", "parakeet", "q8_0")
    assert found.settings["head_kind"] == "tdt"
    assert found.settings["encoder.n_layers"] == 2
    assert found.settings["encoder.att_context_style"] == "chunked_limited"
    assert found.parameters == sum(
        prod(tensor.shape) for tensor in nemo.read(FOLDER / "streaming.nemo").sound().tensors.values()
    )
    assert found.languages == []


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        info(tmp_path / "missing.gguf")
    (tmp_path / "text.gguf").write_text("GGUF, or so it says")
    with pytest.raises(ModelError, match="within the header"):
        info(tmp_path / "text.gguf")
