"""The captions page and the overlay: the files of ``clients/web``, as a browser gets them."""

from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import NamedTuple

from websockets.datastructures import Headers
from websockets.http11 import Response

FOLDER = "/web/"
OVERLAY = "/overlay"
_DOCUMENTS = {"/": "index.html", OVERLAY: "overlay.html"}
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_OVERLAY_POLICY = _POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""OBS adds its users' own styles to a page."""
_HEADERS = {
    "Cache-Control": "no-cache",
    "Connection": "close",
    "Permissions-Policy": "microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _File(NamedTuple):
    content_type: str
    body: bytes
    etag: str


def page(path: str, request_headers: Headers) -> Response | None:
    """The file at a request's path; None: there is none. Browsers ask each time whether it has changed."""
    file = _files().get(path)
    if file is None:
        return None
    headers = Headers(_HEADERS | {"ETag": file.etag})
    headers["Content-Security-Policy"] = _OVERLAY_POLICY if path == OVERLAY else _POLICY
    if file.etag in request_headers.get("If-None-Match", ""):
        return Response(HTTPStatus.NOT_MODIFIED, HTTPStatus.NOT_MODIFIED.phrase, headers)
    headers["Content-Type"] = file.content_type
    headers["Content-Length"] = str(len(file.body))
    return Response(HTTPStatus.OK, HTTPStatus.OK.phrase, headers, file.body)


@cache
def _files() -> dict[str, _File]:
    """All files, by the paths that they are served at."""
    found = {}
    for resource in files("stenod.clients").joinpath("web").iterdir():
        extension = resource.name.rpartition(".")[2]
        if extension in _TYPES:
            body = resource.read_bytes()
            found[resource.name] = _File(_TYPES[extension], body, f'"{sha256(body).hexdigest()[:16]}"')
    served = {FOLDER + name: file for name, file in found.items() if name not in _DOCUMENTS.values()}
    return served | {path: found[name] for path, name in _DOCUMENTS.items()}
