"""Writes a Parakeet checkpoint as GGUF: the one place that knows the schema of our Parakeet files.

The schema is transcribe.cpp's, so that files can be shared, and adds the filterbank. Keys, ``u`` for uint32,
``i`` for int32, ``f`` for float32, ``s`` for string, ``b`` for bool, ``[]`` for an array of them:

    general.architecture s "parakeet"; general.name s; general.file_type u
    general.languages s[]                          ISO codes; absent where the source does not tell
    stt.variant s                                  the model's name
    stt.capability.streaming b                     whether the encoder was trained to attend in chunks
    stt.parakeet.head_kind s                       "tdt", "rnnt" or "ctc"

    stt.parakeet.encoder.n_layers, d_model, n_heads, d_ff, conv_kernel u
    stt.parakeet.encoder.subsampling_factor u      8
    stt.parakeet.encoder.subsampling_channels u
    stt.parakeet.encoder.pos_emb_max_len u         limits nothing: positions are computed
    stt.parakeet.encoder.use_bias b                linear and convolution layers of the blocks have biases
    stt.parakeet.encoder.xscaling b                the subsampling's output is multiplied by sqrt(d_model)
    stt.parakeet.encoder.conv_norm_type s          "batch_norm" or "layer_norm"
    stt.parakeet.encoder.att_context_style s       "regular" or "chunked_limited"
    stt.parakeet.encoder.att_context_left, att_context_right i      frames of 80 ms; -1: all
    stt.parakeet.encoder.att_context_size_choices i[]               chunked_limited only: left, right, left,
                                                   right ..., the default first (the two keys above)
    stt.parakeet.encoder.conv_context_left, conv_context_right i    of the depthwise convolution, in frames
    stt.parakeet.encoder.streaming.pre_encode_cache_size, drop_extra_pre_encoded, sampling_frames_first i
                                                   chunked_limited only; NeMo's way of streaming, not needed
                                                   by ours

    stt.parakeet.predictor.hidden, n_layers u      absent for ctc, like all of predictor, joint and tdt
    stt.parakeet.predictor.vocab u                 with the blank: V + 1
    stt.parakeet.joint.hidden u
    stt.parakeet.joint.num_extra_outputs u         D, the number of durations; 0 for rnnt
    stt.parakeet.joint.activation s                "relu"
    stt.parakeet.tdt.durations i[]                 tdt only
    stt.parakeet.tdt.max_symbols u                 tokens at one frame; tdt and rnnt

    stt.frontend.type s "mel"; stt.frontend.window s "hann" (symmetric, centred in n_fft)
    stt.frontend.num_mels, sample_rate, n_fft, win_length, hop_length u
    stt.frontend.normalize s                       "per_feature" or "none"
    stt.frontend.dither f 0; stt.frontend.pre_emphasis f 0.97; stt.frontend.f_min f 0; stt.frontend.f_max f

    tokenizer.ggml.model s "bpe"
    tokenizer.ggml.tokens s[], scores f[], token_type i[]           V + 1 of each, the last is "<blank>"
    tokenizer.ggml.unknown_token_id u              where the vocabulary has such a token
    tokenizer.ggml.blank_token_id u                V

A causal encoder is one whose style is ``chunked_limited``: then the subsampling pads 2 on the left and 1 on
the right in time and in frequency, and the depthwise convolution pads left only.

Tensors have the names and torch shapes of ``checkpoint.tensor_shapes``, outermost dimension first (ggml's
``ne`` is the reverse), and the filterbank:

    fb [num_mels, n_fft / 2 + 1]
    enc.pre_encode.conv.{0,2,5}.weight [channels, 1, 3, 3]; enc.pre_encode.conv.{3,6}.weight [channels,
      channels, 1, 1]; enc.pre_encode.conv.{0,2,3,5,6}.bias [channels]
    enc.pre_encode.out.weight [d, channels * bands that are left], channel by channel;
      enc.pre_encode.out.bias [d]
    enc.blocks.N.{norm_ff1,norm_attn,norm_conv,norm_ff2,norm_out}.{weight,bias} [d]
    enc.blocks.N.{ff1,ff2}.linear1.weight [d_ff, d]; enc.blocks.N.{ff1,ff2}.linear2.weight [d, d_ff]
    enc.blocks.N.attn.linear_{q,k,v,out,pos}.weight [d, d]
    enc.blocks.N.attn.pos_bias_{u,v} [heads, d / heads]
    enc.blocks.N.conv.pointwise1.weight [2 d, d, 1]; enc.blocks.N.conv.pointwise2.weight [d, d, 1]
    enc.blocks.N.conv.depthwise.weight [d, 1, kernel]
    enc.blocks.N.conv.bn.{weight,bias} [d]; enc.blocks.N.conv.bn.{running_mean,running_var} [d] for batch_norm
      (eps 1e-5; as trained, not folded)
    with use_bias also .bias [outputs] of ff1, ff2, attn.linear_{q,k,v,out} and conv.{pointwise1,depthwise,
      pointwise2}
    pred.embed.weight [V + 1, hidden]              the predictor starts with the last row, the blank's
    pred.lstm.N.{Wx,Wh} [4 hidden, hidden], pred.lstm.N.bias [4 hidden]     gates i, f, g, o; one bias, the
      sum of torch's two
    joint.enc.{weight,bias} [joint, d]; joint.pred.{weight,bias} [joint, hidden]
    joint.out.{weight,bias} [V + 1 + D, joint]     tokens, blank, durations
    head.ctc.weight [V + 1, d, 1]; head.ctc.bias [V + 1]            ctc, and where a transducer has such a
      head besides

Types: vectors, ``fb``, ``pos_bias_*``, ``enc.pre_encode.conv.*`` and ``conv.depthwise`` are always
f32. All other matrices have the file's type, or f16 where their rows cannot be cut into blocks of 32. In a
quantised file ``conv.pointwise*`` and ``head.ctc`` lack their last dimension: rows of one number have no
blocks.
"""

