"""Clients of the daemon."""

from .client import ConnectionLost, Sender, follow, send

__all__ = ["ConnectionLost", "Sender", "follow", "send"]
