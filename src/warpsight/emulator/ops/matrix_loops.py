"""Loops and constant tables in the out-of-line functions of matrix instructions, and the check that their warp is whole."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from warpsight.emulator.frame import Frame
from warpsight.emulator.lanes import I32, I64, Builder, Value, trailing_zeros
from warpsight.emulator.layout import Fault

_FULL = I32(0xFFFFFFFF)


def need_whole_warp(frame: Frame) -> None:
    """Stop unless all 32 lanes are active, or none: `.aligned` asks that all of a warp's threads execute it, and none has ended.

    The fault names the first lane that executes it. With no lane active the instruction is guarded off.
    """
    builder, mask = frame.builder, frame.active_mask
    some = builder.icmp_signed("!=", mask, I32(0))
    incomplete = builder.and_(some, builder.icmp_signed("!=", mask, _FULL))
    frame.stop_if(incomplete, Fault.WARP_INCOMPLETE, lambda: (trailing_zeros(builder, mask), I64(0)))


def counted(builder: Builder, end: int | Value, step: int, body: Callable[[Builder, Value], None]) -> None:
    """Run `body(builder, i)` for i = 0, step, ... below `end` (i64), at least once. Continues in a new LLVM block."""
    before = builder.block
    inner, after = (builder.append_basic_block(n) for n in ("loop", "looped"))
    builder.branch(inner)
    builder.position_at_end(inner)
    counter = builder.phi(I64)
    counter.add_incoming(I64(0), before)
    body(builder, counter)
    following = builder.add(counter, I64(step))
    counter.add_incoming(following, builder.block)
    limit = I64(end) if isinstance(end, int) else end
    builder.cbranch(builder.icmp_unsigned("<", following, limit), inner, after)
    builder.position_at_end(after)


def constant_table(module: ir.Module, name: str, numbers: list[int]) -> Value:
    """A pointer to constant i32 numbers, made on first use of the name."""
    known = module.globals.get(name)
    if known is not None:
        return known
    kind = ir.ArrayType(I32, len(numbers))
    table = ir.GlobalVariable(module, kind, name)
    table.linkage, table.global_constant, table.align = "internal", True, 64
    table.initializer = ir.Constant(kind, numbers)
    return table
