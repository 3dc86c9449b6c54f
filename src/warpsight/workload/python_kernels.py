"""Kernels given as Python objects: what the launch of a Numba, Triton or CuPy kernel is as text with plain arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.workload.cupy_kernel import is_raw_kernel, raw_kernel
from warpsight.workload.numba_kernel import compile_numba, is_numba_kernel, launch_of
from warpsight.workload.triton_kernel import compile_triton, is_triton_kernel


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
