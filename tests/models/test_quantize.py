"""Model files rewritten with other number formats."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from stenod.models import ModelError, convert, info, quantize

from .small_models import Contents, contents_of, small_model, write_hf


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    convert(write_hf(folder / "small", small_model()), folder / "small.gguf", "f32")
    return folder / "small.gguf"


@pytest.fixture(scope="module")
def before(source: Path) -> Contents:
    return contents_of(source)


@pytest.mark.parametrize("type", ["f16", "q8_0", "q5_0", "q4_0"])
def test_only_the_matrices_change(type: str, source: Path, before: Contents, tmp_path: Path) -> None:
    quantize(source, tmp_path / "out.gguf", type)
    after = contents_of(tmp_path / "out.gguf")
    assert before.metadata | {"general.file_type": after.metadata["general.file_type"]} == after.metadata
    assert list(before.tensors) == list(after.tensors)
    for name, (stored, data) in after.tensors.items():
        _, values = before.tensors[name]
        is_matrix = name.endswith(".weight") and values.ndim > 1
        if not is_matrix:
            assert stored == "F32"
        elif values.ndim == 3:
            assert stored == "F16"
        else:
            assert stored == type.upper()
        expected = gguf.quants.quantize(values, GGMLQuantizationType[stored])
        assert np.array_equal(data, expected)


def test_converting_at_once_gives_the_same(source: Path, tmp_path: Path) -> None:
    quantize(source, tmp_path / "later.gguf", "q8_0")
    convert(source.parent / "small", tmp_path / "at_once.gguf", "q8_0")
    assert (tmp_path / "later.gguf").read_bytes() == (tmp_path / "at_once.gguf").read_bytes()


def test_a_file_may_replace_itself(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(source.read_bytes())
    quantize(path, path, "q4_0")
    assert info(path).type == "q4_0"


@pytest.mark.parametrize("size", [0, 3, 4, 24, 100, 5000, -1, -5000])
def test_cut_files_are_refused(size: int, source: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(source.read_bytes()[:size])
    with pytest.raises(ModelError, match=r"cut\.gguf"):
        quantize(path, tmp_path / "out.gguf", "q8_0")
    assert list(tmp_path.iterdir()) == [path]


def test_foreign_families_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("a", np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match="a model of the family 'llama'"):
        quantize(path, tmp_path / "out.gguf", "q8_0")
