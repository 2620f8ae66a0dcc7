"""The tokens that Whisper must not emit, for checkpoints that do not list them.

OpenAI's rule: symbols that annotate rather than transcribe, each alone and after a space, and the special
tokens that only ever stand in a prompt.
"""

from collections.abc import Sequence

from .vocabulary import VocabularyLayout, encode_bytes

_CHARACTERS = '"#()*+/:;<=>@[\\]^_`{|}~「」『』'
_GROUPS = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
_MUSIC = "♩♪♫♬♭♮♯"
_PROMPT_ROLES = ("sot", "translate", "transcribe", "sot_lm", "sot_prev", "no_speech")


def suppressed_tokens(ordinary_tokens: Sequence[str], layout: VocabularyLayout) -> list[int]:
    """Numbers of the tokens never to emit, ascending."""
    ranks = {token: rank for rank, token in enumerate(ordinary_tokens)}
    found = {_split(ranks, " -")[0], _split(ranks, " '")[0]}
    for symbol in [*_CHARACTERS, *_GROUPS.split(), *_MUSIC]:
        for text in (symbol, " " + symbol):
            tokens = _split(ranks, text)
            if len(tokens) == 1 or symbol in _MUSIC:
                found.add(tokens[0])
    special = layout.special_ids()
    found.update(special[role] for role in _PROMPT_ROLES)
    return sorted(found)


def begin_suppressed_tokens(ordinary_tokens: Sequence[str], layout: VocabularyLayout) -> list[int]:
    """Numbers of the tokens never to begin with: a space alone, and the end."""
    return [ordinary_tokens.index(encode_bytes(b" ")), layout.end_of_text]


def _split(ranks: dict[str, int], text: str) -> list[int]:
    """Byte-pair encoding of a short text: adjacent parts are joined, the lowest rank first."""
    parts = list(encode_bytes(text.encode()))
    while len(parts) > 1:
        pairs = [parts[at] + parts[at + 1] for at in range(len(parts) - 1)]
        best = min(range(len(pairs)), key=lambda at: ranks.get(pairs[at], len(ranks)))
        if pairs[best] not in ranks:
            break
        parts[best : best + 2] = [pairs[best]]
    return [ranks[part] for part in parts]
