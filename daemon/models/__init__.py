"""Models: the catalogue, fetching, conversion to GGUF, quantisation.

Everything here blocks and raises ``ModelError`` alone.
"""

from .convert import convert
from .errors import ModelError
from .fetch import pull
from .info import ModelInfo, info
from .quantize import quantize
from .store import ListedModel, list_models, models_folder, resolve

__all__ = [
    "ListedModel",
    "ModelError",
    "ModelInfo",
    "convert",
    "info",
    "list_models",
    "models_folder",
    "pull",
    "quantize",
    "resolve",
]
