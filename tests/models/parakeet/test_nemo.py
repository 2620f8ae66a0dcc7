"""NeMo's files: what they hold comes out, and damaged or foreign ones are told apart."""

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stenod.models import ModelError, convert
from stenod.models.parakeet import nemo
from stenod.models.parakeet.checkpoint import tensor_shapes

from .golden import MODELS, members, nemo_file, pack, repacked

Members = dict[str, bytes]


@pytest.mark.parametrize("name", MODELS)
def test_models_of_all_heads_are_sound(name: str) -> None:
    checkpoint = nemo.read(nemo_file(name)).sound()
    assert checkpoint.tensors.keys() == tensor_shapes(checkpoint).keys()
    for tensor in checkpoint.tensors.values():
        assert tensor.load().shape == tensor.shape
    assert checkpoint.head_kind == {"rnnt": "rnnt", "ctc": "ctc"}.get(name, "tdt")
    assert len(checkpoint.pieces) == 40
    assert checkpoint.pieces[0].text == "<unk>"
    assert checkpoint.pieces[0].type == 2


def test_sizes_of_a_streaming_model() -> None:
    checkpoint = nemo.read(nemo_file("streaming"))
    encoder = checkpoint.encoder
    assert encoder.is_causal
    assert encoder.contexts == ((28, 13), (21, 6), (8, 1), (5, 0))
    assert encoder.convolution_context == (8, 0)
    assert (encoder.norm, encoder.has_biases, encoder.scales_input) == ("layer_norm", True, True)
    assert checkpoint.front_end.normalize == "none"
    assert checkpoint.transducer
    assert checkpoint.transducer.durations == (0, 1, 2, 3, 4)
    assert checkpoint.pieces[1].text == "<EOU>"


def test_a_hybrid_model_keeps_both_heads() -> None:
    checkpoint = nemo.read(nemo_file("local"))
    assert checkpoint.encoder.contexts == ((6, 4),)
    assert "head.ctc.weight" in tensor_shapes(checkpoint)
    assert checkpoint.head_kind == "tdt"


def changed_config(change: Callable[[dict[str, Any]], None]) -> Callable[[Members], Members]:
    def damage(files: Members) -> Members:
        config = yaml.safe_load(files["model_config.yaml"])
        change(config)
        return files | {"model_config.yaml": yaml.safe_dump(config).encode()}

    return damage


def changed_weights(change: Callable[[Members], None]) -> Callable[[Members], Members]:
    return lambda files: files | {"model_weights.ckpt": repacked(files["model_weights.ckpt"], change)}


def set_in(part: str, key: str, value: object) -> Callable[[Members], Members]:
    return changed_config(lambda config: config[part].update({key: value}))


