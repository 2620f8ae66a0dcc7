"""Which cross-attention heads follow the audio closely enough to give word times.

OpenAI found them by hand for its own models. Sources that list
them are believed; this table serves the others.
"""

from .checkpoint import Sizes

_KNOWN_HEADS = {
    # (vocabulary, decoder blocks, width): "layer.head ..."
    (51864, 4, 384): "1.0 2.0 2.5 3.0 3.1 3.2 3.3 3.4",
    (51865, 4, 384): "2.2 3.0 3.2 3.3 3.4 3.5",
    (51864, 6, 512): "3.3 4.7 5.1 5.5 5.7",
    (51865, 6, 512): "3.1 4.2 4.3 4.7 5.1 5.2 5.4 5.6",
    (51864, 12, 768): "6.6 7.0 7.3 7.8 8.2 8.5 8.7 9.0 9.4 9.8 9.10 10.0 10.1 10.2 10.3 10.6 10.11 11.2 11.4",
    (51865, 12, 768): "5.3 5.9 8.0 8.4 8.7 8.8 9.0 9.7 9.9 10.5",
    (51864, 24, 1024): "11.4 14.1 14.12 14.14 15.4 16.0 16.4 16.9 17.12 17.14 18.7 18.10 18.15 20.0 20.3 "
    "20.9 20.14 21.12",
    (51865, 24, 1024): "13.15 15.4 15.15 16.1 20.0 23.4",
    (51866, 32, 1280): "7.0 10.17 12.18 13.12 16.1 17.14 19.11 21.4 24.1 25.6",
    (51866, 4, 1280): "2.4 2.11 3.3 3.6 3.11 3.14",
}


def default_alignment_heads(sizes: Sizes) -> list[tuple[int, int]]:
    """(layer, head) pairs; for a model that the table does not know, all heads of the upper half."""
    decoder = sizes.decoder
    known = _KNOWN_HEADS.get((sizes.vocab_size, decoder.block_count, decoder.embedding_length))
    if known is None:
        upper = range(decoder.block_count // 2, decoder.block_count)
        return [(layer, head) for layer in upper for head in range(decoder.head_count)]
    return [(int(layer), int(head)) for layer, head in (pair.split(".") for pair in known.split())]
