"""Calls of functions that are not expanded in place: frames on a call stack per thread, returns, calls through pointers.

Lanes that call together wait for each other under a return token, a number that no basic block has; it names the call, so that a
function's returns need no list of callers. Each lane remembers its token too, in a register of the function: lanes that a barrier
has set apart return without the others. Frames lie in local memory, above the `.local` variables. What a call itself copies and
saves is not an access of the program (hardware passes arguments in registers), so none of it is recorded.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen import layout
from warpsight.emulator.codegen.access import Access, private_body
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import HelperFrame, call_helper
from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    Builder,
    Value,
    lanes_to_mask,
    loop,
    reduce_vector,
    scalar_type,
    set_slot,
    splat,
    splat_constant,
    store_as,
    trailing_zeros,
    vector,
)
from warpsight.emulator.codegen.layout import RETURN_TOKENS, Fault, Slot
from warpsight.emulator.codegen.warp_function import WarpFunction
from warpsight.isa.ptx.constants import type_bits
from warpsight.isa.ptx.linking import FRAME
from warpsight.isa.ptx.program import CallSite, Instruction, Register


class Calls:
    """All calls of one kernel that stay calls. Each has a number; its return token is `RETURN_TOKENS` plus that number."""

    def __init__(self, kernel: WarpFunction) -> None:
        self.kernel = kernel
        self.sites: dict[int, CallSite] = kernel.function.call_sites
        self._number = {index: number for number, index in enumerate(self.sites)}
        self.returns = {index: kernel.llvm.append_basic_block(f"return{number}") for index, number in self._number.items()}

    def resumed_blocks(self) -> set[int]:
        """Blocks at which lanes go on after a call."""
        return {block for index in self.sites if (block := self.after(index)) < len(self.kernel.bodies)}

    def tokens(self) -> list[tuple[int, Any]]:
        """Each return token and the LLVM block that finishes its call."""
        return [(RETURN_TOKENS + number, self.returns[index]) for index, number in self._number.items()]

    def token(self, index: int) -> int:
        """The return token of the call at instruction `index`."""
        return RETURN_TOKENS + self._number[index]

    def after(self, index: int) -> int:
        """The block behind the call at instruction `index`."""
        return self.kernel.graph.block_of(index) + 1

    def target(self, name: str) -> int:
        """The first block of a function."""
        return self.kernel.graph.block_of(self.kernel.function.callables[name].first)

    def start(self, builder: Builder) -> None:
        """Before a warp's first instruction: its lanes' frames begin above the local variables."""
        if self.kernel.function.frame:
            slot = self.kernel.slot_of(FRAME, None)
            store_as(builder, splat_constant(I64, self.kernel.symbols.local_bytes), slot.pointer, 4)

    # -- the call ------------------------------------------------------------------------------------------------------------

    def emit_call(self, emitter: Emitter, block: int, instruction: Instruction) -> None:
        """`call`: save, copy arguments, and run the functions; all lanes wait at the return token."""
        builder, kernel, site = emitter.builder, self.kernel, self.sites[instruction.index]
        token = self.token(instruction.index)
        chosen = self._chosen(emitter, instruction, site)
        frame = emitter.register(FRAME)
        new = builder.add(frame, splat_constant(I64, site.frame))
        self._check_room(emitter, new, max((kernel.function.callables[t].frame for t in site.targets), default=0))
        for name, offset in site.saved:
            plain = emitter.reinterpret(emitter.register(name), _plain_kind(emitter, name))
            _store(emitter, _offset(emitter, frame, offset), plain)
        for here, there, size in site.arguments:
            _copy(emitter, _offset(emitter, frame, here), _offset(emitter, new, there), size)
        emitter.set_register(FRAME, new)
        for target in site.targets:
            emitter.set_register(kernel.function.callables[target].return_register, splat_constant(I32, token))
        emitter.leave_block(block)
        kernel.push_raw(builder, I32(token), emitter.mask, builder.load(kernel.reconverge, typ=I32))
        builder.store(I32(token), kernel.reconverge)
        if chosen is None:
            builder.branch(kernel.arrivals[self.target(site.targets[0])])
            return
        for target, lanes in chosen:
            kernel.push(builder, self.target(target), lanes, I32(token))
        builder.branch(kernel.pop_block)

    def _chosen(self, emitter: Emitter, instruction: Instruction, site: CallSite) -> list[tuple[str, Value]] | None:
        """The lanes (i32) that call each function through their pointers; None for a direct call. Stops at any other pointer."""
        pointer = instruction.operands[1]
        if not isinstance(pointer, Register):
            return None
        builder = emitter.builder
        values = emitter.read(pointer, "u64")
        chosen: list[tuple[str, Value]] = []
        left = emitter.mask
        for target in site.targets:
            address = self.kernel.symbols.functions[target]
            equal = lanes_to_mask(builder, builder.icmp_signed("==", values, splat_constant(I64, address)))
            chosen.append((target, builder.and_(equal, emitter.mask)))
            left = builder.and_(left, builder.not_(equal))
        emitter.stop_lanes(left, Fault.CALL_TARGET, lambda lane: builder.extract_element(values, lane))
        return chosen

    def _check_room(self, emitter: Emitter, new: Value, need: int) -> None:
        """Stop when a frame would pass the end of a lane's stack, or the warp's reconvergence stack has no room for the call."""
        builder = emitter.builder
        depth, static = self.kernel.word(builder, layout.DEPTH), I64(self.kernel.symbols.local_bytes)
        call_helper(emitter, "check_room", I64(0), [builder.add(new, splat_constant(I64, need)), static, depth], [], _room_body)

    # -- the return ----------------------------------------------------------------------------------------------------------

    def emit_return(self, emitter: Emitter, block: int, instruction: Instruction) -> None:
        """`ret` of a called function: lanes whose token the warp waits for join it there, others go on by themselves."""
        builder, kernel = emitter.builder, self.kernel
        tokens, returning = self.tokens_of(emitter, instruction), emitter.active_mask
        waited_for = splat(builder, builder.load(kernel.reconverge, typ=I32))
        apart = builder.and_(lanes_to_mask(builder, builder.icmp_signed("!=", tokens, waited_for)), returning)
        guarded = emitter.guard_lanes is not None
        emitter.leave_block(block)
        with builder.if_then(builder.icmp_signed("!=", apart, I32(0)), likely=False):
            self._return_apart(emitter, tokens, apart)
        if not guarded:
            builder.branch(kernel.pop_block)
            return
        staying = builder.xor(emitter.mask, returning)
        builder.store(staying, kernel.mask)
        builder.cbranch(builder.icmp_signed("==", staying, I32(0)), kernel.pop_block, kernel.arrivals[block + 1])

    def tokens_of(self, emitter: Emitter, instruction: Instruction) -> Value:
        """The token that each lane remembers."""
        register = instruction.operands[0]
        assert isinstance(register, Register)
        return emitter.register(register.name)

    def _return_apart(self, emitter: Emitter, tokens: Value, apart: Value) -> None:
        """Push an entry for each distinct token. A number that is none has been overwritten on the call stack."""
        builder, kernel = emitter.builder, self.kernel

        def push_first(left: Value) -> tuple[Value]:
            lane = trailing_zeros(builder, left)
            token = builder.extract_element(tokens, lane)
            overwritten = builder.icmp_unsigned(">=", builder.sub(token, I32(RETURN_TOKENS)), I32(len(self.sites)))
            emitter.stop_if(overwritten, Fault.RETURN_TARGET, lambda: (lane, builder.zext(token, I64)))
            same = lanes_to_mask(builder, builder.icmp_signed("==", tokens, splat(builder, token)))
            kernel.push_raw(builder, token, builder.and_(same, left), I32(layout.NO_BLOCK))
            return (builder.and_(left, builder.not_(same)),)

        loop(builder, [apart], lambda left: builder.icmp_signed("!=", left, I32(0)), push_first)

    def build(self) -> None:
        """Emit the end of each call: results and saved registers come back, and the caller goes on."""
        for index, site in self.sites.items():
            builder = ir.IRBuilder(self.returns[index])
            emitter = Emitter(self.kernel, builder, builder.load(self.kernel.mask, typ=I32))
            emitter.begin(self.kernel.function.instructions[index])
            inner = emitter.register(FRAME)
            frame = builder.sub(inner, splat_constant(I64, site.frame))
            for here, there, size in site.results:
                _copy(emitter, _offset(emitter, inner, there), _offset(emitter, frame, here), size)
            for name, offset in site.saved:
                saved = _load(emitter, _offset(emitter, frame, offset), _plain_kind(emitter, name))
                emitter.set_register(name, emitter.reinterpret(saved, scalar_type(self.kernel.function.registers[name])))
            emitter.set_register(FRAME, frame)
            emitter.flush(frozenset(emitter.written))
            self.kernel.go_on(builder, self.after(index))


# -- registers and copies in frames ------------------------------------------------------------------------------------------


def _offset(emitter: Emitter, frame: Value, offset: int) -> Value:
    """Offsets (i32 lanes) into local memory."""
    builder = emitter.builder
    return builder.add(builder.trunc(frame, vector(I32)), splat_constant(I32, offset))


def _plain_kind(emitter: Emitter, name: str) -> Any:
    """The integer type in which a register is saved; 4 bytes at least."""
    return ir.IntType(max(32, type_bits(emitter.kernel.function.registers[name])))




def _store(emitter: Emitter, offsets: Value, value: Value) -> None:
    kind = value.type.element
    Access(kind, kind.width // 8, 1, (value,), record=False).outside(emitter, "private", I64(0), offsets, private_body)


def _load(emitter: Emitter, offsets: Value, kind: Any) -> Value:
    return Access(kind, kind.width // 8, 1, record=False).outside(emitter, "private", I64(0), offsets, private_body)[0]


def _copy(emitter: Emitter, source: Value, target: Value, size: int) -> None:
    """Copy `size` bytes, a multiple of 8, within local memory."""
    if size:
        call_helper(emitter, "copy_in_frames", I64(0), [source, target, I32(size)], [], _copy_body)


def _room_body(helper: HelperFrame) -> list[Value]:
    end, static, depth = helper.arguments
    builder, mask = helper.builder, helper.active_mask
    running = builder.select(helper.active, end, splat_constant(I64, 0))
    highest, cleared = reduce_vector(builder, "umax", running), helper.slot(Slot.LOCAL_CLEARED)
    higher = builder.select(builder.icmp_unsigned(">", highest, cleared), highest, cleared)
    limit = helper.slot(Slot.LOCAL_SIZE)
    used = builder.select(builder.icmp_unsigned("<", higher, limit), higher, limit)
    set_slot(builder, helper.context, Slot.LOCAL_CLEARED, used)
    beyond = builder.icmp_unsigned(">", end, splat(builder, limit))
    full = builder.and_(lanes_to_mask(builder, beyond), mask)
    helper.stop_lanes(full, Fault.STACK_OVERFLOW, lambda lane: builder.sub(builder.extract_element(end, lane), static))
    deep = builder.icmp_signed(">=", depth, I32(layout.CALL_ENTRIES))
    helper.stop_if(deep, Fault.CALL_DEPTH, lambda: (trailing_zeros(builder, mask), builder.zext(depth, I64)))
    return []


def _copy_body(helper: HelperFrame) -> list[Value]:
    source, target, size = helper.arguments
    builder = helper.builder

    def copy_word(done: Value) -> tuple[Value]:
        step = splat(builder, done)
        moved = private_body(helper, builder.add(source, step), Access(I64, 8, 1, record=False))
        private_body(helper, builder.add(target, step), Access(I64, 8, 1, tuple(moved), record=False))
        return (builder.add(done, I32(8)),)

    loop(builder, [I32(0)], lambda done: builder.icmp_unsigned("<", done, size), copy_word)
    return []
