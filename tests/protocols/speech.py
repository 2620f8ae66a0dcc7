"""What is said to the adapters, and what the native protocol makes of it."""

import base64
import io
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import soundfile
import soxr
from hypothesis import strategies as st
from numpy.typing import NDArray
from stenod.events import Final, decode
from websockets.sync.client import connect

from ..recordings import SHIPPED
from ..streams import clip, pcm, plain

CERTIFICATE = SHIPPED / "tls" / "first.pem"


def one_turn() -> NDArray[np.float32]:
    """A speaker, at 16 kHz."""
    return clip("digits/theo_06.flac")


def two_turns() -> NDArray[np.float32]:
    """He speaks twice."""
    return np.concatenate([one_turn(), clip("digits/theo_01.flac")])


@dataclass(frozen=True, eq=False)
class Speech:
    """What is said to a daemon, and what it makes of it when it is told natively."""

    daemon: str
    """Its address."""
    samples: NDArray[np.float32]
    """At 16 kHz."""

    def pcm(self, rate: int) -> bytes:
        """As ``s16le`` at some rate."""
        return pcm(soxr.resample(self.samples, 16000, rate))

    def mulaw(self) -> bytes:
        """As telephones have it, at 8 kHz."""
        companded = io.BytesIO()
        samples = np.frombuffer(self.pcm(8000), "<i2")
        soundfile.write(companded, samples, 8000, format="RAW", subtype="ULAW")
        return companded.getvalue()

    def words(self, data: bytes, rate: int, encoding: str = "s16le", **start: Any) -> list[str]:
        """The words of each utterance of ``data``; ``start``: as of the message."""
        audio = {"encoding": encoding, "sample_rate": rate}
        words = natively(
            self.daemon, data, json.dumps({"type": "start", "language": "en", "audio": audio} | start)
        )
        assert all(words)
        return words


def pieces(data: bytes, size: int = 9600) -> Iterator[bytes]:
    """As clients send it."""
    return (data[start : start + size] for start in range(0, len(data), size))


def base64_pieces(data: bytes) -> Iterator[str]:
    """As JSON can hold it."""
    return (base64.b64encode(piece).decode() for piece in pieces(data))


@cache
def natively(daemon: str, data: bytes, start: str) -> list[str]:
    """As of ``Speech.words``."""
    trusting = ssl.create_default_context(cafile=CERTIFICATE) if daemon.startswith("wss") else None
    with connect(f"{daemon}/v1/stream", ssl=trusting) as socket:
        socket.send(start)
        for piece in pieces(data):
            socket.send(piece)
        socket.send('{"type": "finish"}')
        events = [decode(message) for message in socket]
    return [plain(event.text) for event in events if isinstance(event, Final)]


def messages(types: tuple[str, ...], fields: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Text frames that are not JSON, or JSON of any kind, or nearly a message of one of the ``types``."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(fields) | st.text(max_size=5), inner, max_size=4)
        ),
        max_leaves=10,
    )
    nearly = st.fixed_dictionaries(
        {"type": st.sampled_from(types) | st.text(max_size=10)},
        optional={name: values for name in fields if name != "type"},
    )
    return st.text(max_size=50) | values.map(json.dumps) | nearly.map(json.dumps)
