"""Fetches models from the Hugging Face hub, or from a mirror named by ``HF_ENDPOINT``."""

import os
import re
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from threading import Thread
from typing import IO, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from .atomic import require_room
from .catalog import HubSource
from .download import RemoteFile, download
from .errors import ModelError
from .progress import Progress

_PATIENCE_S = 5.0
"""How long the hub may take to answer. There are other sources."""

Result = TypeVar("Result")


def fetch(source: HubSource, folder: Path, progress: Progress) -> None:
    """Fetches a model's files into ``folder``, going on where an earlier try broke off. Blocks.

    Raises ModelError where the hub cannot be reached, breaks off, or sends something else than it told.
    """
    address = f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co')}/{source.repository}/resolve/main"
    try:
        files = _within_patience(lambda: [_describe(f"{address}/{name}", name) for name in source.files])
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(error, TimeoutError):
            reason = f"no answer within {_PATIENCE_S:.0f} s"
        raise ModelError(address, f"cannot be reached ({reason})", "check the network") from error
    total = sum(file.size for file in files)
    label = f"fetching {source.repository}"
    require_room(folder, total - sum(path.stat().st_size for path in folder.iterdir()))
    done = 0
    for file in files:
        download(file, folder, partial(_tell, progress, done, total, label))
        done += file.size


def _tell(progress: Progress, done_before: int, total: int, label: str, done: int) -> None:
    progress(done_before + done, total, label)


def _within_patience(action: Callable[[], Result]) -> Result:
    """The result of ``action``, in a thread of its own: looking up a name has no time limit otherwise."""
    future: Future[Result] = Future()

    def work() -> None:
        try:
            future.set_result(action())
        except (OSError, HTTPException, ValueError) as error:
            future.set_exception(error)

    Thread(target=work, daemon=True).start()
    return future.result(_PATIENCE_S)


class _StopWhereDescribed(HTTPRedirectHandler):
    """Follows redirects, but not the one to the storage: it comes with the large file's description."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if "X-Linked-Etag" in headers:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _describe(address: str, name: str) -> RemoteFile:
    request = Request(address, method="HEAD", headers={"Accept-Encoding": "identity"})
    try:
        with build_opener(_StopWhereDescribed).open(request, timeout=_PATIENCE_S) as answer:
            headers = answer.headers
    except HTTPError as error:
        if "X-Linked-Etag" not in error.headers:
            raise
        headers = error.headers
    size = headers.get("X-Linked-Size") or headers.get("Content-Length") or ""
    digest = (headers.get("X-Linked-Etag") or headers.get("ETag") or "").removeprefix("W/").strip('"')
    if not size.isdecimal() or not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", digest):
        raise ValueError(f"it tells no size and checksum for {name}")
    return RemoteFile(address, name, int(size), digest)
