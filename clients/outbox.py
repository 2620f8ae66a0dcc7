"""What a sender has said and the daemon may not have yet: kept, in order, to be said again if need be.

No input or output. Positions are bytes of audio since the session's first, gaps included.
"""

import json
from collections import deque
from typing import Any, NamedTuple


class _Item(NamedTuple):
    start: int
    end: int
    payload: bytes | str

    def is_safe(self, position: int) -> bool:
        """Whether the daemon has it for sure that has all audio before ``position``."""
        return self.end <= position if self.end > self.start else self.end < position


class Outbox:
    """A queue that forgets what is acknowledged, and goes back to what was not received."""

    def __init__(self, frame_bytes: int, most_bytes: int) -> None:
        """``frame_bytes``: of one sample of every channel. ``most_bytes``: of audio that may be kept."""
        self._frame_bytes = frame_bytes
        self._most_bytes = most_bytes
        self._items: deque[_Item] = deque()
        self._sent = 0
        """How many of the items were handed out."""
        self._end = 0
        self._kept = 0

    @property
    def full(self) -> bool:
        """Whether no more audio should be put in."""
        return self._kept > self._most_bytes

    def put_audio(self, pcm: bytes) -> None:
        """Audio as declared, cut anywhere."""
        self._kept += len(pcm)
        self._put(pcm, len(pcm))

    def put_message(self, kind: str, **fields: Any) -> None:
        """A control message."""
        size = self._frame_bytes * fields["samples"] if kind == "gap" else 0
        self._put(json.dumps({"type": kind, **fields}), size)

    def next(self) -> bytes | str | None:
        """What is to be sent next; None if nothing is."""
        if self._sent == len(self._items):
            return None
        self._sent += 1
        return self._items[self._sent - 1].payload

    def acknowledge(self, frames: int) -> None:
        """The daemon has so many sample frames for good."""
        position = frames * self._frame_bytes
        while self._sent and self._items[0].is_safe(position):
            self._forget_first()

    def rewind(self, frames: int) -> None:
        """A new connection: all that comes after so many received frames is to be sent again."""
        position = frames * self._frame_bytes
        while self._items and self._items[0].is_safe(position):
            self._forget_first()
        self._sent = 0
        if self._items and isinstance(self._items[0].payload, bytes):
            self._begin_at(position)

    def _begin_at(self, position: int) -> None:
        """The first item, which is audio, begins there; what is missing before it is a gap."""
        first = self._items.popleft()
        assert isinstance(first.payload, bytes)
        begin = max(position, -(-first.start // self._frame_bytes) * self._frame_bytes)
        cut = min(begin - first.start, len(first.payload))
        self._kept -= cut
        self._items.appendleft(_Item(first.start + cut, first.end, first.payload[cut:]))
        if begin > position:
            lost = (begin - position) // self._frame_bytes
            gap = json.dumps({"type": "gap", "samples": lost})
            self._items.appendleft(_Item(position, begin, gap))

    def _put(self, payload: bytes | str, size: int) -> None:
        self._items.append(_Item(self._end, self._end + size, payload))
        self._end += size

    def _forget_first(self) -> None:
        item = self._items.popleft()
        if isinstance(item.payload, bytes):
            self._kept -= len(item.payload)
        self._sent = max(0, self._sent - 1)
