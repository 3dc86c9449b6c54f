"""Calls and returns of machine code: the return address lies in registers, and the stack is the program's own affair.

Lanes that call together wait for each other under a return token, as calls of PTX do; a lane's token is found by the address that
it returns to.
"""

from __future__ import annotations

from functools import reduce

from llvmlite import ir

from warpsight.emulator.codegen import layout
from warpsight.emulator.codegen.calls import Calls
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I1, I32, I64, Builder, Value, lanes_to_mask, splat, splat_constant
from warpsight.emulator.codegen.layout import RETURN_TOKENS, Fault
from warpsight.emulator.sass.common import (
    allow,
    code_address,
    integer,
    native_of,
    predicate,
    wide_integer,
)
from warpsight.emulator.sass.system import call_externals, target_address
from warpsight.emulator.sass.warp import running_with
from warpsight.isa.ptx.program import CallSite, Instruction
from warpsight.isa.sass.native import NativeImmediate, NativeInstruction, is_predicate
from warpsight.isa.sass.structure import COMPUTED


class NativeCalls(Calls):
    """The calls of one kernel."""

    def start(self, builder: Builder) -> None:
        """Nothing: the program sets its stack pointer itself."""

    def emit_call(self, emitter: Emitter, block: int, instruction: Instruction) -> None:
        """`CALL`: run the functions; all lanes wait at the return token."""
        builder, kernel, site = emitter.builder, self.kernel, self.sites[instruction.index]
        token = self.token(instruction.index)
        chosen = None if instruction.operands else self._by_address(emitter, instruction, site)
        depth = kernel.word(builder, layout.DEPTH)
        emitter.stop_if(
            builder.icmp_signed(">=", depth, I32(layout.CALL_ENTRIES)), Fault.CALL_DEPTH, lambda: (I32(0), builder.zext(depth, I64))
        )
        guard = emitter.guard_lanes
        calling = emitter.active_mask
        emitter.leave_block(block)
        if guard is not None:
            with builder.if_then(builder.icmp_signed("==", calling, I32(0))):
                kernel.go_on(builder, block + 1)
        # Lanes that do not call wait for those that do, and go on with them.
        kernel.push_raw(builder, I32(token), emitter.mask, builder.load(kernel.reconverge, typ=I32))
        builder.store(I32(token), kernel.reconverge)
        builder.store(calling, kernel.mask)
        if chosen is None:
            builder.branch(kernel.arrivals[self.target(site.targets[0])])
            return
        for target, lanes in chosen:
            kernel.push(builder, self.target(target), lanes, I32(token))
        builder.branch(kernel.pop_block)

    def _by_address(self, emitter: Emitter, instruction: Instruction, site: CallSite) -> list[tuple[str, Value]]:
        """The lanes (i32) that call each function; stops at an address that no function begins at."""
        builder, kernel = emitter.builder, self.kernel
        values = target_address(emitter, instruction)
        chosen, left = [], call_externals(emitter, values)
        for name in site.targets:
            known = {code_address(kernel.function.callables[name].first), kernel.symbols.functions.get(name, -1)}
            equal: Value = I32(0)
            for address in known:
                equal = builder.or_(equal, lanes_to_mask(builder, builder.icmp_signed("==", values, splat_constant(I64, address))))
            chosen.append((name, builder.and_(equal, emitter.active_mask)))
            left = builder.and_(left, builder.not_(equal))
        emitter.stop_lanes(left, Fault.CALL_TARGET, lambda lane: builder.extract_element(values, lane))
        return chosen

    def tokens_of(self, emitter: Emitter, instruction: Instruction) -> Value:
        """The token of each lane: that of the call behind which it goes on. Stops a lane that returns to any other place."""
        builder = emitter.builder
        values = target_address(emitter, instruction)
        tokens = splat_constant(I32, 0)
        for index in self.sites:
            here = builder.icmp_signed("==", values, splat_constant(I64, code_address(index + 1)))
            tokens = builder.select(here, splat_constant(I32, self.token(index)), tokens)
        unknown = builder.icmp_unsigned("<", tokens, splat_constant(I32, RETURN_TOKENS))
        lost = builder.and_(lanes_to_mask(builder, unknown), emitter.active_mask)
        emitter.stop_lanes(lost, Fault.RETURN_TARGET, lambda lane: builder.extract_element(values, lane))
        return tokens

    def build(self) -> None:
        """Emit the end of each call: the caller goes on."""
        for index in self.sites:
            self.kernel.go_on(ir.IRBuilder(self.returns[index]), self.after(index))


def branch_condition(emitter: Emitter, instruction: Instruction) -> None:
    """The lanes that take `BRA` or `EXIT`: those whose guard and predicate hold. With `.CONV` they do so only if all lanes of the
    mask before the label run together, and with `.DIV` all do if those whose guard holds are not just these. `.ANY` asks for the
    guard in any lane.
    """
    native, builder = native_of(instruction), emitter.builder
    if instruction.opcode != "exit":
        allow(emitter, native, "U", "ANY", "CONV", "DIV", "REL", "NOINC")  # the last two of a call that is a branch
    if instruction.guard is None:
        return
    conditions = [predicate(emitter, operand) for operand in native.operands if is_predicate(operand)]
    if instruction.guard.register.name != COMPUTED:
        conditions.append(emitter.active)
    holds = reduce(builder.and_, conditions, splat_constant(I1, 1))
    if "CONV" in native.modifiers:
        holds = builder.and_(holds, _runs_together(emitter, native))
    if "DIV" in native.modifiers:
        holding = splat(builder, builder.and_(lanes_to_mask(builder, holds), emitter.mask))
        holds = builder.not_(_runs_together(emitter, native, holding))
    if "DIV" in native.modifiers or "ANY" in native.modifiers:
        some = builder.icmp_signed("!=", builder.and_(lanes_to_mask(builder, holds), emitter.mask), I32(0))
        holds = splat(builder, some)
    emitter.restrict(holds)


def _runs_together(emitter: Emitter, native: NativeInstruction, holding: Value | None = None) -> Value:
    """Whether the lanes of a mask (all if it names none) that have not ended are just those that run, for each lane; with `holding`
    (i32 lanes), just those of them that are in this mask.
    """
    builder, kernel = emitter.builder, emitter.kernel
    named = next((integer(emitter, o) for o in native.operands[:-1] if not is_predicate(o)), splat_constant(I32, 0xFFFFFFFF))
    present = builder.and_(kernel.word(builder, layout.START), builder.not_(kernel.word(builder, layout.GONE)))
    running = running_with(emitter)
    if holding is not None:
        running = builder.and_(running, holding)
    return builder.icmp_signed("==", builder.and_(named, splat(builder, present)), running)


def branch_index(emitter: Emitter, instruction: Instruction) -> Value:
    """Which of its listed targets each lane of `BRX` goes to; one past the last for any other address."""
    native, builder, function = native_of(instruction), emitter.builder, emitter.kernel.function
    labels = function.branch_targets[instruction.operands[1].name]  # type: ignore[union-attr]
    distance = next((o.value for o in native.operands if isinstance(o, NativeImmediate)), 0)
    # The address counts from the instruction behind the branch.
    following = code_address(instruction.index + 1) + distance
    register = native.operands[0]
    target = builder.add(wide_integer(emitter, register), splat_constant(I64, following))
    index = splat_constant(I32, len(labels))
    for k, label in enumerate(labels):
        here = builder.icmp_signed("==", target, splat_constant(I64, code_address(function.labels[label])))
        index = builder.select(here, splat_constant(I32, k), index)
    return index
