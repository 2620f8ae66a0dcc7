"""The wire protocols on the daemon's main port."""

from .assemblyai import AssemblyAI
from .channels import Channels
from .deepgram import Listen
from .endpoint import Endpoint
from .flux import Turns
from .native import Stream
from .openai import Realtime

ENDPOINTS: tuple[Endpoint, ...] = (Stream(), Channels(), Realtime(), Listen(), Turns(), AssemblyAI())


def endpoint_at(path: str) -> Endpoint | None:
    """The protocol that is spoken at a path."""
    return next((endpoint for endpoint in ENDPOINTS if endpoint.takes(path)), None)
