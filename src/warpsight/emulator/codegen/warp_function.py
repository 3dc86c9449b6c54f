"""The LLVM function that runs one warp: its LLVM blocks, the slots of its registers, and the reconvergence stack.

`KernelBuilder` fills it; the emitters of branches, calls and instructions see this part of it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from warpsight.base.errors import UnsupportedError
from warpsight.emulator.codegen import layout
from warpsight.emulator.codegen.lanes import (
    I1,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    scalar_type,
    splat,
    store_as,
    vector,
    width,
)
from warpsight.emulator.codegen.symbols import SymbolTable, align_up
from warpsight.isa.ptx.cfg import ControlFlowGraph, with_calls
from warpsight.isa.ptx.dataflow import live_in, live_out
from warpsight.isa.ptx.program import Function, Instruction
from warpsight.isa.ptx.rules import CARRY, is_plain_exit
from warpsight.isa.ptx.slicing import Slice


@dataclass(frozen=True)
class RegisterSlot:
    """Where a register lives between blocks: a stack slot here, and `offset` in the save area while its warp waits at a barrier."""

    pointer: Value
    element: Any
    stored: Any
    is_predicate: bool
    offset: int


class WarpFunction:
    """Base of `KernelBuilder`: what code that is being emitted asks of the warp function.

    `bodies` are the LLVM blocks of the basic blocks, `arrivals` those to jump to; diverged lanes wait for each other at the blocks
    `meets`. `mask` (the running lanes), `reconverge` (the block at which they wait for others) and `popped` are i32 stack slots.
    `special(emitter, name)` emits a special register; `slice` is what is executed, None for all;
    `clustered`: the code is for launches in clusters of several blocks.
    """

    def __init__(
        self, module: Any, function: Function, graph: ControlFlowGraph, symbols: SymbolTable, path: str,
        special: Callable[[Any, str], Value], part: Slice | None = None,
    ) -> None:
        self.module, self.function, self.graph, self.symbols, self.path = module, function, graph, symbols, path
        self.special, self.slice = special, part
        self.clustered = False
        self.llvm = ir.Function(module, ir.FunctionType(I32, [PTR, PTR]), "warp")
        self.context, self.state = self.llvm.args
        self.site_count = 0
        self.entry = ir.IRBuilder(self.llvm.append_basic_block("entry"))
        self._slots: dict[str, RegisterSlot] = {}
        self._buffers: dict[str, Value] = {}
        self._save_bytes = 0
        self._in_memory = False
        self._storage: dict[str, int] = {}
        self.mask = self.entry.alloca(I32)
        self.reconverge = self.entry.alloca(I32)
        self.popped = self.entry.alloca(I32)
        self.fault_block = self.llvm.append_basic_block("faulted")
        ir.IRBuilder(self.fault_block).ret(I32(layout.FAULTED))
        self.pop_block = self.llvm.append_basic_block("pop")
        self._dispatch = self.llvm.append_basic_block("dispatch")
        if part is not None:
            self.live_in, self.live_out = part.live_in, part.live_out
        else:
            flow = with_calls(function, graph)
            self.live_in, self.live_out = live_in(function, flow), live_out(function, flow)
        entries = layout.STACK_ENTRIES + (layout.CALL_ENTRIES if function.call_sites else 0)
        self._save_offset = align_up(layout.STATE_HEADER_BYTES + layout.STACK_ENTRY_BYTES * entries, 128)

    def append_bodies(self, meets: set[int]) -> None:
        """Append the LLVM blocks of the basic blocks, behind those that all of them share. Lanes meet at blocks of `meets` too."""
        graph = self.graph
        self.bodies = [self.llvm.append_basic_block(f"b{b}") for b in range(len(graph))]
        self.meets = meets | {d for b, d in enumerate(graph.post_dominator) if d >= 0 and len(graph.successors[b]) > 1}
        self.arrivals = [self.llvm.append_basic_block(f"meet{b}") if b in self.meets else self.bodies[b] for b in range(len(graph))]
        self._jump_targets: set[int] = set(self.meets)

    # -- registers and storage -----------------------------------------------------------------------------------------------

    def slot_of(self, name: str, instruction: Instruction | None) -> RegisterSlot:
        """The register's slot, made on first use."""
        if name not in self._slots:
            declared = "pred" if name == CARRY else self.function.registers.get(name)
            if declared is None:
                place = f"{self.path}:{(instruction or self.function).ptx_line}"
                raise UnsupportedError(f'register "{name}" is not declared', place=place, remedy="declare it with .reg")
            element = scalar_type(declared)
            stored = I32 if element == I1 else vector(element)
            if self._in_memory:
                pointer = self.saved_place(self.entry, self._save_bytes)
            else:
                pointer = self.entry.alloca(stored)
                pointer.align = 64
            self._slots[name] = RegisterSlot(pointer, element, stored, element == I1, self._save_bytes)
            self._save_bytes += max(64, layout.WARP * width(element) // 8)
        return self._slots[name]

    def buffer(self, name: str, kind: Any) -> Value:
        """A named vector in the frame, for code that visits lanes one by one."""
        key = f"{name} {kind}"
        if key not in self._buffers:
            self._buffers[key] = self.entry.alloca(kind)
            self._buffers[key].align = 64
        return self._buffers[key]

    def warp_storage(self, name: str) -> int:
        """Offset, for `saved_place`, of 32 int32 of a warp's own: zeros at its start, kept while it waits at a barrier."""
        if name not in self._storage:
            self._storage[name] = self._save_bytes
            self._save_bytes += 128
        return self._storage[name]

    def saved_place(self, builder: Builder, offset: int) -> Value:
        """Where the register of that offset lies in the warp's state."""
        return at(builder, self.state, self._save_offset + offset)

    def to_save(self, block: int) -> list[RegisterSlot]:
        """The registers that are read from `block` on and would not outlive a return."""
        return [] if self._in_memory else [self.slot_of(name, None) for name in sorted(self.live_in[block])]

    def next_site(self) -> int:
        """A number for a memory instruction's allocation cache."""
        self.site_count += 1
        return self.site_count - 1

    @property
    def state_stride(self) -> int:
        """Bytes of one warp's state."""
        return align_up(self._save_offset + self._save_bytes, 128)

    # -- basic blocks --------------------------------------------------------------------------------------------------------

    def instructions_of(self, block: int) -> tuple[Instruction, ...]:
        """The instructions of a basic block."""
        first, last = int(self.graph.block_start[block]), int(self.graph.block_start[block + 1])
        return tuple(self.function.instructions[first:last])

    def only_leaves(self, block: int) -> bool:
        """Does `block` do nothing but leave the kernel?"""
        return is_plain_exit(self.instructions_of(block))

    def go_on(self, builder: Builder, block: int, source: int = -1) -> None:
        """Go to `block` with the current mask, by a branch of block `source` if that is given; past the last block lanes end."""
        if self.close_loop(builder, source, block):
            return
        if block >= len(self.bodies):
            self.leave(builder, builder.load(self.mask, typ=I32))
        else:
            builder.branch(self.arrivals[block])

    def close_loop(self, builder: Builder, source: int, target: int) -> bool:
        """Emit the edge of a loop that may wait for another thread; False where the edge is an ordinary one."""
        return False

    # -- the warp's state and its reconvergence stack ------------------------------------------------------------------------

    def in_turn(self, builder: Builder, over: Value) -> Value:
        """Lanes (i32 mask) for which a wait for a phase of an mbarrier says yes, of those for which the phase is over."""
        return over

    def word(self, builder: Builder, word: int) -> Value:
        """Load a word of the warp's state (i32)."""
        return load_as(builder, at(builder, self.state, 4 * word), I32, 4)

    def set_word(self, builder: Builder, word: int, value: Value) -> None:
        """Store a word of the warp's state."""
        store_as(builder, value, at(builder, self.state, 4 * word), 4)

    def save_group(self, builder: Builder) -> None:
        """Save the running lanes, and where others wait for them, in the warp's state."""
        self.set_word(builder, layout.MASK, builder.load(self.mask, typ=I32))
        self.set_word(builder, layout.RECONVERGE, builder.load(self.reconverge, typ=I32))

    def restore_group(self, builder: Builder) -> None:
        """Run the lanes that the warp's state names."""
        builder.store(self.word(builder, layout.MASK), self.mask)
        builder.store(self.word(builder, layout.RECONVERGE), self.reconverge)

    def stack_entry(self, builder: Builder, number: Value) -> Value:
        """Pointer to an entry of the reconvergence stack."""
        offset = builder.add(builder.mul(builder.zext(number, I64), I64(layout.STACK_ENTRY_BYTES)), I64(layout.STATE_HEADER_BYTES))
        return at(builder, self.state, offset)

    def may_be_resumed_at(self, block: int) -> None:
        """Note that a stack entry can name `block`."""
        self._jump_targets.add(block)

    def push(self, builder: Builder, block: int | Value, mask: Value, reconverge: Value) -> None:
        """Push a waiting entry."""
        if isinstance(block, int):
            self.may_be_resumed_at(block)
            block = I32(block)
        self.push_raw(builder, block, mask, reconverge)

    def push_raw(self, builder: Builder, block: Value, mask: Value, reconverge: Value) -> None:
        """Push a waiting entry whose block, an i32, may also be a return token. Without lanes the next one takes its place."""
        depth = self.word(builder, layout.DEPTH)
        entry = self.stack_entry(builder, depth)
        for k, value in enumerate((block, mask, reconverge, *([I32(0)] if self.graph.waits.independent else []))):
            store_as(builder, value, at(builder, entry, 4 * k), 4)
        count = builder.zext(builder.icmp_signed("!=", mask, I32(0)), I32)
        self.set_word(builder, layout.DEPTH, builder.add(depth, count))

    def jump(self, builder: Builder, block: Value) -> None:
        """Go to the block whose number was taken from the stack."""
        builder.store(block, self.popped)
        builder.branch(self._dispatch)

    def leave(self, builder: Builder, lanes: Value) -> None:
        """The lanes of an i32 mask have ended the kernel: run whoever waits."""
        self.note_gone(builder, lanes)
        builder.branch(self.pop_block)

    def note_gone(self, builder: Builder, lanes: Value) -> None:
        """Remember lanes that have ended, so that no waiting entry revives them."""
        self.set_word(builder, layout.GONE, builder.or_(self.word(builder, layout.GONE), lanes))

    def give_outcome(self, builder: Builder, name: str, result: Value) -> None:
        """After a barrier with a vote, write its result into register `name` of the running lanes."""
        slot, lanes = self._slots[name], mask_to_lanes(builder, builder.load(self.mask, typ=I32))
        old = load_as(builder, slot.pointer, slot.stored, 4)
        result = splat(builder, result)
        if slot.is_predicate:
            result = lanes_to_mask(builder, builder.select(lanes, result, mask_to_lanes(builder, old)))
        else:
            result = builder.select(lanes, builder.bitcast(result, slot.stored), old)
        store_as(builder, result, slot.pointer, 4)
