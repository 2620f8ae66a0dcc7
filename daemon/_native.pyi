"""The native engine: Whisper and Parakeet on ggml. Built from ``native/``.

All audio is mono float32 at ``Model.sample_rate`` (16000 Hz), nominally in [-1, 1].
All times are seconds. Every call that computes releases the GIL.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

GGML_VERSION: str

class NativeError(Exception):
    """Base of all errors of the native engine."""

class BadArgument(NativeError, ValueError):
    """A value that the caller gave cannot be used; the message names it."""

class BadModel(NativeError):
    """A model file is missing, truncated, corrupt or foreign; the message names file and fault."""

class OutOfMemory(NativeError, MemoryError):
    """The backend could not allocate a buffer."""

class Aborted(NativeError):
    """The call was aborted from another thread; the stream is rewound, not half-written."""

class BackendError(NativeError):
    """ggml reported a failure while computing."""

class Token(TypedDict):
    id: int
    text: bytes
    """UTF-8, possibly an incomplete sequence: join the tokens' bytes before decoding."""
    start: float
    end: float
    p: float

class Segment(TypedDict):
    start: float
    end: float
    tokens: list[Token]
    """Text tokens only: no timestamps, no special tokens."""
    avg_logprob: float
    no_speech_prob: float
    compression_ratio: float
    temperature: float

class Transcription(TypedDict):
    language: str | None
    """None where the model does not tell."""
    duration: float
    segments: list[Segment]
    no_speech: bool
    """True where the engine's evidence says that nobody spoke (``segments`` is then empty)."""

class TranscribeOptions:
    """How ``Worker.transcribe`` decodes. All fields are keyword arguments.

    What a family does not have has no effect.
    """

    language: str | None
    """ISO code as in ``Model.languages``; None: detect."""
    task: str
    """``transcribe`` or ``translate``."""
    prompt: str
    """Whisper: text that may have come before; conditions spelling and vocabulary."""
    phrases: Sequence[str]
    """Parakeet: words and phrases that are favoured."""
    timestamps: bool
    """True: timestamp tokens and OpenAI's rules for them."""
    beam_size: int
    """1: greedy."""
    best_of: int
    """Lanes sampled at temperatures above 0."""
    temperatures: list[float]
    """Fallback ladder; [0.0]: no fallback."""
    condition_on_previous_text: bool
    compression_ratio_threshold: float
    logprob_threshold: float
    no_speech_threshold: float
    full_window: bool
    """True: the encoder always sees 30 s (the reference behaviour); False: a bucketed length."""
    speech_evidence: bool
    """True: text without the evidence of a voice (see ``whisper/evidence``) is dropped."""
    seed: int
    def __init__(self, **fields: Any) -> None: ...

class StreamOptions:
    """How a ``Stream`` decodes and commits. All fields are keyword arguments.

    What a family does not have has no effect: fields from ``phrases`` on are Parakeet's, the others but
    ``language`` and ``task`` Whisper's.
    """

    language: str | None
    language_guessed: bool
    """If nothing is understood in ``language``, it is detected in the end."""
    task: str
    prompt: str
    step_s: float
    """A hypothesis that may commit is made every ``step_s`` seconds of audio time."""
    first_step_s: float
    """Seconds of audio that the first hypothesis of an utterance has, at least."""
    attention_distance_s: float
    """A token is committed only if it looks at least so many seconds back from the audio's end."""
    sure_p: float
    unsure_distance_s: float
    """... and a token, but marks, that is less probable than ``sure_p`` at least so many."""
    trim_after_s: float
    """A window that is longer is cut behind committed text."""
    keep_s: float
    """Seconds of committed audio that stay in a window that is cut."""
    context: tuple[bytes, Sequence[int]] | None
    """``Stream.context`` of the utterance before. Ignored if the language is to be detected."""
    context_s: float
    """Seconds that a stream remembers for the utterance that follows, at most."""
    least_avg_logprob: float
    """A hypothesis with less commits nothing."""
    phrases: Sequence[str]
    """Words and phrases that are favoured."""
    beam_size: int
    lookahead_ms: int | None
    """Audio that a word waits for, at most: a cache-aware model takes the widest look-ahead that it was
    trained with and that is not wider. None: the model's default."""
    left_s: float
    """Of a model without caches: seconds that are encoded again before each chunk,"""
    chunk_s: float
    """the seconds of a step,"""
    lookahead_s: float
    """and those heard after it, unless ``lookahead_ms`` says so."""
    def __init__(self, **fields: Any) -> None: ...

