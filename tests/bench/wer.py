"""Word error rates of several systems over the recordings folder, pooled per folder, as a table.

    python -m tests.bench.wer stenod:whisper-base-f16.gguf faster-whisper-float32:ct2-base --compare

Texts are kept in ``--results``, a file a system: a rerun transcribes only what is missing there.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ..recordings import Recording, manifest
from .common import parser
from .scoring import BY_CHARACTER, Score, differences
from .systems import Job, run

READ_AND_SPOKEN = ("en_read", "en_long", "en_conv", "telephone_8k", "en_short")
ENGLISH = "English"
BATCH = 20
"""Recordings transcribed before their texts are stored."""
Texts = dict[str, str]


def is_scored(clip: Recording) -> bool:
    """Speech with a trusted reference; isolated letters and digits are judged elsewhere."""
    folders = (*READ_AND_SPOKEN, "multi", "synth_small")
    spoken = clip.folder in folders and "alphanumeric" not in clip.path
    return spoken and bool(clip.reference) and not clip.doubtful


def group_of(clip: Recording) -> str:
    """The row of the table that a recording belongs to."""
    if clip.language != "en":
        return f"{clip.language} (characters)" if clip.language in BY_CHARACTER else clip.language
    return clip.folder


def transcribe_missing(system: str, clips: Sequence[Recording], store: Path, threads: int) -> Texts:
    """The system's text of every clip; what was transcribed is added to ``store``."""
    texts: Texts = json.loads(store.read_text()) if store.exists() else {}
    missing = [(clip.path, clip.language) for clip in clips if clip.path not in texts]
    for start in range(0, len(missing), BATCH):
        print(f"{system}: {len(missing) - start} recordings to go", file=sys.stderr)
        texts |= run(system, Job(missing[start : start + BATCH], threads)).texts
        store.write_text(json.dumps(texts, ensure_ascii=False, indent=0))
    return texts


def table(clips: Sequence[Recording], texts: dict[str, Texts]) -> str:
    """One row a folder or language, and one for all the English together; one column a system; per cent."""
    scores: dict[str, dict[str, Score]] = defaultdict(lambda: {name: Score() for name in texts})
    for clip in clips:
        groups = [group_of(clip), ENGLISH] if clip.folder in READ_AND_SPOKEN else [group_of(clip)]
        for group in groups:
            for name, told in texts.items():
                scores[group][name].add(clip.reference, told[clip.path], clip.language)
    order = [*READ_AND_SPOKEN, ENGLISH]
    rows = sorted(scores, key=lambda group: (order.index(group) if group in order else len(order), group))
    lines = ["| | words | " + " | ".join(texts) + " |", "|---" * (len(texts) + 2) + "|"]
    for group in rows:
        cells = [f"{score.percent:.2f}" for score in scores[group].values()]
        words = next(iter(scores[group].values())).words
        lines.append(f"| {group} | {words} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def print_differences(clips: Sequence[Recording], first: Texts, second: Texts) -> None:
    """Every stretch of words in which two systems differ."""
    for clip in clips:
        for left, right in differences(first[clip.path], second[clip.path], clip.language):
            print(f"{clip.path}: {' '.join(left) or '-'} | {' '.join(right) or '-'}")


def store_of(results: Path, system: str) -> Path:
    kind, _, model = system.partition(":")
    return results / f"{kind}-{Path(model).stem}.json"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("systems", nargs="+", metavar="KIND:PATH", help="see tests/bench/systems.py")
    options.add_argument("--results", type=Path, default=Path("build/bench"), help="where texts are kept")
    options.add_argument("--compare", action="store_true", help="list where the first two systems differ")
    arguments = options.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    clips = [clip for clip in manifest() if is_scored(clip)]
    texts = {}
    for system in arguments.systems:
        store = store_of(arguments.results, system)
        texts[store.stem] = transcribe_missing(system, clips, store, arguments.threads)
    print(table(clips, texts))
    if arguments.compare:
        print_differences(clips, *list(texts.values())[:2])


if __name__ == "__main__":
    main()
