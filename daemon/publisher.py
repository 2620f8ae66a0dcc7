"""Numbers a session's events and publishes them."""

from . import events
from .channel import Channel


class Publisher:
    """The only one that gives out a session's ``seq``: from 1 on, without holes."""

    def __init__(self, session: str, channel: Channel) -> None:
        self.session = session
        self.channel = channel
        self.seq = 0
        """The last number given out."""

    def tell(self, kind: type[events.Numbered], **fields: object) -> None:
        """Publishes a numbered event."""
        self.seq += 1
        self.channel.publish(kind(session=self.session, seq=self.seq, **fields))

    def show(self, event: events.Event) -> None:
        """Publishes a volatile event."""
        self.channel.publish(event)

    def warn(self, code: events.WarningCode, message: str) -> None:
        """Publishes a warning."""
        self.show(events.Warning(code, message))
