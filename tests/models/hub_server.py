"""A real HTTP server that behaves as the Hugging Face hub does."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread


@dataclass
class HubServer:
    """Serves a folder as the repository ``REPOSITORY``, and remembers what it was asked for."""

    folder: Path
    address: str = ""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, file name, Range header."""
    breaks_after: int | None = None
    """The next download's connection is closed after so many bytes."""
    damages: bool = False
    """One byte of large files is wrong."""
    hides_checksums: bool = False
    is_silent: bool = False
    """Accepts connections, and never answers."""
    stop: Event = field(default_factory=Event)

    @property
    def ranges(self) -> list[str | None]:
        """The Range headers of downloads of the weights."""
        return [
            asked for method, name, asked in self.requests if (method, name) == ("GET", "model.safetensors")
        ]


@contextmanager
def serving(folder: Path) -> Iterator[HubServer]:
    """Runs the server in a thread of its own."""
    hub = HubServer(folder)

    class Handler(_Handler):
        server_state = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield hub
    finally:
        hub.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Large files are redirected to a storage address; what they are is told with the redirect."""

    server_state: HubServer

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub = self.server_state
        if hub.is_silent:
            hub.stop.wait()
            return
        name = self.path.rsplit("/", 1)[1]
        path = hub.folder / name
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        if self.path.startswith("/storage/"):
            self._send(name, data)
            return
        is_large = name.endswith(".safetensors")
        tag = hashlib.sha256(data) if is_large else hashlib.sha1(b"blob %d\0" % len(data) + data)
        if not is_large:
            self._send(name, data, tag.hexdigest())
            return
        self.send_response(302)
        self.send_header("Location", f"{hub.address}/storage/{name}")
        if not hub.hides_checksums:
            self.send_header("X-Linked-Etag", f'"{tag.hexdigest()}"')
            self.send_header("X-Linked-Size", str(len(data)))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, name: str, data: bytes, tag: str | None = None) -> None:
        hub = self.server_state
        asked = self.headers.get("Range")
        hub.requests.append((self.command, name, asked))
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if hub.damages and name.endswith(".safetensors"):
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(data) - start))
        if tag:
            self.send_header("ETag", f'W/"{tag}"')
        self.end_headers()
        if self.command == "GET":
            end = len(data) if hub.breaks_after is None else start + hub.breaks_after
            hub.breaks_after = None
            with suppress(ConnectionError):  # an interrupted client has left
                self.wfile.write(data[start:end])

    def log_message(self, format: str, *arguments: object) -> None:
        """Tells nobody."""
