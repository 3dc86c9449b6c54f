"""Kernels given as Python objects: the launch of a Numba, Triton or CuPy kernel as text with plain arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.kernels.numba_kernel import compile_numba, is_numba_kernel, launch_of
from warpsight.kernels.triton_kernel import compile_triton, is_triton_kernel

_REMEDY = "leave the option out, or pass `defines` and `include_dirs`"
# What changes neither the kernel's meaning here nor what is counted.
_NO_MATTER = ("-lineinfo", "--generate-line-info", "-G", "--device-debug", "-w", "--disable-warnings",
              "-default-device")  # fmt: skip


def is_raw_kernel(kernel: Any) -> bool:
    """Has it the source text and the name of a kernel, as `cupy.RawKernel` does? A `RawModule` has no name."""
    return isinstance(getattr(kernel, "code", None), str) and isinstance(getattr(kernel, "name", None), str)


def raw_kernel(kernel: Any) -> dict[str, Any]:
    """`source`, `kernel`, `defines`, `include_dirs` and `std` of a `RawKernel`. Raises UnsupportedError for an unknown option."""
    if not kernel.code.strip():
        raise UsageError(f'the RawKernel "{kernel.name}" has no source text', place="source", remedy="give code=, not path=")
    values: dict[str, list[str]] = {"defines": [], "include_dirs": []}
    standard: dict[str, str] = {}
    options = (str(option).strip() for option in getattr(kernel, "options", ()) or ())
    for option in options:
        for short, long, key in (("-D", "--define-macro=", "defines"), ("-I", "--include-path=", "include_dirs")):
            if option.startswith((short, long)):
                values[key].append(next(options, "") if option == short else option.removeprefix(long).removeprefix(short))
                break
        else:
            name, _, value = option.partition("=")
            if name in ("--std", "-std"):
                standard["std"] = value
            elif name not in _NO_MATTER:
                what = f'compiler option "{option}" is not modelled'
                raise UnsupportedError(what, place=f"RawKernel {kernel.name}", remedy=_REMEDY)
    stated = {key: tuple(texts) for key, texts in values.items() if texts}
    return {"source": kernel.code + "\n", "kernel": kernel.name, "name": f"{kernel.name}.cu", **stated, **standard}


def as_launch(kernel: Any, options: dict[str, Any], constants: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """`source`, `kernel`, `args` and what else of a `LaunchSpec` such an object fixes, over `options`; None for any other object.

    `constants` are the compile-time values of a Triton kernel. Raises CompileError, UsageError, UnsupportedError.
    """
    if constants and not is_triton_kernel(kernel):
        raise UsageError("only a Triton kernel has compile-time values", place="constants", remedy="leave them out")
    if is_numba_kernel(kernel):
        options = {**launch_of(kernel), **options}
        ptx, name, args = compile_numba(kernel, options.get("args", ()), options.pop("arch", None), options.get("seed", 0))
        _refuse_cuda_options(options, "Numba")
        return {**options, "source": ptx, "kernel": name, "name": f"{name} (Numba)", "args": tuple(args)}
    if is_triton_kernel(kernel):
        _refuse_cuda_options(options, "Triton")
        return compile_triton(kernel, options, constants or {})
    if is_raw_kernel(kernel):
        return {**raw_kernel(kernel), **options}
    return None


def _refuse_cuda_options(options: dict[str, Any], language: str) -> None:
    for option in ("defines", "include_dirs", "std"):
        if options.pop(option, None):
            raise UsageError(f"a {language} kernel is not compiled from CUDA C++", place=option, remedy="leave the option out")
