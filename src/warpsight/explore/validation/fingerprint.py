"""What a kept result depends on besides its inputs: the code that computed it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from warpsight._version import __version__
from warpsight.explore.validation.points import PROFILE, REFEREE

TRACE = "trace"
# Packages (and files of this floor) whose code decides a result.
_SOURCES: dict[str, tuple[str, ...]] = {
    TRACE: ("base", "isa", "trace", "workload", "emulator", "addressing", "explore/kernel_input.py", "explore/store.py"),
    REFEREE: ("base", "isa", "gpu", "addressing", "trace", "result", "timing", "explore/referee.py"),
    PROFILE: ("base", "isa", "gpu", "addressing", "trace", "caches", "profile", "explore/pipeline.py"),
}
# Compilers whose version changes what is recorded.
_COMPILERS: dict[str, tuple[str, ...]] = {TRACE: ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime")}


@cache
def fingerprint(kind: str) -> str:
    """A hash of the version and of the sources that results of that kind depend on."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256(__version__.encode())
    for name in _SOURCES[kind]:
        place = root / name
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    for package in _COMPILERS.get(kind, ()):
        digest.update(f"{package}={_version(package)}".encode())
    return digest.hexdigest()


def files_hash(folder: Path, *, without: Iterable[str] = ()) -> str:
    """A hash of the names and bytes of all files in a kernel's folder. What the kernel takes from elsewhere is not seen."""
    digest, left_out = hashlib.sha256(), {*without, "__pycache__"}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not left_out & set(path.relative_to(folder).parts):
            name = path.relative_to(folder).as_posix().encode()
            data = path.read_bytes()
            digest.update(b"%d %s %d " % (len(name), name, len(data)) + data)
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
