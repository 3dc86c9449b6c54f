"""CuPy's `RawKernel`: CUDA C++ text, the kernel's name and compiler options. CuPy is not imported, nor needed to be there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from warpsight.base.errors import UnsupportedError, UsageError

_REMEDY = "leave the option out, or give defines= and include_dirs="
# What changes neither the kernel's meaning here nor what is counted.
_NO_MATTER = ("--std", "-std", "-lineinfo", "--generate-line-info", "-G", "--device-debug", "-w", "--disable-warnings",
              "-default-device")  # fmt: skip


def is_raw_kernel(kernel: Any) -> bool:
    """Has it the source text and the name of a kernel, as `cupy.RawKernel` does? A `RawModule` has no name."""
    return isinstance(getattr(kernel, "code", None), str) and isinstance(getattr(kernel, "name", None), str)


def raw_kernel(kernel: Any) -> dict[str, Any]:
    """`source`, `kernel`, `defines` and `include_dirs` of a `RawKernel`. Raises UnsupportedError for an option not understood."""
    if not kernel.code.strip():
        raise UsageError(f'the RawKernel "{kernel.name}" has no source text', place="source", remedy="give code=, not path=")
    defines: list[str] = []
    folders: list[str] = []
    words = iter(_words(kernel))
    for word in words:
        for short, long, found in (("-D", "--define-macro=", defines), ("-I", "--include-path=", folders)):
            if word == short:
                found.append(next(words, ""))
                break
            if word.startswith((short, long)):
                found.append(word.removeprefix(long).removeprefix(short))
                break
        else:
            if word.partition("=")[0] not in _NO_MATTER:
                what = f'compiler option "{word}" is not modelled'
                raise UnsupportedError(what, place=f"RawKernel {kernel.name}", remedy=_REMEDY)
    given: dict[str, Any] = {"source": kernel.code + "\n", "kernel": kernel.name, "name": f"{kernel.name}.cu"}
    return {**given, **({"defines": tuple(defines)} if defines else {}), **({"include_dirs": tuple(folders)} if folders else {})}


def _words(kernel: Any) -> Iterable[str]:
    return (str(option).strip() for option in getattr(kernel, "options", ()) or ())
