"""Long arrays in pieces that stay in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator

# Temporary arrays of so many float64 fit in cache and in memory that is already mapped; longer ones take several times as long.
_AT_ONCE = 1 << 13


def pieces(rows: int, width: int) -> Iterator[slice]:
    """Slices that cover `rows` rows of `width` numbers each, none with more numbers than are taken at once (but at least a row)."""
    size = max(1, _AT_ONCE // max(width, 1))
    for first in range(0, rows, size):
        yield slice(first, min(first + size, rows))
