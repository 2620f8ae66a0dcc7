"""Turns a model of any known format into ours."""

from pathlib import Path

from . import ctranslate2, hf, parakeet, whisper_gguf, whispercpp
from .checkpoint import Checkpoint
from .errors import ModelError
from .file_types import DEFAULT_FILE_TYPE, file_type
from .parakeet import gguf_files as parakeet_gguf
from .parakeet import hf as parakeet_hf
from .parakeet import layout, nemo
from .parakeet import whispercpp as parakeet_whispercpp
from .progress import Progress, silent


def convert(
    source: Path,
    target: Path,
    type: str = DEFAULT_FILE_TYPE,
    progress: Progress = silent,
    name: str | None = None,
) -> None:
    """Writes the model in ``source`` to ``target`` as GGUF. Blocks.

    ``source`` is a Whisper model (a folder of Hugging Face (safetensors) or CTranslate2, or a ``.bin`` file
    of whisper.cpp) or a Parakeet model (a ``.nemo`` file). ``type`` is one of ``FILE_TYPES``; ``name``, by
    default the source's, is stored in it.

    Raises ModelError where the source is foreign or damaged, or the target cannot be written.
    """
    chosen = file_type(type)
    own_name = source.resolve().name if source.is_dir() else source.stem
    checkpoint = _read(source)
    if isinstance(checkpoint, Checkpoint):
        whisper_gguf.write(checkpoint, target, name or own_name, chosen, progress)
    else:
        layout.write(checkpoint, target, name or own_name, chosen, progress)


def _read(source: Path) -> Checkpoint | parakeet.Checkpoint:
    if source.is_file():
        return _read_file(source)
    if ctranslate2.recognises(source):
        return ctranslate2.read(source)
    if parakeet_hf.recognises(source):
        return parakeet_hf.read(source)
    if hf.recognises(source):
        return hf.read(source)
    raise ModelError(
        source,
        "is not there" if not source.exists() else "holds neither config.json nor model.bin",
        "give the folder of a Hugging Face or CTranslate2 model, or a .nemo, .gguf or ggml .bin file",
    )


def _read_file(source: Path) -> Checkpoint | parakeet.Checkpoint:
    if nemo.recognises(source):
        return nemo.read(source)
    if parakeet_gguf.recognises(source):
        return parakeet_gguf.read(source)
    if parakeet_whispercpp.recognises(source):
        return parakeet_whispercpp.read(source)
    return whispercpp.read(source)
