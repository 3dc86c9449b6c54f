"""`call` of a function that the runtime provides, and `brkpt`. Python does the work (`emulator/externals.py`), a warp at a time."""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I32, I64, PTR, at, bits_of, intrinsic, load_as, store_as, trailing_zeros, vector
from warpsight.emulator.layout import WARP, Fault
from warpsight.emulator.ops.common import operands
from warpsight.isa.externals import EXTERNALS
from warpsight.isa.program import Instruction, Symbol, Vector

MOST_ARGUMENTS = max(len(external.parameters) for external in EXTERNALS.values())
_NUMBERS = {name: number for number, name in enumerate(EXTERNALS)}
_ROW_BYTES = 8 * WARP


def _call(emitter: Emitter, instruction: Instruction) -> None:
    """Arguments travel as rows of 32 i64 in a stack slot; the result comes back in the first row."""
    returns, target, arguments = operands(emitter, instruction, 3)
    if not isinstance(target, Symbol) or target.name not in EXTERNALS:
        raise emitter.unsupported("the function it calls is not known")
    external = EXTERNALS[target.name]
    assert isinstance(returns, Vector) and isinstance(arguments, Vector)
    builder = emitter.builder
    rows = emitter.buffer("external", ir.ArrayType(vector(I64), MOST_ARGUMENTS))
    for k, (argument, kind) in enumerate(zip(arguments.elements, external.parameters, strict=True)):
        value = emitter.reinterpret(emitter.read(argument, kind), I64)
        store_as(builder, value, at(builder, rows, _ROW_BYTES * k), 64)
    function = intrinsic(builder.module, "warpsight_external", I32, [PTR, I64, I32, I64, PTR])
    number = I64(_NUMBERS[target.name])
    answer = builder.call(function, [emitter.context, number, emitter.active_mask, emitter.pc, at(builder, rows, 0)])
    emitter.leave_if(builder.icmp_signed("==", answer, I32(0)))
    if returns.elements:
        result = load_as(builder, at(builder, rows, 0), vector(I64), 64)
        sized = emitter.reinterpret(result, ir.IntType(bits_of(external.result)))
        emitter.write(returns.elements[0], sized, external.result)


def _breakpoint(emitter: Emitter, instruction: Instruction) -> None:
    """`brkpt` stops the launch: without a debugger nothing could continue it."""
    operands(emitter, instruction, 0, 0)
    builder, mask = emitter.builder, emitter.active_mask
    emitter.stop_if(builder.icmp_signed("!=", mask, I32(0)), Fault.BREAKPOINT, lambda: (trailing_zeros(builder, mask), I64(0)))


HANDLERS = {"call": _call, "brkpt": _breakpoint}
