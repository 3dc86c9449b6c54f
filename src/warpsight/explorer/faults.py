"""Errors as plain values, with the lines of the kernel's text that they are about."""

from __future__ import annotations

import re
from typing import Any

from warpsight.base.errors import WarpsightError
from warpsight.explorer.question import FILES

_NAMES = "|".join(map(re.escape, FILES.values()))  # errors in other files, as headers, are about no line of the text
_SEVERITY = r"(?:catastrophic |fatal )?(?P<severity>error|warning)"
_DIAGNOSTICS = [
    re.compile(pattern, re.MULTILINE) for pattern in (
        # NVRTC and nvcc: kernel.cu(3): error: identifier "y" is undefined
        rf"^(?:{_NAMES})\((?P<line>\d+)\): {_SEVERITY}(?: #[\w-]+)?: (?P<message>.*)$",
        # the host's compiler, which nvcc calls: kernel.cu:1:10: fatal error: own.h: No such file or directory
        rf"^(?:{_NAMES}):(?P<line>\d+):\d+: {_SEVERITY}: (?P<message>.*)$",
        # the assembler: ptxas kernel.ptx, line 11; error   : Arguments mismatch for instruction 'add'
        rf"^ptxas {re.escape(FILES['ptx'])}, line (?P<line>\d+); {_SEVERITY}\s*: (?P<message>.*)$",
    )
]  # fmt: skip
_PLACE = re.compile(rf"^(?:{_NAMES}):(\d+)$")
_PTX_LINE = re.compile(r"\(PTX line (\d+)\)")


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
        for diagnostic in _DIAGNOSTICS for each in diagnostic.finditer(error.what)
    ]  # fmt: skip
    if found:
        return found
    place = _PLACE.search(error.place) or (_PTX_LINE.search(error.what) if error.place == FILES["ptx"] else None)
    line = error.details.line if error.details is not None else int(place[1]) if place else 0
    return [{"line": line, "severity": "error", "message": error.what}] if line else []
