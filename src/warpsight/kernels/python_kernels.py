"""Kernels given as Python objects: the launch of a Numba, Triton or CuPy kernel as text with plain arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.kernels.numba_kernel import compile_numba, is_numba_kernel, launch_of
from warpsight.kernels.triton_kernel import compile_triton, is_triton_kernel

_REMEDY = "leave the option out, or pass `defines` and `include_dirs`"
# What changes neither the kernel's meaning here nor what is counted.
_NO_MATTER = ("--std", "-std", "-lineinfo", "--generate-line-info", "-G", "--device-debug", "-w", "--disable-warnings",
              "-default-device")  # fmt: skip


def is_raw_kernel(kernel: Any) -> bool:
    """Has it the source text and the name of a kernel, as `cupy.RawKernel` does? A `RawModule` has no name."""
    return isinstance(getattr(kernel, "code", None), str) and isinstance(getattr(kernel, "name", None), str)


def raw_kernel(kernel: Any) -> dict[str, Any]:
    """`source`, `kernel`, `defines` and `include_dirs` of a `RawKernel`. Raises UnsupportedError for an unknown option."""
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


# -- Kernels given as Python objects: what the launch of a Numba, Triton or CuPy kernel is as text with plain arguments.

def as_launch(kernel: Any, given: dict[str, Any], constants: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """`source`, `kernel`, `args` and whatever else of a `LaunchSpec` such an object fixes, over `given`; None for any other object.

    `constants` are the compile-time values of a Triton kernel. Raises CompileError, UsageError, UnsupportedError.
    """
    if constants and not is_triton_kernel(kernel):
        raise UsageError("only a Triton kernel has compile-time values", place="constants", remedy="leave them out")
    if is_numba_kernel(kernel):
        given = {**launch_of(kernel), **given}
        ptx, name, args = compile_numba(kernel, given.get("args", ()), given.pop("arch", None), given.get("seed", 0))
        _refuse_compiling(given, "Numba")
        return {**given, "source": ptx, "kernel": name, "name": f"{name} (Numba)", "args": tuple(args)}
    if is_triton_kernel(kernel):
        _refuse_compiling(given, "Triton")
        return compile_triton(kernel, given, constants or {})
    if is_raw_kernel(kernel):
        return {**raw_kernel(kernel), **given}
    return None


def _refuse_compiling(given: dict[str, Any], who: str) -> None:
    for option in ("defines", "include_dirs"):
        if given.pop(option, None):
            raise UsageError(f"a {who} kernel is not compiled from CUDA C++", place=option, remedy="leave the option out")
