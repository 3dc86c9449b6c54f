"""Emits the code of one instruction: reading operands, writing results, and where masks apply.

Within a basic block a register is an LLVM value; between blocks it lives in a stack slot that LLVM turns back into values. The
block's active mask is applied once, when registers that are live out are stored at its end; only guarded instructions merge
earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir

from warpsight.base.errors import UnsupportedError
from warpsight.emulator.codegen.cluster_addresses import from_own, own_offsets, own_window, rank_window
from warpsight.emulator.codegen.frame import Frame
from warpsight.emulator.codegen.lanes import (
    F32,
    F64,
    I1,
    I64,
    Builder,
    Value,
    is_float,
    is_signed,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    scalar_type,
    splat,
    splat_constant,
    store_as,
    vector,
    width,
)
from warpsight.emulator.codegen.warp_function import WarpFunction
from warpsight.isa.ptx.names import SINK
from warpsight.isa.ptx.program import Address, Immediate, Instruction, Negated, Operand, Register, SpecialRegister, Symbol
from warpsight.isa.sass.listing import AT_LEVEL_PTX


class NotComputed(Exception):
    """An instruction that is executed reads a register that a slice leaves out: what it reads is not what the tables say."""


class Emitter(Frame):
    """The state while one basic block is emitted: the builder, the mask, and the registers' current values."""

    def __init__(self, kernel: WarpFunction, builder: Builder, mask: Value) -> None:
        self.kernel = kernel
        self.builder = builder
        self.context, self.fault_block, self.clustered = kernel.context, kernel.fault_block, kernel.clustered
        self.mask = mask  # i32, lanes active in this block
        self.lanes = mask_to_lanes(builder, mask)
        self.values: dict[str, Value] = {}
        self.written: set[str] = set()
        self.not_computed: set[str] = set()  # of a slice, the registers whose value here is not known
        self._recorded: frozenset[str] | None = None
        self.instruction: Instruction | None = None
        self._guard(None)

    # -- context -------------------------------------------------------------------------------------------------------------

    def _guard(self, lanes: Value | None) -> None:
        """Code that follows takes effect for the lanes whose guard holds; None without a guard."""
        self.guard_lanes = lanes
        self.active = self.lanes if lanes is None else lanes
        self.active_mask = self.mask if lanes is None else lanes_to_mask(self.builder, lanes)

    def buffer(self, name: str, kind: Any) -> Value:
        """A named stack slot of the warp function."""
        return self.kernel.buffer(name, kind)

    def unsupported(self, why: str) -> UnsupportedError:
        """The error for the current instruction."""
        ins = self.instruction
        assert ins is not None
        source = f" ({ins.file}:{ins.line})" if ins.file else f" (PTX line {ins.ptx_line})" if ins.native and ins.ptx_line else ""
        what = f'opcode "{ins.text}"{source}: {why}. The results would be wrong, so nothing is run.'
        if ins.native is not None:
            place = f"{self.kernel.path}: {ins.native.section}+{ins.native.address:#x}"
            return UnsupportedError(what, place=place, remedy=AT_LEVEL_PTX)
        remedy = "rewrite the line without it, or compile for another architecture (`arch`)"
        return UnsupportedError(what, place=f"{self.kernel.path}:{ins.ptx_line}", remedy=remedy)

    def restrict(self, lanes: Value) -> None:
        """To the end of the instruction it takes effect for `lanes` (<32 x i1>), whatever its guard has said."""
        self._guard(self.builder.and_(self.lanes, lanes))

    # -- registers -----------------------------------------------------------------------------------------------------------

    def begin(self, instruction: Instruction) -> None:
        """Make `instruction` current and evaluate its guard."""
        self.instruction, self.pc = instruction, I64(instruction.index)
        self._guard(None)
        if instruction.guard is not None:
            holds = self.register(instruction.guard.register.name)
            if instruction.guard.negated:
                holds = self.builder.not_(holds)
            self._guard(self.builder.and_(self.lanes, holds))

    def begin_recorded(self, instruction: Instruction, needed: frozenset[str]) -> None:
        """`begin` of an access of which only the record is wanted, which follows from the registers `needed`."""
        self.moves, self._recorded = False, needed
        self.begin(instruction)

    def end_recorded(self) -> None:
        """Behind an access of which only the record was wanted."""
        self.moves, self._recorded = True, None

    def leave_out(self, names: Iterable[str]) -> None:
        """What these registers hold from here on is not computed."""
        for name in names:
            self.values.pop(name, None)
            self.not_computed.add(name)

    def register(self, name: str) -> Value:
        """Current value of a register in its declared type. Raises NotComputed where a slice has left it out."""
        if name in self.not_computed:
            if self._recorded is None or name in self._recorded:
                raise NotComputed(name)
            return self._nothing(name)
        if name not in self.values:
            slot = self.kernel.slot_of(name, self.instruction)
            value = load_as(self.builder, slot.pointer, slot.stored, 4)
            self.values[name] = mask_to_lanes(self.builder, value) if slot.is_predicate else value
        return self.values[name]

    def set_register(self, name: str, value: Value) -> None:
        """Give a register a value of its declared type; under a guard only the lanes where it holds change."""
        if not self.moves:
            self.leave_out([name])
            return
        if self.guard_lanes is not None:
            old = self._nothing(name) if name in self.not_computed else self.register(name)
            value = self.builder.select(self.guard_lanes, value, old)
        else:
            self.kernel.slot_of(name, self.instruction)
        self.values[name] = value
        self.written.add(name)
        self.not_computed.discard(name)

    def _nothing(self, name: str) -> Value:
        """In place of a value that is not computed: lanes in which it counts do not read it."""
        return ir.Constant(vector(self.kernel.slot_of(name, self.instruction).element), None)

    def write_unguarded(self, write: Callable[[], None]) -> None:
        """Let `write` set registers of all lanes of the block, whatever the guard; `active` stay the lanes whose guard holds."""
        guard, self.guard_lanes = self.guard_lanes, None
        write()
        self.guard_lanes = guard

    def flush(self, live_out: frozenset[str]) -> None:
        """Store what later blocks read, for the lanes that were here; lanes elsewhere keep what they had."""
        for name in sorted(self.written & live_out):
            slot = self.kernel.slot_of(name, None)
            old = load_as(self.builder, slot.pointer, slot.stored, 4)
            if slot.is_predicate:
                new = self.builder.and_(lanes_to_mask(self.builder, self.values[name]), self.mask)
                merged = self.builder.or_(new, self.builder.and_(old, self.builder.not_(self.mask)))
            else:
                merged = self.builder.select(self.lanes, self.values[name], old)
            store_as(self.builder, merged, slot.pointer, 4)

    def leave_block(self, block: int) -> None:
        """`flush` at the end of basic block `block`, guarded or not."""
        self._guard(None)
        self.flush(self.kernel.live_out[block])

    # -- operands ------------------------------------------------------------------------------------------------------------

    def read(self, operand: Operand | Negated | None, ptx_type: str) -> Value:
        """An operand as 32 lanes of `ptx_type`. A wider register gives its low bits."""
        kind = scalar_type(ptx_type)
        if isinstance(operand, Negated):
            return self.builder.not_(self.reinterpret(self._typed(operand.register, kind), kind))
        if isinstance(operand, Register):
            return self.reinterpret(self._typed(operand, kind), kind)
        if isinstance(operand, Immediate):
            return self.immediate(operand, ptx_type)
        if isinstance(operand, SpecialRegister):
            return self.reinterpret(self.kernel.special(self, operand.name), kind)
        if isinstance(operand, Symbol):
            address: Value = I64(self.symbol_address(operand))
            if self.clustered and operand.name in self.kernel.symbols.shared_names:
                address = self.builder.add(address, rank_window(self))
            return self.reinterpret(splat(self.builder, address), kind)
        raise self.unsupported(f"operand {operand!r} is not recognized here")

    def symbol_address(self, symbol: Symbol) -> int:
        """Address of a variable in its own state space."""
        address = self.kernel.symbols.addresses.get(symbol.name)
        if address is None:
            raise self.unsupported(f'"{symbol.name}" is not a variable or function that this kernel can use')
        return address + symbol.offset

    def _typed(self, register: Register, kind: Any) -> Value:
        """The register's value, when it is a predicate where one is read, and none where none is."""
        value = self.register(register.name)
        self._agree(register, value.type.element, kind)
        return value

    def _agree(self, register: Register, have: Any, kind: Any) -> None:
        if (have == I1) != (kind == I1):
            description = "a predicate, which cannot be a number" if have == I1 else "no predicate"
            raise self.unsupported(f'"{register.name}" is {description}')

    def immediate(self, operand: Immediate, ptx_type: str) -> Value:
        """A literal in every lane."""
        kind = scalar_type(ptx_type)
        if kind == I1:
            return splat_constant(I1, int(bool(operand.value)))
        if is_float(ptx_type):
            if operand.is_float and math.isnan(operand.value):  # keep the payload; the pattern's size tells 0f from 0d
                width = 32 if operand.bits < 1 << 32 else 64
                return self.convert_float(splat_constant(ir.IntType(width), operand.bits), F32 if width == 32 else F64, kind)
            return splat_constant(kind, float(operand.value))
        value = operand.bits if operand.is_float else int(operand.value)
        return splat_constant(kind, value & ((1 << kind.width) - 1))

    def reinterpret(self, value: Value, kind: Any) -> Value:
        """Same bits as lanes of `kind`: bitcast, low bits of a wider value, or zero extension of a narrower one."""
        have = value.type.element
        if have == kind:
            return value
        have_bits, bits = width(have), width(kind)
        if have_bits == bits:
            return self.builder.bitcast(value, vector(kind))
        as_int = value if isinstance(have, ir.IntType) else self.builder.bitcast(value, vector(ir.IntType(have_bits)))
        resize = self.builder.trunc if have_bits > bits else self.builder.zext
        sized = resize(as_int, vector(ir.IntType(bits)))
        return sized if isinstance(kind, ir.IntType) else self.builder.bitcast(sized, vector(kind))

    def convert_float(self, pattern: Value, source: Any, target: Any) -> Value:
        """Bit pattern of float type `source` as lanes of float type `target`."""
        value = self.builder.bitcast(pattern, vector(source))
        if source == target:
            return value
        resize = self.builder.fpext if width(source) < width(target) else self.builder.fptrunc
        return resize(value, vector(target))

    def write(self, operand: Operand | Negated | None, value: Value, ptx_type: str) -> None:
        """Write a result of `ptx_type`; a wider register gets it sign- or zero-extended by the type."""
        if operand is None or operand == Register(SINK):
            return
        if not isinstance(operand, Register):
            raise self.unsupported("its destination is not a register")
        declared = self.kernel.slot_of(operand.name, self.instruction).element
        have = value.type.element
        self._agree(operand, declared, have)
        if isinstance(have, ir.IntType) and have != I1 and is_signed(ptx_type) and width(have) < width(declared):
            value = self.builder.sext(value, vector(ir.IntType(width(declared))))
        self.set_register(operand.name, self.reinterpret(value, declared))

    def effective_address(self, operand: Operand | Negated, bits: int = 64) -> Value:
        """Address operand `[base+offset]` as 32 lanes of an integer of `bits`."""
        if not isinstance(operand, Address):
            raise self.unsupported("its address is not in brackets")
        literal = operand.offset + (int(operand.base.value) if isinstance(operand.base, Immediate) else 0)
        if bits == 32 and not -(1 << 31) <= literal < 1 << 32:
            raise self.unsupported(f"its address has the literal {literal:#x}, and addresses of this state space have 32 bits")
        address = self._address(operand, bits)
        return address if not self.clustered else (own_offsets if bits == 32 else own_window)(self, address)

    def cluster_address(self, operand: Operand | Negated) -> Value:
        """Address operand in the shared memory of the cluster, as `access.shared_host` takes it (<32 x i32>)."""
        if not isinstance(operand, Address):
            raise self.unsupported("its address is not in brackets")
        address = self._address(operand, 32)
        return from_own(self, address) if self.clustered else address

    def _address(self, operand: Address, bits: int) -> Value:
        base = self.read(operand.base, f"u{bits}")
        if not operand.offset:
            return base
        return self.builder.add(base, splat_constant(ir.IntType(bits), operand.offset & ((1 << bits) - 1)))

    def immediate_value(self, operand: Operand | Negated) -> int:
        """An operand that must be an integer literal."""
        if not isinstance(operand, Immediate) or operand.is_float:
            raise self.unsupported("needs an integer literal here")
        return int(operand.value)
