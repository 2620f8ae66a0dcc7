"""The native engine: Whisper (and, later, Parakeet) on ggml. Built from ``native/``.

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
    duration: float
    segments: list[Segment]
    no_speech: bool
    """True where the engine's evidence says that nobody spoke (``segments`` is then empty)."""

class TranscribeOptions:
    """How ``Worker.transcribe`` decodes. All fields are keyword arguments."""

    language: str | None
    """ISO code as in ``Model.languages``; None: detect."""
    task: str
    """``transcribe`` or ``translate``."""
    prompt: str
    """Text that may have come before: conditions spelling and vocabulary."""
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
    """How a ``Stream`` decodes and commits. All fields are keyword arguments."""

    language: str | None
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
    """... and a token that is less probable than ``sure_p`` at least so many."""
    trim_after_s: float
    """A window that is longer is cut behind committed text."""
    keep_s: float
    """Seconds of committed audio that stay in a window that is cut."""
    least_avg_logprob: float
    """A hypothesis with less commits nothing."""
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
    language: str | None
    language_prob: float
    avg_logprob: float
    no_speech_prob: float

class Model:
    """Immutable weights, vocabulary and front-end parameters; may be used from many threads."""

    def __init__(self, path: str) -> None: ...
    @property
    def family(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def sample_rate(self) -> int: ...
    @property
    def languages(self) -> list[str]: ...
    @property
    def info(self) -> dict[str, Any]:
        """File type, sizes, parameter count, bytes: what ``stenod models info`` prints."""
    def tokenize(self, text: str) -> list[int]: ...
    def detokenize(self, ids: Sequence[int]) -> bytes: ...
    def log_mel(self, samples: NDArray[np.float32], frames: int = 3000) -> NDArray[np.float32]:
        """Normalised log-mel [mel_bands, frames] of ``samples`` padded with zeros to ``frames`` hops."""

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
    def set_step(self, step_s: float) -> None:
        """A coarser grid from the next grid point on (told as ``overload``)."""
    @property
    def audio_s(self) -> float: ...

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
    def detect_language(self, samples: NDArray[np.float32]) -> dict[str, float]: ...
    def encode(self, mel: NDArray[np.float32]) -> NDArray[np.float32]:
        """Encoder output [frames / 2, width] of a normalised log-mel [mel_bands, frames]."""
    def decode(self, mel: NDArray[np.float32], tokens: Sequence[int]) -> NDArray[np.float32]:
        """Raw logits [len(tokens), vocabulary] of forced tokens, for comparison with a reference."""
