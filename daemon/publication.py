"""An event on its way to many."""

from functools import cached_property

from .events import Event, Numbered, encode


class Publication:
    """An event, encoded once, however many read it and wherever it is kept."""

    def __init__(self, event: Event) -> None:
        self.event = event

    @cached_property
    def json(self) -> bytes:
        """The event's native wire form."""
        return encode(self.event)

    @property
    def numbered(self) -> Numbered:
        """The event, which has to be a numbered one."""
        assert isinstance(self.event, Numbered)
        return self.event
