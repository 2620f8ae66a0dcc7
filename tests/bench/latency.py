"""How long after it was said each word is shown, and how long until it is committed.

Clips are played in real time over the websocket to a daemon that this script starts.

    python -m tests.bench.latency whisper-base-f16.gguf [RECORDING...]

Words and their times are those of our own offline run of the clip; see ``live.py`` for what counts as shown.
"""

import asyncio

from ..recordings import load
from .common import parser
from .daemon import play, serving
from .live import Report, figures, judge
from .offline import timed_words

CLIPS = (
    "en_long/sonnet_001.flac",
    "en_long/sonnet_002.flac",
    "en_conv/mfa_acoustic_corpus.flac",
    "en_conv/mfa_cold_corpus.flac",
    "telephone_8k/en/screen-callee-options.flac",
    "en_read/jfk.flac",
)
HEADER = "| | words | mean | p50 | p95 | p99 | never |\n|---|---|---|---|---|---|---|"


def show(report: Report, overloads: int) -> None:
    """Prints the tables of all clips together."""
    print(HEADER)
    print(f"| appearance | {report.words} | {figures(report.appearance)} | {report.never_appeared} |")
    print(f"| commitment | {report.words} | {figures(report.commitment)} | {report.never_committed} |")
    print(f"| final after its endpoint | | {figures(report.final_delays)} | |")
    print(f"\nwords revised per word: {report.revised / max(1, report.words):.2f}")
    print(f"committed words revised: {report.committed_revised}; overloads told: {overloads}")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("model", help="GGUF file")
    options.add_argument("clips", nargs="*", default=CLIPS, metavar="RECORDING")
    options.add_argument("--language", default="en")
    arguments = options.parse_args()
    references = timed_words(arguments.model, arguments.clips, arguments.language, arguments.threads)
    total, overloads = Report(), 0
    with serving(arguments.model, arguments.threads) as address:
        for clip, words in references.items():
            played = asyncio.run(play(address, load(clip), arguments.language, real_time=True))
            report = judge(played.moments, words)
            report.final_delays = played.final_delays
            print(f"{clip}: shown p50 {figures(report.appearance).split(' | ')[1]} s", flush=True)
            total += report
            overloads += played.overloads
    show(total, overloads)


if __name__ == "__main__":
    main()
