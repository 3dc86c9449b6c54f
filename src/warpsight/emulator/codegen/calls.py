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
    I1,
    I32,
    I64,
    Builder,
    Value,
    at,
    lanes_to_mask,
    load_as,
    reduce_vector,
    scalar_type,
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
        self._returns = {index: kernel.llvm.append_basic_block(f"return{number}") for index, number in self._number.items()}

    def resumed_blocks(self) -> set[int]:
        """Blocks at which lanes go on after a call."""
        return {block for index in self.sites if (block := self._after(index)) < len(self.kernel.bodies)}

    def tokens(self) -> list[tuple[int, Any]]:
        """Each return token and the LLVM block that finishes its call."""
        return [(RETURN_TOKENS + number, self._returns[index]) for index, number in self._number.items()]

    def _after(self, index: int) -> int:
        return self.kernel.graph.block_of(index) + 1

    def _target(self, name: str) -> int:
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
        token = RETURN_TOKENS + self._number[instruction.index]
        chosen = self._chosen(emitter, instruction, site)
        frame = emitter.register(FRAME)
        new = builder.add(frame, splat_constant(I64, site.frame))
        self._check_room(emitter, new, max((kernel.function.callables[t].frame for t in site.targets), default=0))
        for name, offset in site.saved:
            _store(emitter, _offset(emitter, frame, offset), _plain(emitter, name))
        for here, there, size in site.arguments:
            _copy(emitter, _offset(emitter, frame, here), _offset(emitter, new, there), size)
        emitter.set_register(FRAME, new)
        for target in site.targets:
            emitter.set_register(kernel.function.callables[target].return_register, splat_constant(I32, token))
        emitter.leave_block(block)
        kernel.push_raw(builder, I32(token), emitter.mask, builder.load(kernel.reconverge, typ=I32))
        builder.store(I32(token), kernel.reconverge)
        if chosen is None:
            builder.branch(kernel.target(self._target(site.targets[0])))
            return
        for target, lanes in chosen:
            kernel.push(builder, self._target(target), lanes, I32(token))
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
            address = self.kernel.symbols.function_address(target)
            equal = lanes_to_mask(builder, builder.icmp_signed("==", values, splat_constant(I64, address)))
            chosen.append((target, builder.and_(equal, emitter.mask)))
            left = builder.and_(left, builder.not_(equal))
        lane = trailing_zeros(builder, left)
        emitter.stop_if(
            builder.icmp_signed("!=", left, I32(0)), Fault.CALL_TARGET, lambda: (lane, builder.extract_element(values, lane))
        )
        return chosen

    def _check_room(self, emitter: Emitter, new: Value, need: int) -> None:
        """Stop when a frame would pass the end of a lane's stack, or the warp's reconvergence stack has no room for the call."""
        builder = emitter.builder
        depth = load_as(builder, at(builder, self.kernel.state, 4 * layout.DEPTH), I32, 4)
        static = I64(self.kernel.symbols.local_bytes)
        call_helper(emitter, "check_room", I64(0), [builder.add(new, splat_constant(I64, need)), static, depth], [], _room_body)

    # -- the return ----------------------------------------------------------------------------------------------------------

    def emit_return(self, emitter: Emitter, block: int, instruction: Instruction) -> None:
        """`ret` of a called function: lanes whose token the warp waits for join it there, others go on by themselves."""
        builder, kernel = emitter.builder, self.kernel
        register = instruction.operands[0]
        assert isinstance(register, Register)
        tokens, returning = emitter.register(register.name), emitter.active_mask
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
        none = builder.icmp_signed("==", staying, I32(0))
        builder.cbranch(none, kernel.pop_block, kernel.target(block + 1))

    def _return_apart(self, emitter: Emitter, tokens: Value, apart: Value) -> None:
        """Push an entry for each distinct token. A number that is none has been overwritten on the call stack."""
        builder, kernel = emitter.builder, self.kernel
        left = kernel.buffer("returning", I32)
        builder.store(apart, left)
        again, done = builder.append_basic_block("returns"), builder.append_basic_block("returned")
        builder.branch(again)
        builder.position_at_end(again)
        mask = builder.load(left, typ=I32)
        lane = trailing_zeros(builder, mask)
        token = builder.extract_element(tokens, lane)
        wrong = builder.icmp_unsigned(">=", builder.sub(token, I32(RETURN_TOKENS)), I32(len(self.sites)))
        emitter.stop_if(wrong, Fault.RETURN_TARGET, lambda: (lane, builder.zext(token, I64)))
        same = lanes_to_mask(builder, builder.icmp_signed("==", tokens, splat(builder, token)))
        kernel.push_raw(builder, token, builder.and_(same, mask), I32(layout.NO_BLOCK))
        rest = builder.and_(mask, builder.not_(same))
        builder.store(rest, left)
        builder.cbranch(builder.icmp_signed("==", rest, I32(0)), done, again)
        builder.position_at_end(done)

    def build(self) -> None:
        """Emit the end of each call: results and saved registers come back, and the caller goes on."""
        for index, site in self.sites.items():
            builder = ir.IRBuilder(self._returns[index])
            emitter = Emitter(self.kernel, builder, builder.load(self.kernel.mask, typ=I32))
            emitter.begin(self.kernel.function.instructions[index])
            inner = emitter.register(FRAME)
            frame = builder.sub(inner, splat_constant(I64, site.frame))
            for here, there, size in site.results:
                _copy(emitter, _offset(emitter, inner, there), _offset(emitter, frame, here), size)
            for name, offset in site.saved:
                _set_plain(emitter, name, _load(emitter, _offset(emitter, frame, offset), _plain_kind(emitter, name)))
            emitter.set_register(FRAME, frame)
            emitter.flush(frozenset(emitter.written))
            self.kernel.go_on(builder, self._after(index))


