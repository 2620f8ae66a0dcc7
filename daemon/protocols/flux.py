"""Deepgram's protocol, version 2 (Flux), at ``/v2/listen``: an utterance of ours is a turn.

There is no guess at the end of a turn before it is found, so ``EagerEndOfTurn`` and ``TurnResumed`` never
come, and ``end_of_turn_confidence`` is 0 until the end, where it is 1.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import msgspec
from websockets.asyncio.server import ServerConnection

from ..events import (
    Discarded,
    Error,
    Event,
    Final,
    Partial,
    SpeechEnded,
    SpeechEndReason,
    SpeechStarted,
    Word,
)
from ..hub import Hub, Refused
from .deepgram_messages import (
    CloseStream,
    Configure,
    DeepgramEndpoint,
    Finalize,
    ForceEndTurn,
    TurnsQuery,
    parse,
    parse_query,
)
from .endpoint import Admission
from .exchange import Conversation
from .hints import usable

TRIGGERS: dict[SpeechEndReason, str] = {"end_of_turn": "model", "flush": "manual"}
"""Why a turn ended; in all other cases ``timeout``."""


class Turns(DeepgramEndpoint):
    """Senders of audio that speak version 2."""

    query = TurnsQuery

    def takes(self, path: str) -> bool:
        return path == "/v2/listen"

    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        await TurnsConversation(socket, hub, admission).serve()


class TurnsConversation(Conversation):
    """One client."""

    def __init__(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        super().__init__(socket, hub, admission.client)
        self._query = parse_query(TurnsQuery, admission.target.query)
        self._id = str(uuid4())
        self._sequence = 0
        self._turn = 0
        self._begun = False
        """Whether the open turn was told of: it is, once it has words."""
        self._start = self._end = 0.0
        self._trigger = ""

    async def greet(self) -> None:
        await self.open(self._query.audio(self.hub), self._query.configuration(self.hub))
        await self._send("Connected")

    async def take(self, message: str | bytes) -> None:
        session = self.session
        assert session is not None
        if isinstance(message, bytes):
            await session.feed(message)
            return
        match parse(message):
            case Finalize() | ForceEndTurn():
                session.flush()
            case CloseStream():
                session.finish()
            case Configure(keyterms=tuple(keyterms)):
                phrases = usable(self.hub, keyterms)
                session.configure(replace(session.configuration, phrases=phrases))
                await self._send("ConfigureSuccess", thresholds={}, keyterms=phrases)

    async def refuse(self, refused: Refused, message: str | bytes) -> None:
        await self._send("Warning", code=refused.code.upper(), description=refused.message)

    async def tell(self, event: Event) -> None:
        match event:
            case SpeechStarted(start=start):
                self._start, self._begun = start, False
            case Partial(end=end) if text := (event.committed + event.tentative).strip():
                await self._tell_turn(
                    "Update" if self._begun else "StartOfTurn", text, event.words or (), end
                )
            case SpeechEnded(end=end, reason=reason):
                self._end, self._trigger = end, TRIGGERS.get(reason, "timeout")
            case Final(text=text):
                await self._tell_end(text, event.words or ())
            case Discarded() if self._begun:
                await self._tell_end("", ())
            case Error(code=code, message=message):
                await self._send("Error", code=code.upper(), description=message)

    async def _tell_end(self, text: str, words: Sequence[Word]) -> None:
        if not self._begun:
            await self._tell_turn("StartOfTurn", text, words, self._end)
        await self._tell_turn("EndOfTurn", text, words, self._end, trigger=self._trigger)
        self._turn += 1

    async def _tell_turn(
        self, event: str, text: str, words: Sequence[Word], end: float, **fields: str
    ) -> None:
        self._begun = True
        told = [
            {"word": word.text, "start": word.start, "end": word.end, "confidence": word.confidence}
            for word in words
        ]
        await self._send(
            "TurnInfo",
            event=event,
            turn_index=self._turn,
            audio_window_start=round(self._start, 3),
            audio_window_end=round(end, 3),
            transcript=text,
            words=told,
            end_of_turn_confidence=float(event == "EndOfTurn"),
            **fields,
        )

    async def _send(self, kind: str, **fields: Any) -> None:
        message = {"type": kind, "request_id": self._id, "sequence_id": self._sequence, **fields}
        self._sequence += 1
        await self.socket.send(msgspec.json.encode(message), text=True)
