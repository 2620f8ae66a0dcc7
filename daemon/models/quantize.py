"""Rewrites a model file with its matrices in another number format."""

from pathlib import Path

import gguf

from .file_types import file_type
from .gguf_read import GgufModel, read_own_gguf
from .gguf_write import write_gguf
from .progress import Progress, silent

_WRITTEN_ANEW = ("general.architecture", "general.file_type")


def quantize(source: Path, target: Path, type: str, progress: Progress = silent) -> None:
    """Writes ``source``, one of our GGUF files, to ``target`` as a file of another type. Blocks.

    Nothing is gained from a source that is less precise than ``type``. Raises ModelError where the source is
    damaged, or the target cannot be written.
    """
    chosen = file_type(type)
    model = read_own_gguf(source)

    def add_metadata(writer: gguf.GGUFWriter) -> None:
        _copy_metadata(model, writer)

    write_gguf(target, model.value("general.architecture"), add_metadata, model.tensors, chosen, progress)


def _copy_metadata(model: GgufModel, writer: gguf.GGUFWriter) -> None:
    for key, field in model.fields.items():
        if key not in _WRITTEN_ANEW and field.value != []:  # gguf's writer knows no empty arrays
            writer.add_key_value(key, field.value, field.type, field.item_type)