from pathlib import Path

import gguf

from ..file_types import FileType
from ..gguf_write import write_gguf
from ..mel_filters import FILTERBANKS, SAMPLE_RATE, mel_filters_tensor
from ..progress import Progress
from .checkpoint import (
    BLANK,
    FFT_LENGTH,
    HOP_LENGTH,
    PRE_EMPHASIS,
    SUBSAMPLING_FACTOR,
    WINDOW_LENGTH,
    Checkpoint,
    Encoder,
    FrontEnd,
    Transducer,
)
from .vocabulary import CONTROL, UNKNOWN

ARCHITECTURE = "parakeet"


def write(checkpoint: Checkpoint, target: Path, name: str, chosen: FileType, progress: Progress) -> None:
    """Writes ``checkpoint`` to ``target`` as a file of the ``chosen`` type; ``name`` is stored in it. Blocks.

    Raises ModelError where the checkpoint is incomplete or damaged, or ``target`` cannot be written.
    """
    checkpoint = checkpoint.sound()
    front_end = checkpoint.front_end
    tensors = {FILTERBANKS[ARCHITECTURE]: mel_filters_tensor(front_end.mel_bands, FFT_LENGTH)}
    tensors |= checkpoint.tensors

    def add_metadata(writer: gguf.GGUFWriter) -> None:
        writer.add_name(name)
        if checkpoint.languages:
            writer.add_languages(list(checkpoint.languages))
        writer.add_string("stt.variant", name)
        writer.add_bool("stt.capability.streaming", checkpoint.encoder.style != "regular")
        writer.add_string("stt.parakeet.head_kind", checkpoint.head_kind)
        _add_encoder(writer, checkpoint.encoder)
        if checkpoint.transducer:
            _add_transducer(writer, checkpoint.transducer, len(checkpoint.pieces) + 1)
        _add_front_end(writer, front_end)
        _add_vocabulary(writer, checkpoint)

    write_gguf(target, ARCHITECTURE, add_metadata, tensors, chosen, progress)


