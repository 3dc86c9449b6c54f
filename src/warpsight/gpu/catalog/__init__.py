"""The GPUs that come with Warpsight, one YAML file each."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

# The package is always installed unpacked: numba's cache needs that too.
_FOLDER = Path(str(files(__name__)))


def catalog_names() -> list[str]:
    """Names of the catalogue's GPUs, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def catalog_path(name: str) -> Path | None:
    """The file of a catalogue name, or None."""
    return _FOLDER / f"{name}.yaml" if name in catalog_names() else None
