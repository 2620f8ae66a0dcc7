"""Metadata of GGUF files that other programs wrote: read by key, never believed to have the right type."""

from typing import Any

from ..errors import REMEDY, ModelError
from ..gguf_read import GgufModel


class Fields:
    """The metadata of one file whose keys begin with ``prefix``. All methods raise ModelError."""

    def __init__(self, model: GgufModel, prefix: str) -> None:
        self._model = model
        self._prefix = prefix

    def __contains__(self, key: str) -> bool:
        return self._prefix + key in self._model.fields

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        return int(self._typed(int, key, default))

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Yes or no."""
        return bool(self._typed(bool, key, default))

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        return str(self._typed(str, key, default))

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers; empty where the key is absent, since GGUF knows no empty lists."""
        return self._list(int, key)

    def pairs(self, key: str) -> tuple[tuple[int, int], ...]:
        """A list of pairs of whole numbers, stored one after the other; empty where the key is absent."""
        flat = self.integers(key)
        if len(flat) % 2:
            raise self._wrong(key, list(flat))
        return tuple(zip(flat[::2], flat[1::2], strict=True))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty where the key is absent."""
        return self._list(str, key)

    def floats(self, key: str) -> tuple[float, ...]:
        """A list of numbers with a point; empty where the key is absent."""
        return self._list(float, key)

    def all(self) -> dict[str, object]:
        """All values by their keys without the prefix."""
        fields = self._model.fields.items()
        return {
            key.removeprefix(self._prefix): field.value
            for key, field in fields
            if key.startswith(self._prefix)
        }

    def _typed(self, type_: type, key: str, default: object) -> Any:
        if default is not None and key not in self:
            return default
        value = self._model.value(self._prefix + key)
        if type(value) is not type_:
            raise self._wrong(key, value)
        return value

    def _list(self, type_: type, key: str) -> tuple[Any, ...]:
        if key not in self:
            return ()
        value = self._model.value(self._prefix + key)
        if not isinstance(value, list) or not all(type(item) is type_ for item in value):
            raise self._wrong(key, value)
        return tuple(value)

    def _wrong(self, key: str, value: object) -> ModelError:
        shown = f"{value!r:.40}"
        return ModelError(self._model.path, f"says {shown} for {self._prefix}{key}", REMEDY)
