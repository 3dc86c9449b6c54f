"""A JSON object, read field by field with its place in every message."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from warpsight.base.errors import FormatError, suggestion

_MOST = 2**63 - 1
_PROFILE = "see docs/reference/interval-profile.md"


class Fields:
    """The object `value`, found at JSON path `path` (empty at the top) of `origin`. Every method raises FormatError."""

    def __init__(self, value: Any, origin: str, path: str) -> None:
        self._origin, self._path = origin, path
        if not isinstance(value, dict):
            raise FormatError(f"is {_kind(value)}, where an object is due", place=self._place(""), remedy=_PROFILE)
        self._value: dict[str, Any] = value

    def known(self, required: Sequence[str], optional: Sequence[str]) -> None:
        """Refuses keys that are neither, and misses those that are required."""
        for key in self._value:
            if key not in required and key not in optional:
                hint = suggestion(key, (*required, *optional))
                raise FormatError(f'"{key}" is not a key of an interval profile{hint}', place=self._place(key), remedy=_PROFILE)
        for key in required:
            if key not in self._value:
                raise FormatError("is missing", place=self._place(key), remedy=_PROFILE)

    def has(self, key: str) -> bool:
        """The key is there."""
        return key in self._value

    def is_null(self, key: str) -> bool:
        """The value is null."""
        return self._value[key] is None

    def whole(self, key: str, *, least: int = 0, most: int = _MOST) -> int:
        """An integer within the bounds; 3.0 is taken for 3."""
        value = self._value[key]
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"is {_kind(value)}, where a whole number is due")
        self._bounded(key, value, least, most)
        return value

    def number(self, key: str, *, most: float = _MOST) -> float:
        """A finite number from 0 to `most`."""
        value = self._value[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(key, f"is {_kind(value)}, where a number is due")
        self._bounded(key, value, 0, most)
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """A finite number from 0 on, or None where the key is missing or null."""
        return None if not self.has(key) or self.is_null(key) else self.number(key)

    def text(self, key: str) -> str:
        """A string."""
        value = self._value[key]
        if not isinstance(value, str):
            self.fail(key, f"is {_kind(value)}, where text is due")
        return str(value)

    def choice(self, key: str, words: Sequence[str]) -> str:
        """One of `words`."""
        value = self.text(key)
        if value not in words:
            self.fail(key, f'is "{value}"{suggestion(value, words)}', f"known: {', '.join(words)}")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        value = self._value[key]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(key, "is not a list of texts")
        return [str(item) for item in value]

    def inside(self, key: str, required: Sequence[str], optional: Sequence[str]) -> Fields:
        """The object under `key`, its keys checked."""
        found = Fields(self._value[key], self._origin, self._join(key))
        found.known(required, optional)
        return found

    def items(self, key: str, required: Sequence[str]) -> list[Fields]:
        """The objects in the list under `key`, their keys checked."""
        value = self._value[key]
        if not isinstance(value, list):
            self.fail(key, f"is {_kind(value)}, where a list is due")
        found = [Fields(item, self._origin, f"{self._join(key)}[{number}]") for number, item in enumerate(value)]
        for item in found:
            item.known(required, ())
        return found

    def fail(self, key: str, what: str, remedy: str = _PROFILE) -> NoReturn:
        """Raises FormatError at `key`."""
        raise FormatError(what, place=self._place(key), remedy=remedy)

    def _bounded(self, key: str, value: float, least: float, most: float) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(key, f"is {value}, where a finite number is due")
        if value < least:
            self.fail(key, f"is {_shown(value)}, and the least that makes sense is {least:g}")
        if value > most:
            self.fail(key, f"is {_shown(value)}, and the most that makes sense is {most:g}")

    def _join(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path and key else self._path or key

    def _place(self, key: str) -> str:
        where = self._join(key)
        return f"{self._origin}: {where}" if where else self._origin


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: float) -> str:
    # a JSON integer may be too long for a float
    return f"{value:g}" if abs(value) < _MOST else "beyond 64 bits"
