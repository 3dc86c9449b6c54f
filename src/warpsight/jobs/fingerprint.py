"""What a kept result depends on besides its inputs: the code that computed it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from pathlib import Path

from warpsight._version import __version__

TRACE, SIMULATOR, PROFILE, MODELS = "trace", "simulator", "profile", "models"
ALL = "all"
# Packages (and files of this floor) whose code decides a result.
_SOURCES: dict[str, tuple[str, ...]] = {
    TRACE: ("base", "isa", "traces", "kernels", "emulator", "addressing", "pipeline/kernel_input.py", "pipeline/files.py",
            "pipeline/tracing.py"),
    SIMULATOR: ("base", "isa", "gpu", "addressing", "traces", "caches", "result", "simulator",
                "pipeline/caches_before.py", "pipeline/simulation.py"),
    PROFILE: ("base", "isa", "gpu", "addressing", "traces", "caches", "intervals", "pipeline/caches_before.py",
              "pipeline/evaluate.py", "pipeline/sampling.py"),
    MODELS: ("base", "gpu", "result", "equations", "models", "pipeline/evaluate.py", "pipeline/rows.py", "sweeps"),
    ALL: (".",),
}
# Compilers whose version changes what is recorded.
_COMPILERS: dict[str, tuple[str, ...]] = {TRACE: ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime")}
_DATA = (".c", ".cu", ".h", ".yaml")  # of the whole package, besides modules: the GPU catalogue, the runtime library
_SHIPPED = "pipeline/shipped_suites/"  # only in a wheel: tasks name the files of a suite, they are not taken from here
_PACKAGES = (
    "llvmlite", "numba", "numpy", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-nvcc", "nvidia-nvjitlink",
    "pyarrow",
)


@cache
def fingerprint(kind: str) -> str:
    """A hash of the version and of the sources that results of that kind depend on; of `ALL`: of everything that is installed."""
    root = Path(__file__).resolve().parents[1]
    suffixes = (".py", *_DATA) if kind == ALL else (".py",)
    digest = hashlib.sha256(__version__.encode())
    for name in _SOURCES[kind]:
        place = root / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            relative = path.relative_to(root).as_posix()
            if path.suffix in suffixes and not relative.startswith(_SHIPPED):
                digest.update(relative.encode() + b"\0" + path.read_bytes())
    for package in _COMPILERS.get(kind, ()):
        digest.update(f"{package}={_version(package)}".encode())
    return digest.hexdigest()


@cache
def identity() -> tuple[tuple[str, str], ...]:
    """What two processes must agree on for their results to be the same: names with versions, and the hash of all sources."""
    python = ".".join(platform.python_version_tuple()[:2])
    names = {"warpsight": __version__, "sources": fingerprint(ALL)[:16], "Python": python, "machine": platform.machine()}
    return tuple({**names, **{package: _version(package) or "none" for package in _PACKAGES}}.items())


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
