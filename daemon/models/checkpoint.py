"""A Whisper checkpoint in memory: what every source format is read into and the GGUF file is written from."""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from .errors import REMEDY, ModelError
from .tensor import Tensor
from .vocabulary import CHARACTER_OF_BYTE, VocabularyLayout, layout_of

_MAX_BLOCKS = 1024


@dataclass(frozen=True)
class Stack:
    """Sizes of the encoder or the decoder."""

    context_length: int
    embedding_length: int
    block_count: int
    head_count: int
    feed_forward_length: int


@dataclass(frozen=True)
class Sizes:
    """All hyper-parameters of a Whisper model."""

    vocab_size: int
    mel_bands: int
    encoder: Stack
    decoder: Stack


@dataclass(frozen=True)
class Checkpoint:
    """A model as its source tells it. Tensors have OpenAI's names."""

    path: Path
    """Where it came from, for error messages."""
    sizes: Sizes
    ordinary_tokens: list[str]
    """In GPT-2's byte alphabet, in the order of their numbers; special tokens are left out."""
    tensors: Mapping[str, Tensor]
    suppress_tokens: list[int] | None = None
    """None: the source does not say."""
    begin_suppress_tokens: list[int] | None = None
    alignment_heads: list[tuple[int, int]] | None = None
    """(layer, head) pairs of the decoder's cross-attention."""

    @property
    def layout(self) -> VocabularyLayout:
        """The vocabulary's layout. Raises ModelError where no Whisper vocabulary has this size."""
        return layout_of(self.sizes.vocab_size, self.path)

    def require_sound(self) -> None:
        """Raises ModelError where sizes, tokens, heads and tensors do not belong together."""
        _require_sizes(self)
        heads = self.alignment_heads or ()
        decoder = self.sizes.decoder
        if any(layer >= decoder.block_count or head >= decoder.head_count for layer, head in heads):
            raise ModelError(self.path, "lists alignment heads that the model does not have", REMEDY)
        suppressed = [*(self.suppress_tokens or ()), *(self.begin_suppress_tokens or ())]
        if any(token >= self.sizes.vocab_size for token in suppressed):
            raise ModelError(self.path, "suppresses tokens that the model does not have", REMEDY)
        _require_tokens(self)
        for name, shape in tensor_shapes(self.sizes).items():
            if name not in self.tensors:
                raise ModelError(self.path, f"lacks the tensor {name}", REMEDY)
            if self.tensors[name].shape != shape:
                fault = f"has {name} with the shape {list(self.tensors[name].shape)} instead of {list(shape)}"
                raise ModelError(self.path, fault, REMEDY)


def _require_sizes(checkpoint: Checkpoint) -> None:
    sizes = checkpoint.sizes
    numbers = [sizes.vocab_size, sizes.mel_bands, *astuple(sizes.encoder), *astuple(sizes.decoder)]
    if min(numbers) <= 0:
        raise ModelError(checkpoint.path, f"has sizes that are not positive ({sizes})", REMEDY)
    if max(sizes.encoder.block_count, sizes.decoder.block_count) > _MAX_BLOCKS:
        raise ModelError(checkpoint.path, f"has more than {_MAX_BLOCKS} blocks", REMEDY)
    for stack in (sizes.encoder, sizes.decoder):
        if stack.embedding_length % stack.head_count:
            fault = f"has {stack.head_count} heads for a width of {stack.embedding_length}, not a multiple"
            raise ModelError(checkpoint.path, fault, REMEDY)


def _require_tokens(checkpoint: Checkpoint) -> None:
    tokens, count = checkpoint.ordinary_tokens, checkpoint.layout.ordinary_count
    if len(tokens) != count:
        raise ModelError(checkpoint.path, f"has {len(tokens)} ordinary tokens instead of {count}", REMEDY)
    alphabet = set(CHARACTER_OF_BYTE.values())
    if not alphabet <= set(tokens) or not alphabet >= set("".join(tokens)):
        raise ModelError(checkpoint.path, "has tokens that are not in GPT-2's byte alphabet", REMEDY)


def tensor_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a model, in the order in which files store them."""
    width = sizes.encoder.embedding_length
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.conv1.weight": (width, sizes.mel_bands, 3),
        "encoder.conv1.bias": (width,),
        "encoder.conv2.weight": (width, width, 3),
        "encoder.conv2.bias": (width,),
        "encoder.positional_embedding": (sizes.encoder.context_length, width),
    }
    shapes.update(_block_shapes("encoder", sizes.encoder, cross_width=None))
    shapes.update(_vector_pair("encoder.ln_post", width))
    width = sizes.decoder.embedding_length
    shapes["decoder.token_embedding.weight"] = (sizes.vocab_size, width)
    shapes["decoder.positional_embedding"] = (sizes.decoder.context_length, width)
    shapes.update(_block_shapes("decoder", sizes.decoder, cross_width=sizes.encoder.embedding_length))
    shapes.update(_vector_pair("decoder.ln", width))
    return shapes


def _block_shapes(
    stack_name: str, stack: Stack, cross_width: int | None
) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = stack.embedding_length, stack.feed_forward_length
    for index in range(stack.block_count):
        block = f"{stack_name}.blocks.{index}"
        yield from _attention_shapes(f"{block}.attn", width, width)
        if cross_width is not None:
            yield from _attention_shapes(f"{block}.cross_attn", width, cross_width)
        yield from _vector_pair(f"{block}.mlp_ln", width)
        yield f"{block}.mlp.0.weight", (inner, width)
        yield f"{block}.mlp.0.bias", (inner,)
        yield f"{block}.mlp.2.weight", (width, inner)
        yield f"{block}.mlp.2.bias", (width,)


def _attention_shapes(name: str, width: int, source_width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _vector_pair(f"{name}_ln", width)
    yield f"{name}.query.weight", (width, width)
    yield f"{name}.query.bias", (width,)
    yield f"{name}.key.weight", (width, source_width)
    yield f"{name}.value.weight", (width, source_width)
    yield f"{name}.value.bias", (width,)
    yield f"{name}.out.weight", (width, width)
    yield f"{name}.out.bias", (width,)


def _vector_pair(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)
