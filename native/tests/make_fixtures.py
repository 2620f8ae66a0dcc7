"""Writes data/golden.gguf: what reference implementations give for inputs of the native tests.

Needs numpy, gguf, torch, transformers and tokenizers, and the ``tokenizer.json`` of an English-only Whisper
(that of whisper-base lacks the first merge, "Ġ t", and so encodes otherwise than OpenAI's own tokenizer)::

    python make_fixtures.py TOKENIZER_JSON
"""

# ruff: noqa: RUF001 (ambiguous characters are what the texts are for)
import json
import sys
import zlib
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import WhisperFeatureExtractor, WhisperTokenizer
from transformers.generation.logits_process import (
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    WhisperTimeStampLogitsProcessor,
)
from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter
from transformers.models.whisper.tokenization_whisper import _combine_tokens_into_words

RANDOM = np.random.default_rng(2024)

TEXTS = [
    "",
    " Hello, world! It's 5 o'clock; we're late, aren't we? They'll say I'd've done it.",
    'HELLO\'S "quoted" (paren) [x] {y} <z> -- 3.14 100% $5 C++ e-mail: a.b@c.de http://a.b/c?d=e',
    "  two  spaces   three\n\nlines\r\n\ttab \u00a0nbsp \u3000wide ",
    " Über den Straßen fließt größere Kälte. Ça va, naïve señor ñandú? Łódź, Dvořák, İstanbul.",
    " Съешь же ещё этих мягких французских булок, да выпей чаю.",
    " Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    " قلم سریع مرحبا بالعالم، كيف حالك؟ שלום עולם",
    "こんにちは、世界。「東京」は１２３です！",
    "我能吞下玻璃而不伤身体，〇一二。",
    "안녕하세요 세계. 키스의 고유조건은",
    "สวัสดีชาวโลก ຍິນດີຕ້ອນຮັບ မင်္ဂလာပါ",
    " नमस्ते दुनिया, वाक्य १२३।",
    " emoji 👩‍👩‍👧 😀🎉 ♪♪ ♫ — “dashes” … ‘single’ «guillemets» ¿qué? ¡sí!",
    "e\u0301 combining, \u200bzero width, \ufffd replacement, 𝒜𝟘 plane 1, Ⅻ ² ½ ٣",
    "'s 't 'LL '' don''t '",
    "a" * 40 + " " * 10 + "b",
]


def add_lists(writer: gguf.GGUFWriter, name: str, lists: list[list[int]]) -> None:
    """Runs of numbers as one array, and their lengths."""
    add_numbers(writer, name, [number for numbers in lists for number in numbers])
    add_numbers(writer, name + ".lengths", [len(numbers) for numbers in lists])


def add_numbers(writer: gguf.GGUFWriter, name: str, numbers: list[int]) -> None:
    writer.add_array(name, [int(number) for number in numbers])


def add_mel(writer: gguf.GGUFWriter) -> None:
    """Windows of a glide through noise that falls silent and comes back."""
    extractor = WhisperFeatureExtractor(feature_size=20)
    time = np.arange(17000) / 16000
    samples = 0.5 * np.sin(2 * np.pi * (100 + 3000 * time) * time) + 0.01 * RANDOM.standard_normal(time.size)
    samples[9000:11000] = 0
    samples = samples.astype(np.float32)
    # Also audio that reaches into the last frame, ends with the window, or is shorter than half a frame.
    cases = [
        (17000, 120),
        (8000, 100),
        (8000, 50),
        (7993, 50),
        (7961, 50),
        (150, 10),
        (201, 10),
        (1, 3),
        (360, 10),
    ]
    writer.add_tensor("mel.samples", samples)
    writer.add_tensor("mel.filters", np.ascontiguousarray(extractor.mel_filters.T.astype(np.float32)))
    add_numbers(writer, "mel.cases", [number for case in cases for number in case])
    for index, (count, frames) in enumerate(cases):
        padded = np.zeros(frames * 160)
        padded[:count] = samples[:count]
        expected = extractor._np_extract_fbank_features(padded[None], "cpu")[0]
        writer.add_tensor(f"mel.window.{index}", np.ascontiguousarray(expected.astype(np.float32)))


def reduced_vocabulary(vocabulary: dict[str, int], texts: list[str], reference: Tokenizer) -> list[int]:
    """Ids of the byte tokens and of every token that encoding ``texts`` could meet.

    Merges among only these give the same result as among all.
    """
    kept = {identifier for token, identifier in vocabulary.items() if len(token) == 1}
    for text in texts:
        for piece, _ in reference.pre_tokenizer.pre_tokenize_str(text):
            parts = list(piece)
            while len(parts) > 1:
                pairs = [vocabulary.get(left + right) for left, right in pairwise(parts)]
                found = [identifier for identifier in pairs if identifier is not None]
                kept.update(found)
                if not found:
                    break
                place = pairs.index(min(found))
                parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return sorted(kept)


