#!/usr/bin/env python3
"""Writes ``configs/stenod.toml``: every setting, its default and what it means, as ``settings.py`` has it."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from stenod.settings import Settings

FILE = Path(__file__).parent.parent / "configs" / "stenod.toml"
WIDTH = 110
HEAD = """\
Settings of stenod, with their defaults. Copy what you change to ~/.config/stenod/stenod.toml or \
/etc/stenod/stenod.toml, or pass the file with --config. Every key can also be set in the environment: \
STENOD_SERVER__PORT=9000. tools/example_settings.py writes this file.\
"""


def example() -> str:
    """The file's content."""
    lines = list(_comment(HEAD))
    for name, field in Settings.model_fields.items():
        section = field.annotation
        assert isinstance(section, type)
        assert issubclass(section, BaseModel)
        lines += ["", *_comment(section.__doc__ or ""), f"[{name}]"]
        for key, setting in section.model_fields.items():
            lines += [*_comment(setting.description or ""), _assignment(key, setting)]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text.replace("``", "`"), WIDTH - 2):
        yield f"# {line}"


def _assignment(key: str, setting: FieldInfo) -> str:
    """The key with its default; one that has none is commented out, with an example."""
    if setting.default is None:
        [value] = setting.examples or []
        return f"# {key} = {_toml(value)}"
    return f"{key} = {_toml(setting.default)}"


def _toml(value: Any) -> str:
    """Strings, numbers, booleans and lists of them look in TOML as in JSON."""
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    FILE.write_text(example())
