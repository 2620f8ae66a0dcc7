"""What of the utterance before is heard again, so that the one that follows is understood better."""

import msgspec

from .audio.resample import SAMPLE_RATE
from .settings import Task

LONGEST_PAUSE_S = 10.0
"""After a longer pause what is said has little to do with what was said before."""


class Context(msgspec.Struct, frozen=True):
    """The end of an utterance: its last seconds, and what is said in them."""

    samples: bytes
    """s16le, mono, 16 kHz."""
    tokens: tuple[int, ...]
    language: str
    task: Task
    end: int
    """The sample of audio time at which the utterance ended."""

    def reaches(self, position: int) -> bool:
        """Whether it still tells something about what is said at ``position``, in samples of audio time."""
        return position - self.end <= LONGEST_PAUSE_S * SAMPLE_RATE

    def fits(self, language: str | None, task: Task) -> bool:
        """Whether it can be gone on with. ``language`` None: the model knows only one, or will detect it."""
        return task == self.task and language in (None, self.language)
