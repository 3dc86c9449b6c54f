"""What if products of matrices used tensor cores, or used them better: fewer loads for each product, copies that come in time?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.advice.reuse_rules import arrays_of_blocks
from warpsight.analysis.advice.rewriting import Bools, following_blocks, instructions_of
from warpsight.analysis.advice.rule import MODEL, PROFILE, PROGRAMMER, Case, WhatIf, heaviest_lines, line_name, listed, place_of
from warpsight.base.units import percent, three_digits
from warpsight.gpu.operations import occupied
from warpsight.intervals.interval_profile import IntervalProfile, ResourceDemands
from warpsight.intervals.usage import l1_cycles, l1_stages, occurrences, path_use, unit_cycles, without_conflicts
from warpsight.isa.matrix_products import matrix_product, multiply_adds
from warpsight.traces.schema import LOAD, STORE, WARP_SIZE, KernelTrace, StaticInstruction

Longs = npt.NDArray[np.int64]

# -- Where the operands of an instruction were loaded.

# Conversions and moves: what they write was loaded where their only operand was.
_MOVES = ("HADD2.F32", "F2F", "MOV", "IMAD.U32", "IMAD.MOV", "PRMT", "SHL", "SHF", "cvt", "mov", "shl", "prmt", "IMAD.SHL")
Origins = dict[int, frozenset[int]]


def loaded_from(trace: KernelTrace) -> dict[int, list[frozenset[int]]]:
    """For the pc of each multiply-add, matrix multiply and store to shared memory: the loads that made each of its operands."""
    following = following_blocks(trace)
    known: dict[int, Origins] = {int(trace.paths.block[first]): {} for first in trace.paths.offset[:-1]}
    found: dict[int, list[frozenset[int]]] = {}
    waiting = list(known)
    while waiting:
        block = waiting.pop()
        state = dict(known[block])
        for instruction in instructions_of(trace, block):
            if _is_multiply_add(instruction) or instruction.op_class == "tensor" or _is_staging(instruction):
                found[instruction.pc] = [state.get(register, frozenset()) for register in instruction.sources]
            origin = _origin(instruction, state)
            state.update(dict.fromkeys(instruction.destinations, origin))
        for after in following.get(block, ()):
            before = known.get(after)
            joined = {r: state.get(r, frozenset()) | (before or {}).get(r, frozenset()) for r in {*state, *(before or {})}}
            if before is None or joined != before:
                known[after] = joined
                waiting.append(after)
    return found


def _origin(instruction: StaticInstruction, state: Origins) -> frozenset[int]:
    if instruction.access == LOAD:
        return frozenset([instruction.pc]) if instruction.space in ("global", "shared", "generic") else frozenset()
    if instruction.opcode.startswith(_MOVES) and not instruction.access:
        return frozenset().union(*(state.get(register, frozenset()) for register in instruction.sources))
    return frozenset()


def _is_multiply_add(instruction: StaticInstruction) -> bool:
    return instruction.opcode.startswith(("FFMA", "HFMA2", "DFMA", "fma.rn", "mad.f32", "mad.rn"))


def _is_staging(instruction: StaticInstruction) -> bool:
    return instruction.access == STORE and instruction.space == "shared"


# -- What if the multiply-adds of a product of matrices were done by tensor cores?

# Rows and columns of a block's product from which on a matrix multiply has work, and the least depth.
_LEAST_SIDE, _LEAST_DEPTH = 8.0, 8.0
# Multiply-adds must be this part of all instructions.
_LEAST_WORK = 0.05
# Bytes of a multiplicand: the type that it may have in a matrix multiply, that multiply, and the compute capability from which on
# it exists (PTX ISA, "mma"; 16-bit numbers have had other shapes since 7.0).
_TYPES = {
    2: ("f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 7.0),
    4: ("tf32, which rounds to 10 bits of mantissa", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8.0),
    8: ("f64", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 8.0),
}  # fmt: skip


@dataclass(frozen=True)
class ProductLoop:
    """Multiply-adds of two loaded numbers that are added up: their pcs, the loads of their operands, all warp instructions of a
    kind together, and the bytes of a multiplicand.
    """

    multiplies: tuple[int, ...]
    loads: tuple[int, ...]
    executed: int
    bytes: int


def product_loop(trace: KernelTrace, times: Longs) -> ProductLoop | None:
    """The multiply-adds of the kernel whose multiplicands come from two different loads, and whose sum from none."""
    multiplies, loads, narrow = [], set[int](), 0
    for pc, origins in loaded_from(trace).items():
        instruction = trace.instructions[pc]
        if not _is_multiply_add(instruction):
            continue
        made = [origin for origin in origins if origin]
        if len(made) == 2 and not made[0] & made[1] and len(origins) > len(made):
            multiplies.append(pc)
            loads |= made[0] | made[1]
            narrow += int(times[pc]) * all(min(trace.instructions[each].access_bytes for each in origin) == 2 for origin in made)
    executed = int(times[multiplies].sum())
    if not executed:
        return None
    opcode = trace.instructions[multiplies[0]].opcode
    half = opcode.startswith("HFMA2") or 2 * narrow > executed
    width = 8 if opcode.startswith("DFMA") or ".f64" in opcode else 2 if half else 4
    return ProductLoop(tuple(multiplies), tuple(sorted(loads)), executed, width)


class TensorCores:
    """Multiply-adds of a product of matrices: the model is evaluated for the same work on the tensor cores, without the loads of
    the operands, which is the most that it can save.
    """

    name = "tensor_cores"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The change, if a block's loads and multiply-adds are those of a product with enough rows, columns and depth."""
        trace, demands = case.trace, case.profiled.profile.demands
        times = occurrences(trace, path_use(trace)[0])
        loop = product_loop(trace, times)
        if loop is None or demands is None or loop.executed < _LEAST_WORK * trace.header.recorded_instructions:
            return
        called, opcode, since = _TYPES[loop.bytes]
        kind, capability = matrix_product(opcode)[0], case.gpu.compute_capability
        made = self._shape(case, loop)
        if kind not in case.gpu.latency_cycles or capability == "none" or float(capability) < since or made is None:
            return
        rows, columns, _ = made
        lanes = WARP_SIZE * (2 if loop.bytes == 2 and "HFMA2" in trace.instructions[loop.multiplies[0]].opcode else 1)
        products = loop.executed * lanes / multiply_adds(opcode)
        busy = products * occupied(case.gpu, "tensor", matrix_product(opcode))[0][1]
        _, row, _ = heaviest_lines(case, lambda pc: pc in loop.multiplies, times)[0]
        yield WhatIf(
            title=f"tensor cores for the products of {line_name(row)}, as {called}",
            place=place_of(row),
            reason=f"{percent(loop.executed / trace.header.recorded_instructions)} of the instructions add up products of loaded "
            f"numbers, in a block those of {three_digits(rows)} rows and {three_digits(columns)} columns; a matrix multiply of a "
            f"warp does {multiply_adds(opcode) / lanes:.0f} of them at once",
            cost="wmma or mma.sync in place of the loop, with tiles in shared memory; the gain is at most this, as the loads of "
            "the fragments are not counted",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_profile(self._changed(case, demands, loop, products, busy)),
            again=MODEL,
            at_most=True,
        )

    @staticmethod
    def _shape(case: Case, loop: ProductLoop) -> tuple[float, float, float] | None:
        """Rows, columns and depth of a block's product, from its multiply-adds and the distinct numbers that it loads; None if they
        are too few."""
        trace = case.trace
        loads = [pc for pc in loop.loads if trace.instructions[pc].space == "global"] or [
            i.pc for i in trace.instructions if i.access == LOAD and i.space == "global"]  # fmt: skip
        blocks, arrays = arrays_of_blocks(trace, loads)
        if not arrays:
            return None
        numbers = sorted((touched / blocks / loop.bytes for touched in arrays), reverse=True)[:2]
        work = loop.executed * WARP_SIZE / trace.header.recorded_blocks
        first, second = numbers[0], numbers[-1]
        rows, columns, depth = work / second, work / first, first * second / work
        return (rows, columns, depth) if min(rows, columns) >= _LEAST_SIDE and depth >= _LEAST_DEPTH else None

    @staticmethod
    def _changed(case: Case, demands: ResourceDemands, loop: ProductLoop, products: float, busy: float) -> IntervalProfile:
        trace = case.trace
        removed = [*loop.multiplies, *loop.loads]
        times = occurrences(trace, path_use(trace)[0])
        port = l1_cycles(trace, case.profiled.misses, case.gpu)
        left = 1 - (float(times[removed].sum()) - products) / float(times.sum())
        fewer = replace(
            demands, unit="tensor", unit_cycles=busy / trace.header.warps, l1_cycles=demands.l1_cycles * _left(port, loop.loads),
            stall_cycles=demands.stall_cycles * left, stall_in_step=demands.stall_in_step * left,
        )  # fmt: skip
        return _with_instructions(case.profiled.profile, left, fewer)


