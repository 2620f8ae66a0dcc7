"""Models: the catalogue, fetching, conversion to GGUF, quantisation.

Everything here blocks and raises ``ModelError`` alone.
"""

from .convert import convert
from .errors import ModelError, NotWritten
from .fetch import pull
from .info import ModelInfo, info
from .quantize import quantize
from .store import ListedModel, is_path, list_models, models_folder, resolve

__all__ = [
    "ListedModel",
    "ModelError",
    "ModelInfo",
    "NotWritten",
    "convert",
    "info",
    "is_path",
    "list_models",
    "models_folder",
    "pull",
    "quantize",
    "resolve",
]
