"""The decorators for the compiled parser: plain Python to the type checker, native code when called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call, without the interpreter lock, and keep the code on disk."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", cache=True, _nrt=False)(function))


def inlined(function: Function) -> Function:
    """As `compiled`, and always put in place where it is called: handing arrays on costs reference counts at every call."""
    return cast(Function, numba.njit(nogil=True, error_model="numpy", forceinline=True, cache=True, _nrt=False)(function))
