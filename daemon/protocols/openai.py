"""OpenAI's Realtime protocol at ``/v1/realtime``, transcription sessions.

A turn of the client's is an utterance of ours, and an *item* of the protocol's. Its deltas are what was
committed, so they never have to be taken back, and together they are the completed transcript.
"""

import secrets
from collections import deque
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers

from ..events import Commit, Discarded, Ended, Error, Event, Final, Flushed, SpeechEnded, SpeechStarted
from ..hub import Hub, Refused
from .endpoint import Admission, Endpoint, bearer, offered
from .exchange import Conversation
from .openai_messages import (
    Append,
    ClearAudio,
    CommitAudio,
    Input,
    OldUpdate,
    Setup,
    Update,
    event_id_of,
    parse,
)

KEY_PROTOCOL = "openai-insecure-api-key."
"""How a page brings its key."""
OLD_PROTOCOL = "openai-beta.realtime-v1"
SHORTEST_COMMIT_S = 0.1
TRANSCRIPTION = "conversation.item.input_audio_transcription"

CODES: dict[str, str] = {
    "bad_json": "invalid_json",
    "bad_message": "invalid_value",
    "bad_field": "invalid_value",
    "unsupported_audio": "invalid_value",
    "unauthorized": "invalid_api_key",
}
"""The protocol's names, where they are not ours."""
OURS = ("engine_failed", "shutting_down", "too_many_sessions")
"""What is not the client's fault."""


