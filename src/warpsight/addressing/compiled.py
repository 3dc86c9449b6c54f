"""The decorator for functions that compiled simulations call: plain Python to the type checker, native code when called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import intrinsic as numba_intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call, without the interpreter lock. The Python original stays as `.py_func`."""
    # error_model: divisors are checked where they come in, so the test for zero is left out.
    return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """As `compiled`, and always put in place where it is called: for what is small, or called from one place."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", forceinline=True)(function))


def compiled_and_kept(function: Function) -> Function:
    """As `compiled`, and kept on disk."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", cache=True)(function))


def intrinsic(function: Callable[..., Any]) -> Any:
    """Numba's way to give the machine code of a function."""
    return numba_intrinsic(function)
