"""Operands of machine code as 32 lanes, and where results go.

A register holds 32 bits; a wider value lies in consecutive registers, the lowest first. `RZ` reads as zero, `PT` as true, and what
is written to them is dropped. Uniform registers are held for each lane like all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.access import Access, global_access
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    F32,
    F64,
    I1,
    I32,
    I64,
    Value,
    at,
    call_same,
    load_as,
    splat,
    splat_constant,
    vector,
)
from warpsight.emulator.codegen.layout import Slot
from warpsight.emulator.ptx.memory import gather_params
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import (
    CONSTANT_BANK_BYTES,
    TRUE_PREDICATES,
    ZERO_REGISTERS,
    NativeConstant,
    NativeImmediate,
    NativeInstruction,
    NativeOperand,
    NativeRegister,
    NativeSymbol,
)

CODE_BASE = 1 << 22  # the address of a kernel's first instruction: a number in a range where no data lie
INSTRUCTION_BYTES = 16


def native_of(instruction: Instruction) -> NativeInstruction:
    """The instruction as it is in machine code."""
    assert instruction.native is not None
    return instruction.native


def allow(emitter: Emitter, native: NativeInstruction, *known: str) -> None:
    """Refuse any modifier that is not in `known`: nothing is parsed and ignored."""
    for modifier in native.modifiers:
        if modifier not in known:
            raise emitter.unsupported(f"modifier .{modifier} is not modelled")


# -- Reading. Signs: `-` of an integer is its two's complement and `~` its inverse; of a float `||` is taken before `-`.


def raw(emitter: Emitter, operand: NativeOperand, word: int = 0) -> Value:
    """The 32 bits of an operand (of word `word` of a wider one) without its sign, as <32 x i32>."""
    if isinstance(operand, NativeRegister):
        if operand.name in ZERO_REGISTERS:
            return splat_constant(I32, 0)
        return emitter.register(_following(operand.name, word))
    if isinstance(operand, NativeImmediate):
        value = operand.bits if operand.is_float else operand.value
        return splat_constant(I32, (value >> 32 * word) & 0xFFFFFFFF)
    if isinstance(operand, NativeConstant):
        return constant_words(emitter, operand, 1, 4 * word)[0]
    if isinstance(operand, NativeSymbol):
        value = address_of(emitter, operand)
        return splat_constant(I32, (value >> (32 if operand.half == "hi" or word else 0)) & 0xFFFFFFFF)
    raise emitter.unsupported(f"operand {operand!r} is not recognized here")


def _following(name: str, count: int) -> str:
    letters = name.rstrip("0123456789")
    return f"{letters}{int(name[len(letters):]) + count}"


def integer(emitter: Emitter, operand: NativeOperand) -> Value:
    """An operand as 32-bit integer lanes, its sign applied."""
    return _with_integer_sign(emitter, operand, raw(emitter, operand))


def _with_integer_sign(emitter: Emitter, operand: NativeOperand, value: Value) -> Value:
    builder = emitter.builder
    if isinstance(operand, NativeRegister | NativeConstant):
        if operand.negative:
            return builder.sub(splat_constant(value.type.element, 0), value)
        if operand.inverted:
            return builder.not_(value)
    return value


def wide_integer(emitter: Emitter, operand: NativeOperand) -> Value:
    """An operand of two words as 64-bit integer lanes; an immediate is extended by its sign."""
    if isinstance(operand, NativeImmediate):
        return splat_constant(I64, operand.value & 0xFFFFFFFFFFFFFFFF)
    if isinstance(operand, NativeSymbol) and not operand.half:
        return splat_constant(I64, address_of(emitter, operand))
    return _with_integer_sign(emitter, operand, join(emitter, raw(emitter, operand), raw(emitter, operand, 1)))


def single(emitter: Emitter, operand: NativeOperand, word: int = 0) -> Value:
    """An operand (word `word` of a wider one) as lanes of f32, its sign applied; an immediate is the same in every word."""
    builder = emitter.builder
    if isinstance(operand, NativeImmediate):
        return builder.bitcast(splat_constant(I32, operand.bits), vector(F32))
    return _signed(emitter, operand, builder.bitcast(raw(emitter, operand, word), vector(F32)))


def double(emitter: Emitter, operand: NativeOperand) -> Value:
    """An operand as lanes of f64, its sign applied; an immediate holds the upper half."""
    builder = emitter.builder
    if isinstance(operand, NativeImmediate):
        return builder.bitcast(splat_constant(I64, operand.bits << 32), vector(F64))
    value = join(emitter, raw(emitter, operand), raw(emitter, operand, 1))
    return _signed(emitter, operand, builder.bitcast(value, vector(F64)))


def _signed(emitter: Emitter, operand: NativeOperand, value: Value) -> Value:
    if isinstance(operand, NativeRegister | NativeConstant):
        if operand.absolute:
            value = call_same(emitter.builder, "fabs", value)
        if operand.negative:
            value = emitter.builder.fneg(value)
    return value


def predicate(emitter: Emitter, operand: NativeOperand) -> Value:
    """A predicate as <32 x i1>."""
    if not isinstance(operand, NativeRegister) or not operand.is_predicate:
        raise emitter.unsupported(f"operand {operand!r} is not a predicate")
    if operand.name in TRUE_PREDICATES:
        return splat_constant(I1, int(not operand.inverted))
    value = emitter.register(operand.name)
    return emitter.builder.not_(value) if operand.inverted else value


def join(emitter: Emitter, low: Value, high: Value) -> Value:
    """Two 32-bit words as one of 64 bits."""
    builder = emitter.builder
    wide = builder.shl(builder.zext(high, vector(I64)), splat_constant(I64, 32))
    return builder.or_(builder.zext(low, vector(I64)), wide)


def halves(emitter: Emitter, value: Value) -> tuple[Value, Value]:
    """The low and the high word of 64-bit lanes (integers or f64)."""
    builder = emitter.builder
    if value.type.element == F64:
        value = builder.bitcast(value, vector(I64))
    low = builder.trunc(value, vector(I32))
    return low, builder.trunc(builder.lshr(value, splat_constant(I64, 32)), vector(I32))


# -- Constant banks. Bank 0 holds the launch's shape and the kernel's parameters; the others lie in device memory, read-only.


def constant_words(emitter: Emitter, operand: NativeConstant, count: int, ahead: int = 0) -> list[Value]:
    """`count` 32-bit words of a constant bank from an operand's place on, `ahead` bytes further."""
    return constant_elements(emitter, operand, I32, 4, count, ahead)


