"""Every format, and every vocabulary, becomes the same GGUF file."""

from pathlib import Path

import numpy as np
import pytest
from stenod.models import ModelError, convert
from stenod.models.mel_filters import mel_filters

from . import small_models
from .small_models import Contents, SmallModel, contents_of, small_model


@pytest.fixture(
    scope="module", params=[(51864, 80), (51865, 80), (51866, 128)], ids=["english", "multilingual", "v3"]
)
def model(request: pytest.FixtureRequest) -> SmallModel:
    return small_model(*request.param)


@pytest.fixture(scope="module")
def from_ctranslate2(model: SmallModel, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    folder = tmp_path_factory.mktemp("ctranslate2")
    convert(small_models.write_ctranslate2(folder, model), folder / "out.gguf", name="small")
    return contents_of(folder / "out.gguf")


def same_tensors(one: Contents, other: Contents) -> bool:
    return one.tensors.keys() == other.tensors.keys() and all(
        one.tensors[name][0] == other.tensors[name][0]
        and np.array_equal(one.tensors[name][1], other.tensors[name][1])
        for name in one.tensors
    )


def test_tensors_keep_their_values(model: SmallModel, from_ctranslate2: Contents) -> None:
    tensors = dict(from_ctranslate2.tensors)
    _, filters = tensors.pop("mel.filters")
    assert np.array_equal(filters, mel_filters(model.mel_bands, 400))
    assert tensors.keys() == model.tensors.keys()
    for name, (type, values) in tensors.items():
        is_matrix = name.endswith(".weight") and model.tensors[name].ndim > 1
        assert type == ("F16" if is_matrix else "F32")
        assert np.array_equal(values.astype(np.float32), model.tensors[name])


def test_metadata(model: SmallModel, from_ctranslate2: Contents) -> None:
    metadata = from_ctranslate2.metadata
    tokens = metadata["tokenizer.ggml.tokens"]
    assert tokens == model.tokens
    assert metadata["general.architecture"] == "whisper"
    assert metadata["general.name"] == "small"
    assert metadata["whisper.vocab_size"] == model.vocab_size == len(tokens)
    assert metadata["whisper.mel_bands"] == model.mel_bands
    for stack, context in (("encoder", 1500), ("decoder", 448)):
        assert metadata[f"whisper.{stack}.context_length"] == context
        assert metadata[f"whisper.{stack}.embedding_length"] == 64
        assert metadata[f"whisper.{stack}.block_count"] == 2
        assert metadata[f"whisper.{stack}.head_count"] == 2
        assert metadata[f"whisper.{stack}.feed_forward_length"] == 256
    assert metadata["whisper.alignment_heads"] == [0, 1, 1, 0]
    assert metadata["whisper.suppress_tokens"] == [1, 2, 7]
    assert metadata["whisper.begin_suppress_tokens"] == [220, 300]
    names = {
        key.removeprefix("whisper.token."): tokens[metadata[key]] for key in metadata if ".token." in key
    }
    assert names == {
        "eot": "<|endoftext|>",
        "sot": "<|startoftranscript|>",
        "translate": "<|translate|>",
        "transcribe": "<|transcribe|>",
        "sot_lm": "<|startoflm|>",
        "sot_prev": "<|startofprev|>",
        "no_speech": "<|nospeech|>",
        "no_timestamps": "<|notimestamps|>",
        "timestamp_begin": "<|0.00|>",
    }


def test_languages(model: SmallModel, from_ctranslate2: Contents) -> None:
    languages = from_ctranslate2.metadata.get("whisper.languages", [])
    assert len(languages) == {51864: 0, 51865: 99, 51866: 100}[model.vocab_size]
    first = from_ctranslate2.metadata["whisper.token.sot"] + 1
    assert [f"<|{code}|>" for code in languages] == model.tokens[first : first + len(languages)]


def test_hugging_face_gives_the_same_file(
    model: SmallModel, from_ctranslate2: Contents, tmp_path: Path
) -> None:
    convert(small_models.write_hf(tmp_path / "hf", model), tmp_path / "out.gguf", name="small")
    contents = contents_of(tmp_path / "out.gguf")
    assert contents.metadata == from_ctranslate2.metadata
    assert same_tensors(contents, from_ctranslate2)


def test_whisper_cpp_gives_the_same_tensors(
    model: SmallModel, from_ctranslate2: Contents, tmp_path: Path
) -> None:
    """Its files do not list what to suppress, nor the heads that align: these are computed."""
    convert(small_models.write_ggml_bin(tmp_path / "small.bin", model), tmp_path / "out.gguf")
    contents = contents_of(tmp_path / "out.gguf")
    assert same_tensors(contents, from_ctranslate2)
    unlike = {key for key, value in contents.metadata.items() if from_ctranslate2.metadata.get(key) != value}
    assert unlike == {
        "whisper.alignment_heads",
        "whisper.suppress_tokens",
        "whisper.begin_suppress_tokens",
    }
    assert contents.metadata["whisper.alignment_heads"] == [1, 0, 1, 1]


@pytest.mark.parametrize("type", ["f32", "q8_0", "q5_0", "q4_0"])
def test_types(type: str, tmp_path: Path) -> None:
    model = small_model()
    convert(small_models.write_hf(tmp_path / "hf", model), tmp_path / "out.gguf", type)
    stored = {name: kind for name, (kind, _) in contents_of(tmp_path / "out.gguf").tensors.items()}
    matrix = type.upper()
    assert stored["decoder.token_embedding.weight"] == matrix
    assert stored["encoder.blocks.0.attn.query.weight"] == matrix
    assert stored["encoder.conv1.weight"] == ("F32" if type == "f32" else "F16")
    assert stored["encoder.positional_embedding"] == "F32"
    assert stored["encoder.blocks.0.mlp.0.bias"] == "F32"


def test_the_name_is_the_sources(tmp_path: Path) -> None:
    source = small_models.write_hf(tmp_path / "whisper-small.en", small_model())
    convert(source, tmp_path / "out.gguf")
    assert contents_of(tmp_path / "out.gguf").metadata["general.name"] == "whisper-small.en"


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    source = small_models.write_ggml_bin(tmp_path / "small.bin", small_model())
    convert(source, tmp_path / "out.gguf", progress=lambda *step: told.append(step))
    assert [done for done, _, _ in told] == sorted({done for done, _, _ in told})
    assert told[-1] == (told[0][1], told[0][1], "writing out.gguf")


@pytest.mark.parametrize("source", ["missing", "empty folder", "text file"])
def test_what_is_no_model_is_refused(source: str, tmp_path: Path) -> None:
    (tmp_path / "empty folder").mkdir()
    (tmp_path / "text file").write_text("This is not a model.")
    with pytest.raises(ModelError, match="folder of a Hugging Face or CTranslate2 model"):
        convert(tmp_path / source, tmp_path / "out.gguf")
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e6])
def test_numbers_that_do_not_fit_are_refused(value: float, tmp_path: Path) -> None:
    model = small_model()
    variables = small_models.ctranslate2_variables(model)
    values = variables["decoder/layer_1/ffn/linear_1/weight"].copy()
    values[3, 4] = value
    variables["decoder/layer_1/ffn/linear_1/weight"] = values
    source = small_models.write_ctranslate2(tmp_path / "small", model, variables)
    with pytest.raises(ModelError, match=r"decoder\.blocks\.1\.mlp\.2\.weight holds numbers"):
        convert(source, tmp_path / "out.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="choose one of f32, f16, q8_0, q5_0, q4_0"):
        convert(tmp_path, tmp_path / "out.gguf", "q3")
