"""Tells apart the three ways in which programs lay out Parakeet models as GGUF."""

from pathlib import Path

from ..binary import reading
from ..errors import ModelError
from ..gguf_read import MAGIC, read_gguf
from . import crispasr, layout_read, parakeet_cpp
from .checkpoint import Checkpoint
from .layout import ARCHITECTURE

_LAYOUTS = (
    (layout_read.recognises, layout_read.read),
    (parakeet_cpp.recognises, parakeet_cpp.read),
    (crispasr.recognises, crispasr.read),
)


def recognises(path: Path) -> bool:
    """Whether the file is GGUF. Raises ModelError where it cannot be read."""
    with reading(path) as reader:
        return reader.remaining >= len(MAGIC) and reader.read(len(MAGIC), "the header") == MAGIC


def read(path: Path) -> Checkpoint:
    """The checkpoint in ``path``; tensors are read when they are asked for. Raises ModelError."""
    model = read_gguf(path)
    if model.value("general.architecture") != ARCHITECTURE:
        raise ModelError(path, "is a GGUF file already", "rewrite it with `stenod models quantize`")
    for recognises_layout, read_layout in _LAYOUTS:
        if recognises_layout(model):
            return read_layout(model)
    raise ModelError(path, "holds Parakeet in a layout that is not known", "convert the model's .nemo file")
