"""Deepgram's protocol, version 1, at ``/v1/listen``.

An utterance of ours is told as one or more final results, the last of which is ``speech_final``; interim
results are about what follows the last final one. The end of what was committed is kept back until more was
committed, so that the last final result of an utterance always has words: clients skip an empty one.
"""

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from statistics import fmean
from typing import Any
from uuid import NAMESPACE_DNS, uuid4, uuid5

import msgspec
from websockets.asyncio.server import ServerConnection

from ..events import (
    Commit,
    Discarded,
    Ended,
    Error,
    Event,
    Final,
    Flushed,
    Partial,
    SpeechEnded,
    SpeechStarted,
    Word,
)
from ..hub import Hub, Refused
from ..session import Session
from .deepgram_messages import (
    CloseStream,
    Configure,
    DeepgramEndpoint,
    Finalize,
    ForceEndTurn,
    ListenQuery,
    error_message,
    parse,
    parse_query,
)
from .endpoint import Admission
from .exchange import Conversation
from .hints import usable

SILENCE_S = 10.0
"""A client that sends neither audio nor ``KeepAlive`` for so long is gone."""
SEGMENT_S = 3.0
"""Committed words are told once there are so many seconds of them."""
CONTAINERS = {
    b"\x1a\x45\xdf\xa3": "WebM",
    b"OggS": "Ogg",
    b"RIFF": "WAV",
    b"fLaC": "FLAC",
    b"ID3": "MP3",
}
"""How files begin that clients send without naming an encoding."""
CHANNEL = [0, 1]
OPENING_S = 0.1
"""How long it takes to hear that somebody speaks."""
_PUNCTUATION = re.compile(r"(?<!\w)[^\w\s]+|[^\w\s]+(?!\w)")


class Listen(DeepgramEndpoint):
    """Senders of audio that speak version 1."""

    query = ListenQuery

    def takes(self, path: str) -> bool:
        return path == "/v1/listen"

    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        await ListenConversation(socket, hub, admission).serve()


@dataclass
class Turn:
    """An utterance, and how much of it final results have told."""

    start: float
    """Of what was not told yet."""
    end: float = 0.0
    text: str = ""
    words: list[Word] = field(default_factory=list)
    """What is committed and was not told yet."""
    told_text: int = 0
    told_words: int = 0
    cut: bool = False
    """The speaker goes on in the next utterance."""
    finalized: bool = False
    """It was ended by ``Finalize``."""

    def add(self, commit: Commit) -> None:
        """More was committed."""
        self.text += commit.text
        self.words += commit.words or ()

    def tell(self) -> None:
        """What was committed is told."""
        self.told_text += len(self.text)
        self.told_words += len(self.words)
        self.start = self.words[-1].end if self.words else self.start
        self.text, self.words = "", []


