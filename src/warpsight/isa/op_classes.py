"""Op classes: what kind of pipeline executes an instruction. The instruction tables of both levels, PTX and SASS, map to them."""

from __future__ import annotations

# int, fp32, fp64, fp16, sfu (division and special functions), tensor and shared are keys of a GPU description's latencies, and so
# are imad (integer multiply-add), uniform (operations on uniform registers) and constant (load from the constant cache), which only
# machine code has. A memory access takes as long as the memory hierarchy says; branch, barrier and control change what a warp does
# next.
OP_CLASSES = (
    "int", "fp32", "fp64", "fp16", "sfu", "tensor", "shared", "imad", "uniform", "constant", "memory", "branch", "barrier",
    "control",
)  # fmt: skip
