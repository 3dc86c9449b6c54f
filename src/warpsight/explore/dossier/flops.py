"""Floating-point operations of a launch, counted by lane and opcode; a multiply-add is two."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from warpsight.profile.usage import path_use

if TYPE_CHECKING:
    from warpsight.trace.schema import KernelTrace

# Operations of a lane by the opcode's first word, PTX and SASS; a word that is not here is no arithmetic of floating point.
_PTX = {"add": 1, "sub": 1, "mul": 1, "fma": 2, "mad": 2, "div": 1, "rcp": 1, "sqrt": 1, "rsqrt": 1, "sin": 1, "cos": 1, "ex2": 1,
        "lg2": 1, "tanh": 1}  # fmt: skip
_SASS = {"FADD": 1, "FMUL": 1, "FFMA": 2, "FADD32I": 1, "FMUL32I": 1, "FFMA32I": 2, "DADD": 1, "DMUL": 1, "DFMA": 2, "HADD2": 2,
         "HMUL2": 2, "HFMA2": 4, "MUFU": 1}  # fmt: skip
_PTX_TYPES = {"f32": ("fp32", 1), "f64": ("fp64", 1), "f16": ("fp16", 1), "bf16": ("fp16", 1), "f16x2": ("fp16", 2),
              "bf16x2": ("fp16", 2), "f32x2": ("fp32", 2)}  # fmt: skip
_TILE = re.compile(r"(?i)\.?m(\d+)n(\d+)k(\d+)")
_SASS_TILE = re.compile(r"^[A-Z]*MMA\.(\d{2,})(\d)?")
WARP = 32


def operations(opcode: str) -> tuple[str, float]:
    """The precision (fp64, fp32, fp16, tensor; "" for none) and the operations of one lane of an instruction.

    A matrix product of a warp is m x n x k multiply-adds, shared by its 32 lanes; SASS names of them, which do not give the
    whole shape, count nothing.
    """
    words = opcode.split(".")
    root = words[0]
    if root in ("mma", "wmma"):
        shape = _TILE.search(opcode)
        whole_numbers = {"s32", "s8", "u8", "s4", "u4", "b1"} & set(words)
        if shape is None or whole_numbers or words[1] in ("load", "store"):
            return "", 0.0
        m, n, k = (int(each) for each in shape.groups())
        return "tensor", 2.0 * m * n * k / WARP
    if root in _SASS:
        precision = {"D": "fp64", "H": "fp16"}.get(root[0], "fp32")
        return ("fp64" if words[-1].endswith("64H") else precision), float(_SASS[root])
    if root in _PTX:
        for word in reversed(words[1:]):
            if word in _PTX_TYPES:
                precision, vector = _PTX_TYPES[word]
                return precision, float(_PTX[root] * vector)
    return "", 0.0


def flops(trace: KernelTrace) -> dict[str, float]:
    """Operations of the whole launch by precision, with the lanes active at the entry of each basic block."""
    warps, _ = path_use(trace)
    runs = np.repeat(warps, np.diff(trace.paths.offset)) * trace.paths.repeat.astype(np.float64) * trace.paths.lanes
    lanes = np.bincount(trace.paths.block, runs, len(trace.block_start) - 1)
    scale = trace.header.blocks / trace.header.recorded_blocks
    found: dict[str, float] = {}
    for block, (begin, end) in enumerate(zip(trace.block_start[:-1].tolist(), trace.block_start[1:].tolist(), strict=True)):
        for instruction in trace.instructions[begin:end]:
            precision, each = operations(instruction.opcode)
            if each:
                found[precision] = found.get(precision, 0.0) + each * float(lanes[block]) * scale
    return {precision: count for precision, count in found.items() if count}