class ListenConversation(Conversation):
    """One client."""

    def __init__(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        super().__init__(socket, hub, admission.client)
        self._query = parse_query(ListenQuery, admission.target.query)
        self._id = str(uuid4())
        self._created = datetime.now(UTC)
        self._digest = sha256()
        model = hub.engine.model
        self._model = {"name": model.name, "version": "1", "arch": model.family}
        self._model_id = str(uuid5(NAMESPACE_DNS, model.name))
        self._finalizing: deque[bool] = deque()
        """For each ``Finalize`` that is yet to be answered, whether it ended an utterance."""
        self._turn: Turn | None = None
        """The open utterance."""
        self._word_end: float | None = None
        """Where the last word ended, until ``UtteranceEnd`` tells it."""

    async def greet(self) -> None:
        await self.open(self._query.audio(self.hub), self._query.configuration(self.hub))

    async def next_message(self) -> str | bytes:
        session = self.session
        assert session is not None
        try:
            async with asyncio.timeout(None if session.finishing else SILENCE_S):
                return await self.socket.recv()
        except TimeoutError:
            silent = f"neither audio nor KeepAlive came for {SILENCE_S:.0f} s"
            await self._send(error_message("NET-0001", silent))
            session.finish("idle")
            return await self.socket.recv()

    async def take(self, message: str | bytes) -> None:
        session = self.session
        assert session is not None
        if isinstance(message, bytes):
            await self._hear(session, message)
            return
        match parse(message):
            case Finalize() | ForceEndTurn():
                self._finalizing.append(False)
                session.flush()
            case CloseStream():
                session.finish()
            case Configure(keyterms=tuple(keyterms)):
                phrases = usable(self.hub, keyterms)
                session.configure(replace(session.configuration, phrases=phrases))
                await self._send({"type": "ConfigureSuccess", "request_id": self._id, "keyterms": phrases})

    async def _hear(self, session: Session, audio: bytes) -> None:
        container = next((CONTAINERS[magic] for magic in CONTAINERS if audio.startswith(magic)), None)
        if container and not session.received_frames and self._query.encoding is None:
            unread = (
                f"{container} is not decoded here: send its samples, and say their encoding and sample_rate"
            )
            await self._send(error_message("DATA-0000", unread))
            session.finish()
        elif not audio:
            session.finish()
        self._digest.update(audio)
        await session.feed(audio)
        if self._turn is None:
            await self._tell_utterance_end(session.audio_s - OPENING_S)

    async def refuse(self, refused: Refused, message: str | bytes) -> None:
        await self._send(error_message("SchemaError", refused.message))

    async def tell(self, event: Event) -> None:
        match event:
            case SpeechStarted(start=start):
                await self._tell_utterance_end(start)
                self._turn = Turn(start)
                if self._query.vad_events:
                    await self._send({"type": "SpeechStarted", "channel": CHANNEL, "timestamp": start})
            case Error(code=code, message=message):
                await self._send(error_message(code, message))
            case Flushed():
                if not self._finalizing.popleft():
                    await self._tell_results("", (), self._position, self._position, from_finalize=True)
            case Ended():
                await self._tell_utterance_end(event.audio_s)
                await self._tell_metadata(event.audio_s)
            case _ if self._turn is not None:
                await self._tell_of(self._turn, event)

    async def _tell_of(self, turn: Turn, event: Event) -> None:
        """Something that belongs to the open utterance."""
        match event:
            case Commit(words=words):
                if words and turn.words and words[-1].end - turn.words[0].start > SEGMENT_S:
                    await self._tell_committed(turn, turn.words[-1].end)
                turn.add(event)
            case Partial() if text := (event.committed + event.tentative)[turn.told_text :]:
                words = (event.words or ())[turn.told_words :]
                await self._tell_results(text, words, turn.start, event.end, is_final=False)
            case SpeechEnded(end=end, reason=reason):
                turn.end, turn.cut, turn.finalized = end, reason == "max_length", reason == "flush"
                if turn.finalized:
                    self._finalizing[0] = True
            case Final() | Discarded():
                last = turn.words[-1].end if turn.words else self._word_end
                ended = self._query.endpointing is not False and not turn.cut
                await self._tell_committed(turn, turn.end, speech_final=ended, from_finalize=turn.finalized)
                self._turn, self._word_end = None, last

    async def _tell_committed(self, turn: Turn, end: float, **marks: bool) -> None:
        await self._tell_results(turn.text, turn.words, turn.start, end, **marks)
        turn.tell()

    async def _tell_results(
        self,
        text: str,
        words: Sequence[Word],
        start: float,
        end: float,
        *,
        is_final: bool = True,
        speech_final: bool = False,
        from_finalize: bool = False,
    ) -> None:
        punctuated = self._query.punctuated
        alternative = {
            "transcript": " ".join((text if punctuated else bare(text)).split()),
            "confidence": round(fmean(word.confidence for word in words), 4) if words else 0.0,
            "words": [told_word(word, punctuated) for word in words],
        }
        metadata = {"request_id": self._id, "model_info": self._model, "model_uuid": self._model_id}
        await self._send(
            {
                "type": "Results",
                "channel_index": CHANNEL,
                "start": round(start, 3),
                "duration": round(max(0.0, end - start), 3),
                "is_final": is_final,
                "speech_final": speech_final,
                "from_finalize": from_finalize,
                "channel": {"alternatives": [alternative]},
                "metadata": metadata,
            }
        )

    async def _tell_utterance_end(self, silent_until: float) -> None:
        """If so much silence was asked for, and came."""
        wanted, last = self._query.utterance_end_ms, self._word_end
        if wanted is not None and last is not None and silent_until - last >= wanted / 1000:
            self._word_end = None
            await self._send({"type": "UtteranceEnd", "channel": CHANNEL, "last_word_end": last})

    async def _tell_metadata(self, duration: float) -> None:
        await self._send(
            {
                "type": "Metadata",
                "transaction_key": "deprecated",
                "request_id": self._id,
                "sha256": self._digest.hexdigest(),
                "created": self._created.isoformat(),
                "duration": round(duration, 3),
                "channels": 1,
                "models": [self._model_id],
                "model_info": {self._model_id: self._model},
            }
        )

    @property
    def _position(self) -> float:
        return self.session.audio_s if self.session else 0.0

    async def _send(self, message: dict[str, Any]) -> None:
        await self.socket.send(msgspec.json.encode(message), text=True)


def told_word(word: Word, punctuated: bool) -> dict[str, Any]:
    """A word of a result."""
    told = {"word": bare(word.text), "start": word.start, "end": word.end, "confidence": word.confidence}
    return told | {"punctuated_word": word.text} if punctuated else told


def bare(text: str) -> str:
    """Without capitals, and without punctuation that is not inside a word."""
    return _PUNCTUATION.sub("", text.lower())
