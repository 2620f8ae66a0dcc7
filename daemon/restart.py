"""What a daemon does first: it takes up the sessions that were open when the last one was killed."""

import asyncio
import logging
from pathlib import Path

from . import events
from .audio.resample import SAMPLE_RATE
from .hub import Hub, Refused
from .journal import Journal, JournalError, Reader
from .journal.logs import Logs
from .publisher import Publisher
from .recovery import TakenUp, conclude, going_on
from .replay import recall
from .request_log import read_log

logger = logging.getLogger(__name__)


async def take_up_sessions(hub: Hub) -> None:
    """Every session whose end was not told goes on where its log begins, and waits for its sender.

    One without a log that can be used is concluded: what was committed is its text. So is one that told more
    than the journal could keep: to go on from what is kept would tell other things under the same numbers.
    """
    journal = hub.journal
    if journal is None or journal.failed:
        return
    try:
        logs = await asyncio.to_thread(Logs(journal.folder).paths)
        unfinished = await journal.read(lambda reader: reader.unfinished())
        for path in logs:
            session = path.stem
            if unfinished.get(session) and await _take_up(hub, journal, path):
                del unfinished[session]
            else:
                journal.write_log(session, None, b"", lambda: None)
        for session in unfinished:
            await _conclude(hub, journal, session)
    except (OSError, JournalError) as error:
        logger.error("sessions that were open cannot be taken up: %s", error)


async def _take_up(hub: Hub, journal: Journal, path: Path) -> bool:
    try:
        checkpoint, entries, size = await asyncio.to_thread(read_log, path)
    except (OSError, ValueError) as error:
        logger.warning("%s: %s; its session cannot be resumed", path, error)
        return False

    def query(reader: Reader) -> TakenUp:
        told = _decoded(reader.session_events(checkpoint.session, checkpoint.seq))
        return TakenUp(checkpoint, entries, size, told, _open_words(reader, checkpoint.session))

    taken = await journal.read(query)
    try:
        await recall(hub.channel(checkpoint.channel), journal)
        session = hub.take_up(taken)
    except Refused as error:
        logger.warning("session %s cannot be resumed: %s", checkpoint.session, error)
        return False
    hub.start(session)
    hub.departures.wait_for(session)
    return True


async def _conclude(hub: Hub, journal: Journal, session: str) -> None:
    def query(reader: Reader) -> tuple[list[events.Numbered], list[events.Word]]:
        return _decoded(reader.session_events(session, 0)), _open_words(reader, session)

    logger.warning("session %s cannot go on after the restart; it ends with what is kept of it", session)
    told, words = await journal.read(query)
    there = going_on(0, 0, told, words)
    publisher = Publisher(session, hub.channel(None), journal)
    publisher.repeat(0, told)
    publisher.skip()
    conclude(publisher, there, words)
    audio_s = there.position / SAMPLE_RATE
    publisher.tell(events.Ended, reason="expired", audio_s=audio_s, utterances=there.utterances)
    await publisher.finished()


def _decoded(told: list[bytes]) -> list[events.Numbered]:
    decoded = [events.decode(json) for json in told]
    return [event for event in decoded if isinstance(event, events.Numbered)]


def _open_words(reader: Reader, session: str) -> list[events.Word]:
    utterances = reader.utterances(session)
    return reader.words(utterances[-1]) if utterances and utterances[-1].end is None else []