class Harmful:
    """What unpickling must never run."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return print, ("harm",)


def pickled(value: object) -> Callable[[Members], Members]:
    return changed_weights(lambda files: files.update({"model_weights/data.pkl": pickle.dumps(value)}))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda files: {}, "lacks model_config.yaml"),
        (lambda files: files | {"model_config.yaml": b"{"}, "model_config.yaml that cannot be read"),
        (lambda files: files | {"model_config.yaml": b"1"}, "holds no settings"),
        (lambda files: files | {"model_weights.ckpt": b"PK"}, "weights that cannot be read"),
        (set_in("tokenizer", "type", "wpe"), "a tokenizer of the type 'wpe'"),
        (set_in("tokenizer", "model_path", "nemo:absent"), "lacks absent"),
        (set_in("preprocessor", "normalize", "all_features"), "'all_features' for 'normalize'"),
        (set_in("preprocessor", "window", "hamming"), "'hamming' for 'window'"),
        (set_in("preprocessor", "features", -1), "-1 for 'features'"),
        (set_in("encoder", "subsampling", "stacking"), "'stacking' for 'subsampling'"),
        (set_in("encoder", "subsampling_factor", 4), "4 for 'subsampling_factor'"),
        (set_in("encoder", "n_layers", 3), "lacks the tensor enc.blocks.2.norm_ff1.weight"),
        (set_in("encoder", "n_layers", 10**9), "has more than 1024 blocks"),
        (set_in("encoder", "n_heads", 5), "5 heads for a width of 32"),
        (set_in("encoder", "d_model", "${model_defaults.enc_hidden}"), "not a positive whole number"),
        (set_in("encoder", "conv_kernel_size", 31), r"conv.depthwise.weight with the shape \[32, 1, 9\]"),
        (set_in("encoder", "conv_norm_type", "group_norm"), "'group_norm' for 'conv_norm_type'"),
        (set_in("encoder", "causal_downsampling", True), "True for 'causal_downsampling'"),
        (set_in("encoder", "conv_context_size", "causal"), "'causal' for 'conv_context_size'"),
        (set_in("encoder", "att_context_style", "chunked_limited"), "for 'causal_downsampling'"),
        (set_in("encoder", "att_context_size", [[1]]), "for 'att_context_size'"),
        (set_in("encoder", "self_attention_model", "abs_pos"), "'abs_pos' for 'self_attention_model'"),
        (set_in("joint", "num_extra_outputs", 4), "4 for 'num_extra_outputs'"),
        (changed_weights(lambda files: files.pop("model_weights/data.pkl")), "not what torch.save writes"),
        (changed_weights(lambda files: files.pop("model_weights/data/7")), "weights that cannot be read"),
        (
            changed_weights(lambda files: files.update({"model_weights/data/7": b""})),
            "larger than its 0 bytes",
        ),
        (changed_weights(lambda files: files.update({"model_weights/byteorder": b"big"})), "big-endian"),
        (pickled(Harmful()), "builtins.print is no part of a tensor"),
        (pickled({"x": 1}), "x is no tensor"),
        (pickled([1]), "holds no tensors by name"),
    ],
)
def test_damage_is_told(
    damage: Callable[[Members], Members], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.nemo"
    path.write_bytes(pack(damage(dict(members("tdt")))))
    with pytest.raises(ModelError, match=told):
        convert(path, tmp_path / "out.gguf")
    assert [left.name for left in tmp_path.iterdir()] == ["model.nemo"]
    assert capsys.readouterr().out == ""


def test_a_number_that_would_take_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.nemo"
    content = b"\x80\x02]r\xff\xff\xff\x7f."  # an empty list, memorised as number 2147483647
    damage = changed_weights(lambda files: files.update({"model_weights/data.pkl": content}))
    path.write_bytes(pack(damage(dict(members("tdt")))))
    with pytest.raises(ModelError, match="memorises something as number 2147483647"):
        nemo.read(path)


def test_a_compressed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.nemo"
    path.write_bytes(gzip.compress(nemo_file("tdt").read_bytes()))
    with pytest.raises(ModelError, match="must be unpacked with gunzip first"):
        nemo.read(path)


def test_what_is_cut_short_is_told(tmp_path: Path) -> None:
    whole = nemo_file("tdt").read_bytes()
    path = tmp_path / "model.nemo"
    for size in range(0, len(whole) - 10240, 2999):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError):
            convert(path, tmp_path / "out.gguf")


@pytest.fixture(scope="module")
def small_file() -> bytes:
    return pack(members("capped"))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_model_errors_come_out_of_damaged_files(
    data: st.DataObject, small_file: bytes, tmp_path: Path
) -> None:
    whole = bytearray(small_file)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path = tmp_path / "damaged.nemo"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))] or whole)
    read_all(path)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_model_errors_come_out_of_damaged_parts(data: st.DataObject, tmp_path: Path) -> None:
    """The containers are whole, what is in them is not: the configuration, the pickle, the vocabulary."""
    files = dict(members("capped"))

    def damaged(content: bytes) -> bytes:
        whole = bytearray(content)
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
        return bytes(whole)

    part = data.draw(st.sampled_from(["model_config.yaml", "data.pkl", "tokenizer.model"]))
    if part == "data.pkl":
        key = "model_weights/data.pkl"
        files = changed_weights(lambda entries: entries.update({key: damaged(entries[key])}))(files)
    else:
        (key,) = [name for name in files if name.endswith(part)]
        files[key] = damaged(files[key])
    path = tmp_path / "damaged.nemo"
    path.write_bytes(pack(files))
    read_all(path)


def read_all(path: Path) -> None:
    try:
        checkpoint = nemo.read(path).sound()
        with np.errstate(all="ignore"):
            for tensor in checkpoint.tensors.values():
                assert tensor.load().shape == tensor.shape
    except ModelError:
        pass
