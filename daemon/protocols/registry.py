"""The wire protocols on the daemon's main port."""

from .channels import Channels
from .endpoint import Endpoint
from .native import Stream

ENDPOINTS: tuple[Endpoint, ...] = (Stream(), Channels())


def endpoint_at(path: str) -> Endpoint | None:
    """The protocol that is spoken at a path."""
    return next((endpoint for endpoint in ENDPOINTS if endpoint.takes(path)), None)
