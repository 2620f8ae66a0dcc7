"""Writes a Whisper checkpoint as GGUF: the one place that knows the schema of our model files."""

from pathlib import Path

import gguf

from .alignment import default_alignment_heads
from .checkpoint import Checkpoint, Stack, tensor_shapes
from .file_types import FileType
from .gguf_write import write_gguf
from .mel_filters import FILTERBANKS, mel_filters_tensor
from .progress import Progress
from .suppression import begin_suppressed_tokens, suppressed_tokens

ARCHITECTURE = "whisper"
_FFT_LENGTH = 400


def write(checkpoint: Checkpoint, target: Path, name: str, chosen: FileType, progress: Progress) -> None:
    """Writes ``checkpoint`` to ``target`` as a file of the ``chosen`` type; ``name`` is stored in it. Blocks.

    Raises ModelError where the checkpoint is incomplete or damaged, or ``target`` cannot be written.
    """
    checkpoint.require_sound()
    bands = checkpoint.sizes.mel_bands
    tensors = {FILTERBANKS[ARCHITECTURE]: mel_filters_tensor(bands, _FFT_LENGTH)}
    tensors |= {key: checkpoint.tensors[key] for key in tensor_shapes(checkpoint.sizes)}

    def add_metadata(writer: gguf.GGUFWriter) -> None:
        writer.add_name(name)
        _add_sizes(writer, checkpoint)
        _add_tokens(writer, checkpoint)

    write_gguf(target, ARCHITECTURE, add_metadata, tensors, chosen, progress)


def _add_sizes(writer: gguf.GGUFWriter, checkpoint: Checkpoint) -> None:
    sizes = checkpoint.sizes
    writer.add_uint32("whisper.vocab_size", sizes.vocab_size)
    writer.add_uint32("whisper.mel_bands", sizes.mel_bands)
    _add_stack(writer, "encoder", sizes.encoder)
    _add_stack(writer, "decoder", sizes.decoder)
    heads = checkpoint.alignment_heads or default_alignment_heads(sizes)
    writer.add_array("whisper.alignment_heads", [number for pair in heads for number in pair])


def _add_stack(writer: gguf.GGUFWriter, name: str, stack: Stack) -> None:
    writer.add_uint32(f"whisper.{name}.context_length", stack.context_length)
    writer.add_uint32(f"whisper.{name}.embedding_length", stack.embedding_length)
    writer.add_uint32(f"whisper.{name}.block_count", stack.block_count)
    writer.add_uint32(f"whisper.{name}.head_count", stack.head_count)
    writer.add_uint32(f"whisper.{name}.feed_forward_length", stack.feed_forward_length)


def _add_tokens(writer: gguf.GGUFWriter, checkpoint: Checkpoint) -> None:
    layout, ordinary = checkpoint.layout, checkpoint.ordinary_tokens
    suppressed, suppressed_at_start = checkpoint.suppress_tokens, checkpoint.begin_suppress_tokens
    if suppressed is None:
        suppressed = suppressed_tokens(ordinary, layout)
    if suppressed_at_start is None:
        suppressed_at_start = begin_suppressed_tokens(ordinary, layout)
    # GGUF's writer leaves empty arrays out: no "whisper.languages" is how an English-only model shows.
    writer.add_array("whisper.suppress_tokens", suppressed)
    writer.add_array("whisper.begin_suppress_tokens", suppressed_at_start)
    writer.add_array("whisper.languages", layout.languages())
    for role, number in layout.special_ids().items():
        writer.add_uint32(f"whisper.token.{role}", number)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*ordinary, *layout.special_names()])