def constant_elements(
    emitter: Emitter, operand: NativeConstant, element: Any, element_bytes: int, count: int, ahead: int = 0
) -> list[Value]:
    """`count` elements of an LLVM type at `c[bank][base + offset + ahead]`, the same for all lanes unless a register is the
    base.
    """
    builder, symbols = emitter.builder, emitter.kernel.symbols
    offset = operand.offset + ahead
    banks = symbols.banks
    if operand.bank and operand.bank not in banks:
        raise emitter.unsupported(f"constant bank {operand.bank} is not in the code")
    fixed = operand.base is None or operand.base.name in ZERO_REGISTERS
    if fixed:
        limit = symbols.param_bytes if operand.bank == 0 else banks[operand.bank][1]
        if not 0 <= offset <= limit - element_bytes * count:
            raise emitter.unsupported(f"it reads at {offset:#x}, outside of constant bank {operand.bank}")
        if operand.bank == 0:
            base = at(builder, emitter.slot_pointer(Slot.PARAM_PTR), offset)
        else:
            host = builder.add(emitter.slot(Slot.ARENA_DELTA), I64(banks[operand.bank][0] + offset))
            base = builder.inttoptr(host, ir.PointerType())
        return [splat(builder, load_as(builder, at(builder, base, element_bytes * k), element, 1)) for k in range(count)]
    assert operand.base is not None
    place = builder.add(builder.sext(raw(emitter, operand.base), vector(I64)), splat_constant(I64, offset))
    if offset < 0:  # or in the second half of the bank
        before = builder.icmp_signed("<", place, splat_constant(I64, 0))
        place = builder.select(before, builder.add(place, splat_constant(I64, CONSTANT_BANK_BYTES)), place)
    if operand.bank == 0:
        return parameter_elements(emitter, place, element, element_bytes, count)
    addresses = builder.add(place, splat_constant(I64, banks[operand.bank][0]))
    access = Access(element, element_bytes, count, record=False)
    return global_access(emitter, addresses, access, I64(emitter.kernel.next_site()))


def parameter_elements(emitter: Emitter, offsets: Value, element: Any, element_bytes: int, count: int) -> list[Value]:
    """Elements at computed offsets (i64 lanes) of bank 0."""
    access = Access(element, element_bytes, count, record=False)
    narrow = emitter.builder.trunc(offsets, vector(I32))
    return list(gather_params(emitter, narrow, access, I64(emitter.kernel.symbols.param_bytes)))


def address_of(emitter: Emitter, symbol: NativeSymbol) -> int:
    """The address of a variable, of a function, or of an instruction that has a label."""
    kernel = emitter.kernel
    if symbol.name in kernel.symbols.addresses:
        return kernel.symbols.addresses[symbol.name] + symbol.addend
    if symbol.name in kernel.function.labels:
        return code_address(kernel.function.labels[symbol.name]) + symbol.addend
    if symbol.name in kernel.function.callables:
        return code_address(kernel.function.callables[symbol.name].first) + symbol.addend
    raise emitter.unsupported(f'"{symbol.name}" is not a variable or function that this kernel can use')


def code_address(index: int) -> int:
    """The address of an instruction."""
    return CODE_BASE + INSTRUCTION_BYTES * index


def section_address(emitter: Emitter, index: int) -> int:
    """The address at which the section of instruction `index` begins."""
    return code_address(index) - native_of(emitter.kernel.function.instructions[index]).address


# -- Writing.


def keeps(operand: NativeOperand) -> bool:
    """Whether a register keeps what is written to it."""
    return isinstance(operand, NativeRegister) and operand.name not in ZERO_REGISTERS | TRUE_PREDICATES


def set_words(emitter: Emitter, operand: NativeOperand, values: Sequence[Value]) -> None:
    """Write 32-bit words (i32 or f32 lanes) to consecutive registers."""
    if not isinstance(operand, NativeRegister):
        raise emitter.unsupported("its destination is not a register")
    if operand.name in ZERO_REGISTERS:
        return
    for k, value in enumerate(values):
        bits = value if value.type.element == I32 else emitter.builder.bitcast(value, vector(I32))
        emitter.set_register(_following(operand.name, k), bits)


def set_word(emitter: Emitter, operand: NativeOperand, value: Value) -> None:
    """Write a 32-bit result (integer or f32 lanes)."""
    set_words(emitter, operand, [value])


def set_wide(emitter: Emitter, operand: NativeOperand, value: Value) -> None:
    """Write a 64-bit result (integer or f64 lanes) to a pair of registers."""
    set_words(emitter, operand, halves(emitter, value))


def set_predicate(emitter: Emitter, operand: NativeOperand, value: Value) -> None:
    """Write a predicate (<32 x i1>)."""
    if not isinstance(operand, NativeRegister) or not operand.is_predicate:
        raise emitter.unsupported("its destination is not a predicate")
    if operand.name not in TRUE_PREDICATES:
        emitter.set_register(operand.name, value)
