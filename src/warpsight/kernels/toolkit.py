"""NVIDIA compilers: the architectures that they compile for, and where their libraries are, without a CUDA toolkit or driver."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import UsageError, WarpsightError

DEFAULT_ARCHITECTURE = "75"


@dataclass(frozen=True)
class Architecture:
    """A compute capability times ten, and the letter of an architecture-specific (`a`) or family (`f`) variant."""

    number: int
    variant: str = ""

    @property
    def virtual(self) -> str:
        """The PTX target that compilers take, `compute_75`."""
        return f"compute_{self.number}{self.variant}"

    @property
    def real(self) -> str:
        """The machine-code target that assemblers take, `sm_75`."""
        return f"sm_{self.number}{self.variant}"


def parse_architecture(text: str | int) -> Architecture:
    """Read an architecture as users and `.target` lines write it. Raises UsageError for any other text."""
    match = re.fullmatch(r"(?:(?:compute_|sm_)?(\d{2,3})|(\d{1,2})\.(\d))([af]?)", str(text).strip().lower())
    if match is None:
        raise UsageError(f"{str(text)!r} is not a GPU architecture", place="arch", remedy="write 75, compute_75 or sm_75")
    number, major, minor, variant = match.groups()
    return Architecture(int(number or major + minor), variant)


# -- Where NVIDIA's compiler libraries are: inside the wheels from PyPI, with no CUDA toolkit and no driver.

_TOOLKIT = "cu13"


class MissingLibraryError(WarpsightError):
    """A library of NVIDIA's compiler is not installed, or cannot be loaded on this machine."""


def toolkit_folders() -> list[Path]:
    """The `nvidia/cu13` folders of the installed wheels (usually one), without importing anything."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [path for place in spec.submodule_search_locations if (path := Path(place) / _TOOLKIT).is_dir()]


def library_path(name: str, package: str) -> Path:
    """The file of library `name` (``libnvrtc.so.13``). Raises MissingLibraryError, naming the PyPI `package` to install."""
    for folder in toolkit_folders():
        if (path := folder / "lib" / name).is_file():
            return path
    raise MissingLibraryError(f"{name} is not installed", remedy=f'python -m pip install "{package}>=13.0,<13.1"')


def include_folders() -> list[Path]:
    """The folders of CUDA's own headers (`cuda_fp16.h`), and of libcu++ and CUB (`cuda/std/`) where they are installed too."""
    folders = [folder / below for folder in toolkit_folders() for below in ("include", "include/cccl")]
    return [folder for folder in folders if folder.is_dir()]


def identity(path: Path) -> str:
    """Identifies a build of a library without loading its 100 MB: name, size and time of its file."""
    stat = path.stat()
    return f"{path.name}:{stat.st_size}:{stat.st_mtime_ns}"


@functools.cache
def load(path: Path, *, with_globals: bool = False) -> ctypes.CDLL:
    """The loaded library; loading one takes 10 to 200 ms, so callers do it as late as possible.

    Raises MissingLibraryError when the file is not for this machine or is damaged.
    """
    try:
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL if with_globals else ctypes.DEFAULT_MODE)
    except OSError as error:
        raise MissingLibraryError(f"cannot be loaded: {error}", place=str(path), remedy="reinstall its package with pip") from error
