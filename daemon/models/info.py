"""What a model file says about itself."""

from dataclasses import dataclass
from math import prod
from pathlib import Path

from .errors import REMEDY, ModelError
from .file_types import FILE_TYPES
from .gguf_read import read_own_gguf
from .mel_filters import FILTERBANKS


@dataclass(frozen=True)
class ModelInfo:
    """What ``stenod models info`` shows."""

    path: Path
    name: str
    family: str
    type: str
    bytes: int
    parameters: int
    sizes: dict[str, int]
    """Hyper-parameters by their GGUF keys."""
    languages: list[str]
    """ISO codes; only ``en`` where the model knows no other."""


def info(path: Path) -> ModelInfo:
    """Looks into a GGUF file without loading it. Raises ModelError where it cannot be used."""
    model = read_own_gguf(path)
    family = model.value("general.architecture")
    number = model.value("general.file_type")
    types = {known.general: known.name for known in FILE_TYPES.values()}
    if number not in types:
        raise ModelError(path, f"is of the unknown type {number}", REMEDY)
    sizes = {
        key: value
        for key in model.fields
        if key.startswith(f"{family}.")
        and ".token." not in key
        and isinstance(value := model.value(key), int)
    }
    languages = model.value("whisper.languages") if "whisper.languages" in model.fields else ["en"]
    return ModelInfo(
        path=path,
        name=model.value("general.name"),
        family=family,
        type=types[number],
        bytes=path.stat().st_size,
        parameters=sum(
            prod(tensor.shape) for name, tensor in model.tensors.items() if name != FILTERBANKS[family]
        ),
        sizes=sizes,
        languages=languages,
    )
