"""Clients of the daemon."""

from .client import Sender, follow, send

__all__ = ["Sender", "follow", "send"]
