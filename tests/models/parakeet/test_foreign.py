"""Models of kinds that the engine does not know are refused by name, whatever their format."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import yaml
from stenod._native import BadModel, Model
from stenod.models import ModelError, convert
from stenod.models.file_types import file_type
from stenod.models.parakeet import layout
from stenod.models.progress import silent

from . import formats
from .formats import checkpoint_of, nemo_arrays
from .golden import members, nemo_file, pack, repacked

SPEAKER_KERNEL = {"spk_kernels.0.0.weight": np.zeros((32, 32), np.float32)}
"""What a multitalker model has besides."""
LANGUAGE_PROMPT = {"prompt_kernel.0.weight": np.zeros((64, 32), np.float32)}
"""And one that is told its language."""


def refused(source: Path, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        convert(source, source.parent / "out.gguf")
    assert not (source.parent / "out.gguf").exists()


def with_config(change: Callable[[dict[str, Any]], object]) -> bytes:
    files = dict(members("tdt"))
    config = yaml.safe_load(files["model_config.yaml"])
    change(config)
    return pack(files | {"model_config.yaml": yaml.safe_dump(config).encode()})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda config: config["encoder"].update(att_context_style="chunked_limited_with_rc"),
            "'chunked_limited_with_rc' for 'att_context_style'",
        ),
        (
            lambda config: config["encoder"].update(_target_="nemo.modules.SqueezeformerEncoder"),
            "'SqueezeformerEncoder' for 'encoder._target_'",
        ),
        (
            lambda config: config["decoder"].update(_target_="nemo.modules.StatelessTransducerDecoder"),
            "'StatelessTransducerDecoder' for 'decoder._target_'",
        ),
        (lambda config: config["joint"].update(_target_="nemo.modules.HATJoint"), "'HATJoint' for 'joint"),
        (lambda config: config["joint"]["jointnet"].update(activation="tanh"), "'tanh' for 'activation'"),
        (lambda config: config.pop("decoder"), "no object in 'decoder'"),
    ],
)
def test_nemo(change: Callable[[dict[str, Any]], object], told: str, tmp_path: Path) -> None:
    (tmp_path / "model.nemo").write_bytes(with_config(change))
    refused(tmp_path / "model.nemo", told)


@pytest.mark.parametrize("part", ["spk_kernels.", "prompt_kernel."])
def test_parts_in_nemos_weights(part: str, tmp_path: Path) -> None:
    """A tensor takes the name of one that only such models have."""
    name = b"encoder.layers.0.self_attn.pos_bias_u"

    def rename(files: dict[str, bytes]) -> None:
        content = files["model_weights/data.pkl"]
        files["model_weights/data.pkl"] = content.replace(name, part.encode().ljust(len(name), b"0"))

    files = dict(members("tdt"))
    files["model_weights.ckpt"] = repacked(files["model_weights.ckpt"], rename)
    (tmp_path / "model.nemo").write_bytes(pack(files))
    refused(tmp_path / "model.nemo", part)


@pytest.mark.parametrize("further", [SPEAKER_KERNEL, LANGUAGE_PROMPT])
def test_parts_in_other_files_with_nemos_names(further: formats.Arrays, tmp_path: Path) -> None:
    checkpoint, arrays = checkpoint_of("tdt"), dict(nemo_arrays("tdt", tmp_path))
    [name] = further
    (tmp_path / "model.bin").write_bytes(b"".join(formats.ggml_bin(checkpoint, arrays | dict(further))))
    refused(tmp_path / "model.bin", name)
    for write in (formats.write_parakeet_cpp, formats.write_crispasr):
        refused(write(tmp_path / f"{write.__name__}.gguf", checkpoint, arrays | dict(further)), name)


@pytest.mark.parametrize(
    "name", ["prompt.mlp.0.weight", "enc.spk_kernel.0.0.weight", "enc.bg_spk_kernel.0.0.weight"]
)
def test_parts_in_files_of_transcribe_cpp(name: str, tmp_path: Path) -> None:
    convert(nemo_file("tdt"), tmp_path / "own.gguf", "f32")
    further = {name: np.zeros((32, 32), np.float32)}
    refused(
        formats.without_filterbank(tmp_path / "own.gguf", tmp_path / "theirs.gguf", further=further), name
    )


def test_attention_in_chunks_with_a_right_context(tmp_path: Path) -> None:
    checkpoint = checkpoint_of("tdt")
    other: Any = replace(checkpoint.encoder, style="chunked_limited_with_rc")
    checkpoint = replace(checkpoint, encoder=other)
    layout.write(checkpoint, tmp_path / "own.gguf", "model", file_type("f32"), silent)
    formats.write_parakeet_cpp(tmp_path / "theirs.gguf", checkpoint, nemo_arrays("tdt", tmp_path))
    for file in ("own.gguf", "theirs.gguf"):
        refused(tmp_path / file, "'chunked_limited_with_rc' for 'att_context_style'")
    with pytest.raises(BadModel, match="'chunked_limited_with_rc'"):
        Model(str(tmp_path / "own.gguf"))


def test_other_families(tmp_path: Path) -> None:
    """CrispASR's streaming models, for one."""
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "nemotron")
    writer.add_tensor("a", np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    refused(tmp_path / "model.gguf", "a model of the family 'nemotron'")