def _add_encoder(writer: gguf.GGUFWriter, encoder: Encoder) -> None:
    numbers = {
        "n_layers": encoder.block_count,
        "d_model": encoder.width,
        "n_heads": encoder.head_count,
        "d_ff": encoder.feed_forward_length,
        "conv_kernel": encoder.kernel,
        "subsampling_factor": SUBSAMPLING_FACTOR,
        "subsampling_channels": encoder.subsampling_channels,
        "pos_emb_max_len": encoder.position_limit,
    }
    for key, number in numbers.items():
        writer.add_uint32(f"stt.parakeet.encoder.{key}", number)
    writer.add_bool("stt.parakeet.encoder.use_bias", encoder.has_biases)
    writer.add_bool("stt.parakeet.encoder.xscaling", encoder.scales_input)
    writer.add_string("stt.parakeet.encoder.conv_norm_type", encoder.norm)
    writer.add_string("stt.parakeet.encoder.att_context_style", encoder.style)
    for side, default, convolution in zip(
        ("left", "right"), encoder.contexts[0], encoder.convolution_context, strict=True
    ):
        writer.add_int32(f"stt.parakeet.encoder.att_context_{side}", default)
        writer.add_int32(f"stt.parakeet.encoder.conv_context_{side}", convolution)
    if encoder.style == "chunked_limited":
        flat = [frames for pair in encoder.contexts for frames in pair]
        writer.add_array("stt.parakeet.encoder.att_context_size_choices", flat)
        # What NeMo keeps of the mel frames before a chunk, and what it throws away of their encoding.
        writer.add_int32("stt.parakeet.encoder.streaming.pre_encode_cache_size", SUBSAMPLING_FACTOR + 1)
        writer.add_int32("stt.parakeet.encoder.streaming.drop_extra_pre_encoded", 2)
        writer.add_int32("stt.parakeet.encoder.streaming.sampling_frames_first", 1)


def _add_transducer(writer: gguf.GGUFWriter, transducer: Transducer, vocabulary_size: int) -> None:
    writer.add_uint32("stt.parakeet.predictor.hidden", transducer.hidden)
    writer.add_uint32("stt.parakeet.predictor.n_layers", transducer.layer_count)
    writer.add_uint32("stt.parakeet.predictor.vocab", vocabulary_size)
    writer.add_uint32("stt.parakeet.joint.hidden", transducer.joint_hidden)
    writer.add_uint32("stt.parakeet.joint.num_extra_outputs", len(transducer.durations))
    writer.add_string("stt.parakeet.joint.activation", "relu")
    if transducer.durations:
        writer.add_array("stt.parakeet.tdt.durations", list(transducer.durations))
    writer.add_uint32("stt.parakeet.tdt.max_symbols", transducer.max_symbols)


def _add_front_end(writer: gguf.GGUFWriter, front_end: FrontEnd) -> None:
    writer.add_string("stt.frontend.type", "mel")
    writer.add_uint32("stt.frontend.num_mels", front_end.mel_bands)
    writer.add_uint32("stt.frontend.sample_rate", SAMPLE_RATE)
    writer.add_uint32("stt.frontend.n_fft", FFT_LENGTH)
    writer.add_uint32("stt.frontend.win_length", WINDOW_LENGTH)
    writer.add_uint32("stt.frontend.hop_length", HOP_LENGTH)
    writer.add_string("stt.frontend.window", "hann")
    writer.add_string("stt.frontend.normalize", front_end.normalize)
    writer.add_float32("stt.frontend.dither", 0.0)
    writer.add_float32("stt.frontend.pre_emphasis", PRE_EMPHASIS)
    writer.add_float32("stt.frontend.f_min", 0.0)
    writer.add_float32("stt.frontend.f_max", SAMPLE_RATE / 2)


def _add_vocabulary(writer: gguf.GGUFWriter, checkpoint: Checkpoint) -> None:
    pieces = checkpoint.pieces
    writer.add_tokenizer_model("bpe")
    writer.add_token_list([*(piece.text for piece in pieces), BLANK])
    writer.add_token_scores([*(piece.score for piece in pieces), 0.0])
    writer.add_token_types([*(piece.type for piece in pieces), CONTROL])
    unknown = [number for number, piece in enumerate(pieces) if piece.type == UNKNOWN]
    if unknown:
        writer.add_unk_token_id(unknown[0])
    writer.add_uint32("tokenizer.ggml.blank_token_id", len(pieces))
