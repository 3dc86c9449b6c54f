"""The decorators for the compiled parser: plain Python to the type checker, native code when called."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# Without Numba's run time (_nrt) arrays that are handed on are not counted: counting took four fifths of the time. Nothing here
# allocates memory.
_PLAIN: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def compiled(function: Function) -> Function:
    """Compile at the first call, without the interpreter lock. For what only compiled code calls."""
    return cast(Function, numba.njit(**_PLAIN)(function))


def compiled_and_kept(function: Function) -> Function:
    """As `compiled`, and kept on disk."""
    return cast(Function, numba.njit(**_PLAIN, cache=True)(function))


def inlined(function: Function) -> Function:
    """As `compiled`, and always put in place where it is called."""
    return cast(Function, numba.njit(**_PLAIN, forceinline=True)(function))


def source_fingerprint() -> int:
    """A number that changes with the text of any module here.

    Numba keys a kept function by its own file alone; a function that closes over this number is keyed by its callees' files too.
    """
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).resolve().parent.glob("*.py")):
        digest.update(file.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")
