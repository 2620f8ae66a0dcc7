"""A connection to a daemon that can be cut."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Wire:
    """Forwards connections; get one from ``wire``."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = parts.hostname, parts.port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def run(self) -> None:
        """Until it is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                daemon = socket.create_connection(self._target)
                self._ends += client, daemon
                for one, other in ((client, daemon), (daemon, client)):
                    threading.Thread(target=_forward, args=(one, other), daemon=True).start()

    def cut(self) -> None:
        """All connections break; others may be made."""
        while self._ends:
            end = self._ends.pop()
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """No connection is left, and none can be made."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()


def _forward(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


@contextmanager
def wire(target: str) -> Iterator[Wire]:
    """A wire to the daemon at ``target``."""
    made = Wire(target)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()
