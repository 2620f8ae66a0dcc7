"""What a model file says about itself."""

from dataclasses import dataclass
from math import prod
from pathlib import Path

from .errors import REMEDY, ModelError
from .file_types import FILE_TYPES
from .gguf_read import GgufModel, read_own_gguf
from .mel_filters import FILTERBANKS

_PREFIXES = {"whisper": "whisper.", "parakeet": "stt.parakeet."}


@dataclass(frozen=True)
class ModelInfo:
    """What ``stenod models info`` shows."""

    path: Path
    name: str
    family: str
    type: str
    bytes: int
    parameters: int
    settings: dict[str, int | str]
    """Hyper-parameters by their GGUF keys, without what the family's have in common."""
    languages: list[str]
    """ISO codes; empty where the file does not tell."""


def info(path: Path) -> ModelInfo:
    """Looks into a GGUF file without loading it. Raises ModelError where it cannot be used."""
    model = read_own_gguf(path)
    family = model.value("general.architecture")
    number = model.value("general.file_type")
    types = {known.general: known.name for known in FILE_TYPES.values()}
    if number not in types:
        raise ModelError(path, f"is of the unknown type {number}", REMEDY)
    prefix = _PREFIXES[family]
    settings = {
        key.removeprefix(prefix): field.value
        for key, field in model.fields.items()
        if key.startswith(prefix) and ".token." not in key and isinstance(field.value, int | str)
    }
    return ModelInfo(
        path=path,
        name=model.value("general.name"),
        family=family,
        type=types[number],
        bytes=path.stat().st_size,
        parameters=sum(
            prod(tensor.shape) for name, tensor in model.tensors.items() if name != FILTERBANKS[family]
        ),
        settings=settings,
        languages=_languages(model, family),
    )


def _languages(model: GgufModel, family: str) -> list[str]:
    key = "whisper.languages" if family == "whisper" else "general.languages"
    if key in model.fields:
        return list(model.value(key))
    return ["en"] if family == "whisper" else []  # Whisper's files without the key are English-only
