"""Writes data/sentence_pieces.gguf: vocabularies as SentencePiece trains them, and texts as it splits them.

Needs numpy, gguf and sentencepiece::

    python make_sentence_pieces.py
"""

import io
from pathlib import Path

import gguf
import sentencepiece

HERE = Path(__file__).parent
TEXTS = [
    "turn on the lights",
    "Transcribe  the\tmicrophone, then stop.",
    "stop stopped stopping",
    "aaaa bbbb aaabbb",
    "a",
    "the daemon's text: 1234 words!",
    "größere Übung",
    "unknown 漢",
]


def main() -> None:
    sentences = (HERE.parent.parent / "README.md").read_text(encoding="utf-8").splitlines()
    writer = gguf.GGUFWriter(HERE / "data" / "sentence_pieces.gguf", "test")
    writer.add_array("texts", TEXTS)
    for kind in ("bpe", "unigram"):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([*sentences, *TEXTS[:-1]]),
            model_writer=model,
            model_type=kind,
            vocab_size=300,
            character_coverage=1.0,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        ids = range(processor.get_piece_size())
        writer.add_array(f"{kind}.pieces", [processor.id_to_piece(i) for i in ids] + ["<blank>"])
        writer.add_array(f"{kind}.scores", [processor.get_score(i) for i in ids] + [0.0])
        split = [processor.encode(text) for text in TEXTS]
        writer.add_array(f"{kind}.ids", [number for numbers in split for number in numbers])
        writer.add_array(f"{kind}.ids.lengths", [len(numbers) for numbers in split])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
