"""``stenod models``: list, fetch, describe, convert and quantise models."""

import argparse
import sys
from pathlib import Path

from ..models import ListedModel, convert, info, list_models, models_folder, pull, quantize, resolve
from ..models.file_types import DEFAULT_FILE_TYPE, FILE_TYPES
from ..standard_output import standard_output
from .progress_bars import ProgressBars


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("models", help="fetch and convert models", description=__doc__)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    action = actions.add_parser("pull", help="fetch a model of the catalogue")
    action.add_argument("name", metavar="NAME", help="a name that `stenod models list` shows, or NAME:TYPE")
    action.add_argument("--type", choices=FILE_TYPES, help=f"number format ({DEFAULT_FILE_TYPE})")
    action.set_defaults(run=_pull)

    action = actions.add_parser("list", help="show the catalogue, and what is on this machine")
    action.set_defaults(run=_list)

    action = actions.add_parser("info", help="show what a model file says about itself")
    action.add_argument("model", metavar="NAME|FILE", help="a model's name or a GGUF file")
    action.set_defaults(run=_info)

    action = actions.add_parser("convert", help="make a GGUF file from another format")
    source = "folder of a Hugging Face or CTranslate2 model, or a .nemo, ggml .bin or GGUF file"
    action.add_argument("source", type=Path, metavar="SOURCE", help=source)
    action.add_argument("--type", choices=FILE_TYPES, default=DEFAULT_FILE_TYPE, help="number format (f16)")
    action.add_argument("-o", "--output", type=Path, metavar="FILE", required=True, help="the file to write")
    action.set_defaults(run=_convert)

    action = actions.add_parser("quantize", help="rewrite a GGUF file in another number format")
    action.add_argument("source", metavar="NAME|FILE", help="a model's name or a GGUF file")
    action.add_argument("--type", choices=FILE_TYPES, required=True, help="number format")
    action.add_argument("-o", "--output", type=Path, metavar="FILE", required=True, help="the file to write")
    action.set_defaults(run=_quantize)


def _pull(options: argparse.Namespace) -> int:
    with ProgressBars() as bars:
        path = pull(options.name, options.type, bars.show)
    with standard_output():
        print(path)
    return 0


def _list(_: argparse.Namespace) -> int:
    listed = list_models()
    width = max(len(model.name) for model in listed)
    with standard_output():
        for model in listed:
            parameters = f"{model.parameters} M" if model.parameters else ""
            print(f"{model.name:{width}}  {parameters:>7}  {_files_here(model)}".rstrip())
    print(f"Files are kept in {models_folder()}", file=sys.stderr)
    return 0


def _files_here(model: ListedModel) -> str:
    return ", ".join(
        f"{type} ({path.stat().st_size / 1e6:.0f} MB)".lstrip() for type, path in model.files.items()
    )


def _info(options: argparse.Namespace) -> int:
    model = info(resolve(options.model))
    rows = {
        "file": model.path,
        "name": model.name,
        "family": model.family,
        "type": model.type,
        "size": f"{model.bytes / 1e6:.1f} MB",
        "parameters": f"{model.parameters / 1e6:.1f} M",
        **{key.replace(".", " ").replace("_", " "): value for key, value in model.settings.items()},
        "languages": " ".join(model.languages) or "not told",
    }
    width = max(map(len, rows))
    with standard_output():
        for key, value in rows.items():
            print(f"{key:{width}}  {value}")
    return 0


def _convert(options: argparse.Namespace) -> int:
    with ProgressBars() as bars:
        convert(options.source, options.output, options.type, bars.show)
    with standard_output():
        print(options.output)
    return 0


def _quantize(options: argparse.Namespace) -> int:
    with ProgressBars() as bars:
        quantize(resolve(options.source), options.output, options.type, bars.show)
    with standard_output():
        print(options.output)
    return 0
