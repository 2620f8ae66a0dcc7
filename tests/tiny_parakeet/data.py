"""Utterances for the training, as mel spectrograms: clips of one voice joined, and made harder to hear."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr

from . import vocabulary
from .clips import SAMPLE_RATE, Clip, Words, read_clips

HELD_OUT_SPEAKER = "theo"
"""Of the Free Spoken Digit Dataset; never trained on."""
LEVEL = 0.05
"""Root mean square that every clip is brought to before anything else."""
HOP = 160
FRAME = 8 * HOP
"""Samples in an encoder frame."""
SILENCE = len(vocabulary.WORDS)
"""The class of a frame without speech, after those of the words."""
CUT = 0.3
"""How many of the clips are cut down to one of their words."""
UNSURE = -100
"""The class of a frame that the frame loss leaves out."""
NUMBER = {word: number for number, word in enumerate(vocabulary.WORDS)}


def levelled(samples: np.ndarray) -> np.ndarray:
    """At the usual level."""
    return (samples * (LEVEL / (np.sqrt((samples**2).mean()) + 1e-6))).astype(np.float32)


def read_recording(path: Path) -> np.ndarray:
    """16 kHz mono at the usual level."""
    samples, rate = soundfile.read(path, dtype="float32")
    return levelled(soxr.resample(samples, rate, SAMPLE_RATE))


def spoken_digits(folder: Path, held_out: bool) -> list[Clip]:
    """The Free Spoken Digit Dataset: ``DIGIT_SPEAKER_NUMBER.flac`` (or .wav) each."""
    clips = []
    for path in sorted([*folder.glob("*.flac"), *folder.glob("*.wav")]):
        digit, speaker, _ = path.stem.split("_")
        if (speaker == HELD_OUT_SPEAKER) == held_out:
            samples = read_recording(path)
            clips.append(Clip(speaker, samples, [(vocabulary.DIGITS[int(digit)], 0, len(samples))]))
    return clips


def synthetic(folder: Path, kind: str, known: set[Path] | None = None) -> list[Clip]:
    """What `synthesize` has made so far of one kind, such as "train-kokoro", and was not known before."""
    paths = [path for path in sorted(folder.glob(f"{kind}*.npz")) if path not in (known or ())]
    clips = [clip for path in paths for clip in read_clips(path)]
    if known is not None:
        known.update(paths)
    return [Clip(clip.voice, levelled(clip.samples), clip.words) for clip in clips]


@dataclass(frozen=True)
class Batch:
    """Utterances padded to the longest; arrays are indexed by utterance first."""

    mel: np.ndarray
    mel_lengths: np.ndarray
    words: list[str]
    frames: np.ndarray
    """The class of each encoder frame."""


class MelFilters:
    """The streaming Parakeets' front end (no normalisation); it can change the voice and the channel too."""

    def __init__(self, bands: int = 80) -> None:
        self.bands = bands
        window = np.hanning(400)
        self._window = np.pad(window, 56).astype(np.float32)
        self._filters: dict[float, np.ndarray] = {}

    def __call__(
        self, samples: np.ndarray, stretch: float = 1.0, response: np.ndarray | None = None
    ) -> np.ndarray:
        """[time, bands]; `stretch` moves all formants up, `response` [257] is the channel's gain in power."""
        frames = len(samples) // HOP
        emphasised = np.append(samples[:1], samples[1:] - np.float32(0.97) * samples[:-1])
        padded = np.pad(emphasised, 256)
        pieces = np.lib.stride_tricks.sliding_window_view(padded, 512)[::HOP][:frames]
        spectrum = np.fft.rfft(pieces * self._window)
        power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
        if response is not None:
            power *= response
        return np.log(power @ self.matrix(stretch) + np.float32(2**-24))

    def matrix(self, stretch: float = 1.0) -> np.ndarray:
        """[257, bands]: Slaney's triangles, drawn `stretch` times lower to hear a voice that much higher."""
        if stretch not in self._filters:
            edges = _slaney_to_hertz(np.linspace(0, _hertz_to_slaney(8000), self.bands + 2))
            weight = 2 / (edges[2:] - edges[:-2])
            edges = edges / stretch
            bins = np.linspace(0, 8000, 257)[:, None]
            rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
            falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
            triangles = np.maximum(0, np.minimum(rising, falling))
            self._filters[stretch] = (triangles * weight * stretch).astype(np.float32)
        return self._filters[stretch]


