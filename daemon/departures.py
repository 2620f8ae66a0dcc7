"""Senders whose connection was lost, and may come back."""

import asyncio
from hmac import compare_digest
from typing import Protocol

from .session import Session, digest

MOST_ENDED = 64
"""Sessions that have ended whose senders may still come back for their last events."""


class Holder(Protocol):
    """A connection that a session's sender speaks through."""

    async def give_up(self) -> None:
        """Returns when it takes nothing more to the session."""


class Departures:
    """Who holds which session, who is away, and since when."""

    def __init__(self, resume_for_s: float) -> None:
        """``resume_for_s``: how long a sender may be away before its session ends with ``expired``."""
        self.resume_for_s = resume_for_s
        self._holders: dict[str, Holder] = {}
        self._away: dict[str, asyncio.TimerHandle] = {}
        self._ended: dict[str, tuple[Session, asyncio.TimerHandle]] = {}

    @property
    def away(self) -> int:
        """How many sessions wait for their sender."""
        return len(self._away)

    @property
    def count(self) -> int:
        """How many sessions wait for their sender, or for it to fetch its last events."""
        return len(self._away) + len(self._ended)

    def find(self, token: str) -> Session | None:
        """The session of that token, if it has ended lately."""
        return next((one for one, _ in self._ended.values() if may_resume(one.token, token)), None)

    def hold(self, session: Session, holder: Holder) -> None:
        """A connection was opened for a session, or has come back to it."""
        self._holders[session.id] = holder
        if (timer := self._away.pop(session.id, None)) is not None:
            timer.cancel()

    def is_ghost(self, session: Session) -> bool:
        """Whether its sender was lost before it can have known how to come back."""
        return session.id in self._away and not session.claimed

    async def evict(self, session: Session) -> None:
        """The connection that holds the session gives it up."""
        while (holder := self._holders.get(session.id)) is not None:
            await holder.give_up()

    def leave(self, session: Session, holder: Holder) -> None:
        """A connection was lost; from now on the sender may come back."""
        if self._holders.get(session.id) is not holder:
            return
        del self._holders[session.id]
        session.detach_sender()
        self.wait_for(session)

    def wait_for(self, session: Session) -> None:
        """The session ends with ``expired`` unless its sender comes back in time."""
        if session.end_reason is not None:
            return
        if session.token is None or not self.resume_for_s:
            session.finish("expired")
        elif not session.finishing:
            loop = asyncio.get_running_loop()
            self._away[session.id] = loop.call_later(self.resume_for_s, session.finish, "expired")

    def ended(self, session: Session) -> None:
        """The session is over; its sender may still come back for its last events."""
        if (timer := self._away.pop(session.id, None)) is not None:
            timer.cancel()
        if session.token is None or not self.resume_for_s:
            return
        while len(self._ended) >= MOST_ENDED:
            self._forget(next(iter(self._ended)))
        loop = asyncio.get_running_loop()
        self._ended[session.id] = session, loop.call_later(self.resume_for_s, self._forget, session.id)

    def told_all(self, session: str) -> None:
        """The sender has the last events of a session that has ended, and need not come back."""
        if session in self._ended:
            self._forget(session)

    def close(self) -> None:
        """Nobody may come back any more."""
        for session in list(self._ended):
            self._forget(session)

    def _forget(self, session: str) -> None:
        self._ended.pop(session)[1].cancel()


def may_resume(kept: bytes | None, token: str) -> bool:
    """Whether a token is the one of which ``kept`` is the digest."""
    return kept is not None and compare_digest(kept, digest(token))
