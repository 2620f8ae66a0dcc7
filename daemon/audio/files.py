"""Audio files of any kind, streamed as mono float32 at 16 kHz in bounded memory.

libsndfile reads what it can; ffmpeg, where it is installed, the rest.
"""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from .pcm import AudioFormat, PcmDecoder
from .resample import MonoResampler, finite

_BLOCK_SAMPLES = 1 << 16
"""Samples of all channels together that are read at once, whatever the header claims."""
_BELIEVABLE_RATES = range(1000, 1_000_001)
_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,gsm,iff,matroska,mov,mp3,mpc,mpc8,"
    "mpeg,mpegts,nut,ogg,oma,rm,shn,sln,sox,tak,truehd,tta,voc,w64,wav,wv,xwma"
)
"""Of ffmpeg's formats, those that hold audio themselves. Playlists name other files, and are none of them:
whoever may send a recording must not be able to have another one read, from here or from the network."""
_ENDLESS = 0x7FFFF000
"""From here on, the length in a WAV header is what a program writes that streams and does not know it."""

Blocks = Iterator[NDArray[np.float32]]


class AudioFileError(Exception):
    """A file cannot be used as audio; one line: the file, what is wrong with it, and what to do."""


@dataclass
class AudioFile:
    """An open source of audio: iterate over it, once, for mono samples at 16 kHz, block by block."""

    name: str
    duration_s: float | None = None
    """As the file announces it; None where nobody knows before the end."""
    problem: str | None = None
    """Known after the last block: why only a part could be decoded; one line."""
    blocks: Blocks = field(default_factory=lambda: iter(()), repr=False)

    def __iter__(self) -> Blocks:
        return self.blocks


class _NotReadableError(Exception):
    """libsndfile is not the one to read this file; the message says why."""


@contextmanager
def open_audio(source: str) -> Iterator[AudioFile]:
    """Opens a path, or ``-`` for standard input; on leaving, closes it and ends the helper process, if any.

    Raises ``AudioFileError`` if not a single sample can be decoded.
    """
    if not source:
        raise AudioFileError("the name of a recording is empty; name a file, or '-' for standard input")
    audio = AudioFile("standard input" if source == "-" else source)
    if source == "-" and os.isatty(0):
        raise AudioFileError("standard input: is a terminal; pipe audio into it, or name a file")
    with closing(_decoded(audio, Path("/dev/stdin" if source == "-" else source))) as blocks:
        first = next(blocks, None)
        if first is None:
            raise AudioFileError(f"{audio.name}: holds no audio; record or export it again")
        audio.blocks = chain([first], blocks)
        yield audio


def _decoded(audio: AudioFile, path: Path) -> Generator[NDArray[np.float32], None, None]:
    """The blocks of ``path``, none of them empty, by whichever decoder reads it."""
    if not _is_regular(audio.name, path):
        with path.open("rb") as pipe:
            yield from filter(len, _ffmpeg_blocks(audio, "pipe:0", pipe, "it is a pipe"))
        return
    delivered = 0
    try:
        for block in filter(len, _libsndfile_blocks(audio, path)):
            delivered += len(block)
            yield block
    except (soundfile.LibsndfileError, _NotReadableError) as error:
        if delivered and not shutil.which("ffmpeg"):
            audio.problem = f"{audio.name}: damaged, only a part could be decoded ({error})"
            return
        beyond = _beyond(delivered, _ffmpeg_blocks(audio, f"file:{path}", None, str(error)))
        yield from filter(len, beyond)