# -- registers and copies in frames ------------------------------------------------------------------------------------------


def _offset(emitter: Emitter, frame: Value, offset: int) -> Value:
    """Offsets (i32 lanes) into local memory."""
    builder = emitter.builder
    return builder.add(builder.trunc(frame, vector(I32)), splat_constant(I32, offset))


def _plain_kind(emitter: Emitter, name: str) -> Any:
    """The integer type in which a register is saved; 4 bytes at least."""
    return ir.IntType(max(32, type_bits(emitter.kernel.function.registers[name])))


def _plain(emitter: Emitter, name: str) -> Value:
    value = emitter.register(name)
    kind = _plain_kind(emitter, name)
    element = value.type.element
    bits = I1.width if element == I1 else type_bits(emitter.kernel.function.registers[name])
    whole = value if isinstance(element, ir.IntType) else emitter.builder.bitcast(value, vector(ir.IntType(bits)))
    return whole if bits == kind.width else emitter.builder.zext(whole, vector(kind))


def _set_plain(emitter: Emitter, name: str, value: Value) -> None:
    builder, kind = emitter.builder, emitter.kernel.function.registers[name]
    element = scalar_type(kind)
    bits = 1 if element == I1 else type_bits(kind)
    cut = value if bits == value.type.element.width else builder.trunc(value, vector(ir.IntType(bits)))
    emitter.set_register(name, cut if isinstance(element, ir.IntType) else builder.bitcast(cut, vector(element)))


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
    store_as(builder, used, at(builder, helper.context, 8 * Slot.LOCAL_CLEARED), 8)
    beyond = builder.icmp_unsigned(">", end, splat(builder, limit))
    full = builder.and_(lanes_to_mask(builder, beyond), mask)
    lane = trailing_zeros(builder, full)

    def bytes_needed() -> tuple[Value, Value]:
        return lane, builder.sub(builder.extract_element(end, lane), static)

    helper.stop_if(builder.icmp_signed("!=", full, I32(0)), Fault.STACK_OVERFLOW, bytes_needed)
    deep = builder.icmp_signed(">=", depth, I32(layout.CALL_ENTRIES))
    helper.stop_if(deep, Fault.CALL_DEPTH, lambda: (trailing_zeros(builder, mask), builder.zext(depth, I64)))
    return []


def _copy_body(helper: HelperFrame) -> list[Value]:
    source, target, size = helper.arguments
    builder = helper.builder
    before = builder.block
    head, after = builder.append_basic_block("words"), builder.append_basic_block("copied")
    builder.branch(head)
    builder.position_at_end(head)
    done = builder.phi(I32)
    done.add_incoming(I32(0), before)
    step = splat(builder, done)
    moved = private_body(helper, builder.add(source, step), Access(I64, 8, 1, record=False))
    private_body(helper, builder.add(target, step), Access(I64, 8, 1, tuple(moved), record=False))
    following = builder.add(done, I32(8))
    done.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, size), head, after)
    builder.position_at_end(after)
    return []
