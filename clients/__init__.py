"""Clients of the daemon."""

from .client import ConnectionLost, Sender, SessionOver, follow, send

__all__ = ["ConnectionLost", "Sender", "SessionOver", "follow", "send"]
