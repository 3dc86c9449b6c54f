"""Errors as plain values, with the lines of the kernel's text that they are about."""

from __future__ import annotations

import re
from typing import Any

from warpsight.base.errors import WarpsightError

# What NVRTC and nvcc write: kernel.cu(3): error: identifier "y" is undefined
_DIAGNOSTIC = re.compile(r"^(?P<file>[^\s(]+)\((?P<line>\d+)\): (?P<severity>error|warning)(?: #[\w-]+)?: (?P<message>.*)$", re.M)
_PLACE = re.compile(r":(\d+)$")


def error_document(error: WarpsightError) -> dict[str, Any]:
    """An error as plain values: `kind`, `what`, `place`, `remedy`, and `lines` of the kernel's text that it is about, each with
    its `line`, `severity` and `message`.
    """
    return {
        "kind": type(error).__name__, "what": error.what, "place": error.place, "remedy": error.remedy, "lines": _lines(error),
    }  # fmt: skip


def _lines(error: WarpsightError) -> list[dict[str, Any]]:
    found = [
        {"line": int(each["line"]), "severity": each["severity"], "message": each["message"]}
        for each in _DIAGNOSTIC.finditer(error.what)
    ]
    if found:
        return found
    place = _PLACE.search(error.place)
    line = error.details.line if error.details is not None else int(place[1]) if place else 0
    return [{"line": line, "severity": "error", "message": error.what}] if line else []