class Realtime(Endpoint):
    """Senders of audio that speak the protocol."""

    subprotocols = ("realtime", OLD_PROTOCOL)

    def takes(self, path: str) -> bool:
        return path == "/v1/realtime"

    def token(self, headers: Headers) -> str | None:
        keys = [one for one in offered(headers) if one.startswith(KEY_PROTOCOL)]
        return bearer(headers) or (keys[0].removeprefix(KEY_PROTOCOL) if keys else None)

    def refusal(self, refused: Refused) -> bytes:
        return msgspec.json.encode(error_event(refused.code, refused.message, param=refused.field))

    async def serve(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        await RealtimeConversation(socket, hub, admission).serve()


@dataclass
class Asked:
    """What a client asked of its buffer; ``done`` once an utterance was ended by it."""

    request: CommitAudio | ClearAudio
    done: bool = False


class RealtimeConversation(Conversation):
    """One client. Its session is opened with the first audio, when it has said how that is encoded."""

    def __init__(self, socket: ServerConnection, hub: Hub, admission: Admission) -> None:
        super().__init__(socket, hub, admission.client)
        self._setup = Setup.of(hub)
        self._id = new_id("sess")
        wanted = parse_qs(admission.target.query).get("intent", [])
        self._before = (
            "transcription" in wanted and socket.request is not None and is_old(socket.request.headers)
        )
        self._uncommitted_s = 0.0
        """Audio since the client's last commit or clear."""
        self._asked: deque[Asked] = deque()
        """What the session has yet to answer."""
        self._item = ""
        """The open turn's."""
        self._started = self._seconds = 0.0
        """Where the turn began, and its length."""
        self._last_item: str | None = None
        """The one that was committed last."""
        self._failure: dict[str, Any] | None = None

    async def greet(self) -> None:
        await self._tell_setup("created", self._before)

    async def take(self, message: str | bytes) -> None:
        match said := parse(message):
            case Update(session=fields):
                await self._update(fields.input, before=False)
            case OldUpdate(session=fields):
                await self._update(fields.input, before=True)
            case Append():
                await self._append(said.data)
            case CommitAudio(event_id=event_id) if self._uncommitted_s < SHORTEST_COMMIT_S:
                problem = (
                    f"the buffer has {1000 * self._uncommitted_s:.0f} ms of audio; a commit needs 100 ms"
                )
                await self._send(error_event("input_audio_buffer_commit_empty", problem, event_id=event_id))
            case CommitAudio() | ClearAudio():
                await self._ask(said)

    async def refuse(self, refused: Refused, message: str | bytes) -> None:
        await self._send(
            error_event(refused.code, refused.message, param=refused.field, event_id=event_id_of(message))
        )

    async def tell(self, event: Event) -> None:
        match event:
            case SpeechStarted(start=start):
                await self._begin(start)
            case Commit(text=text):
                await self._tell_item(f"{TRANSCRIPTION}.delta", content_index=0, delta=text)
            case SpeechEnded(end=end, reason=reason):
                await self._end(end, asked=reason == "flush")
            case Final(text=text):
                await self._complete(text)
            case Discarded(reason="no_words"):
                await self._complete("")
            case Flushed():
                await self._answer(self._asked.popleft())
            case Error(code=code, message=message):
                self._failure = error_event(code, message)
                await self._send(self._failure)
            case Ended(reason="shutdown"):
                await self._send(error_event("shutting_down", "the daemon is shutting down"))

    async def _update(self, given: Input, *, before: bool) -> None:
        changed = self._setup.updated(given, self.hub)
        if self.session is not None:
            if changed.audio != self.session.audio:
                raise Refused(
                    "bad_field",
                    "format: audio of another format was sent already",
                    "session.audio.input.format",
                )
            self.session.configure(changed.configuration)
        self._setup = changed
        await self._tell_setup("updated", before)

    async def _append(self, data: bytes) -> None:
        session = self.session or await self.open(self._setup.audio, self._setup.configuration)
        self._uncommitted_s += len(data) / session.audio.frame_bytes / session.audio.sample_rate
        await session.feed(data)

    async def _ask(self, request: CommitAudio | ClearAudio) -> None:
        """Whatever is asked is followed by a flush, whose answer says when it is done."""
        self._uncommitted_s = 0.0
        if self.session is None:  # there is no audio, so it is no commit
            await self._send({"type": "input_audio_buffer.cleared"})
            return
        self._asked.append(Asked(request))
        if isinstance(request, ClearAudio):
            self.session.clear()
        self.session.flush()

    async def _begin(self, start: float) -> None:
        self._item, self._started = new_id("item"), start
        if self._setup.turn_detection is not None:
            await self._tell_item("input_audio_buffer.speech_started", audio_start_ms=round(1000 * start))

    async def _end(self, end: float, *, asked: bool) -> None:
        """The endpoint is known; ``asked``: the client asked for it, by a commit or a clear."""
        if asked:
            self._asked[0].done = True
            if isinstance(self._asked[0].request, ClearAudio):
                return
        self._seconds = end - self._started
        if self._setup.turn_detection is not None:
            await self._tell_item("input_audio_buffer.speech_stopped", audio_end_ms=round(1000 * end))
        await self._tell_committed()

    async def _tell_committed(self) -> None:
        await self._tell_item("input_audio_buffer.committed", previous_item_id=self._last_item)
        self._last_item = self._item

    async def _complete(self, transcript: str) -> None:
        if self._failure is not None:
            await self._tell_item(f"{TRANSCRIPTION}.failed", content_index=0, error=self._failure["error"])
            return
        usage = {"type": "duration", "seconds": round(self._seconds, 3)}
        await self._tell_item(
            f"{TRANSCRIPTION}.completed", content_index=0, transcript=transcript, usage=usage
        )

    async def _answer(self, asked: Asked) -> None:
        """A commit is always answered, also where nobody spoke."""
        if isinstance(asked.request, ClearAudio):
            await self._send({"type": "input_audio_buffer.cleared"})
        elif not asked.done:
            self._item, self._seconds = new_id("item"), 0.0
            await self._tell_committed()
            await self._complete("")

    async def _tell_setup(self, what: str, before: bool) -> None:
        kind, told = ("transcription_session", Setup.told_as_before) if before else ("session", Setup.told)
        await self._send({"type": f"{kind}.{what}", "session": told(self._setup, self._id, self.hub)})

    async def _tell_item(self, kind: str, **fields: Any) -> None:
        await self._send({"type": kind, "item_id": self._item, **fields})

    async def _send(self, event: dict[str, Any]) -> None:
        await self.socket.send(msgspec.json.encode({"event_id": new_id("event"), **event}), text=True)


def error_event(
    code: str, message: str, *, param: str | None = None, event_id: str | None = None
) -> dict[str, Any]:
    """An ``error`` for one of our codes, or of the protocol's; ``event_id``: of the client's message."""
    fault = "server_error" if code in OURS else "invalid_request_error"
    error = {"type": fault, "code": CODES.get(code, code), "message": message, "param": param}
    return {"type": "error", "event_id": new_id("event"), "error": error | {"event_id": event_id}}


def new_id(kind: str) -> str:
    """A name that is given once."""
    return f"{kind}_{secrets.token_hex(10)}"


def is_old(headers: Headers) -> bool:
    """Whether a client speaks the protocol's older form."""
    return "realtime=v1" in headers.get_all("OpenAI-Beta") or OLD_PROTOCOL in offered(headers)