def _is_regular(name: str, path: Path) -> bool:
    """True for a file, False for a pipe and its like. Raises ``AudioFileError`` for what cannot be opened."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise AudioFileError(f"{name}: is a folder; name a file")
        if not stat.S_ISREG(status.st_mode):
            return False
        path.open("rb").close()
    except OSError as error:
        raise AudioFileError(f"{name}: {error.strerror}; check its name and permissions") from error
    if status.st_size == 0:
        raise AudioFileError(f"{name}: is empty (0 bytes); record or export it again")
    return True


def _libsndfile_blocks(audio: AudioFile, path: Path) -> Blocks:
    with soundfile.SoundFile(path) as file:
        if file.frames == 0:
            raise _NotReadableError("its header announces no audio")
        if file.format == "MP3" and shutil.which("ffmpeg"):
            raise _NotReadableError("libsndfile stops at damage in MP3, and writes remarks to standard error")
        if file.samplerate not in _BELIEVABLE_RATES:
            raise AudioFileError(
                f"{audio.name}: a sample rate of {file.samplerate} Hz cannot be right; export it again"
            )
        audio.duration_s = file.frames / file.samplerate
        audio.problem = _cut_short(audio.name, file.extra_info)
        resampler = MonoResampler(file.samplerate)
        frames = max(1, _BLOCK_SAMPLES // file.channels)
        while len(block := file.read(frames, dtype="float32", always_2d=True)):
            yield resampler.feed(finite(block))
        yield resampler.flush()


def _cut_short(name: str, log: str) -> str | None:
    """What libsndfile's log of a WAV file tells of a data chunk that is longer than the file."""
    found = re.search(r"^data : (\d+) \(should be (\d+)\)", log, re.MULTILINE)
    if not found:
        return None
    announced, present = map(int, found.groups())
    if present >= announced or announced >= _ENDLESS:
        return None
    return f"{name}: cut short, {present / announced:.0%} of the audio that its header announces is there"


def _beyond(samples: int, blocks: Blocks) -> Blocks:
    """``blocks`` without their first ``samples``."""
    for block in blocks:
        yield block[samples:]
        samples = max(0, samples - len(block))


def _ffmpeg_blocks(audio: AudioFile, source: str, pipe: BinaryIO | None, why: str) -> Blocks:
    """What ffmpeg decodes of ``source``; ``why`` tells why libsndfile does not."""
    if not shutil.which("ffmpeg"):
        raise AudioFileError(
            f"{audio.name}: needs ffmpeg, which is not installed ({why}); "
            "install it, or name a WAV or FLAC file"
        )
    if pipe is None:
        audio.duration_s = _announced_duration(source)
    command = ["ffmpeg", "-nostdin", "-v", "error", *_only(source), "-i", source, "-vn", "-sn", "-dn"]
    command += ["-f", "f32le", "-ac", "1", "-ar", "16000", "pipe:1"]
    decoder = PcmDecoder(AudioFormat("f32le"))
    with (
        tempfile.TemporaryFile() as remarks,
        subprocess.Popen(
            command, stdin=pipe or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=remarks
        ) as ffmpeg,
    ):
        assert ffmpeg.stdout is not None
        try:
            while data := os.read(ffmpeg.stdout.fileno(), 4 * _BLOCK_SAMPLES):
                yield decoder.feed(data)
        finally:
            ffmpeg.kill()
        remarks.seek(0)
        complaint = _first_complaint(remarks.read(4096).decode(errors="replace"))
    if not decoder.received_frames:
        reason = complaint or "no audio in it"
        raise AudioFileError(
            f"{audio.name}: cannot be read as audio ({reason}); "
            "check that it is complete, or convert it to WAV or FLAC"
        )
    if complaint:
        audio.problem = f"{audio.name}: damaged, only a part could be decoded ({complaint})"


def _only(source: str) -> list[str]:
    """Options that keep ffmpeg and ffprobe to this one file."""
    return ["-protocol_whitelist", source.partition(":")[0], "-format_whitelist", _FORMATS]


def _announced_duration(source: str) -> float | None:
    command = ["ffprobe", "-v", "error", *_only(source), "-show_entries", "format=duration", "-of", "csv=p=0"]
    command.append(source)
    try:
        probe = subprocess.run(command, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
        return float(probe.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None  # it only feeds the progress bar


def _first_complaint(remarks: str) -> str | None:
    """The most specific of ffmpeg's remarks, which is its first, without addresses and file name."""
    for line in remarks.replace(f"on whitelist '{_FORMATS}'", "one that holds audio itself").splitlines():
        return re.sub(r"^(\[[^]]*\] |\S*(file|pipe):.*: )", "", line)
    return None
