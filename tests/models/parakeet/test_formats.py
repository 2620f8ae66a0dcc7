"""The same model from every format makes the same GGUF file, tensor for tensor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from stenod._native import Model, Worker
from stenod.models import ModelError, convert, info, quantize

from ...golden.parakeet_cases import CLIPS
from ..small_models import Contents, contents_of
from . import formats
from .formats import Arrays, checkpoint_of
from .golden import MODELS, nemo_file

TRANSDUCERS = tuple(name for name in MODELS if name != "ctc")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


@pytest.fixture
def arrays(folder: Path) -> Callable[[str], Arrays]:
    return lambda name: formats.nemo_arrays(name, folder)


def converted(source: Path, folder: Path, type: str = "f32") -> Contents:
    target = folder / f"{source.stem}-converted-{type}.gguf"
    convert(source, target, type, name="model")
    return contents_of(target)


def different_tensors(one: Contents, other: Contents) -> list[str]:
    assert one.tensors.keys() == other.tensors.keys()
    return [
        name
        for name, (type, values) in one.tensors.items()
        if other.tensors[name][0] != type or not np.array_equal(values, other.tensors[name][1])
    ]


def different_metadata(one: Contents, other: Contents) -> dict[str, tuple[Any, Any]]:
    keys = one.metadata.keys() | other.metadata.keys()
    pairs = {key: (one.metadata.get(key), other.metadata.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


ONLY_ORDER = {"tokenizer.ggml.scores", "tokenizer.ggml.token_type"}
"""What most formats do not tell; ``pieces_in_order`` gives what matters."""


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("type", ["f32", "f16", "q8_0"])
def test_nemo(name: str, type: str, tmp_path: Path, arrays: Callable[[str], Arrays]) -> None:
    found = converted(nemo_file(name), tmp_path, type)
    stored = {name: type for name, (type, _) in found.tensors.items()}
    assert stored["fb"] == "F32"
    assert stored["enc.pre_encode.conv.3.weight"] == "F32"
    assert stored["enc.blocks.0.conv.depthwise.weight"] == "F32"
    assert stored["enc.blocks.0.attn.pos_bias_u"] == "F32"
    assert stored["enc.blocks.0.conv.pointwise1.weight"] == type.upper()
    assert stored["enc.blocks.0.ff1.linear1.weight"] == type.upper()
    if type == "f32":
        theirs = arrays(name)["encoder.layers.0.self_attn.linear_q.weight"]
        assert np.array_equal(found.tensors["enc.blocks.0.attn.linear_q.weight"][1], theirs)


@pytest.mark.parametrize("name", ["tdt", "rnnt", "ctc"])
def test_hugging_face(name: str, tmp_path: Path, arrays: Callable[[str], Arrays]) -> None:
    ours = converted(nemo_file(name), tmp_path)
    found = converted(formats.write_hf(tmp_path / "hf", name, arrays(name)), tmp_path)
    assert different_tensors(ours, found) == []
    assert different_metadata(ours, found).keys() <= ONLY_ORDER


def test_hugging_face_streaming(tmp_path: Path, arrays: Callable[[str], Arrays]) -> None:
    """transformers knows it as RNN-T alone, and one left context for all look-aheads."""
    ours = converted(nemo_file("streaming"), tmp_path)
    found = converted(formats.write_hf(tmp_path / "hf", "streaming", arrays("streaming")), tmp_path)
    assert different_tensors(ours, found) == ["joint.out.weight", "joint.out.bias"]
    for name in ("joint.out.weight", "joint.out.bias"):
        assert np.array_equal(found.tensors[name][1], ours.tensors[name][1][:41])
    differences = different_metadata(ours, found)
    assert differences.pop("stt.parakeet.encoder.att_context_size_choices")[1] == [
        28,
        13,
        28,
        6,
        28,
        1,
        28,
        0,
    ]
    assert differences.pop("stt.parakeet.head_kind") == ("tdt", "rnnt")
    assert differences.pop("stt.parakeet.joint.num_extra_outputs") == (5, 0)
    assert differences.pop("stt.parakeet.tdt.durations") == ([0, 1, 2, 3, 4], None)
    assert differences.keys() <= ONLY_ORDER


@pytest.mark.parametrize("name", ["tdt", "capped"])
@pytest.mark.parametrize("type", ["f32", "f16", "q8_0"])
def test_whisper_cpp(name: str, type: str, tmp_path: Path, arrays: Callable[[str], Arrays]) -> None:
    """Models without biases and scaling of the input, with batch norm and full attention: all it can hold."""
    path = tmp_path / "model.bin"
    stored = GGMLQuantizationType[type.upper()]
    path.write_bytes(b"".join(formats.ggml_bin(checkpoint_of(name), arrays(name), stored)))
    ours, found = converted(nemo_file(name), tmp_path, type), converted(path, tmp_path, type)
    assert different_tensors(ours, found) == []
    assert different_metadata(ours, found).keys() <= ONLY_ORDER


@pytest.mark.parametrize("name", ["tdt", "rnnt", "ctc", "capped", "streaming"])
def test_parakeet_cpp(name: str, tmp_path: Path, arrays: Callable[[str], Arrays]) -> None:
    path = formats.write_parakeet_cpp(tmp_path / "model.gguf", checkpoint_of(name), arrays(name))
    ours, found = converted(nemo_file(name), tmp_path), converted(path, tmp_path)
    assert different_tensors(ours, found) == []
    assert different_metadata(ours, found).keys() <= ONLY_ORDER


def test_parakeet_cpp_does_not_tell_local_attention(tmp_path: Path, arrays: Callable[[str], Arrays]) -> None:
    path = formats.write_parakeet_cpp(tmp_path / "model.gguf", checkpoint_of("local"), arrays("local"))
    ours, found = converted(nemo_file("local"), tmp_path), converted(path, tmp_path)
    assert different_tensors(ours, found) == []
    context = {f"stt.parakeet.encoder.att_context_{side}" for side in ("left", "right")}
    assert different_metadata(ours, found).keys() - ONLY_ORDER == context


@pytest.mark.parametrize("name", ["tdt", "rnnt", "capped", "local"])
def test_crispasr(name: str, tmp_path: Path, arrays: Callable[[str], Arrays]) -> None:
    path = formats.write_crispasr(tmp_path / "model.gguf", checkpoint_of(name), arrays(name))
    ours, found = converted(nemo_file(name), tmp_path), converted(path, tmp_path)
    assert different_tensors(ours, found) == []
    assert different_metadata(ours, found).keys() <= ONLY_ORDER


@pytest.mark.parametrize("name", MODELS)
def test_our_own_layout(name: str, tmp_path: Path) -> None:
    """A file of transcribe.cpp is one of ours without the filterbank."""
    own = tmp_path / "model.gguf"
    convert(nemo_file(name), own, "f32", name="model")
    theirs = formats.without_filterbank(own, tmp_path / "theirs.gguf")
    with pytest.raises(ModelError, match=r"without its filterbank; convert it with `stenod models convert`"):
        info(theirs)
    with pytest.raises(ModelError, match="without its filterbank"):
        quantize(theirs, tmp_path / "out.gguf", "q8_0")
    ours, found = contents_of(own), converted(theirs, tmp_path)
    assert different_tensors(ours, found) == []
    assert different_metadata(ours, found) == {}


def test_first_files_of_our_layout(tmp_path: Path) -> None:
    """What was written for the first TDT models lacks keys that came later."""
    own = tmp_path / "model.gguf"
    convert(nemo_file("tdt"), own, "f32", name="model")
    later = (
        "head_kind",
        "xscaling",
        "context",
        "norm_type",
        "streaming",
        "scores",
        "token_type",
        "max_symbols",
    )
    theirs = formats.without_filterbank(own, tmp_path / "theirs.gguf", without=later)
    ours, found = contents_of(own), converted(theirs, tmp_path)
    assert different_tensors(ours, found) == []
    assert different_metadata(ours, found).keys() <= ONLY_ORDER


@pytest.mark.parametrize("name", ["tdt", "ctc", "streaming"])
def test_a_quantised_model_hears_nearly_the_same(name: str, tmp_path: Path) -> None:
    encoded = []
    for type in ("f32", "q8_0"):
        convert(nemo_file(name), tmp_path / f"{type}.gguf", type)
        model = Model(str(tmp_path / f"{type}.gguf"))
        encoded.append(Worker(model, 1).encode(model.log_mel(CLIPS["speech"])))
    exact, quantised = encoded
    assert np.abs(quantised - exact).max() < 0.05 * np.abs(exact).max()
