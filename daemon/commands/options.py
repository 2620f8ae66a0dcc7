"""Options of several commands, each of which is a setting."""

import argparse
from pathlib import Path

from ..settings import Settings, load

_OPTIONS: dict[str, tuple[str, str, str]] = {
    "--model": ("engine.model", "NAME|FILE", "a model's name (see `stenod models list`) or a GGUF file"),
    "--threads": ("engine.threads", "N", "compute threads; 0: as many as the process may use"),
    "--language": ("session.language", "CODE", "the language spoken (en, de, zh, ...); default: detect it"),
    "--task": ("session.task", "TASK", "transcribe, or translate (into English)"),
    "--prompt": ("session.prompt", "TEXT", "names and spellings that may occur"),
    "--host": ("server.host", "ADDRESS", "the daemon's address"),
    "--port": ("server.port", "N", "the daemon's port"),
    "--mic": ("microphone.device", "DEVICE", "part of the microphone's name; default: the system's default"),
    "--sessions": ("limits.sessions", "N", "sessions at the same time, at most"),
}
"""Option: the setting's key, what its value is called, and help."""


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Adds ``--config`` and the named options; their values are validated with all other settings."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="a settings file (TOML)")
    for name in names:
        key, value, description = _OPTIONS[name]
        parser.add_argument(name, dest=key, metavar=value, help=description, default=argparse.SUPPRESS)


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings, with the options that were given. Raises ``SettingsError``."""
    given: dict[str, dict[str, object]] = {}
    for key, value in vars(options).items():
        section, dot, name = key.partition(".")
        if dot:
            given.setdefault(section, {})[name] = value
    return load(given, options.config)
