"""Operations across the lanes of a warp, and those that gather lanes.

The instructions themselves work on the lanes that run together; which lanes must, `WARPSYNC` says before. Where lanes run together
is decided by control flow, as at the level of PTX, so the registers of convergence barriers (`B0`) hold nothing here.
"""

from __future__ import annotations

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I32, Value, lanes_to_mask, splat, splat_constant, trailing_zeros
from warpsight.emulator.codegen.layout import WARP
from warpsight.emulator.ptx.system import breakpoint_fault
from warpsight.emulator.ptx.warp import float_reduction, leader_of, matching, reduction, shuffle
from warpsight.emulator.sass.common import (
    allow,
    integer,
    native_of,
    predicate,
    raw,
    set_predicate,
    set_word,
    wide_integer,
)
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import NativeOperand, NativeRegister, NativeWord, is_predicate
from warpsight.isa.sass.structure import BARRIER_COUNT, BARRIER_VOTE, EXCLUDED, RETURN_PC, parts_lanes


def running_with(emitter: Emitter) -> Value:
    """For each lane the mask (i32) of the active lanes that run with it: all, but those that a `WARPSYNC` keeps apart."""
    active = splat(emitter.builder, emitter.active_mask)
    if EXCLUDED not in emitter.kernel.function.registers:
        return active
    return emitter.builder.and_(active, emitter.builder.not_(emitter.register(EXCLUDED)))


# -- Values of other lanes.


def vote(emitter: Emitter, instruction: Instruction) -> None:
    """`VOTE.{ANY,ALL,EQ} R, P, Q`: R the lanes in which Q holds, P whether that is any, all, or all or none; each may be absent.

    `VOTEU` writes uniform registers, which all lanes get although the guard holds only in some.
    """
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "ANY", "ALL", "EQ")
    voters = running_with(emitter)
    votes = builder.and_(splat(builder, lanes_to_mask(builder, predicate(emitter, native.operands[-1]))), voters)
    if native.results != len(native.operands) - 1:
        raise emitter.unsupported("its operands are not recognized")
    everyone = builder.icmp_signed("==", votes, voters)
    nobody = builder.icmp_signed("==", votes, splat_constant(I32, 0))
    outcomes = {"ANY": builder.not_(nobody), "ALL": everyone, "EQ": builder.or_(everyone, nobody)}
    results = [(t, outcomes[native.modifiers[0]] if is_predicate(t) else votes) for t in native.operands[: native.results]]
    if native.base != "VOTEU" or emitter.guard_lanes is None:
        _set(emitter, results)
        return
    some = splat(builder, builder.icmp_signed("!=", emitter.active_mask, I32(0)))
    before = [(predicate if is_predicate(target) else raw)(emitter, target) for target, _ in results]
    kept = [(target, builder.select(some, value, old)) for (target, value), old in zip(results, before, strict=True)]
    emitter.write_unguarded(lambda: _set(emitter, kept))


voteu = vote


def _set(emitter: Emitter, results: list[tuple[NativeOperand, Value]]) -> None:
    for target, value in results:
        (set_predicate if is_predicate(target) else set_word)(emitter, target, value)


def r2ur(emitter: Emitter, instruction: Instruction) -> None:
    """`R2UR`: a register to a uniform one. With a predicate, the value is that of the first lane, and the predicate says who has
    another one; with `.OR`, or who had another one before. Under a guard, and with `.BROADCAST`, all lanes get the value of the
    first whose guard holds, if there is any. Otherwise the lanes keep what each has, as a uniform register is held for each lane.
    `.FILL` takes back what `MOV.SPILL` has kept.
    """
    native = native_of(instruction)
    allow(emitter, native, "OR", "BROADCAST", "FILL")
    *results, source = native.operands
    value, builder, guard = integer(emitter, source), emitter.builder, emitter.guard_lanes
    if len(results) == 1 and guard is None and "BROADCAST" not in native.modifiers:
        set_word(emitter, results[0], value)
        return
    lane = builder.and_(trailing_zeros(builder, emitter.active_mask), I32(WARP - 1))
    first = splat(builder, builder.extract_element(value, lane))
    if len(results) == 2:
        differs = builder.icmp_signed("!=", value, first)
        if "OR" in native.modifiers:
            differs = builder.or_(differs, predicate(emitter, results[0]))
        set_predicate(emitter, results[0], differs)
    some = splat(builder, builder.icmp_signed("!=", emitter.active_mask, I32(0)))
    kept = builder.select(some, first, raw(emitter, results[-1]))
    emitter.write_unguarded(lambda: set_word(emitter, results[-1], kept))


