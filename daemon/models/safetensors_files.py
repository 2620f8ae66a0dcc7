"""Reads the weights of a model folder of Hugging Face: safetensors, in one file or in several."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from .errors import REMEDY, ModelError
from .json_files import object_in, read_object
from .tensor import Tensor

WEIGHTS_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder by their names; they are read when they are asked for. Raises ModelError."""
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        tensors |= _tensors_of_file(path)
    return tensors


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    index_file = folder / _INDEX_FILE
    if not index_file.is_file():
        remedy = "get the model's safetensors (pickled weights are never read: they can run code)"
        raise ModelError(folder, f"has no {WEIGHTS_FILE}", remedy)
    names = object_in(read_object(index_file), "weight_map", index_file).values()
    if not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise ModelError(index_file, "does not list the files of its weights", REMEDY)
    return [folder / name for name in sorted(set(names))]


def _tensors_of_file(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
            types = {key: found.get_dtype() for key, found in slices.items()}
            shapes = {key: tuple(found.get_shape()) for key, found in slices.items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(path, f"cannot be read as safetensors ({error})", REMEDY) from error
    counters = [key for key, kind in types.items() if kind == "I64"]
    foreign = {kind for kind in types.values() if kind not in ("F16", "F32", "F64", "I64")}
    if foreign:
        fault = f"holds numbers of the type {', '.join(sorted(foreign))}"
        raise ModelError(path, fault, "save the model as float16 or float32 first")
    return {key: Tensor(shape, _loader(path, key)) for key, shape in shapes.items() if key not in counters}


def _loader(path: Path, key: str) -> Callable[[], NDArray[np.float32]]:
    def load() -> NDArray[np.float32]:
        try:
            with safe_open(path, framework="numpy") as file:
                values: NDArray[Any] = file.get_tensor(key)
        except (OSError, SafetensorError) as error:
            raise ModelError(path, f"cannot be read ({error})", REMEDY) from error
        return values.astype(np.float32)

    return load
