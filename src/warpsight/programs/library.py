"""The runtime library in C: built with the user's compiler at first use, kept in the cache folder under the hash of its source."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warpsight.base import diskcache
from warpsight.base.errors import UsageError

_SOURCES = Path(__file__).parent / "runtime"
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread")
# The file name that programs ask for, by the major version of CUDA's interface; it is also the version of all symbols.
SONAMES = {13: "libcudart.so.13", 12: "libcudart.so.12", 11: "libcudart.so.11.0"}


def _content() -> str:
    files = sorted(f for f in _SOURCES.iterdir() if f.suffix in (".c", ".h", ".txt"))
    return diskcache.content_key(*_FLAGS, *(part for f in files for part in (f.name, f.read_bytes())))


def compiler() -> str:
    """The C compiler: `$CC`, else `cc`, `gcc` or `clang` on PATH. Raises UsageError if there is none."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise UsageError(
        "a C compiler is needed once, to build the library that stands in for the CUDA runtime, and there is none (cc, gcc, clang)",
        place="warpsight run",
        remedy="install one (for example `apt install gcc`), or set CC",
    )


def library_folder() -> Path:
    """The folder with the libraries of every version; built now unless it is there. Raises UsageError when that fails."""
    place = diskcache.folder() / "runtime" / _content()
    if place.is_dir():
        return place
    command = compiler()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    except OSError as error:
        what = f"the runtime library cannot be kept there: {error.strerror}"
        raise UsageError(what, place=str(place.parent), remedy="set WARPSIGHT_CACHE to a folder that can be written") from error
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda version: _build(command, version, scratch), SONAMES))
        if not place.is_dir():  # another run may have been faster
            scratch.rename(place)
    except OSError:
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return place


def _build(command: str, version: int, folder: Path) -> None:
    soname = SONAMES[version]
    script = folder / f"{soname}.map"
    script.write_text(f"{soname} {{ global: cuda*; __cuda*; local: *; }};\n")
    per_thread = (_SOURCES / "per_thread.txt").read_text().split()
    words = [command, *_FLAGS, f"-DCUDART={version}", "-shared", f"-Wl,-soname,{soname}", f"-Wl,--version-script,{script}"]
    # Streams of a thread's own behave as the default stream does here, so that both names are one function.
    words += [f"-Wl,--defsym={name}={name[:-5]}" for name in per_thread]
    words += ["-o", str(folder / soname), *sorted(str(f) for f in _SOURCES.glob("*.c"))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"the runtime library cannot be built: {done.stderr.strip()[:600]}", place=command, remedy="set CC")
