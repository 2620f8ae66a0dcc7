"""What WhisperLive speaks, on any path of its port: audio in, the last segments out, again and again."""

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from ..events import Discarded, Ended, Error, Event, Final, Partial, Word
from ..hub import Hub, Refused
from ..settings import Task
from ..transcript import JOINED_LANGUAGES
from .endpoint import Admission, Endpoint, require
from .exchange import CLOSE_S, Conversation, audio_format, close_unread
from .hints import usable
from .parsing import Text, parsed

logger = logging.getLogger(__name__)

END_OF_AUDIO = b"END_OF_AUDIO"
BACKEND = "faster_whisper"
"""Of WhisperLive's backends, the one whose segments its own client keeps."""
WAIT_MINUTES = 1.0
"""What a client is told that comes when all places are taken: when one is free, nobody knows."""
REFUSED_CLOSE = 1008
ENCODINGS = {"float32": "f32le", "int16": "s16le", "uint8": "u8"}


class Options(Struct):
    """The first message. ``model`` is as the daemon was started; other fields say how WhisperLive works."""

    uid: Text
    language: Text | None = None
    task: Task = "transcribe"
    send_last_n_segments: Annotated[int, Meta(ge=1, le=500)] = 10
    word_timestamps: bool = False
    hotwords: Text | None = None
    initial_prompt: Text | None = None
    audio_format: Literal["float32", "int16", "uint8"] = "float32"


_decoder: msgspec.json.Decoder[Options] = msgspec.json.Decoder(Options)


class WhisperLive(Endpoint):
    """A port of its own, all of whose paths are the same."""

    def takes(self, path: str) -> bool:
        return True

    def check(self, hub: Hub, admission: Admission) -> None:
        require(admission.grant, "send")  # that there is no room is told in the protocol

    def refusal(self, refused: Refused) -> bytes:
        return _status(None, refused)

    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        speaker = Speaker(socket, hub, admission.client)
        try:
            await speaker.serve()
        except Refused as refused:
            with suppress(ConnectionClosed, TimeoutError):
                await asyncio.wait_for(speaker.tell_why_not(refused), CLOSE_S)


class Speaker(Conversation):
    """One client."""

    def __init__(self, socket: ServerConnection, hub: Hub, client: str | None) -> None:
        super().__init__(socket, hub, client)
        self._options: Options | None = None
        self._told: deque[dict[str, Any]] = deque()
        """The last segments that are complete."""
        self._language_known = False

    async def take(self, message: str | bytes) -> None:
        if self._options is None:
            self._options = parsed(_decoder, message)
            await self._begin(self._options)
        elif message in (END_OF_AUDIO, END_OF_AUDIO.decode()):
            assert self.session is not None
            self.session.finish()
        elif isinstance(message, bytes):
            assert self.session is not None
            await self.session.feed(message)

    async def _begin(self, options: Options) -> None:
        self._told = deque(maxlen=options.send_last_n_segments)
        self._language_known = options.language is not None
        usual = self.hub.defaults
        configuration = replace(
            usual,
            language=options.language or usual.language,
            task=options.task,
            prompt=options.initial_prompt or usual.prompt,
            phrases=usable(self.hub, (options.hotwords or "").split(",")),
            words=options.word_timestamps,
            partials=True,
        )
        await self.open(audio_format(ENCODINGS[options.audio_format], 16000), configuration)
        await self._send({"message": "SERVER_READY", "backend": BACKEND})

    async def tell(self, event: Event) -> None:
        match event:
            case Partial():
                text = event.committed + event.tentative
                words = list(event.words or ())
                await self._show(_segment(event.start, event.end, text, words, None, completed=False))
            case Final():
                if not self._language_known and event.language is not None:
                    self._language_known = True
                    await self._send({"language": event.language, "language_prob": None})
                words = list(event.words or ())
                self._told.append(
                    _segment(event.start, event.end, event.text, words, event.language, completed=True)
                )
                await self._show()
            case Discarded() if self._told:
                await self._show()
            case Error(message=message, fatal=True):
                await self._send({"status": "ERROR", "message": message})
            case Ended(reason=reason) if reason != "finished":
                await self._send({"message": "DISCONNECT"})

    async def refuse(self, refused: Refused, message: str | bytes = "") -> None:
        uid = self._options.uid if self._options else None
        await self.socket.send(_status(uid, refused), text=True)
        await close_unread(self.socket, REFUSED_CLOSE, refused.code)

    async def tell_why_not(self, refused: Refused) -> None:
        """Tells a client for which there is no session. Raises ``ConnectionClosed``."""
        if self._options is None:
            with suppress(Refused):
                self._options = parsed(_decoder, await self.socket.recv())
        await self.refuse(refused)

    async def _show(self, *open_segments: dict[str, Any]) -> None:
        await self._send({"segments": [*self._told, *open_segments]})

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._options is not None
        await self.socket.send(msgspec.json.encode({"uid": self._options.uid, **message}), text=True)


def _segment(
    start: float, end: float, text: str, words: list[Word], language: str | None, *, completed: bool
) -> dict[str, Any]:
    """As WhisperLive writes one: times are text, and words begin with the space before them."""
    segment = {"start": f"{start:.3f}", "end": f"{end:.3f}", "text": text, "completed": completed}
    space = "" if language in JOINED_LANGUAGES else " "
    if not words:
        return segment
    return segment | {
        "words": [
            {
                "word": space + word.text,
                "start": f"{word.start:.3f}",
                "end": f"{word.end:.3f}",
                "probability": word.confidence,
            }
            for word in words
        ]
    }


def _status(uid: str | None, refused: Refused) -> bytes:
    if refused.code == "too_many_sessions":
        return msgspec.json.encode({"uid": uid, "status": "WAIT", "message": WAIT_MINUTES})
    return msgspec.json.encode({"uid": uid, "status": "ERROR", "message": refused.message})
