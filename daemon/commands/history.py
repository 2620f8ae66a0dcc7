"""``stenod history``: what the daemon heard, from its journal."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..formats import FORMATS, Format, captions
from ..journal import Reader, SessionRow, UtteranceRow
from ..standard_output import OutputError, standard_output
from .options import add_options, settings_of


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declares the command."""
    parser = subparsers.add_parser("history", help="read what was said before", description=__doc__)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    action = actions.add_parser("list", help="show the last sessions")
    action.add_argument("--channel", metavar="NAME", help="only sessions that spoke into this channel")
    _add_limit(action, "sessions")
    action.set_defaults(run=_list)

    action = actions.add_parser("show", help="show what was said in a session")
    _add_session(action)
    action.set_defaults(run=_show)

    action = actions.add_parser("search", help="find utterances with all of some words")
    action.add_argument("text", metavar="TEXT", help="words; the last one may be the beginning of one")
    _add_limit(action, "utterances")
    action.set_defaults(run=_search)

    action = actions.add_parser("export", help="write a session's transcript")
    _add_session(action)
    action.add_argument("--format", choices=FORMATS, default="txt", help="format (txt)")
    action.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    action.set_defaults(run=_export)

    for action in actions.choices.values():
        add_options(action)
        action.add_argument(
            "--journal",
            dest="journal.folder",
            metavar="FOLDER",
            default=argparse.SUPPRESS,
            help="the journal's folder",
        )


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        metavar="SESSION",
        help="the beginning of its id, as `stenod history list` shows it, or last",
    )


def _add_limit(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("-n", "--limit", type=_count, default=20, metavar="N", help=f"{what} at most (20)")


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count


def _list(options: argparse.Namespace) -> int:
    with _journal(options) as reader:
        sessions = reader.sessions(options.channel, options.limit + 1)
    with standard_output():
        for session in sessions[-options.limit :]:
            print(_described(session))
    if not sessions:
        print("nothing is kept yet", file=sys.stderr)
    if len(sessions) > options.limit:
        print(f"older ones are not shown: --limit {2 * options.limit} shows more", file=sys.stderr)
    return 0


def _show(options: argparse.Namespace) -> int:
    with _journal(options) as reader:
        session = reader.find_session(options.session)
        utterances = reader.utterances(session.id)
    if session.incomplete:
        print("some of it could not be kept", file=sys.stderr)
    with standard_output():
        for utterance in utterances:
            print(f"{_clock(session.started_at + utterance.start)}  {utterance.text}")
    return 0


def _search(options: argparse.Namespace) -> int:
    with _journal(options) as reader:
        found = reader.search(options.text, options.limit)
    with standard_output():
        for utterance in found:
            print(f"{utterance.session}  {_clock(utterance.told_at)}  {utterance.text}")
    return 0


def _export(options: argparse.Namespace) -> int:
    with _journal(options) as reader:
        session = reader.find_session(options.session)
        text = exported(reader, session, options.format)
    if options.output is None:
        with standard_output():
            print(text, end="")
        return 0
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{options.output}: cannot be written: {error.strerror}") from error
    return 0


def exported(reader: Reader, session: SessionRow, form: Format) -> str:
    """A session's transcript; it ends with a line feed. Times count from the session's first sample."""
    utterances = reader.utterances(session.id)
    match form:
        case "txt":
            return "".join(f"{utterance.text}\n" for utterance in utterances)
        case "json":
            return json.dumps(_json(reader, session, utterances), ensure_ascii=False) + "\n"
        case "srt" | "vtt":
            return captions(((reader.words(one), one.language) for one in utterances), form)


def _json(reader: Reader, session: SessionRow, utterances: list[UtteranceRow]) -> dict[str, object]:
    return {
        "session": session.id,
        "channel": session.channel,
        "model": session.model,
        "started_at": session.started_at,
        "ended_at": session.ended_at,
        "reason": session.reason,
        "audio_s": session.audio_s,
        "complete": not session.incomplete,
        "utterances": [
            {
                "utterance": one.utterance,
                "start": one.start,
                "end": one.end,
                "text": one.text,
                "language": one.language,
                "confidence": one.confidence,
                "words": [
                    {"text": word.text, "start": word.start, "end": word.end, "confidence": word.confidence}
                    for word in reader.words(one)
                ],
            }
            for one in utterances
        ],
    }


@contextmanager
def _journal(options: argparse.Namespace) -> Iterator[Reader]:
    """The journal of the settings, to read. Raises ``JournalError``."""
    reader = Reader.open(settings_of(options).journal.place)
    try:
        yield reader
    finally:
        reader.close()


def _described(session: SessionRow) -> str:
    length = f"{session.audio_s / 60:6.1f} min" if session.audio_s is not None else "      open"
    channel = session.channel or "-"
    return (
        f"{session.id}  {_clock(session.started_at)}  {length}  {session.utterances:4} utterances  "
        f"{session.reason or '':9} {channel}"
    )


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