def _hertz_to_slaney(hertz: float) -> float:
    return 15 + 27 * np.log(hertz / 1000) / np.log(6.4)


def _slaney_to_hertz(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))


@dataclass(frozen=True)
class Difficulty:
    """How far the training has come: short and clean at first."""

    seconds: float
    """Longest utterance."""
    phrases: int
    """Most clips joined."""
    noise: float
    """Lowest signal-to-noise ratio in dB."""


class Utterances:
    """An endless supply of training utterances."""

    def __init__(self, fsdd: Path, data: Path, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._filters = MelFilters()
        self._fsdd = spoken_digits(fsdd, held_out=False)
        self._real_voices = {clip.voice for clip in self._fsdd}
        self._data = data
        self._known: set[Path] = set()
        self._kokoro: list[Clip] = []
        self._programs: list[Clip] = []
        self.refresh()
        self._noises = self._make_noises()

    def refresh(self) -> None:
        """Takes in the synthetic speech that was made meanwhile."""
        real = _by_voice(self._fsdd)
        self._kokoro += synthetic(self._data, "train-kokoro", self._known)
        self._programs += synthetic(self._data, "train-programs", self._known)
        kokoro, programs = _by_voice(self._kokoro), _by_voice(self._programs)
        present = [
            (share, voices) for share, voices in ((0.3, real), (0.52, kokoro), (0.18, programs)) if voices
        ]
        total = sum(share for share, _ in present)
        self._sources = [(share / total, voices) for share, voices in present]

    def _make_noises(self, seconds: int = 40) -> list[np.ndarray]:
        """White, pink and brown noise and the babble of eight voices, each of power 1."""
        count = seconds * SAMPLE_RATE
        frequency = np.maximum(np.fft.rfftfreq(count), 1e-3)
        noises = []
        for slope in (0.0, 0.5, 1.0):
            spectrum = np.fft.rfft(self._random.standard_normal(count)) / frequency**slope
            noises.append(np.fft.irfft(spectrum, count))
        babble = np.zeros(count)
        for _ in range(8):
            place = 0
            while place < count:
                samples = self._voice()[self._random.integers(3)].samples[: count - place]
                babble[place : place + len(samples)] += samples
                place += len(samples)
        return [(noise / noise.std()).astype(np.float32) for noise in [*noises, babble]]

    def _voice(self) -> list[Clip]:
        """At least three clips of one voice."""
        shares = [share for share, _ in self._sources]
        voices = self._sources[self._random.choice(len(shares), p=shares)][1]
        clips = voices[self._random.integers(len(voices))]
        return clips if len(clips) >= 3 else self._voice()

    def _joined(self, difficulty: Difficulty) -> tuple[np.ndarray, Words]:
        """Clips of one voice with gaps between; silence now and then."""
        random = self._random
        longer = 1.0 if random.random() < 0.2 else 0.0
        pieces = [np.zeros(int(random.uniform(0.05, 0.5 + longer) * SAMPLE_RATE), np.float32)]
        words: Words = []
        place = len(pieces[0])
        clips = self._voice()
        count = 0 if random.random() < 0.03 else int(random.integers(1, difficulty.phrases + 1))
        if count and clips[0].voice in self._real_voices:
            count = min(8, count * 2 - int(random.integers(2)))
        for _ in range(count):
            clip = clips[random.integers(len(clips))]
            if random.random() < CUT:
                clip = clip.one_word(int(random.integers(len(clip.words))))
            gap = np.zeros(int(random.uniform(0.02, 0.45) * SAMPLE_RATE), np.float32)
            samples = clip.samples * np.float32(10 ** (random.uniform(-4, 4) / 20))
            if place + len(samples) + len(gap) > difficulty.seconds * SAMPLE_RATE and words:
                break
            words += [
                (w, start + place, end + place) if end > 0 else (w, -1, -1) for w, start, end in clip.words
            ]
            pieces += [samples, gap]
            place += len(samples) + len(gap)
        pieces.append(np.zeros(int(random.uniform(0.2, 0.6 + longer) * SAMPLE_RATE), np.float32))
        return np.concatenate(pieces), words

    def one(self, difficulty: Difficulty) -> tuple[np.ndarray, str, np.ndarray]:
        """Its mel [time, 80], its words, and the class of each encoder frame."""
        random = self._random
        samples, words = self._joined(difficulty)
        speed = 1.0
        if random.random() < 0.7:
            speed = random.uniform(0.85, 1.18)
            samples = soxr.resample(samples, SAMPLE_RATE, SAMPLE_RATE / speed, quality="QQ").astype(
                np.float32
            )
        if random.random() < 0.15 and difficulty.noise < 25:
            samples = self._reverberated(samples)
        level = 10 ** (-random.uniform(difficulty.noise, 50) / 20) * LEVEL
        kind = random.integers(len(self._noises))
        if kind == 3:
            level = min(level, LEVEL * 10 ** (-16 / 20))
        start = random.integers(len(self._noises[kind]) - len(samples))
        samples = samples + self._noises[kind][start : start + len(samples)] * np.float32(level)
        samples = (samples * np.float32(10 ** (random.uniform(-18, 12) / 20))).clip(-1, 1)
        stretch = round(random.uniform(0.86, 1.16), 2) if random.random() < 0.7 else 1.0
        mel = self._filters(samples, stretch, self._response())
        placed = [(w, int(start / speed), int(end / speed)) for w, start, end in words]
        return mel, " ".join(word for word, _, _ in words), frame_classes(len(samples), placed)

    def _reverberated(self, samples: np.ndarray) -> np.ndarray:
        count = int(SAMPLE_RATE * self._random.uniform(0.1, 0.3))
        response = self._random.standard_normal(count) * np.exp(-5 * np.arange(count) / count)
        response *= 1 / np.sqrt((response**2).sum())
        response[0] += self._random.uniform(1, 4)
        size = 1 << (len(samples) + count - 1).bit_length()
        wet = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(response, size), size)[: len(samples)]
        return levelled(wet) * np.float32(np.sqrt((samples**2).mean()) / LEVEL)

    def _response(self) -> np.ndarray:
        """A microphone's and a line's gain in power at each of 257 frequencies."""
        random = self._random
        knots = random.uniform(-6, 6, 6) if random.random() < 0.6 else np.zeros(6)
        bins = np.linspace(0, 8000, 257)
        decibels = np.interp(bins, (0, 500, 1200, 2500, 4000, 8000), knots)
        if random.random() < 0.35:
            decibels = decibels - 60 * np.clip((bins - random.uniform(3300, 3900)) / 400, 0, 1)
        if random.random() < 0.2:
            decibels = decibels - 30 * np.clip(1 - bins / random.uniform(100, 350), 0, 1)
        return (10 ** (decibels / 10)).astype(np.float32)

    def batches(self, size: int, difficulty: Difficulty, count: int) -> list[Batch]:
        """`count` batches of `size` utterances, those of like length together."""
        made = [self.one(difficulty) for _ in range(size * count)]
        made.sort(key=lambda utterance: len(utterance[0]))
        places = self._random.permutation(count)
        return [padded(made[place * size : (place + 1) * size]) for place in places]


