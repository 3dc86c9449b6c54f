"""Floating-point operations rounded toward zero, up or down: `.rz`, `.rp`, `.rm`. CUDA's own `expf` is built on them.

The processor's rounding mode is set inside an out-of-line function for just the one operation, so that no other code sees it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.lanes import I32, Value, call_same, intrinsic, vector_suffix
from warpsight.emulator.recording import internal_function
from warpsight.isa.program import Instruction

# PTX modifier to the argument of llvm.set.rounding; 1 is to nearest even, which holds everywhere else.
_MODES = {"rz": 0, "rp": 2, "rm": 3}
_NEAREST = 1
DIRECTED = tuple(_MODES)
_CONVERSIONS = ("fptrunc", "sitofp", "uitofp")


def compute(emitter: Emitter, instruction: Instruction, name: str, *values: Value) -> Value:
    """`fadd`, `fsub`, `fmul`, `fdiv`, `fma` or `sqrt` of `values`, all of one type, rounded as the instruction says."""
    mode = next((m for m in instruction.modifiers if m in _MODES), None)
    if mode is not None:
        return _directed(emitter, name, mode, values[0].type, values)
    if name in ("fma", "sqrt"):
        return call_same(emitter.builder, name, *values)
    return getattr(emitter.builder, name)(*values)


def convert(emitter: Emitter, instruction: Instruction, name: str, value: Value, kind: Any) -> Value:
    """`fptrunc`, `sitofp` or `uitofp` of `value` to the vector type `kind` (f32 or f64), rounded as the instruction says."""
    mode = next((m for m in instruction.modifiers if m in _MODES), None)
    if mode is None:
        return getattr(emitter.builder, name)(value, kind)
    return _directed(emitter, name, mode, kind, (value,))


def _directed(emitter: Emitter, name: str, mode: str, kind: Any, values: tuple[Value, ...]) -> Value:
    """Call the function for this operation, rounding and type, made on first use."""
    module = emitter.builder.module
    types = [v.type for v in values]
    suffix = vector_suffix(kind) + (f".{vector_suffix(types[0])}" if name in _CONVERSIONS else "")
    function, fresh = internal_function(module, f"{name}_{mode}_{suffix}", kind, types)
    if fresh:
        set.add(function.attributes, "strictfp")  # llvmlite's own list of attributes lacks it
        builder = ir.IRBuilder(function.append_basic_block())
        words = ir.MetaDataType()
        operation = intrinsic(module, f"llvm.experimental.constrained.{name}.{suffix}", kind, [*types, words, words])
        switch = intrinsic(module, "llvm.set.rounding", ir.VoidType(), [I32])
        builder.call(switch, [I32(_MODES[mode])])
        how = [ir.MetaDataString(module, text) for text in ("round.dynamic", "fpexcept.ignore")]
        result = builder.call(operation, [*function.args, *how])
        builder.call(switch, [I32(_NEAREST)])
        builder.ret(result)
    return emitter.builder.call(function, list(values))
