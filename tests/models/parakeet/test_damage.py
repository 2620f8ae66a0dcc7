"""Damaged, foreign and lying files of the other formats are refused with a clear error, and nothing else."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stenod.models import ModelError, convert
from stenod.models.parakeet import gguf_files, hf, whispercpp
from stenod.models.parakeet.checkpoint import Checkpoint

from ..small_models import small_model, write_hf
from . import formats
from .formats import checkpoint_of, nemo_arrays
from .golden import nemo_file

MODEL = "capped"
HEADER_BYTES = 6000
"""Where GGUF's metadata and names are in the small files; the rest is numbers."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A whole file of each kind."""
    folder = tmp_path_factory.mktemp("whole")
    checkpoint, arrays = checkpoint_of(MODEL), nemo_arrays(MODEL, folder)
    convert(nemo_file(MODEL), folder / "own.gguf", "f32")
    files = {
        "transcribe.cpp": formats.without_filterbank(folder / "own.gguf", folder / "transcribe.gguf"),
        "parakeet.cpp": formats.write_parakeet_cpp(folder / "parakeet.gguf", checkpoint, arrays),
        "crispasr": formats.write_crispasr(folder / "crispasr.gguf", checkpoint, arrays),
    }
    return {key: path.read_bytes() for key, path in files.items()} | {
        "whisper.cpp": b"".join(formats.ggml_bin(checkpoint, arrays))
    }


def require_model_error_or_sound(read: Callable[[], Checkpoint]) -> None:
    try:
        checkpoint = read().sound()
        with np.errstate(all="ignore"):
            for tensor in checkpoint.tensors.values():
                assert tensor.load().shape == tensor.shape
    except ModelError:
        pass


@pytest.mark.parametrize("kind", ["transcribe.cpp", "parakeet.cpp", "crispasr", "whisper.cpp"])
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_model_errors_come_out_of_damaged_files(
    data: st.DataObject, kind: str, whole: dict[str, bytes], tmp_path: Path
) -> None:
    content = bytearray(whole[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, HEADER_BYTES))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path = tmp_path / "damaged"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] or content)
    require_model_error_or_sound(lambda: (whispercpp if kind == "whisper.cpp" else gguf_files).read(path))


@pytest.mark.parametrize("file", ["config.json", "processor_config.json", "tokenizer.json"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_only_model_errors_come_out_of_lying_settings(
    data: st.DataObject, file: str, hf_folder: Path
) -> None:
    """One value after the other is something else."""
    content = json.loads((formats.HF_FOLDER / "tdt" / file).read_text())
    place: Any = content
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    strange = [None, True, -1, 0, 1, 3, 2**40, 0.5, "", "x", [], {}, [None], [[1, 2]], {"a": 1}]
    place[key] = data.draw(st.sampled_from(strange))
    (hf_folder / file).write_text(json.dumps(content))
    try:
        if hf.recognises(hf_folder):
            require_model_error_or_sound(lambda: hf.read(hf_folder))
    finally:
        (hf_folder / file).write_bytes((formats.HF_FOLDER / "tdt" / file).read_bytes())


@pytest.fixture
def hf_folder(tmp_path: Path) -> Path:
    return formats.write_hf(tmp_path / "hf", "tdt", nemo_arrays("tdt", tmp_path))


def changed(file: str, *keys: str | int, value: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = json.loads((folder / file).read_text())
        place = content
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        (folder / file).write_text(json.dumps(content))

    return damage


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (changed("config.json", "model_type", value="nemotron3_5_asr"), "type 'nemotron3_5_asr'; choose"),
        (changed("config.json", "hidden_act", value="gelu"), "'gelu' for 'hidden_act'"),
        (changed("config.json", "durations", value=[-1, 0]), "no list of whole numbers in 'durations'"),
        (changed("config.json", "durations", value=[0, 1]), r"joint.out.weight with the shape \[46, 16\]"),
        (changed("config.json", "encoder_config", value=3), "no object in 'encoder_config'"),
        (
            changed("config.json", "encoder_config", "subsampling_factor", value=4),
            "4 for 'subsampling_factor'",
        ),
        (changed("config.json", "encoder_config", "convolution_bias", value=True), "for 'convolution_bias'"),
        (changed("config.json", "vocab_size", value=43), "lacks the token 41 of 42"),
        (
            changed("processor_config.json", "feature_extractor", "hop_length", value=128),
            "128 for 'hop_length'",
        ),
        (changed("tokenizer.json", "model", "type", value="Unigram"), "a tokenizer of the type 'Unigram'"),
        (lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told(
    damage: Callable[[Path], None], told: str, hf_folder: Path, tmp_path: Path
) -> None:
    damage(hf_folder)
    with pytest.raises(ModelError, match=told):
        convert(hf_folder, tmp_path / "out.gguf")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[:60], "is damaged"),
        (lambda data: data[:200], "within the mel filters"),
        (
            lambda data: data[:64] + struct.pack("<2i", 1280, 0) + data[72:],
            "whisper.cpp has changed this format",
        ),
        (lambda data: data[:4] + struct.pack("<i", 41) + data[8:], "40 tokens instead of 41"),
        (lambda data: data[:20] + struct.pack("<i", 2**30) + data[24:], "more than 1024 blocks"),
        (lambda data: data[:-1], "its [0-9]+ bytes end within"),
    ],
)
def test_what_is_wrong_with_a_file_of_whisper_cpp_is_told(
    damage: Callable[[bytes], bytes], told: str, whole: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(damage(whole["whisper.cpp"]))
    with pytest.raises(ModelError, match=told):
        convert(path, tmp_path / "out.gguf")


@pytest.mark.parametrize(
    ("kind", "old", "new", "told"),
    [
        ("transcribe.cpp", b"mel", b"lfr", "'lfr' for 'type'"),
        ("transcribe.cpp", b"regular", b"strange", "'strange' for 'att_context_style'"),
        ("transcribe.cpp", b"relu", b"gelu", "'gelu' for 'joint.activation'"),
        ("transcribe.cpp", b"stt.parakeet.encoder.d_model", b"stt.parakeet.encoder.d_modem", "not known"),
        ("transcribe.cpp", b"stt.parakeet.encoder.d_ff", b"stt.parakeet.encoder.d_fg", "lacks stt.parakeet"),
        ("parakeet.cpp", b"tdt", b"aed", "'aed' for 'parakeet.arch'"),
        ("parakeet.cpp", b"per_feature", b"all_feature", "'all_feature' for"),
        ("crispasr", b"general.architecture", b"general.architectura", "lacks general.architecture"),
        ("crispasr", b"parakeet", b"nemotron", "a model of the family 'nemotron'"),
    ],
)
def test_what_is_wrong_with_a_gguf_file_is_told(
    kind: str, old: bytes, new: bytes, told: str, whole: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    assert old in whole[kind]
    length = struct.pack("<Q", len(old))
    path.write_bytes(whole[kind].replace(length + old, length + new))
    with pytest.raises(ModelError, match=told):
        convert(path, tmp_path / "out.gguf")


def test_whisper_is_not_converted_again(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    convert(write_hf(tmp_path / "whisper", small_model()), path)
    with pytest.raises(ModelError, match="is a GGUF file already; rewrite it with `stenod models quantize`"):
        convert(path, tmp_path / "out.gguf")
