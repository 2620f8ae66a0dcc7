"""Our own files read back, and damaged ones refused."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stenod.models import ModelError
from stenod.models.gguf_read import read_gguf

METADATA = {"whole": 7, "real": 0.5, "flag": True, "text": "é", "numbers": [1, -2], "texts": ["", "a"]}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a few hundred bytes, quick to parse thousands of times."""
    path = tmp_path_factory.mktemp("gguf") / "whole.gguf"
    writer = gguf.GGUFWriter(path, "whisper")
    writer.add_uint32("whole", 7)
    writer.add_float32("real", 0.5)
    writer.add_bool("flag", True)
    writer.add_string("text", "é")
    writer.add_array("numbers", [1, -2])
    writer.add_array("texts", ["", "a"])
    values = np.arange(128, dtype=np.float32).reshape(4, 32)
    writer.add_tensor("vector", values[0])
    stored = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("matrix", gguf.quants.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_contents(path: Path) -> None:
    model = read_gguf(path)
    assert {key: model.value(key) for key in model.fields} == METADATA | {"general.architecture": "whisper"}
    assert np.array_equal(model.tensors["vector"].load(), np.arange(32))
    assert model.tensors["matrix"].shape == (4, 32)
    assert np.allclose(model.tensors["matrix"].load(), np.arange(128).reshape(4, 32), atol=0.6)


def test_missing_key(path: Path) -> None:
    with pytest.raises(ModelError, match=r"whole\.gguf: lacks general\.name"):
        read_gguf(path).value("general.name")


def replaced(data: bytes, after: bytes, skip: int, value: bytes) -> bytes:
    at = data.index(after) + len(after) + skip
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(
    ("after", "skip", "value", "told"),
    [
        (b"GGUF", 0, struct.pack("<I", 2), "version 2 of GGUF"),
        (b"GGUF", 4, struct.pack("<Q", 2**60), "damaged"),
        (b"GGUF", 12, struct.pack("<Q", 2**60), "damaged"),
        (b"numbers", 8, struct.pack("<Q", 2**62), "numbers has 4611686018427387904 items"),
        (b"texts", 8, struct.pack("<Q", 300), "damaged"),
        (b"numbers", 4, struct.pack("<I", 9), "an array of arrays"),
        (b"whole", 0, struct.pack("<I", 77), "whole has the unknown type 77"),
        (b"text", 12, b"\xff", "not UTF-8"),
        (b"vector", 0, struct.pack("<I", 5), "vector has 5 dimensions"),
        (b"vector", 4, struct.pack("<Q", 2**40), "end within vector"),
        (b"vector", 12, struct.pack("<I", 99), "vector has the unknown type 99"),
        (b"vector", 16, struct.pack("<Q", 2**63), "end within vector"),
        (b"matrix", 4, struct.pack("<Q", 31), "shape [4, 31], which Q8_0 cannot have"),
        (b"general.architecture", 12, b"whimper", "the family 'whimper'"),
    ],
)
def test_damage_is_told(after: bytes, skip: int, value: bytes, told: str, path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(replaced(path.read_bytes(), after, skip, value))
    with pytest.raises(ModelError) as error:
        read_gguf(damaged)
    assert told in str(error.value)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_model_errors_come_out_of_damaged_files(data: st.DataObject, path: Path) -> None:
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    damaged = path.with_name("damaged.gguf")
    damaged.write_bytes(whole[: data.draw(st.integers(0, len(whole)))] or whole)
    try:
        with np.errstate(all="ignore"):
            for tensor in read_gguf(damaged).tensors.values():
                assert tensor.load().shape == tensor.shape
    except ModelError:
        pass
