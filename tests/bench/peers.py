"""Offline speed, peak memory and word error rate of our engine beside others, on the same clips and weights.

    python -m tests.bench.peers --threads 2 stenod:base-f16.gguf stenod:base-q8_0.gguf \\
        whisper.cpp:ggml-base-f16.bin faster-whisper-int8:ct2-base faster-whisper-float32:ct2-base

Each system runs in a child process of its own, all of them in turn, several times over; shown are medians.
"""

from collections.abc import Sequence
from statistics import median

from ..recordings import Recording, manifest
from .common import parser
from .scoring import Score
from .systems import Job, Outcome, run


def choose(count: int) -> list[Recording]:
    """So many clips of read English with a trusted reference, spread over the speakers."""
    read = [clip for clip in manifest() if clip.folder == "en_read" and clip.reference and not clip.doubtful]
    return read[:: max(1, len(read) // count)][:count]


def word_error_rate(clips: Sequence[Recording], outcome: Outcome) -> float:
    score = Score()
    for clip in clips:
        score.add(clip.reference, outcome.texts[clip.path], clip.language)
    return score.percent


def report(clips: Sequence[Recording], outcomes: dict[str, list[Outcome]]) -> str:
    """A table: real-time factor, memory, errors, speed as a multiple of the others'; then where time goes."""
    audio = sum(clip.duration for clip in clips)
    factors = {name: median(run.seconds for run in runs) / audio for name, runs in outcomes.items()}
    names = list(outcomes)
    lines = [
        "| | real-time factor | peak MB | WER % | " + " | ".join(f"times {name}" for name in names) + " |",
        "|---" * (4 + len(names)) + "|",
    ]
    for name, runs in outcomes.items():
        memory = median(run.peak_bytes for run in runs) / 1e6
        ratios = " | ".join(f"{factors[other] / factors[name]:.2f}" for other in names)
        errors = word_error_rate(clips, runs[0])
        lines.append(f"| {name} | {factors[name]:.3f} | {memory:.0f} | {errors:.2f} | {ratios} |")
    for name, runs in outcomes.items():
        stages = {stage: median(run.stages[stage] for run in runs) for stage in runs[0].stages}
        total = median(run.seconds for run in runs)
        if stages:
            shares = ", ".join(f"{stage} {100 * seconds / total:.0f} %" for stage, seconds in stages.items())
            lines += ["", f"{name}: {shares}"]
    return "\n".join(lines)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("systems", nargs="+", metavar="KIND:PATH", help="see tests/bench/systems.py")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--clips", type=int, default=13)
    arguments = options.parse_args()
    clips = choose(arguments.clips)
    job = Job([(clip.path, clip.language) for clip in clips], arguments.threads, warm_up=True)
    outcomes: dict[str, list[Outcome]] = {system: [] for system in arguments.systems}
    for turn in range(arguments.rounds):
        order = arguments.systems if turn % 2 == 0 else reversed(arguments.systems)
        for system in order:
            outcomes[system].append(run(system, job))
            print(f"round {turn + 1}: {system}: {outcomes[system][-1].seconds:.1f} s", flush=True)
    print(report(clips, outcomes))


if __name__ == "__main__":
    main()