def add_tokenizer(writer: gguf.GGUFWriter, path: Path) -> None:
    reference = Tokenizer.from_file(str(path))
    vocabulary: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    texts = [*TEXTS, " the", "the", "re.", ' He said "yes", (twice).']
    ids = [reference.encode(text, add_special_tokens=False).ids for text in texts]
    kept = reduced_vocabulary(
        {t: i for t, i in vocabulary.items() if not t.startswith("<|")}, texts, reference
    )
    spelling = {identifier: token for token, identifier in vocabulary.items()}
    number = {identifier: index for index, identifier in enumerate(kept)}
    writer.add_array("tokenizer.tokens", [spelling[identifier] for identifier in kept] + ["<|endoftext|>"])
    writer.add_uint32("tokenizer.first_special", len(kept))
    writer.add_array("tokenizer.texts", texts)
    add_lists(writer, "tokenizer.ids", [[number[identifier] for identifier in run] for run in ids])
    tokenizer = WhisperTokenizer.from_pretrained(str(path.parent))
    for code, language in (("en", "english"), ("ja", "japanese")):
        words = [_combine_tokens_into_words(tokenizer, run, language)[2] if run else [] for run in ids]
        add_lists(writer, f"words.{code}", [[len(indices) for indices in word] for word in words])


def add_alignment(writer: gguf.GGUFWriter) -> None:
    shapes = [(4, 12, 50, 60), (2, 20, 9, 12), (3, 3, 3, 3), (3, 6, 4, 4), (1, 2, 40, 40)]
    add_lists(writer, "alignment.shapes", [list(shape) for shape in shapes])
    for index, (heads, rows, frames, stride) in enumerate(shapes):
        centres = np.sort(RANDOM.random(rows)) * frames
        peaks = np.exp(-0.5 * ((np.arange(stride)[None] - centres[:, None]) / 2) ** 2)
        weights = (peaks + 0.3 * RANDOM.random((heads, rows, stride))).astype(np.float32)
        weights /= weights.sum(-1, keepdims=True)
        heard = torch.from_numpy(weights[:, :, :frames])
        heard = (heard - heard.mean(-2, keepdim=True)) / heard.std(-2, keepdim=True, unbiased=False)
        matrix = _median_filter(heard[None], 7).mean(1)[0]
        text, time = _dynamic_time_warping(-matrix.double().numpy())
        starts = time[np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)] * 0.02
        writer.add_tensor(f"alignment.weights.{index}", weights)
        writer.add_tensor(f"alignment.starts.{index}", starts.astype(np.float32))


def add_rules(writer: gguf.GGUFWriter) -> None:
    """A small vocabulary: 290 text tokens, end of text, 9 control tokens, 80 timestamps."""
    eot, no_timestamps, vocab_size, prompt = 290, 299, 380, 3
    begin = no_timestamps + 1
    suppress, begin_suppress = [1, 7, 8, 250], [20, eot]
    config = SimpleNamespace(
        no_timestamps_token_id=no_timestamps,
        eos_token_id=eot,
        bos_token_id=eot,
        max_initial_timestamp_index=50,
    )
    processors = [
        SuppressTokensAtBeginLogitsProcessor(begin_suppress, prompt),
        SuppressTokensLogitsProcessor([*suppress, *range(eot + 1, begin)]),
        WhisperTimeStampLogitsProcessor(config, prompt),
    ]
    sampled = [
        [], [], [5], [begin], [begin + 50], [begin, 5], [begin, 5, 6], [begin, 5, begin + 9], [5, begin + 9],
        [begin, 5, begin + 9, begin + 9], [begin, 5, begin + 9, begin + 12], [begin, begin], [5, 6, 7],
        [begin, 5, begin + 9, begin + 9, 6, 7], [begin, 5, begin + 79],
    ]  # fmt: skip
    cases = [(sequence, boost) for sequence in sampled for boost in (-5.0, 2.0)]
    logits = RANDOM.normal(0, 2, (len(cases), vocab_size)).astype(np.float32)
    for row, (_, boost) in zip(logits, cases, strict=True):
        row[begin:] += boost
    expected = []
    for row, (sequence, _) in zip(logits, cases, strict=True):
        scores = torch.from_numpy(row.copy())[None]
        for processor in processors:
            scores = processor(torch.tensor([[eot + 1] * prompt + sequence]), scores)
        scores[:, eot + 1 : begin] = -torch.inf
        expected.append(scores[0].numpy())
    writer.add_uint32("rules.vocab_size", vocab_size)
    writer.add_uint32("rules.eot", eot)
    writer.add_uint32("rules.timestamp_begin", begin)
    add_numbers(writer, "rules.suppress", suppress)
    add_numbers(writer, "rules.begin_suppress", begin_suppress)
    add_lists(writer, "rules.sampled", [sequence for sequence, _ in cases])
    writer.add_tensor("rules.logits", logits)
    writer.add_tensor("rules.expected", np.stack(expected))
    texts = ["a", " Thank you." * 20, TEXTS[1], TEXTS[8] * 3]
    ratios = [len(text.encode()) / len(zlib.compress(text.encode())) for text in texts]
    writer.add_array("rules.texts", texts)
    writer.add_tensor("rules.compression_ratios", np.array(ratios, np.float32))


def main() -> None:
    writer = gguf.GGUFWriter(Path(__file__).parent / "data" / "golden.gguf", "test")
    add_mel(writer)
    add_tokenizer(writer, Path(sys.argv[1]))
    add_alignment(writer)
    add_rules(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
