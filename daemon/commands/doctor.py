"""``stenod doctor``: whether this machine has what the daemon needs, and what to do where it has not."""

import argparse
import os
import platform
import shutil
import socket
import sqlite3
import ssl
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from .._native import GGML_VERSION
from ..access import Access, AccessError
from ..audio.microphone import NoMicrophone, list_devices
from ..journal import JournalError
from ..journal.store import Store
from ..models import ModelError, info, models_folder, resolve
from ..server.tls import certificate_of
from ..settings import Server, Settings, SettingsError
from ..standard_output import standard_output
from .options import add_options, settings_of

LEAST_FREE_MB = 500
ANSWER_S = 3.0
"""How long a daemon may take to answer."""
CPU_INFO = Path("/proc/cpuinfo")
FAST = ("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx_vnni", "asimd", "asimddp", "i8mm")
"""Instruction sets, as Linux names them, that ggml makes use of."""


class Finding(NamedTuple):
    """What was looked at; ``remedy`` says what to do, and is empty if all is well."""

    what: str
    found: str
    remedy: str = ""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("doctor", help="look for what is missing", description=__doc__)
    add_options(parser, "--host", "--port", "--model")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints a line for each finding; 1 if something has to be done."""
    ill = False
    settings = settings_of(options)
    with standard_output():
        for finding in findings(settings):
            ill |= bool(finding.remedy)
            print(f"{'PROBLEM' if finding.remedy else 'ok':8}{finding.what:12}{finding.found}", flush=True)
            if finding.remedy:
                print(f"{'':20}-> {finding.remedy}", flush=True)
    return int(ill)


def findings(settings: Settings) -> Iterator[Finding]:
    """All that is looked at, in turn."""
    yield Finding(
        "build", f"stenod {version('stenod')}, ggml {GGML_VERSION}, Python {platform.python_version()}"
    )
    yield _processor()
    yield _model(settings.engine.model)
    yield _disk("models", models_folder())
    if settings.journal.enabled:
        yield _journal(settings.journal.place)
        yield _disk("journal", settings.journal.place)
    yield _address(settings.server)
    yield _access(settings)
    yield _microphones(wanted=settings.microphone.enabled)


def _processor() -> Finding:
    cores = len(os.sched_getaffinity(0))
    words = set(CPU_INFO.read_text().split()) if CPU_INFO.exists() else set()
    fast = [name for name in FAST if name in words]
    found = f"{cores} cores, {platform.machine()}, {' '.join(fast) or 'no fast instruction sets'}"
    return Finding("processor", found, "" if fast else "text will come late; take a smaller model")


def _model(name: str) -> Finding:
    try:
        model = info(resolve(name))
    except ModelError as error:
        return Finding("model", name, str(error))
    return Finding("model", f"{model.name}, {model.type}, {model.path}")


def _disk(what: str, folder: Path) -> Finding:
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free_mb = shutil.disk_usage(there).free // 1_000_000
    remedy = "" if free_mb >= LEAST_FREE_MB else f"make room: {LEAST_FREE_MB} MB should be free"
    return Finding(what, f"{free_mb} MB free at {folder}", remedy)


def _journal(folder: Path) -> Finding:
    try:
        Store.open(folder).close()
    except JournalError as error:
        if "another daemon" in str(error):
            return Finding("journal", f"a daemon is writing it at {folder}")
        return Finding("journal", str(folder), str(error))
    except (OSError, sqlite3.Error) as error:
        return Finding("journal", str(folder), f"{error}; make it writable, or choose another journal.folder")
    return Finding("journal", f"can be written at {folder}")


def _stenod_answers(url: str) -> bool:
    asking = f"http{url.removeprefix('ws')}/healthz"
    unchecked = ssl._create_unverified_context()  # it is told nothing
    try:
        with urllib.request.urlopen(asking, timeout=ANSWER_S, context=unchecked) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except (OSError, HTTPException):
        return False


def _address(server: Server) -> Finding:
    host, port = server.host, server.port
    found = f"{host}:{port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trying:
            trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trying.bind(address)
    except OSError as error:
        if _stenod_answers(server.url):
            return Finding("address", f"a daemon answers at {found}")
        return Finding("address", found, f"{error.strerror}; choose another with --port")
    return Finding("address", f"{found} is free")


def _access(settings: Settings) -> Finding:
    try:
        Access(settings.server.tokens).check()
        certificate = certificate_of(settings.server)
    except (AccessError, SettingsError) as error:
        return Finding("access", "cannot be checked", str(error))
    who = (
        "everybody" if settings.server.tokens is None else f"whoever has a token of {settings.server.tokens}"
    )
    return Finding("access", f"{who}, {'not ' if certificate is None else ''}encrypted")


def _microphones(*, wanted: bool) -> Finding:
    try:
        names = [device.name for device in list_devices()]
    except NoMicrophone as error:
        return Finding("microphones", "none", str(error) if wanted else "")
    remedy = "plug one in, and check that you may use it (group audio)" if wanted and not names else ""
    return Finding("microphones", ", ".join(names) or "none", remedy)
