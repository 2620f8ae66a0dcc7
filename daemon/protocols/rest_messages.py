"""What a request for a transcription may say, and the forms that the answer has."""

import json
import math
import zlib
from dataclasses import dataclass
from http import HTTPStatus
from statistics import fmean
from typing import Any, Literal, get_args

from starlette.datastructures import FormData
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ..events import ErrorCode, Final
from ..formats import captions
from ..hub import Refused
from .parsing import language_of
from .running_text import RunningText

ResponseFormat = Literal["json", "text", "srt", "vtt", "verbose_json"]
Granularity = Literal["word", "segment"]

LONGEST_PROMPT = 2000
MEDIA_TYPES = {"srt": "application/x-subrip", "vtt": "text/vtt"}

_STATUS: dict[ErrorCode, HTTPStatus] = {
    "unauthorized": HTTPStatus.UNAUTHORIZED,
    "forbidden": HTTPStatus.FORBIDDEN,
    "too_many_sessions": HTTPStatus.TOO_MANY_REQUESTS,
    "engine_failed": HTTPStatus.INTERNAL_SERVER_ERROR,
    "buffer_overflow": HTTPStatus.INTERNAL_SERVER_ERROR,
    "shutting_down": HTTPStatus.SERVICE_UNAVAILABLE,
}
_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}
RETRY_AFTER_S = 5


@dataclass(frozen=True)
class Wanted:
    """What is asked for. Fields that are about OpenAI's models are ignored, ``model`` among them."""

    response_format: ResponseFormat
    granularities: frozenset[Granularity]
    language: str | None
    prompt: str
    stream: bool


def of_form(form: FormData) -> Wanted:
    """What a form asks for. Raises ``Refused``."""
    prompt = _text(form, "prompt")
    if len(prompt) > LONGEST_PROMPT:
        raise Refused("bad_field", f"prompt: longer than {LONGEST_PROMPT} characters", "prompt")
    many = [*form.getlist("timestamp_granularities[]"), *form.getlist("timestamp_granularities")]
    granularities = frozenset(_one_of(Granularity, "timestamp_granularities", one) for one in many)
    form_of_answer = _one_of(ResponseFormat, "response_format", _text(form, "response_format") or "json")
    stream = _text(form, "stream").lower() in ("true", "1")
    if stream and form_of_answer not in ("json", "text"):
        raise Refused(
            "bad_field", f"stream: {form_of_answer} is not streamed; ask for json or text", "stream"
        )
    return Wanted(
        form_of_answer,
        granularities or frozenset(("segment",)),
        language_of(_text(form, "language")),
        prompt,
        stream,
    )


def _text(form: FormData, field: str) -> str:
    value = form.get(field, "")
    if not isinstance(value, str):
        raise Refused("bad_field", f"{field}: is text, not a file", field)
    return value


def _one_of(kind: Any, field: str, value: object) -> Any:
    if value not in get_args(kind):
        raise Refused("bad_field", f"{field}: {value!r} is none of {', '.join(get_args(kind))}", field)
    return value


def response(wanted: Wanted, said: RunningText, audio_s: float) -> Response:
    """The answer of a request that is not streamed."""
    match wanted.response_format:
        case "json":
            return JSONResponse({"text": said.text, "usage": _usage(audio_s)})
        case "text":
            return PlainTextResponse(said.text + "\n")
        case "verbose_json":
            return JSONResponse(_verbose(wanted, said, audio_s))
        case "srt" | "vtt" as form:
            spoken = [(list(final.words or ()), final.language) for final in said.finals]
            return Response(captions(spoken, form), media_type=MEDIA_TYPES[form])


def _verbose(wanted: Wanted, said: RunningText, audio_s: float) -> dict[str, Any]:
    told: dict[str, Any] = {
        "task": "transcribe",
        "language": said.language,
        "duration": round(audio_s, 3),
        "text": said.text,
        "usage": _usage(audio_s),
    }
    if "segment" in wanted.granularities:
        told["segments"] = [_segment(number, final) for number, final in enumerate(said.finals)]
    if "word" in wanted.granularities:
        told["words"] = [
            {"word": word.text, "start": word.start, "end": word.end}
            for final in said.finals
            for word in final.words or ()
        ]
    return told


def _segment(number: int, final: Final) -> dict[str, Any]:
    """An utterance. What only OpenAI's way of decoding has is given as it would be of good speech."""
    text = final.text.encode()
    return {
        "id": number,
        "seek": round(final.start * 100),
        "start": final.start,
        "end": final.end,
        "text": final.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": fmean(math.log(max(word.confidence, 1e-4)) for word in final.words or ()),
        "compression_ratio": len(text) / len(zlib.compress(text)),
        "no_speech_prob": 0.0,
    }


def sent(message: dict[str, Any]) -> str:
    """A message as one server-sent event."""
    return f"data: {json.dumps(message, ensure_ascii=False)}\n\n"


def done(said: RunningText) -> dict[str, Any]:
    """The last event of a request that is streamed."""
    return {"type": "transcript.text.done", "text": said.text}


def _usage(audio_s: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(audio_s)}


def error(status: int, message: str, code: str | None, field: str | None) -> dict[str, Any]:
    """An error as OpenAI tells one."""
    kind = "server_error" if status >= 500 else _TYPES.get(HTTPStatus(status), "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": field, "code": code}}


def error_response(status: int, message: str, code: str | None = None, field: str | None = None) -> Response:
    """An error as the answer of a request."""
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["Retry-After"] = str(RETRY_AFTER_S)
    return JSONResponse(error(status, message, code, field), status, headers)


def status_of(refused: Refused) -> int:
    """The HTTP status of a refusal."""
    return _STATUS.get(refused.code, HTTPStatus.BAD_REQUEST)
