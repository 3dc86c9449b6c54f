"""The GPUs that come with Warpsight, one YAML file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path


@cache
def _folder() -> Path:
    """Where the files lie. The package is always installed unpacked: numba's cache needs that too."""
    return Path(str(files(__name__)))


def catalog_names() -> list[str]:
    """Names of the catalogue's GPUs, sorted."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def catalog_path(name: str) -> Path | None:
    """The file of a catalogue name, or None."""
    path = _folder() / f"{name}.yaml"
    return path if name in catalog_names() and path.is_file() else None
