"""Clients of the daemon."""

from .client import ConnectionLost, Refused, Sender, SessionOver, follow, send

__all__ = ["ConnectionLost", "Refused", "Sender", "SessionOver", "follow", "send"]
