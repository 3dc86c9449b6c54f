"""What the system around a kernel provides: special registers, calls of functions of the device runtime, and `brkpt`.

The numbers of the machine (`%smid`) are those of a single large SM. Clocks count warp instructions of the
launch, `%globaltimer` too, as nanoseconds. Performance counters (`%pm`), driver registers (`%envreg`) and the shared memory that
the system reserves are 0. For the functions Python does the work (`emulator/run/externals.py`).
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    IOTA32,
    PTR,
    Value,
    at,
    bits_of,
    intrinsic,
    load_as,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
)
from warpsight.emulator.codegen.layout import WARP, Fault, Slot
from warpsight.emulator.codegen.symbols import RESERVED_SHARED
from warpsight.emulator.ptx.common import operands
from warpsight.isa.ptx.linking import EXTERNALS
from warpsight.isa.ptx.program import Function, Instruction, SpecialRegister, Symbol, Vector

_SCALARS = {
    **{f"%{name}.{axis}": Slot[f"{name.upper()}_{axis.upper()}"] for name in ("ctaid", "nctaid", "ntid") for axis in "xyz"},
    **{f"%cluster_nctaid.{axis}": Slot[f"CLUSTER_{axis.upper()}"] for axis in "xyz"},
    "%cluster_nctarank": Slot.CLUSTER_BLOCKS, "%is_explicit_cluster": Slot.CLUSTER_EXPLICIT,
    "%warpid": Slot.WARP, "%nwarpid": Slot.WARPS_PER_BLOCK, "%dynamic_smem_size": Slot.DYNAMIC_SHARED,
    "%total_smem_size": Slot.TOTAL_SHARED, "%aggr_smem_size": Slot.AGGREGATE_SHARED,
}  # fmt: skip
# 64 bits of the clock, its low half and its high half.
_CLOCKS = {
    **dict.fromkeys(("%clock64", "%globaltimer"), ""),
    **dict.fromkeys(("%clock", "%globaltimer_lo"), "low"),
    **dict.fromkeys(("%clock_hi", "%globaltimer_hi"), "high"),
}
_AXES_OF = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_CONSTANTS = {
    "%smid": 0, "%nsmid": 1, "WARP_SZ": 32,
    **{f"%{name}.w": 0 for name in _AXES_OF},
    **{f"%pm{k}": 0 for k in range(8)}, **{f"%envreg{k}": 0 for k in range(32) if k not in (1, 2)},
    **RESERVED_SHARED,
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
        row = builder.add(builder.mul(emitter.slot(Slot.WARP), I64(3 * 128)), I64("xyz".index(name[-1]) * 128))
        return load_as(builder, at(builder, emitter.slot_pointer(Slot.TID_PTR), row), vector(I32), 4)
    if name == "%laneid":
        return IOTA32
    if name in _SCALARS:
        return splat(builder, builder.trunc(emitter.slot(_SCALARS[name]), I32))
    if name in _IN_CLUSTER:
        return splat(builder, builder.trunc(_in_cluster(emitter, *_IN_CLUSTER[name]), I32))
    if name == "%cluster_ctarank":
        x, y, z = (_in_cluster(emitter, "rest", "CTAID", axis) for axis in "XYZ")
        rows = builder.add(builder.mul(z, emitter.slot(Slot.CLUSTER_Y)), y)
        return splat(builder, builder.trunc(builder.add(builder.mul(rows, emitter.slot(Slot.CLUSTER_X)), x), I32))
    if name in _CLOCKS:
        return splat(builder, _clock(emitter, _CLOCKS[name]))
    if name in _LANE_MASKS:
        return ir.Constant(vector(I32), _LANE_MASKS[name])
    raise emitter.unsupported(f"special register {name} is not modelled")


# Where a block lies in its cluster, and its cluster in the grid: what is divided by the cluster's size on an axis.
_IN_CLUSTER = {
    f"%{name}.{axis}": (which, slot, axis.upper())
    for name, which, slot in (
        ("clusterid", "whole", "CTAID"), ("nclusterid", "whole", "NCTAID"), ("cluster_ctaid", "rest", "CTAID")
    )
    for axis in "xyz"
}  # fmt: skip


def _in_cluster(emitter: Emitter, which: str, slot: str, axis: str) -> Value:
    sizes = emitter.slot(Slot[f"{slot}_{axis}"]), emitter.slot(Slot[f"CLUSTER_{axis}"])
    return emitter.builder.udiv(*sizes) if which == "whole" else emitter.builder.urem(*sizes)


def _clock(emitter: Emitter, half: str) -> Value:
    """Warp instructions before this one. The counter has been advanced past the whole basic block at its start."""
    builder, graph, instruction = emitter.builder, emitter.kernel.graph, emitter.instruction
    assert instruction is not None
    end = int(graph.block_start[graph.block_of(instruction.index) + 1])
    count = builder.sub(emitter.slot(Slot.INSTRUCTIONS), I64(end - instruction.index))
    if not half:
        return count
    return builder.trunc(count if half == "low" else builder.lshr(count, I64(32)), I32)


# -- `call` of a function that the runtime provides, a warp at a time, and `brkpt`.

MOST_EXTERNAL_ARGUMENTS = max(len(external.parameters) for external in EXTERNALS.values())
EXTERNAL_NUMBERS = {name: number for number, name in enumerate(EXTERNALS)}
_ROW_BYTES = 8 * WARP


def call(emitter: Emitter, instruction: Instruction) -> None:
    """Arguments travel as rows of 32 i64 in a stack slot; the result comes back in the first row."""
    returns, target, arguments = operands(emitter, instruction, 3)
    if not isinstance(target, Symbol) or target.name not in EXTERNALS:
        raise emitter.unsupported("the function it calls is not known")
    external = EXTERNALS[target.name]
    assert isinstance(returns, Vector) and isinstance(arguments, Vector)
    builder = emitter.builder
    rows = emitter.buffer("external", ir.ArrayType(vector(I64), MOST_EXTERNAL_ARGUMENTS))
    for k, (argument, kind) in enumerate(zip(arguments.elements, external.parameters, strict=True)):
        value = emitter.reinterpret(emitter.read(argument, kind), I64)
        store_as(builder, value, at(builder, rows, _ROW_BYTES * k), 64)
    function = intrinsic(builder.module, "warpsight_external", I32, [PTR, I64, I32, I64, PTR])
    number = I64(EXTERNAL_NUMBERS[target.name])
    goes_on = builder.call(function, [emitter.context, number, emitter.active_mask, emitter.pc, at(builder, rows, 0)])
    emitter.leave_if(builder.icmp_signed("==", goes_on, I32(0)))
    if returns.elements:
        result = load_as(builder, at(builder, rows, 0), vector(I64), 64)
        sized = emitter.reinterpret(result, ir.IntType(bits_of(external.result)))
        emitter.write(returns.elements[0], sized, external.result)


def breakpoint_fault(emitter: Emitter, instruction: Instruction) -> None:
    """`brkpt` stops the launch: without a debugger nothing could continue it."""
    operands(emitter, instruction, 0, 0)
    builder, mask = emitter.builder, emitter.active_mask
    emitter.stop_if(builder.icmp_signed("!=", mask, I32(0)), Fault.BREAKPOINT, lambda: (trailing_zeros(builder, mask), I64(0)))


def no_effect(emitter: Emitter, instruction: Instruction) -> None:
    """`nanosleep`, `pmevent`: waiting and signals to a profiler change nothing that the kernel computes."""
