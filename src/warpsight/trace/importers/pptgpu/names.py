"""The names in a folder of PPT-GPU's tracer."""

from __future__ import annotations

import re
from pathlib import Path

CONFIG, SASS, MEMORY = "app_config.py", "sass_traces", "memory_traces"
_SASS_FILE = re.compile(r"kernel_(\d{1,9})\.sass")
_MEMORY_FILE = re.compile(r"kernel_(\d{1,9})_block_(\d{1,12})\.mem")


def place_of(path: str | Path) -> tuple[Path, int | None] | None:
    """(folder, kernel) that `path` names: the folder or its `app_config.py` (kernel None: all), or one `.sass` file; else None."""
    path = Path(path)
    try:
        if path.is_dir():
            return (path, None) if (path / CONFIG).is_file() and (path / SASS).is_dir() else None
        if path.name == CONFIG:
            return (path.parent, None) if (path.parent / SASS).is_dir() else None
        found = _SASS_FILE.fullmatch(path.name)
        if found and path.parent.name == SASS and path.is_file():
            return path.parent.parent, int(found[1])
    except (OSError, ValueError):
        pass
    return None


def may_be_pptgpu(path: str | Path) -> bool:
    """Whether `path` is by its names a trace of PPT-GPU's or AMALI's tracer."""
    return place_of(path) is not None


def sass_file(folder: Path, kernel: int) -> Path:
    """The file with a kernel's instructions."""
    return folder / SASS / f"kernel_{kernel}.sass"


def memory_files(folder: Path, kernel: int) -> dict[int, Path]:
    """The files with the addresses of a kernel by number of block, in order. Other names in the folder are not looked at."""
    try:
        names = [entry.name for entry in (folder / MEMORY).iterdir()]
    except OSError:
        return {}
    found = {}
    for name in names:
        match = _MEMORY_FILE.fullmatch(name)
        if match and int(match[1]) == kernel:
            found[int(match[2])] = folder / MEMORY / name
    return dict(sorted(found.items()))