def padded(utterances: list[tuple[np.ndarray, str, np.ndarray]]) -> Batch:
    longest = max(len(mel) for mel, _, _ in utterances)
    mels = np.zeros((len(utterances), longest, utterances[0][0].shape[1]), np.float32)
    frames = np.full((len(utterances), longest // 8 + 2), UNSURE, np.int64)
    for row, (mel, _, classes) in enumerate(utterances):
        mels[row, : len(mel)] = mel
        frames[row, : len(classes)] = classes
    lengths = np.array([len(mel) for mel, _, _ in utterances])
    return Batch(mels, lengths, [words for _, words, _ in utterances], frames)


def frame_classes(samples: int, words: Words) -> np.ndarray:
    """A word's class in its later half and one frame on; silence away from all words; else unsure."""
    classes = np.full(samples // FRAME + 1, SILENCE, np.int64)
    times = np.arange(len(classes)) * FRAME
    if any(end <= 0 for _, _, end in words):
        return np.full_like(classes, UNSURE)
    for _, start, end in words:
        classes[(times >= start - FRAME // 2) & (times <= end + 2 * FRAME)] = UNSURE
    for word, start, end in words:
        classes[(times >= (start + end) / 2) & (times <= end + FRAME)] = NUMBER[word]
    return classes


def _by_voice(clips: list[Clip]) -> list[list[Clip]]:
    voices: defaultdict[str, list[Clip]] = defaultdict(list)
    for clip in clips:
        voices[clip.voice].append(clip)
    return list(voices.values())
