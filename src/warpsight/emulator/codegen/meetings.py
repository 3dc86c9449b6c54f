"""What code that is compiled for synccheck does more where the lanes of a warp wait for each other, or exchange values.

Lanes of such a kernel are scheduled independently, so that those wait at a barrier or for the lanes of their mask that would on a
GPU: what `lane_scheduler.py` sees of it, it notes itself. Here is what each lane says at one instruction. Without synccheck none of
this is emitted.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.base.findings import SYNCCHECK
from warpsight.emulator.codegen import layout, watcher
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.codegen.helpers import for_each_lane
from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    Builder,
    Value,
    at,
    lanes_to_mask,
    load_as,
    splat,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.warp_function import WarpFunction
from warpsight.emulator.codegen.watching import note
from warpsight.isa.ptx.cfg import ControlFlowGraph
from warpsight.isa.ptx.program import Function, Immediate, Instruction
from warpsight.isa.ptx.rules import is_block_barrier, is_plain_exit
from warpsight.isa.ptx.waiting import is_collective

_OWN_BIT = ir.Constant(vector(I32), [1 << lane if lane < 31 else -(1 << 31) for lane in range(layout.WARP)])
_EVERYONE = (-1, 0xFFFFFFFF)


_MOST_BARRIERS = 31  # that have a bit in a warp's state


def barrier_joins(function: Function, graph: ControlFlowGraph) -> dict[int, frozenset[int]]:
    """Where warps meet that have come to a barrier of the whole block, and warps that have gone around it: by the barrier's block.

    These are the immediate post-dominators of all branches that decide whether it is reached, and for a barrier under a guard the
    block behind it. Those that do nothing but end the kernel are left out, since threads may end before a barrier.
    """
    joins: dict[int, frozenset[int]] = {}
    for block, end in enumerate(graph.block_start[1:].tolist()):
        if len(joins) < _MOST_BARRIERS and _is_syncthreads(function.instructions[end - 1]):
            found = {graph.post_dominator[branch] for branch in _deciding(graph, block)} - {-1, block}
            found |= {block + 1} if function.instructions[end - 1].guard is not None and block + 1 < len(graph) else set()
            joins[block] = frozenset(b for b in found if not is_plain_exit(_code(function, graph, b)))
    return joins


def _code(function: Function, graph: ControlFlowGraph, block: int) -> tuple[Instruction, ...]:
    return tuple(function.instructions[int(graph.block_start[block]) : int(graph.block_start[block + 1])])


def _is_syncthreads(instruction: Instruction) -> bool:
    operands = instruction.operands
    whole = is_block_barrier(instruction) and instruction.modifiers[:1] == ("sync",) and len(operands) == 1
    return whole and isinstance(operands[0], Immediate) and operands[0].value == 0


def _deciding(graph: ControlFlowGraph, block: int) -> set[int]:
    """The blocks whose branches decide whether `block` is reached: that it is control dependent on, and so on."""
    found: set[int] = set()
    pending = [block]
    while pending:
        reached = pending.pop()
        for branch, following in enumerate(graph.successors):
            if branch in found or len(following) < 2:
                continue
            always = reached in _post_dominators(graph, graph.post_dominator[branch])
            if not always and any(reached in _post_dominators(graph, successor) for successor in following):
                found.add(branch)
                pending.append(branch)
    return found


def _post_dominators(graph: ControlFlowGraph, block: int) -> list[int]:
    """A block and all of its post-dominators."""
    chain = []
    while block >= 0:
        chain.append(block)
        block = graph.post_dominator[block]
    return chain


def note_join(kernel: WarpFunction, builder: Builder, bits: int) -> None:
    """At the start of a block where a warp meets those that came to barriers: it did so too, or it has gone around them."""
    passed = kernel.word(builder, layout.PASSED)
    missed = builder.and_(I32(bits), builder.not_(passed))
    kernel.set_word(builder, layout.AROUND, builder.or_(kernel.word(builder, layout.AROUND), missed))
    kernel.set_word(builder, layout.PASSED, builder.and_(passed, I32(~bits)))


def join_bits(function: Function, graph: ControlFlowGraph) -> dict[int, int]:
    """For `note_join`: by block, the barriers whose warps meet there."""
    bits: dict[int, int] = {}
    for number, joins in enumerate(barrier_joins(function, graph).values()):
        for block in joins:
            bits[block] = bits.get(block, 0) | 1 << number
    return bits


def note_members(emitter: Emitter, instruction: Instruction) -> None:
    """Where lanes have met by member masks: each must be in its own, and its members must have the same."""
    if SYNCCHECK not in emitter.checks or not is_collective(instruction):
        return
    operand = instruction.operands[-1]
    if not (isinstance(operand, Immediate) and operand.value in _EVERYONE):
        call_helper(emitter, "note_members", 0, [emitter.read(operand, "b32")], [], _members)


def _members(helper: HelperFrame) -> list[Value]:
    (members,), builder, active = helper.arguments, helper.builder, helper.active_mask
    zero = splat_constant(I32, 0)
    foreign = lanes_to_mask(builder, builder.icmp_signed("==", builder.and_(members, _OWN_BIT), zero))
    wide = builder.zext(members, vector(I64))
    note(helper, builder.and_(foreign, active), watcher.LANE_NOT_IN_MASK, wide)
    held, bad = helper.spill(members, "members"), helper.buffer("differing", I32)
    store_as(builder, I32(0), bad, 4)

    def compare(inner: Builder, lane: Value) -> None:
        own = load_as(inner, at(inner, held, inner.shl(inner.zext(lane, I64), I64(2))), I32, 4)
        alike = inner.icmp_signed("==", members, splat(inner, own))
        others = inner.and_(inner.and_(own, active), inner.not_(lanes_to_mask(inner, alike)))
        this = inner.select(inner.icmp_signed("!=", others, I32(0)), inner.shl(I32(1), lane), I32(0))
        store_as(inner, inner.or_(load_as(inner, bad, I32, 4), this), bad, 4)

    for_each_lane(builder, active, compare)
    note(helper, builder.and_(load_as(builder, bad, I32, 4), builder.not_(foreign)), watcher.MASKS_DIFFER, wide)
    return []


def note_sources(frame: Frame, source: Value, valid: Value, members: Value | None) -> None:
    """A shuffle reads from lanes `source` (i32 lanes) where `valid` holds: they must be active, and members where that is known."""
    if SYNCCHECK not in frame.checks:
        return
    arguments = [source, frame.builder.zext(lanes_to_mask(frame.builder, valid), I64), *([] if members is None else [members])]
    call_helper(frame, "note_sources" if members is None else "note_member_sources", 0, arguments, [], _sources)


def _sources(helper: HelperFrame) -> list[Value]:
    (source, valid, *members), builder, active = helper.arguments, helper.builder, helper.active_mask
    bit = builder.shl(splat_constant(I32, 1), builder.and_(source, splat_constant(I32, 31)))
    readable = splat(builder, active)
    for mask in members:
        readable = builder.and_(readable, mask)
    silent = lanes_to_mask(builder, builder.icmp_signed("==", builder.and_(bit, readable), splat_constant(I32, 0)))
    reading = builder.and_(builder.trunc(valid, I32), active)
    note(helper, builder.and_(silent, reading), watcher.INACTIVE_SOURCE, builder.zext(source, vector(I64)))
    return []
