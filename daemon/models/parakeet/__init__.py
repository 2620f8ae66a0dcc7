"""NVIDIA's Parakeet family: its checkpoints in every format, and how our files store them."""

from .checkpoint import Checkpoint

__all__ = ["Checkpoint"]
