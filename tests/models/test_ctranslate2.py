"""CTranslate2's models: quantised, old, foreign and damaged ones."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stenod.models import ModelError, convert, ctranslate2

from . import small_models
from .small_models import SmallModel, contents_of, small_model


@pytest.fixture(scope="module")
def model() -> SmallModel:
    return small_model()


@pytest.fixture(scope="module")
def variables(model: SmallModel) -> dict[str, NDArray[Any]]:
    return small_models.ctranslate2_variables(model)


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as error:
        convert(folder, folder / "out.gguf")
    assert not (folder / "out.gguf").exists()
    return str(error.value)


def test_int8(model: SmallModel, variables: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    quantised = small_models.quantised_variables(variables)
    convert(small_models.write_ctranslate2(tmp_path, model, quantised), tmp_path / "out.gguf", "f32")
    for name, (_, values) in contents_of(tmp_path / "out.gguf").tensors.items():
        if name in model.tensors:
            expected = model.tensors[name]
            step = np.abs(expected.reshape(len(expected), -1)).max(axis=1) / 127
            error = np.abs(values - expected).reshape(len(expected), -1).max(axis=1)
            assert (error <= step * 0.51).all()


def test_int16_with_one_scale_for_all_rows(variables: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    name = "decoder/layer_1/attention/linear_1/weight"
    scale = np.float32(1024 / np.abs(variables[name]).max())
    whole = np.rint(variables[name] * scale).astype(np.int16)
    changed = variables | {name: whole, f"{name}_scale": np.array(scale)}
    checkpoint = ctranslate2.read(small_models.write_ctranslate2(tmp_path, small_model(), changed))
    value = checkpoint.tensors["decoder.blocks.1.cross_attn.value.weight"].load()
    assert np.array_equal(value, whole[64:].astype(np.float32) / scale)


def test_vocabulary_as_json(model: SmallModel, tmp_path: Path) -> None:
    small_models.write_ctranslate2(tmp_path, model)
    (tmp_path / "vocabulary.txt").unlink()
    small_models.write_json(tmp_path / "vocabulary.json", model.tokens)
    assert ctranslate2.read(tmp_path).ordinary_tokens == model.ordinary_tokens


def test_without_config(model: SmallModel, tmp_path: Path) -> None:
    small_models.write_ctranslate2(tmp_path, model)
    (tmp_path / "config.json").unlink()
    assert ctranslate2.read(tmp_path).suppress_tokens is None


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: b"", "within the header"),
        (lambda data: data[:1000], "within decoder/embeddings/weight"),
        (lambda data: data[:-5], "within a name"),
        (lambda data: data + b"\0", "something follows its end"),
        (lambda data: struct.pack("<I", 7) + data[4:], "version 7 of CTranslate2's format"),
        (lambda data: data.replace(b"WhisperSpec", b"WhimsicSpec", 1), "holds a 'WhimsicSpec'"),
        (lambda data: data.replace(b"encoder/num_heads", b"encoder/num_beads", 1), "encoder/num_heads"),
        (lambda data: data.replace(b"encoder/conv1/bias", b"encoder/conv9/bias", 1), "encoder.conv1.bias"),
    ],
)
def test_damage_is_told(damage: Any, told: str, model: SmallModel, tmp_path: Path) -> None:
    small_models.write_ctranslate2(tmp_path, model)
    weights = tmp_path / "model.bin"
    weights.write_bytes(damage(weights.read_bytes()))
    assert told in refusal(tmp_path)


def test_bias_of_a_key_is_refused(
    model: SmallModel, variables: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    bias = np.ones(192, np.float32)
    changed = variables | {"encoder/layer_0/self_attention/linear_0/bias": bias}
    assert "bias for attention keys" in refusal(small_models.write_ctranslate2(tmp_path, model, changed))


def test_projection_of_its_own_is_refused(
    model: SmallModel, variables: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    data = small_models.pack_ctranslate2(
        variables | {"decoder/projection/weight": variables["decoder/embeddings/weight"] + 1}
    )
    small_models.write_ctranslate2(tmp_path, model)
    end = data.rindex(struct.pack("<I", 1) + b"\x1a\0decoder/projection")
    (tmp_path / "model.bin").write_bytes(data[:end] + struct.pack("<I", 0))
    assert "output projection of its own" in refusal(tmp_path)


@pytest.mark.parametrize("content", ["[", "[]", '{"suppress_ids": ["a"]}', '{"alignment_heads": [[9, 0]]}'])
def test_damaged_config_is_refused(content: str, model: SmallModel, tmp_path: Path) -> None:
    small_models.write_ctranslate2(tmp_path, model)
    (tmp_path / "config.json").write_text(content)
    assert str(tmp_path) in refusal(tmp_path)


@pytest.mark.parametrize("tokens", [[], ["a"] * 51865, ["Ġ"] * 51865], ids=["none", "same", "spaces"])
def test_foreign_vocabulary_is_refused(tokens: list[str], model: SmallModel, tmp_path: Path) -> None:
    small_models.write_ctranslate2(tmp_path, model)
    (tmp_path / "vocabulary.txt").write_text("\n".join(tokens), encoding="utf-8")
    assert "vocabular" in refusal(tmp_path)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few hundred bytes, quick to parse thousands of times. Its embedding is cut short."""
    folder = tmp_path_factory.mktemp("tiny")
    small_models.write_ctranslate2(folder, small_model())
    attention = "encoder/layer_0/self_attention/linear_0"
    cut: dict[str, NDArray[Any]] = {
        f"{attention}/bias": np.zeros(6, np.float32),
        f"{attention}/weight": np.ones((6, 2), np.int8),
        f"{attention}/weight_scale": np.ones(6, np.float32),
    }
    cut["encoder/layer_0/ffn/linear_0/weight"] = np.ones((8, 2), np.float32)
    cut["decoder/layer_0/ffn/linear_0/weight"] = np.ones((8, 2), np.float16)
    cut["decoder/embeddings/weight"] = np.ones((3, 2), np.float16)
    cut["encoder/conv1/weight"] = np.ones((2, 4, 3), np.float32)
    for stack in ("encoder", "decoder"):
        cut[f"{stack}/num_heads"] = np.array(1, np.int16)
        cut[f"{stack}/position_encodings/encodings"] = np.ones((3, 2), np.float32)
    (folder / "whole.bin").write_bytes(small_models.pack_ctranslate2(cut))
    return folder


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_model_errors_come_out_of_damaged_files(data: st.DataObject, tiny_folder: Path) -> None:
    whole = bytearray((tiny_folder / "whole.bin").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    (tiny_folder / "model.bin").write_bytes(whole[: data.draw(st.integers(0, len(whole)))] or whole)
    try:
        checkpoint = ctranslate2.read(tiny_folder)
        for tensor in checkpoint.tensors.values():
            assert tensor.load().shape == tensor.shape
        checkpoint.require_sound()
    except ModelError:
        pass
