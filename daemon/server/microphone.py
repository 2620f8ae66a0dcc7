"""A microphone as the source of a channel."""

import asyncio
import logging

from ..audio import microphone
from ..audio.microphone import Back, Lost, Microphone, NoMicrophone, Overflow, Sound
from ..audio.pcm import AudioFormat
from ..hub import Hub, Refused
from ..session import Session

logger = logging.getLogger(__name__)

RETRY_S = 5.0


async def capture(hub: Hub) -> None:
    """Keeps the microphone of the settings in its channel until cancelled; the daemon goes on without one."""
    complaint = ""
    while True:
        try:
            async with Microphone(hub.settings.microphone.device) as source:
                await _one_session(hub, source)
        except (NoMicrophone, Refused) as error:
            if str(error) != complaint:
                complaint = str(error)
                logger.warning("microphone: %s", complaint)
        await asyncio.sleep(RETRY_S)


async def _one_session(hub: Hub, source: Microphone) -> None:
    """Feeds a session until it ends, which it does if the engine fails or another source takes over."""
    with hub.slot() as slot:
        if slot.refusal is not None:
            raise slot.refusal
        session = await hub.open(AudioFormat(), hub.defaults, hub.settings.microphone.channel)
        hub.start(session, slot)
        feeding = asyncio.create_task(feed(session, source))
        try:
            await hub.ended(session)
        finally:
            feeding.cancel()
            session.finish("expired")


async def feed(session: Session, source: Microphone) -> None:
    """Takes what the microphone hears, and what it misses, to a session."""
    async for item in source:
        await take(session, item)


async def take(session: Session, item: microphone.Item) -> None:
    """One item of a microphone."""
    match item:
        case Sound(samples):
            await session.push(samples)
        case Overflow(samples):
            session.gap(samples, "overflow")
        case Lost():
            session.flush()
            logger.warning("the microphone is gone; waiting for it to come back")
        case Back(samples):
            session.gap(samples, "device_lost")
            logger.warning("the microphone is back")