_DIRECTIONS = {"UP": "up", "DOWN": "down", "BFLY": "bfly", "IDX": "idx"}


def shfl(emitter: Emitter, instruction: Instruction) -> None:
    """`SHFL.{IDX,UP,DOWN,BFLY} P, R, a, b, c`: R is a of the lane that b names, P whether it is in the segment; c as in PTX."""
    native = native_of(instruction)
    allow(emitter, native, *_DIRECTIONS)
    valid, target, *sources = native.operands
    direction = _DIRECTIONS[native.modifiers[0]]
    moved, inside = shuffle(emitter, direction, *(integer(emitter, operand) for operand in sources))
    set_word(emitter, target, moved)
    set_predicate(emitter, valid, inside)


def match(emitter: Emitter, instruction: Instruction) -> None:
    """`MATCH.ANY R, a`: the lanes with this lane's a (64 bits with `.U64`); `.ALL P, R, a`: all lanes if they agree, else none."""
    native = native_of(instruction)
    allow(emitter, native, "ANY", "ALL", "U64")
    *targets, source = native.operands
    value = (wide_integer if "U64" in native.modifiers else integer)(emitter, source)
    matches, agree = matching(emitter, value, running_with(emitter), "ALL" in native.modifiers)
    for target in targets:
        if is_predicate(target):
            set_predicate(emitter, target, agree)
        else:
            set_word(emitter, target, matches)


_REDUCTIONS = {"SUM": "add", "MIN": "min", "MAX": "max", "AND": "and", "OR": "or", "XOR": "xor"}


def redux(emitter: Emitter, instruction: Instruction) -> None:
    """`REDUX{.SUM,.MIN,.MAX,.OR,.XOR}{.S32} R, a`: one value of all lanes; without an operation that is AND."""
    native = native_of(instruction)
    allow(emitter, native, *_REDUCTIONS, "S32", "U32")
    operation = next((_REDUCTIONS[m] for m in native.modifiers if m in _REDUCTIONS), "and")
    kind = "s32" if "S32" in native.modifiers else "u32"
    target, source = native.operands
    set_word(emitter, target, reduction(emitter, operation, kind, integer(emitter, source), running_with(emitter)))


def credux(emitter: Emitter, instruction: Instruction) -> None:
    """`CREDUX.{MIN,MAX}{ABS}.F32{.NAN} UR, a`, `CREDUX.{MIN,MAX}{.S32} UR, a`: as `REDUX`, to a uniform register as `VOTEU` has it.

    Inferred from what NVIDIA's assembler makes of `redux.sync` for sm_100.
    """
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "MIN", "MAX", "MINABS", "MAXABS", "F32", "NAN", "S32", "U32")
    operation = next((m for m in native.modifiers if m.startswith(("MIN", "MAX"))), "")
    if not operation or ("F32" not in native.modifiers and {"NAN", "MINABS", "MAXABS"} & set(native.modifiers)):
        raise emitter.unsupported("its operation is not recognized")
    (target, source), kind = native.operands, "s32" if "S32" in native.modifiers else "u32"
    name = operation[:3].lower()
    if "F32" in native.modifiers:
        words = [word for word, said in (("abs", operation.endswith("ABS")), ("NaN", "NAN" in native.modifiers)) if said]
        found = float_reduction(emitter, name, words, integer(emitter, source), running_with(emitter))
    else:
        found = reduction(emitter, name, kind, integer(emitter, source), running_with(emitter))
    if emitter.guard_lanes is None:
        set_word(emitter, target, found)
        return
    # The lanes outside of the guard get what those in it have.
    lane = builder.and_(trailing_zeros(builder, emitter.active_mask), I32(31))
    some = splat(builder, builder.icmp_signed("!=", emitter.active_mask, I32(0)))
    kept = builder.select(some, splat(builder, builder.extract_element(found, lane)), raw(emitter, target))
    emitter.write_unguarded(lambda: set_word(emitter, target, kept))


