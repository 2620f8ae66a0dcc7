"""Reads our own GGUF files back, for ``info`` and ``quantize``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from .checkpoint import Tensor
from .errors import REMEDY, ModelError

ARCHITECTURES = ("whisper",)
"""The model families whose files can be used."""

# What gguf's reader lets through when the bytes make no sense.
_DAMAGE = (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, OSError, AttributeError)


@dataclass(frozen=True)
class GgufModel:
    """A model file that was looked at. Its tensors are read when they are asked for."""

    path: Path
    fields: Mapping[str, gguf.ReaderField]
    """Metadata by key, in file order."""
    tensors: Mapping[str, Tensor]
    stored_types: Mapping[str, gguf.GGMLQuantizationType]

    def value(self, key: str) -> Any:
        """A piece of metadata. Raises ModelError where it is not there."""
        if key not in self.fields:
            raise ModelError(self.path, f"lacks {key}", REMEDY)
        return self.fields[key].contents()


def read_gguf(path: Path) -> GgufModel:
    """Reads all but the tensors' data. Raises ModelError where the file is missing, damaged or foreign."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelError(path, "is not a GGUF file", "convert it with `stenod models convert`")
    except OSError as error:
        raise ModelError(path, f"cannot be read ({error})", "check the path and its permissions") from error
    try:
        reader = gguf.GGUFReader(path)
        model = GgufModel(
            path,
            fields=reader.fields,
            tensors={found.name: _tensor(found) for found in reader.tensors},
            stored_types={found.name: found.tensor_type for found in reader.tensors},
        )
        architecture = model.value("general.architecture")
    except _DAMAGE as error:
        raise ModelError(path, f"is damaged ({error})", REMEDY) from error
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ModelError(path, f"holds a model of the family {architecture!r}", f"choose a model of: {known}")
    return model


def _tensor(found: gguf.ReaderTensor) -> Tensor:
    shape = tuple(int(size) for size in reversed(found.shape))

    def load() -> NDArray[np.float32]:
        values: NDArray[np.float32] = gguf.quants.dequantize(found.data, found.tensor_type).reshape(shape)
        return values

    return Tensor(shape, load)
