"""Functions that device code may call without defining them: those that NVIDIA's runtime provides on a GPU, with their signatures.

The CUDA C++ Programming Guide lists them under "Formatted Output", "Dynamic Global Memory Allocation" and "Assertion". What they do
is in `emulator/externals.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class External:
    """PTX types of the parameters in order, and of the result ("" when there is none)."""

    parameters: tuple[str, ...]
    result: str


PRINTF, MALLOC, FREE, ASSERTION = "vprintf", "malloc", "free", "__assertfail"
ALIGNED_MALLOCS = ("__nv_aligned_device_malloc", "__cuda_syscall_aligned_malloc")  # `new` of an over-aligned type

EXTERNALS: dict[str, External] = {
    PRINTF: External(("b64", "b64"), "b32"),  # format, argument buffer; number of arguments
    MALLOC: External(("b64",), "b64"),  # size
    **dict.fromkeys(ALIGNED_MALLOCS, External(("b64", "b64"), "b64")),  # size, alignment
    FREE: External(("b64",), ""),
    ASSERTION: External(("b64", "b64", "b32", "b64", "b64"), ""),  # message, file, line, function, bytes of a character
}


def why_not(name: str) -> str:
    """Why a call of an undefined function is refused."""
    if name.startswith("cuda"):
        return f'it calls "{name}" of the CUDA device runtime (kernels that start kernels), which is not modelled'
    return f'it calls "{name}", which is not defined in the PTX'