def _left(amounts: npt.NDArray[Any], pcs: Sequence[int]) -> float:
    """The part of the amounts that is not at `pcs`."""
    return 1 - float(amounts[list(pcs)].sum()) / float(amounts.sum())


def _with_instructions(profile: IntervalProfile, left: float, demands: ResourceDemands) -> IntervalProfile:
    """`profile` with that part of its instructions, and these demands."""
    total = max(1, round(profile.total_warp_instructions * left))
    return replace(profile, instructions=profile.instructions * left, total_warp_instructions=total, demands=demands)


# -- What if each number loaded from shared memory fed twice as many matrix multiplies?

# Tensor cores that are busy for a larger part of the time than this are not idle.
_BUSY = 0.6


class WarpTiles:
    """Idle tensor cores while the load-store unit feeds them: the model is evaluated for warps that compute twice the columns."""

    name = "warp_tiles"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The change, if the loads of operands from shared memory take the load-store unit longer than the products take the tensor
        cores."""
        trace, gpu, demands = case.trace, case.gpu, case.profiled.profile.demands
        times = occurrences(trace, path_use(trace)[0])
        tensor = unit_cycles(trace, gpu, times, "tensor") if demands is not None else np.zeros(1)
        if demands is None or not tensor.sum():
            return
        origins = loaded_from(trace)
        loads = sorted({
            pc for each in trace.instructions if each.op_class == "tensor" for origin in origins.get(each.pc, ()) for pc in origin
            if trace.instructions[pc].space == "shared"
        })  # fmt: skip
        products = float(tensor.sum()) / gpu.sm.schedulers
        ideal = without_conflicts(trace.instructions, case.profiled.misses)
        port, data = l1_cycles(trace, ideal, gpu), l1_stages(trace, ideal, gpu)[1]
        busy = products / trace.header.recorded_blocks * trace.header.blocks / gpu.sm_count / case.prediction.cycles
        if not loads or busy > _BUSY or float(data[loads].sum()) < products:
            return
        _, row, _ = heaviest_lines(case, lambda pc: pc in loads, data.astype(np.int64))[0]
        part = float(port[loads].sum()) / float(port.sum())
        less = 1 - _SAVED * float(times[loads].sum()) / float(times.sum())
        fewer = replace(
            demands, l1_cycles=demands.l1_cycles * (1 - _SAVED * part), stall_cycles=demands.stall_cycles * less,
            stall_in_step=demands.stall_in_step * less,
        )  # fmt: skip
        yield WhatIf(
            title=f"larger tiles of a warp: loads of {line_name(row)} for twice as many columns",
            place=place_of(row),
            reason=f"tensor cores are busy {percent(busy)} of the time; loads of their operands from shared memory take the "
            f"load-store unit {three_digits(float(data[loads].sum()) / products)} times as long as products the tensor cores",
            cost="twice the accumulators in each thread, and fewer warps or larger tiles of a block",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_profile(_with_instructions(case.profiled.profile, less, fewer)),
            again=MODEL,
        )


# Of the loads of both operands a tile of a warp with twice the columns, and as many rows before as columns, saves a quarter.
_SAVED = 0.25


# -- What if copies to shared memory were asked for earlier?

class Pipelining:
    """Waits for tiles. With one more stage of asynchronous copies the trace is evaluated again; loads that are stored to shared
    memory are evaluated as if they came in time, which is the most that asking for them a tile earlier can save.
    """

    name = "pipelining"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """A change for asynchronous copies, or one for loads that are staged through registers."""
        trace, repeated = case.trace, _repeated(case.trace)
        waits = [i.pc for i in trace.instructions if i.wait_groups >= 0 and repeated[i.pc]]
        if waits:
            yield from self._one_stage_more(case, waits, repeated)
        origins = loaded_from(trace)
        loads = {
            pc for store, origin in origins.items() if _is_staging(trace.instructions[store]) and repeated[store]
            for each in origin for pc in each if trace.instructions[pc].space == "global" and repeated[pc]
        }  # fmt: skip
        barrier = any(i.is_block_barrier and repeated[i.pc] for i in trace.instructions)
        if loads and barrier:
            yield self._a_tile_ahead(case, sorted(loads))

    @staticmethod
    def _one_stage_more(case: Case, waits: list[int], repeated: Bools) -> Iterator[WhatIf]:
        trace, header = case.trace, case.trace.header
        stage = header.threads_per_block * sum(i.access_bytes for i in trace.instructions if i.is_async_copy and repeated[i.pc])
        used = header.static_shared_bytes + header.dynamic_shared_bytes
        if not stage or used + stage > case.gpu.sm.shared_memory_bytes:
            return
        code = tuple(replace(i, wait_groups=i.wait_groups + 1) if i.pc in waits else i for i in trace.instructions)
        longer = replace(header, dynamic_shared_bytes=header.dynamic_shared_bytes + stage)
        changed = replace(trace, instructions=code, header=longer, origin="")
        left = max(trace.instructions[pc].wait_groups for pc in waits)
        rows = [row for row in case.rows if set(row.pcs) & set(waits)]
        yield WhatIf(
            title=f"one more stage of asynchronous copies: wait_group {left + 1} instead of {left} at {line_name(rows[0])}",
            place=place_of(rows[0]),
            reason=f"a wait ends when all but {left} groups of copies have arrived; a block copies {stage:,} bytes in a round",
            cost=f"{used + stage:,} bytes of shared memory per block instead of {used:,}",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(changed),
            relieves=("mem_data", "sync"),
        )

    @staticmethod
    def _a_tile_ahead(case: Case, loads: list[int]) -> WhatIf:
        misses = case.profiled.misses
        served = ("slowest_l1", "slowest_l2", "slowest_far", "slowest_dram", "slowest_merged", "merged_wait_cycles")
        counts: dict[str, Any] = {name: getattr(misses, name).copy() for name in served}
        for count in counts.values():
            count[loads] = 0
        lines = heaviest_lines(case, lambda pc: pc in loads, misses.l1_reads)
        return WhatIf(
            title=f"loads of {listed([row for _, row, _ in lines])} a tile ahead (double buffering, or cp.async)",
            place=place_of(lines[0][1]),
            reason="what they load is stored to shared memory, and a barrier waits for it before its use, in each round of a loop",
            cost="registers or shared memory for a second tile; the gain is at most this, as if all loads came in time",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_misses(replace(misses, **counts)),
            again=PROFILE,
            relieves=("mem_data", "sync"),
            at_most=True,
        )


def _repeated(trace: KernelTrace) -> Bools:
    """The instructions that some warp executes more than once, bool [instructions]."""
    path = np.repeat(np.arange(len(trace.paths)), np.diff(trace.paths.offset))
    times = np.zeros((len(trace.paths), len(trace.block_start) - 1), dtype=np.int64)
    np.add.at(times, (path, trace.paths.block), trace.paths.repeat)
    return np.repeat(times.max(axis=0, initial=0) > 1, np.diff(trace.block_start))
