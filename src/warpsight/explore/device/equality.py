"""Are two buffers the same, bit for bit, and if not, how far apart?"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def difference(found: Array, expected: Array) -> dict[str, Any]:
    """How many elements of `found` differ in their bits from `expected` (same shape and dtype), and how far.

    Keys: `elements`, `differing`, `largest_ulp` (floats whose both values are numbers; None for others, or where nothing differs),
    `not_numbers` (differing elements of which one or both are NaN), `first` (index, found, expected; None where nothing differs).
    Elements of a dtype that is neither a number nor a truth value are bytes.
    """
    if found.dtype.kind not in "biuf" or found.dtype.itemsize not in _UNSIGNED:
        found, expected = (each.reshape(-1).view(np.uint8) for each in (found, expected))
    left, right = found.reshape(-1), expected.reshape(-1)
    bits = _UNSIGNED[left.dtype.itemsize]
    places = np.flatnonzero(left.view(bits) != right.view(bits))
    document: dict[str, Any] = {
        "elements": left.size, "differing": len(places), "largest_ulp": None, "not_numbers": 0, "first": None,
    }  # fmt: skip
    if not len(places):
        return document
    at = int(places[0])
    document["first"] = {"index": at, "found": repr(left[at].item()), "expected": repr(right[at].item())}
    if left.dtype.kind == "f":
        a, b = left[places], right[places]
        numbers = ~(np.isnan(a) | np.isnan(b))
        document["not_numbers"] = int(np.count_nonzero(~numbers))
        if numbers.any():
            document["largest_ulp"] = _largest_ulp(a[numbers].view(bits), b[numbers].view(bits))
    return document


def _largest_ulp(left: Array, right: Array) -> int:
    """The most representable numbers that lie between two floats, given by their bits. +0 and -0 are one apart here."""
    ordered = (_ordered(left), _ordered(right))
    apart = np.maximum(*ordered) - np.minimum(*ordered)
    return int(apart.max())


def _ordered(bits: Array) -> npt.NDArray[np.uint64]:
    """Unsigned integers in the order of the floats: negative ones are turned over, the others moved above them."""
    width = 8 * bits.dtype.itemsize
    wide = bits.astype(np.uint64)
    sign = np.uint64(1 << (width - 1))
    mask = np.uint64((1 << width) - 1)
    return np.where(wide & sign, ~wide & mask, wide | sign)
