"""Hugging Face's folders: in several files, with other vocabularies, foreign and damaged ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from stenod.models import ModelError, convert, hf

from .small_models import SmallModel, hf_config, small_model, write_hf, write_json


@pytest.fixture(scope="module")
def model() -> SmallModel:
    return small_model()


@pytest.fixture
def folder(model: SmallModel, tmp_path: Path) -> Path:
    return write_hf(tmp_path / "model", model)


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as error:
        convert(folder, folder / "out.gguf")
    assert not (folder / "out.gguf").exists()
    return str(error.value)


def test_weights_in_several_files(folder: Path, model: SmallModel) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: tensors[name] for name in part}, folder / file)
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    write_json(folder / "model.safetensors.index.json", index)
    checkpoint = hf.read(folder)
    assert all(
        np.array_equal(checkpoint.tensors[name].load(), values) for name, values in model.tensors.items()
    )


def test_tokenizer_json_alone(folder: Path, model: SmallModel) -> None:
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    (folder / "vocab.json").unlink()
    write_json(folder / "tokenizer.json", {"model": {"vocab": vocabulary}})
    assert hf.read(folder).ordinary_tokens == model.ordinary_tokens


def test_lists_from_config_where_no_generation_config_is(folder: Path, model: SmallModel) -> None:
    (folder / "generation_config.json").unlink()
    write_json(
        folder / "config.json", hf_config(model) | {"suppress_tokens": [5], "begin_suppress_tokens": None}
    )
    checkpoint = hf.read(folder)
    assert checkpoint.suppress_tokens == [5]
    assert checkpoint.begin_suppress_tokens is None
    assert checkpoint.alignment_heads is None


@pytest.mark.parametrize("is_tied", [True, False])
def test_output_projection(is_tied: bool, folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["proj_out.weight"] = tensors["model.decoder.embed_tokens.weight"] + (0 if is_tied else 1)
    save_file(tensors, folder / "model.safetensors")
    if is_tied:
        hf.read(folder).require_sound()
    else:
        assert "differs from its token embedding" in refusal(folder)


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "pickled weights are never read" in refusal(folder)


def test_bfloat16_is_refused(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size].replace(b'"F16"', b'"BF16"')
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])
    assert "holds numbers of the type BF16" in refusal(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model_type": "llama"}, "a model of the type 'llama'"),
        ({"vocab_size": 32000}, "a vocabulary of 32000 tokens"),
        ({"d_model": None}, "says None for 'd_model'"),
        ({"d_model": 64.5}, "says 64.5 for 'd_model'"),
        ({"encoder_layers": 3}, "lacks the tensor encoder.blocks.2"),
        ({"encoder_layers": 10**9}, "more than 1024 blocks"),
        ({"num_mel_bins": 128}, "encoder.conv1.weight with the shape [64, 80, 3] instead of [64, 128, 3]"),
        ({"decoder_attention_heads": 7}, "7 heads for a width of 64"),
    ],
)
def test_config_that_does_not_fit_is_refused(
    change: dict[str, Any], told: str, folder: Path, model: SmallModel
) -> None:
    write_json(folder / "config.json", hf_config(model) | change)
    assert told in refusal(folder)


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("config.json", "{", "cannot be read as JSON"),
        ("config.json", "[1]", "does not hold a JSON object"),
        ("config.json", "[" * 100_000, "cannot be read as JSON"),
        (
            "generation_config.json",
            '{"suppress_tokens": [-1]}',
            "no list of whole numbers in 'suppress_tokens'",
        ),
        (
            "generation_config.json",
            '{"suppress_tokens": [99999]}',
            "suppresses tokens that the model does not",
        ),
        ("generation_config.json", '{"alignment_heads": [[1]]}', "no list of pairs"),
        (
            "generation_config.json",
            '{"alignment_heads": [[2, 0]]}',
            "alignment heads that the model does not",
        ),
        ("vocab.json", '{"a": 0}', "lacks the token 1"),
        ("vocab.json", '{"a": "b"}', "numbers the token 'a' as 'b'"),
        ("model.safetensors", "", "cannot be read as safetensors"),
        ("model.safetensors", "These are no tensors.", "cannot be read as safetensors"),
    ],
)
def test_damaged_file_is_refused(file: str, content: str, told: str, folder: Path) -> None:
    (folder / file).write_text(content)
    message = refusal(folder)
    assert told in message
    assert str(folder) in message


def test_cut_weights_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "cannot be read as safetensors" in refusal(folder)


def test_missing_vocabulary_is_refused(folder: Path) -> None:
    (folder / "vocab.json").unlink()
    assert "tokenizer.json: is missing" in refusal(folder)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", 7])
def test_index_that_leads_out_of_the_folder_is_refused(name: object, folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"a": name}})
    assert "does not list the files" in refusal(folder)
