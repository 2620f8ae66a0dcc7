"""All that a session says as one text."""

from ..events import Commit, Final
from ..transcript import join


class RunningText:
    """Grows with each utterance; what its commits add, put end to end, is the text."""

    def __init__(self) -> None:
        self.text = ""
        """Of all finals."""
        self.language: str | None = None
        """Of the last utterance."""
        self.finals: list[Final] = []
        self._begun = False

    def commit(self, event: Commit) -> str:
        """What a commit adds: what stands between two utterances comes with the second one."""
        between = "" if self._begun else self._between
        self._begun = True
        return between + event.text

    def final(self, event: Final) -> None:
        """The utterance is over."""
        self.text += self._between + event.text
        self.language = event.language
        self.finals.append(event)
        self._begun = False

    @property
    def _between(self) -> str:
        return join("||", self.language)[1:-1] if self.text else ""
