"""A microphone as the source of a channel."""

import asyncio
import logging

from ..hub import Hub

logger = logging.getLogger(__name__)


async def capture(hub: Hub) -> None:
    """Placeholder until the microphone lands."""
    await asyncio.Event().wait()
