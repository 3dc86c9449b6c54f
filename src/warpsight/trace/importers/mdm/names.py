"""The names in a folder of MDM's tools."""

from __future__ import annotations

import re
from pathlib import Path

INSTRUCTIONS, MEMORY, FUNCTIONAL = "instruction_trace_{}.txt", "mem_trace_{}.txt", "memory_access_{}.txt"
CACHE_FILES = ("L1_cache", "L2_cache")
_NAME = re.compile(r"(instruction_trace|mem_trace|memory_access|interval_info)_(\d{1,9})\.txt")


def kernel_of(name: str) -> tuple[str, int] | None:
    """(kind, kernel) of a file's name, as ``("mem_trace", 1)``; None for any other name."""
    found = _NAME.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def may_be_mdm(path: str | Path) -> bool:
    """Whether `path` is by its names a trace of MDM's tools: a folder with such files, or a kernel's instructions."""
    path = Path(path)
    try:
        if path.is_dir():
            return any(kernel_of(entry.name) for entry in path.iterdir())
        found = kernel_of(path.name)
        return found is not None and found[0] == "instruction_trace" and path.is_file()
    except (OSError, ValueError):
        return False
