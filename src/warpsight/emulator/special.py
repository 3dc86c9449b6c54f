"""Special registers. The machine's own numbers (`%smid`) are those of a single large SM; a cluster is one block.

Clocks count warp instructions of the launch, `%globaltimer` too, as nanoseconds. Performance counters (`%pm`), driver registers
(`%envreg`) and the shared memory that the system reserves are 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from warpsight.emulator.lanes import I32, I64, IOTA32, Value, at, load_as, splat, splat_constant, vector
from warpsight.emulator.layout import Slot
from warpsight.isa.program import Function, SpecialRegister

if TYPE_CHECKING:
    from warpsight.emulator.emitter import Emitter

_SCALARS = {
    **{f"%{name}.{axis}": Slot[f"{name.upper()}_{axis.upper()}"] for name in ("ctaid", "nctaid", "ntid") for axis in "xyz"},
    # The cluster of a block has its number.
    **{f"%{name}.{axis}": Slot[f"{name[:-9]}CTAID_{axis}".upper()] for name in ("clusterid", "nclusterid") for axis in "xyz"},
    "%warpid": Slot.WARP, "%nwarpid": Slot.WARPS_PER_BLOCK, "%dynamic_smem_size": Slot.DYNAMIC_SHARED,
    "%total_smem_size": Slot.SHARED_SIZE, "%aggr_smem_size": Slot.SHARED_SIZE,
}  # fmt: skip
# 64 bits of the clock, its low half and its high half.
_CLOCKS = {
    **dict.fromkeys(("%clock64", "%globaltimer"), ""),
    **dict.fromkeys(("%clock", "%globaltimer_lo"), "low"),
    **dict.fromkeys(("%clock_hi", "%globaltimer_hi"), "high"),
}
_AXES_OF = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_CONSTANTS = {
    "%smid": 0, "%nsmid": 1, "WARP_SZ": 32, "%cluster_ctarank": 0, "%cluster_nctarank": 1, "%is_explicit_cluster": 0,
    **{f"%cluster_ctaid.{axis}": 0 for axis in "xyz"}, **{f"%cluster_nctaid.{axis}": 1 for axis in "xyz"},
    **{f"%{name}.w": 0 for name in _AXES_OF},
    **{f"%pm{k}": 0 for k in range(8)}, **{f"%envreg{k}": 0 for k in range(32) if k not in (1, 2)},
    **{f"%reserved_smem_offset_{name}": 0 for name in ("begin", "end", "cap", "0", "1")},
}  # fmt: skip
_WIDE_CONSTANTS = {"%gridid": 1, "%current_graph_exec": 0, **{f"%pm{k}_64": 0 for k in range(8)}}
_LANE_MASKS = {
    "%lanemask_eq": [1 << k for k in range(32)],
    "%lanemask_lt": [(1 << k) - 1 for k in range(32)],
    "%lanemask_le": [(2 << k) - 1 for k in range(32)],
    "%lanemask_gt": [0xFFFFFFFF & ~((2 << k) - 1) for k in range(32)],
    "%lanemask_ge": [0xFFFFFFFF & ~((1 << k) - 1) for k in range(32)],
}

# Cooperative groups find the workspace of their grid's barrier there: first bit of the half.
_WORKSPACE_HALVES = {"%envreg1": 32, "%envreg2": 0}


def needs_workspace(function: Function) -> bool:
    """Whether the kernel asks for the workspace of its grid."""
    return any(isinstance(o, SpecialRegister) and o.name in _WORKSPACE_HALVES for i in function.instructions for o in i.operands)


def emit_special(emitter: Emitter, name: str) -> Value:
    """Lanes of the special register `name`, as u32 (u64 for the 64-bit ones)."""
    builder = emitter.builder
    if name in _WORKSPACE_HALVES:
        place = emitter.slot(Slot.WORKSPACE)
        return splat(builder, builder.trunc(builder.lshr(place, I64(_WORKSPACE_HALVES[name])), I32))
    if name in _CONSTANTS:
        return splat_constant(I32, _CONSTANTS[name])
    if name in _WIDE_CONSTANTS:
        return splat_constant(I64, _WIDE_CONSTANTS[name])
    if name.startswith("%tid."):
        axis = "xyz".index(name[-1])
        warp = emitter.slot(Slot.WARP)
        row = builder.add(builder.mul(warp, I64(3 * 128)), I64(axis * 128))
        return load_as(builder, at(builder, emitter.slot_pointer(Slot.TID_PTR), row), vector(I32), 4)
    if name == "%laneid":
        return IOTA32
    if name in _SCALARS:
        return splat(builder, builder.trunc(emitter.slot(_SCALARS[name]), I32))
    if name in _CLOCKS:
        return splat(builder, _clock(emitter, _CLOCKS[name]))
    if name in _LANE_MASKS:
        return ir.Constant(vector(I32), _LANE_MASKS[name])
    raise emitter.unsupported(f"special register {name} is not modelled")


def _clock(emitter: Emitter, half: str) -> Value:
    """Warp instructions before this one. The counter has been advanced past the whole basic block at its start."""
    builder, graph, instruction = emitter.builder, emitter.kernel.graph, emitter.instruction
    assert instruction is not None
    end = int(graph.block_start[graph.block_of(instruction.index) + 1])
    count = builder.sub(emitter.slot(Slot.INSTRUCTIONS), I64(end - instruction.index))
    if not half:
        return count
    return builder.trunc(count if half == "low" else builder.lshr(count, I64(32)), I32)
