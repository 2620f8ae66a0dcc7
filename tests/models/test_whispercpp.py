"""whisper.cpp's files: quantised, old, foreign and damaged ones."""

import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stenod.models import ModelError, convert, whispercpp

from .small_models import SmallModel, pack_ggml_bin, small_model


@pytest.fixture(scope="module")
def model() -> SmallModel:
    return small_model()


@pytest.mark.parametrize("type", ["F32", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_types(type: str, model: SmallModel, tmp_path: Path) -> None:
    stored = GGMLQuantizationType[type]
    path = tmp_path / "small.bin"
    path.write_bytes(pack_ggml_bin(model, stored))
    checkpoint = whispercpp.read(path)
    checkpoint.require_sound()
    for name in ("encoder.blocks.1.mlp.0.weight", "decoder.blocks.0.cross_attn.key.weight"):
        expected = gguf.quants.dequantize(gguf.quants.quantize(model.tensors[name], stored), stored)
        assert np.array_equal(checkpoint.tensors[name].load(), expected)
    assert np.array_equal(
        checkpoint.tensors["encoder.conv1.bias"].load(), model.tensors["encoder.conv1.bias"]
    )


def test_old_quantisation_is_refused(model: SmallModel, tmp_path: Path) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(pack_ggml_bin(model, GGMLQuantizationType.Q8_0, version=1))
    with pytest.raises(ModelError, match=r"no longer used \(version 1\); get its f16 file"):
        convert(path, tmp_path / "out.gguf")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: b"", "within the header"),
        (lambda data: b"tjgg" + data[4:], "is not a model of whisper.cpp"),
        (lambda data: data[:40], "within the header"),
        (lambda data: data[:5000], "within the mel filters"),
        (lambda data: data[:100000], "within a token"),
        (lambda data: data[:-1], "within decoder.ln.bias"),
        (lambda data: data[:-256], "within decoder.ln.bias"),
        (lambda data: data[: -256 - 31], "lacks the tensor decoder.ln.bias"),
        (lambda data: data + struct.pack("<3i", 9, 1, 0), "a tensor has 9 dimensions"),
        (lambda data: data + struct.pack("<4i", 1, 1, 77, 1) + b"x", "x has the unknown type 77"),
        (lambda data: data + struct.pack("<4i", 1, 1, 0, -1) + b"x", r"x has the shape \[-1\]"),
        (lambda data: data[:4] + struct.pack("<i", 50000) + data[8:], "a vocabulary of 50000 tokens"),
        (lambda data: data[:12] + struct.pack("<i", -64) + data[16:], "sizes that are not positive"),
        (lambda data: data[:16] + struct.pack("<i", 3) + data[20:], "3 heads for a width of 64"),
    ],
)
def test_damage_is_told(
    damage: Callable[[bytes], bytes], told: str, model: SmallModel, tmp_path: Path
) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(damage(pack_ggml_bin(model)))
    with pytest.raises(ModelError, match=told):
        convert(path, tmp_path / "out.gguf")
    assert [left.name for left in tmp_path.iterdir()] == ["small.bin"]


def tiny_file() -> bytes:
    """A file of a few hundred bytes, quick to parse thousands of times: cut short in all its sizes."""
    data = struct.pack("<I11i", 0x67676D6C, 51865, 3, 2, 1, 1, 3, 2, 1, 1, 4, 2007)
    data += struct.pack("<2i", 4, 5) + bytes(4 * 4 * 5)
    data += struct.pack("<i", 2) + struct.pack("<I", 1) + b"a" + struct.pack("<I", 0)
    for name, extents, stored in (
        (b"encoder.conv1.bias", (1, 2), GGMLQuantizationType.F32),
        (b"encoder.conv1.weight", (3, 4, 2), GGMLQuantizationType.F16),
        (b"decoder.token_embedding.weight", (32, 2), GGMLQuantizationType.Q8_0),
        (b"decoder.blocks.0.mlp.0.weight", (32, 2), GGMLQuantizationType.Q5_1),
    ):
        data += struct.pack("<3i", len(extents), len(name), stored) + struct.pack(
            f"<{len(extents)}i", *extents
        )
        values = np.ones(extents[::-1], np.float32)
        data += name + gguf.quants.quantize(values, stored).tobytes()
    return data


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_model_errors_come_out_of_damaged_files(data: st.DataObject, tmp_path: Path) -> None:
    whole = bytearray(tiny_file())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path = tmp_path / "damaged.bin"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))] or whole)
    try:
        checkpoint = whispercpp.read(path)
        with np.errstate(all="ignore"):
            for tensor in checkpoint.tensors.values():
                assert tensor.load().shape == tensor.shape
        checkpoint.require_sound()
    except ModelError:
        pass
