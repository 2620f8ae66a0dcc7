"""Reads NeMo's ``.nemo`` files: a tar archive with a configuration, a vocabulary and torch's weights."""

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import yaml

from ..binary import reading
from ..errors import REMEDY, ModelError
from ..json_files import object_in
from ..tensor import Tensor
from .checkpoint import Checkpoint, Piece
from .nemo_config import Config, encoder_of, front_end_of, require_known_parts, transducer_of
from .nemo_names import our_tensors, require_plain
from .sentencepiece_model import read_pieces
from .torch_archive import read_tensors

_CONFIG = "model_config.yaml"
_WEIGHTS = "model_weights.ckpt"
_MAGIC_OFFSET, _MAGIC = 257, b"ustar"
_MAX_CONFIG_BYTES = 16 << 20
_MAX_VOCABULARY_BYTES = 64 << 20


def recognises(path: Path) -> bool:
    """Whether the file ``path`` looks like a ``.nemo`` file, by name or content. Raises ModelError."""
    if path.suffix == ".nemo":
        return True
    with reading(path) as reader:
        return reader.size > 512 and reader.read(512, "the header")[_MAGIC_OFFSET:].startswith(_MAGIC)


def read(path: Path) -> Checkpoint:
    """The checkpoint in ``path``; tensors are read when they are asked for. Raises ModelError."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            members = {member.name.removeprefix("./"): member for member in archive if member.isreg()}
            config = _config(_content(archive, members, _CONFIG, _MAX_CONFIG_BYTES, path), path)
            pieces = _pieces(archive, members, config, path)
            weights = _member(members, _WEIGHTS, path)
            content = archive.extractfile(weights)
            tensors = read_tensors(_opened(content, path), path, weights.offset_data)
    except (tarfile.TarError, ValueError, OverflowError, OSError) as error:
        remedy = "check the file (one that is compressed must be unpacked with gunzip first)"
        raise ModelError(path, f"cannot be read as a .nemo file ({error})", remedy) from error
    return _checkpoint(path, config, pieces, tensors)


def _checkpoint(path: Path, config: Config, pieces: list[Piece], tensors: Mapping[str, Tensor]) -> Checkpoint:
    require_known_parts(config, path)
    require_plain(tensors, path)
    has_joint = "joint.enc.weight" in tensors
    return Checkpoint(
        path=path,
        front_end=front_end_of(config, path),
        encoder=encoder_of(config, tensors, path),
        transducer=transducer_of(config, tensors, path) if has_joint else None,
        pieces=pieces,
        tensors=our_tensors(tensors),
    )


def _config(content: bytes, path: Path) -> Config:
    try:
        config = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError, LookupError) as error:
        raise ModelError(path, f"has a {_CONFIG} that cannot be read ({error})", REMEDY) from error
    if not isinstance(config, dict):
        raise ModelError(path, f"has a {_CONFIG} that holds no settings", REMEDY)
    return config


def _pieces(
    archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], config: Config, path: Path
) -> list[Piece]:
    tokenizer = object_in(config, "tokenizer", path)
    if tokenizer.get("type") != "bpe":
        fault = f"has a tokenizer of the type {tokenizer.get('type')!r}"
        raise ModelError(path, fault, "choose a model with a SentencePiece tokenizer (bpe)")
    name = str(tokenizer.get("model_path")).removeprefix("nemo:")
    return read_pieces(_content(archive, members, name, _MAX_VOCABULARY_BYTES, path), f"{path}: {name}")


def _member(members: Mapping[str, tarfile.TarInfo], name: str, path: Path) -> tarfile.TarInfo:
    if name not in members:
        raise ModelError(path, f"lacks {name}", REMEDY)
    return members[name]


def _content(
    archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], name: str, limit: int, path: Path
) -> bytes:
    member = _member(members, name, path)
    if member.size > limit:
        raise ModelError(path, f"has {member.size} bytes in {name}", REMEDY)
    content = _opened(archive.extractfile(member), path).read()
    if len(content) != member.size:
        raise ModelError(path, f"is cut short within {name}", REMEDY)
    return content


def _opened(content: IO[bytes] | None, path: Path) -> IO[bytes]:
    if content is None:
        raise ModelError(path, "is damaged: a file in it is none", REMEDY)
    return content