def elect(emitter: Emitter, instruction: Instruction) -> None:
    """`ELECT P, R, Q`: of the lanes in which Q holds the lowest is the leader: R its number, P true in it alone."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native)
    leads, target, candidate = native.operands
    candidates = builder.and_(splat(builder, lanes_to_mask(builder, predicate(emitter, candidate))), running_with(emitter))
    leader, is_leader = leader_of(emitter, candidates)
    set_word(emitter, target, leader)
    set_predicate(emitter, leads, is_leader)


# -- Lanes that gather or part.


def warpsync(emitter: Emitter, instruction: Instruction) -> None:
    """`WARPSYNC mask`: lanes that run in step are there already; others have waited at the start of the block.

    With `.EXCLUSIVE` and `.COLLECTIVE` lanes of other masks are kept apart until lanes meet again; here they run in step, unseen by
    each other.
    """
    native = native_of(instruction)
    allow(emitter, native, "ALL", "COLLECTIVE", "EXCLUSIVE")
    if EXCLUDED not in emitter.kernel.function.registers:
        return
    if parts_lanes(native.mnemonic):
        emitter.set_register(EXCLUDED, emitter.builder.not_(raw(emitter, native.operands[0])))
    else:
        emitter.set_register(EXCLUDED, splat_constant(I32, 0))


def bsync(emitter: Emitter, instruction: Instruction) -> None:
    """`BSYNC B`, `ENDCOLLECTIVE`: lanes meet where control flow does."""
    allow(emitter, native_of(instruction), "RELIABLE", "RECONVERGENT")
    if EXCLUDED in emitter.kernel.function.registers:
        emitter.set_register(EXCLUDED, splat_constant(I32, 0))


endcollective = bsync


def bmov(emitter: Emitter, instruction: Instruction) -> None:
    """`BMOV R, B`, `BMOV B, R`: a convergence barrier is saved or taken back; it holds nothing here, so 0 is saved."""
    native = native_of(instruction)
    allow(emitter, native, "32", "64", "CLEAR", "PQUAD")
    barriers = [o for o in native.operands if isinstance(o, NativeWord) and o.text[0] == "B" and o.text[1:].isdigit()]
    if len(barriers) != 1:
        raise emitter.unsupported("only a convergence barrier is modelled here")
    if isinstance(native.operands[0], NativeRegister):
        set_word(emitter, native.operands[0], splat_constant(I32, 0))


def rpcmov(emitter: Emitter, instruction: Instruction) -> None:
    """`RPCMOV.32 Rpc.LO, R`, `RPCMOV.32 R, Rpc.HI`: half of the return address that the hardware keeps for each lane. Returns of
    compiled code name registers of their own, so it is a register like any other; the forms are those of the disassembler.
    """
    native = native_of(instruction)
    allow(emitter, native, "32")
    target, source = native.operands
    half = next((o.text for o in native.operands if isinstance(o, NativeWord) and o.text in RETURN_PC), None)
    if half is None:
        raise emitter.unsupported("its operands are not recognized")
    if isinstance(target, NativeRegister):
        set_word(emitter, target, emitter.register(half))
    else:
        emitter.set_register(half, raw(emitter, source))


def b2r(emitter: Emitter, instruction: Instruction) -> None:
    """`B2R.RESULT R`, `B2R.RESULT RZ, P`: the count, or the vote, that the last `BAR.RED` gave."""
    native = native_of(instruction)
    if native.modifiers != ("RESULT",):
        raise emitter.unsupported("only the result of a barrier is modelled here")
    target, *vote_target = native.operands
    if not vote_target:
        set_word(emitter, target, emitter.register(BARRIER_COUNT))
        return
    set_word(emitter, target, splat_constant(I32, 0))
    set_predicate(emitter, vote_target[0], emitter.register(BARRIER_VOTE))


def bpt(emitter: Emitter, instruction: Instruction) -> None:
    """`BPT`: a breakpoint stops the launch, as without a debugger nothing could continue it; `BPT.TRAP` ends its basic block."""
    allow(emitter, native_of(instruction), "INT", "PAUSE", "DRAIN", "TRAP")
    breakpoint_fault(emitter, instruction)


def no_effect(emitter: Emitter, instruction: Instruction) -> None:
    """Hints to the scheduler of warps, waits without an effect on data, and the bookkeeping of convergence."""


bssy = break_ = yield_ = nanosleep = preexit = acqbulk = cgaerrbar = uvirtcount = no_effect
