"""Result documents as JSON text."""

from __future__ import annotations

import json
from typing import Any


def json_text(document: Any) -> str:
    """Indented JSON, keys in the document's order. Raises ValueError on NaN or infinity, which JSON has no word for."""
    return json.dumps(document, indent=2, allow_nan=False, default=_plain)


def documents_json(documents: list[Any]) -> str:
    """One document as an object, several as a list (DESIGN section 2)."""
    return json_text(documents[0] if len(documents) == 1 else documents)


def plain(document: Any) -> Any:
    """The document as JSON would give it back: tuples as lists, keys as texts."""
    return json.loads(json_text(document))


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} does not belong in a result document")
