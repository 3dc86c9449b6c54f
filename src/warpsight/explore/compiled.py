"""Kernels that a Python compiler has made: the PTX inside a compiled Numba or Triton kernel, found by its attributes.

Neither package is imported: the object at hand brings it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsight.base.errors import UsageError

_REMEDY = "give a path, PTX text, what numba.cuda.compile returns, or a compiled Numba or Triton kernel"


def ptx_of(kernel: Any) -> str:
    """The path or source text that `kernel` is, or the PTX that it holds. Raises `UsageError` if it holds none, or several.

    Triton: the compiled kernel, with `asm["ptx"]`. Numba: the pair (PTX, return type) of its `compile` functions, or a dispatcher
    with `inspect_asm()` that has been compiled for one signature.
    """
    if isinstance(kernel, str):
        return kernel
    if isinstance(kernel, tuple) and kernel and isinstance(kernel[0], str):
        return kernel[0]
    asm = getattr(kernel, "asm", None)
    if isinstance(asm, Mapping) and "ptx" in asm:
        return str(asm["ptx"])
    if callable(getattr(kernel, "inspect_asm", None)):
        return _one(kernel.inspect_asm())
    raise UsageError(f"a {type(kernel).__name__} holds no PTX", place="source", remedy=_REMEDY)


def _one(listing: Any) -> str:
    """The PTX of a dispatcher's listing by signature."""
    if isinstance(listing, str):
        return listing
    texts = list(listing.values())
    if len(texts) == 1:
        return str(texts[0])
    what = "is not compiled for any signature" if not texts else f"is compiled for {len(texts)} signatures"
    remedy = "compile it for exactly one, or give one text of inspect_asm()"
    raise UsageError(f"the Numba kernel {what}", place="source", remedy=remedy)