class StepResult(TypedDict):
    committed: list[Token]
    """Tokens newly committed by this step: append them. Ends at a word's end."""
    tentative: list[Token]
    """The whole tentative tail: replaces the former one."""
    audio_s: float
    """Seconds of the utterance that this hypothesis has heard."""
    final: bool
    """True: the utterance is finished; ``tentative`` is empty."""
    no_speech: bool
    """Only with ``final``: nobody spoke. Never together with committed text."""
    looping: bool
    """The guard against repetition cut this hypothesis."""
    end_of_turn: bool
    """The model heard that the speaker has finished."""
    language: str | None
    """None where the model does not tell."""
    language_prob: float
    avg_logprob: float
    no_speech_prob: float

class Model:
    """Immutable weights, vocabulary and front-end parameters; may be used from many threads."""

    def __init__(self, path: str) -> None: ...
    @property
    def family(self) -> str:
        """``whisper`` or ``parakeet``."""
    @property
    def name(self) -> str: ...
    @property
    def sample_rate(self) -> int: ...
    @property
    def languages(self) -> list[str]:
        """ISO codes of those that it knows; empty: nothing is known of them."""
    @property
    def tells_end_of_turn(self) -> bool:
        """Whether it can hear that the speaker has finished: see ``StepResult``."""
    @property
    def info(self) -> dict[str, Any]:
        """File type, sizes, parameter count, bytes: what ``stenod models info`` prints."""
    def tokenize(self, text: str) -> list[int]: ...
    def detokenize(self, ids: Sequence[int]) -> bytes: ...
    def log_mel(self, samples: NDArray[np.float32], frames: int | None = None) -> NDArray[np.float32]:
        """Log-mel [mel_bands, frames] of ``samples`` as the encoder takes it.

        ``frames``: padded with zeros to so many hops; None: Whisper's window of 3000, or as many as Parakeet
        makes of the samples.
        """

class Stream:
    """The state of one utterance at a time. ``push`` is safe while another thread steps the stream."""

    def __init__(self, model: Model, options: StreamOptions) -> None: ...
    def push(self, samples: NDArray[np.float32]) -> None:
        """Copies audio in and returns at once."""
    def finish(self, samples: int | None = None) -> None:
        """The utterance ends here, or after ``samples`` samples of it: audio beyond is forgotten.
        Steps go on until one has ``final``."""
    def reset(self, options: StreamOptions | None = None) -> None:
        """Forgets the utterance and all its audio, and clears an abort; the next one may begin."""
    def due(self) -> int:
        """How many steps are waiting: grid points reached, and the final one."""
    def abort(self) -> None:
        """From any thread: the step that runs ends with ``Aborted`` within a layer's time."""
    def coarsen(self, factor: float) -> None:
        """A grid so many times coarser from the next step on (told as ``overload``); 1: as it was."""
    @property
    def audio_s(self) -> float:
        """Seconds pushed."""
    @property
    def context(self) -> tuple[bytes, list[int]] | None:
        """The end of the utterance that had ``final``, with which the one that follows is understood better.

        Samples (s16le, mono, 16 kHz) and the tokens that are said in them, for ``StreamOptions.context``.
        None if nobody spoke, or where the model does not use it.
        """
    @property
    def step_s(self) -> float:
        """Seconds of audio from step to step, as the grid is now."""

class Worker:
    """A thread pool, scratch buffers and graphs for one model. Used by one thread at a time."""

    def __init__(self, model: Model, threads: int = 0) -> None:
        """``threads`` 0: as many as the process may use."""
    def transcribe(
        self,
        samples: NDArray[np.float32],
        options: TranscribeOptions,
        progress: Callable[[float], None] | None = None,
    ) -> Transcription:
        """Long-form transcription; ``progress`` gets the seconds done. Blocks."""
    def transcribe_batch(
        self, clips: Sequence[NDArray[np.float32]], options: TranscribeOptions
    ) -> list[Transcription]:
        """Several clips decoded in common batches; each result equals ``transcribe`` of that clip alone."""
    def step(self, streams: Sequence[Stream]) -> list[StepResult | NativeError]:
        """Advances every stream by one due step in one batch. A failure is its stream's entry of the list."""
    def abort(self) -> None:
        """From any thread: ``transcribe`` ends with ``Aborted``."""
    @property
    def threads(self) -> int: ...
    @property
    def timings(self) -> dict[str, float]:
        """Seconds spent so far: ``encode``, ``decode``, and ``other`` (mel, rules, search, alignment)."""
    def detect_language(self, samples: NDArray[np.float32]) -> dict[str, float]:
        """Probabilities of languages; empty where the model cannot tell."""
    def encode(self, mel: NDArray[np.float32], lookahead_ms: int | None = None) -> NDArray[np.float32]:
        """Encoder output [frames, width] of a log-mel [mel_bands, frames] as of ``Model.log_mel``.

        ``lookahead_ms`` as of ``StreamOptions``.
        """
    def decode(self, mel: NDArray[np.float32], tokens: Sequence[int]) -> NDArray[np.float32]:
        """Whisper: raw logits [len(tokens), vocabulary] of forced tokens, for comparison with a reference."""
