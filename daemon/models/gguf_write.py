"""Writes a GGUF file tensor by tensor."""

from collections.abc import Callable, Mapping
from pathlib import Path

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from .atomic import replacing, require_room
from .errors import REMEDY, ModelError
from .file_types import FileType, stored_shape, stored_size, tensor_type
from .progress import Progress
from .tensor import Tensor


def write_gguf(
    target: Path,
    architecture: str,
    add_metadata: Callable[[gguf.GGUFWriter], None],
    tensors: Mapping[str, Tensor],
    chosen: FileType,
    progress: Progress,
) -> None:
    """Writes ``target`` whole or not at all, with one tensor in memory at a time. Blocks.

    Raises ModelError where a tensor's numbers do not fit, or ``target`` cannot be written.
    """
    tensors = {name: tensor.reshaped(stored_shape(tensor.shape, chosen)) for name, tensor in tensors.items()}
    stored = {name: tensor_type(name, tensor.shape, chosen) for name, tensor in tensors.items()}
    bytes_of = {name: stored_size(tensor.shape, stored[name]) for name, tensor in tensors.items()}
    total = sum(bytes_of.values())
    require_room(target.parent, total)
    with replacing(target) as unfinished:
        writer = gguf.GGUFWriter(unfinished, architecture)
        try:
            writer.add_file_type(chosen.general)
            add_metadata(writer)
            for name, tensor in tensors.items():
                writer.add_tensor_info(
                    name, tensor.shape, np.dtype(np.float32), bytes_of[name], raw_dtype=stored[name]
                )
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            done = 0
            for name, tensor in tensors.items():
                writer.write_tensor_data(_encoded(target, name, tensor, stored[name]))
                done += bytes_of[name]
                progress(done, total, f"writing {target.name}")
        finally:
            writer.close()


def _encoded(target: Path, name: str, tensor: Tensor, stored: GGMLQuantizationType) -> NDArray[np.generic]:
    values = tensor.load()
    if not np.isfinite(values).all():
        raise ModelError(target, f"cannot be made: {name} holds numbers that are not finite", REMEDY)
    if stored != GGMLQuantizationType.F32 and np.abs(values).max() > np.finfo(np.float16).max:
        fault = f"cannot be made: {name} holds numbers too large for f16"
        raise ModelError(target, fault, "choose the type f32")
    encoded: NDArray[np.generic] = gguf.quants.quantize(values, stored)
    return encoded
