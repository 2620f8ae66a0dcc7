"""A session's way back after the daemon was killed: a checkpoint, and all that was asked since.

What a session tells follows from what it was asked, so that is all that has to be kept: a session that is
begun at the checkpoint, and asked the same again, tells the same again. A checkpoint is made where no
utterance is open, so a log holds little more than the open utterance and what comes before and after it.

A file is a sequence of records: length and CRC-32 of what follows (4 bytes each, little-endian), then
MessagePack. The first is the ``Checkpoint``, the others are ``Entry``. A record that was cut off, or damaged,
ends the log.
"""

import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from .audio.pcm import AudioFormat
from .audio.resample import ResumePoint
from .context import Context
from .journal import Journal
from .requests import Clear, Configure, Finish, Flush, Missing, Request, Samples
from .segmenter import SegmenterState
from .utterance import Configuration

FORMAT = 3
"""Raised when what a log holds, or what a session makes of it, changes."""
MOST_BYTES = 64 << 20
"""A log that would grow beyond is given up: half an hour of speech without a pause, at 16 kHz and 16 bits."""
AT_ONCE = 4000
"""Samples that are handed to the disk together: 250 ms."""

_HEAD = struct.Struct("<II")


class Checkpoint(msgspec.Struct, frozen=True):
    """A session between two utterances. ``segmenter`` holds sound that was not looked at yet."""

    format: int
    session: str
    token: bytes | None
    """Digest of the token that resumes it; None: nobody can."""
    channel: str | None
    model: str
    started_at: float
    audio: AudioFormat
    configuration: Configuration
    """As it holds now."""
    detected_language: str | None
    context: Context | None
    utterances: int
    seq: int
    point: ResumePoint
    """Where the audio goes on behind what the segmenter holds."""
    segmenter: SegmenterState


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One request, and where the audio goes on behind it."""

    point: ResumePoint
    request: Samples | Configure | Flush | Clear | Missing | Finish


class RequestLog:
    """Writes a session's log, through the journal's thread. Nothing here waits for a disk."""

    def __init__(self, journal: Journal, session: str) -> None:
        self.kept_frames = 0
        """Frames, of those received, that a killed daemon would still have."""
        self._journal = journal
        self._name = session
        self._size = 0
        self._whole = False
        """Whether all since the checkpoint is in the log."""
        self._samples: list[NDArray[np.float32]] = []
        self._point = ResumePoint(0, 0)

    def restart(self, checkpoint: Checkpoint, pending: Iterable[Request]) -> None:
        """Forgets what came before ``checkpoint``; ``pending``: asked already, not worked through yet."""
        point = checkpoint.point
        data = _record(checkpoint) + b"".join(
            _record(Entry(point, _kept(one))) for one in pending if _counts(one)
        )
        self._samples.clear()
        self._size = len(data)
        self._whole = True
        self._journal.write_log(self._name, None, data, self._then(point))

    def goes_on(self, point: ResumePoint, size: int) -> None:
        """The log of a session that was taken up again has so many bytes."""
        self.kept_frames, self._point = point.frames, point
        self._size = size
        self._whole = True

    def add(self, request: Request, point: ResumePoint) -> None:
        """Keeps a request, behind which the audio goes on at ``point``."""
        self._point = point
        if isinstance(request, np.ndarray):
            self._samples.append(request)
            if sum(map(len, self._samples)) >= AT_ONCE:
                self.write()
        else:
            self.write()
            self._append(Entry(point, _kept(request)))

    def write(self) -> None:
        """Hands over the audio that waits for more."""
        if self._samples:
            samples = np.concatenate(self._samples)
            self._samples.clear()
            self._append(Entry(self._point, Samples.of(samples)))

    def remove(self) -> None:
        """The session has ended."""
        self._whole = False
        self._samples.clear()
        self._journal.write_log(self._name, None, b"", lambda: None)

    def _append(self, entry: Entry) -> None:
        if not self._whole:
            self.kept_frames = entry.point.frames  # nothing is promised: the sender need not keep it for us
            return
        data = _record(entry)
        if self._size + len(data) > MOST_BYTES:
            self.remove()
            self.kept_frames = entry.point.frames
            return
        self._journal.write_log(self._name, self._size, data, self._then(entry.point))
        self._size += len(data)

    def _then(self, point: ResumePoint) -> Callable[[], None]:
        def kept() -> None:
            self.kept_frames = max(self.kept_frames, point.frames)

        return kept


def read_log(path: Path) -> tuple[Checkpoint, list[Entry], int]:
    """What a log holds, and how many of its bytes are good. Raises ``ValueError`` if it cannot be used."""
    data = path.read_bytes()
    records, position = list[bytes](), 0
    while (end := position + _HEAD.size) <= len(data):
        length, crc = _HEAD.unpack_from(data, position)
        payload = data[end : end + length]
        if len(payload) < length or not length or zlib.crc32(payload) != crc:
            break
        records.append(payload)
        position = end + length
    if not records:
        raise ValueError("it is empty, or damaged at its beginning")
    try:
        checkpoint = _checkpoints.decode(records[0])
        if checkpoint.format != FORMAT:
            raise ValueError(f"it is of version {checkpoint.format}; this program writes {FORMAT}")
        return checkpoint, [_entries.decode(record) for record in records[1:]], position
    except msgspec.DecodeError as error:
        raise ValueError(f"it is of another version ({error})") from error


def request_of(entry: Entry) -> Request:
    """The request as a session takes it."""
    return entry.request.samples if isinstance(entry.request, Samples) else entry.request


def _counts(request: Request) -> bool:
    return not isinstance(request, np.ndarray) or len(request) > 0


def _kept(request: Request) -> Samples | Configure | Flush | Clear | Missing | Finish:
    return Samples.of(request) if isinstance(request, np.ndarray) else request


def _record(content: Checkpoint | Entry) -> bytes:
    payload = _encoder.encode(content)
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


_encoder = msgspec.msgpack.Encoder()
_checkpoints = msgspec.msgpack.Decoder(Checkpoint)
_entries = msgspec.msgpack.Decoder(Entry)
