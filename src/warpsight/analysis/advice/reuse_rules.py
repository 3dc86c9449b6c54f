"""What if a block read each byte of device memory once, and a thread read adjacent words with one instruction?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from warpsight.analysis.advice.rewriting import (
    Accesses,
    AccessReader,
    EventBytes,
    Rewritten,
    address_of,
    distinct,
    executing,
    numbered,
    recoded,
    texts_of,
    written,
)  # fmt: skip
from warpsight.analysis.advice.rule import PROGRAMMER, Case, WhatIf, heaviest_lines, listed, place_of
from warpsight.base.units import percent, three_digits
from warpsight.isa.sass.native import NO_BARRIER
from warpsight.traces.schema import LOAD, SECTOR_BYTES, KernelTrace, StaticInstruction, TraceChunk

Longs = npt.NDArray[np.int64]

# -- What if a block read each byte once, and kept it in shared memory?

# Loads are proposed if so many warps of a block read each of their sectors, and this part of their requests misses in the L1.
_LEAST_REUSE, _LEAST_MISSES = 4.0, 0.01
_LOOKED_AT = 1 << 18  # sectors touched, the first of the trace, of which whole blocks are looked at
_PASS_BYTES = 128


def staged(trace: KernelTrace, pcs: Sequence[int], room: int) -> KernelTrace:
    """`trace` with the loads of `pcs` through shared memory: a block reads a sector from device memory once, as long as what it
    reads fits into `room` bytes; every load then reads shared memory, without bank conflicts.

    What is more than the room is read in as many parts as it takes, one after the other. Which of the warps that need a sector
    reads it from device memory is left to chance, as tiles are read by all warps together.
    """
    code = [[replace(each, space="generic")] if each.pc in pcs else [each] for each in trace.instructions]
    instructions, _, _ = recoded(trace, code)
    held = EventBytes.of(instructions)
    per_block, chosen = trace.header.warps_per_block, np.array(pcs, dtype=np.int64)
    bytes_of_block = _largest_block(trace, chosen)
    parts = -(-bytes_of_block // room)

    def rewrite(chunk: TraceChunk, accesses: Accesses) -> TraceChunk:
        here = np.flatnonzero(np.isin(accesses.pc, chosen))
        number, count = numbered(accesses.warp[here], len(chunk.path))
        part = np.zeros(len(accesses.pc), dtype=np.int64)
        part[here] = number * parts // count[accesses.warp[here]]
        own = accesses.own
        at = np.flatnonzero(np.isin(own, here))
        first = at[_first_of_each(accesses.warp[own[at]], part[own[at]], accesses.touched[at].astype(np.int64), per_block)]
        kept = np.ones(len(own), dtype=np.bool_)
        kept[at] = False
        kept[first] = True
        degree = accesses.degree.copy()
        degree[here] = -(-accesses.sectors[here] * SECTOR_BYTES // _PASS_BYTES)
        sectors = np.bincount(own[kept], minlength=len(accesses.pc)).astype(np.int64)
        after = replace(accesses, sectors=sectors, degree=degree, touched=accesses.touched[kept])
        return written(after, held, np.asarray(chunk.path), chunk.first_warp)

    header = trace.header
    tile = header.static_shared_bytes + min(room, bytes_of_block)
    return replace(
        trace, instructions=instructions, chunks=Rewritten(trace, rewrite), origin="",
        header=replace(header, static_shared_bytes=tile),
    )  # fmt: skip


def _largest_block(trace: KernelTrace, pcs: Longs) -> int:
    """The most bytes of device memory that a block reads at `pcs`, in whole sectors."""
    reader, most = AccessReader(trace), 0
    for chunk in trace.chunks:
        accesses = reader.read(chunk)
        own = accesses.own
        chosen = np.isin(accesses.pc[own], pcs)
        block = accesses.warp[own[chosen]] // trace.header.warps_per_block
        pairs = distinct(block << 32 | accesses.touched[chosen].astype(np.int64))
        most = max(most, int(np.bincount(pairs >> 32).max(initial=0)))
    return most * SECTOR_BYTES


def _first_of_each(warp: Longs, part: Longs, sector: Longs, per_block: int) -> Longs:
    """Of the touches of a sector in one part of a block's work the first one of a warp that chance chooses."""
    chance = ((sector * 31 + warp % per_block).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    order = np.lexsort((np.arange(len(warp)), chance, sector, part, warp // per_block))
    keys = np.stack([warp // per_block, part, sector])[:, order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return order[new]


@dataclass(frozen=True)
class Reuse:
    """Loads from device memory whose data the warps of a block share: their pcs, and how many warps of a block touch a sector of
    each of their arrays.
    """

    pcs: tuple[int, ...]
    warps: tuple[float, ...]


def reuse_in_blocks(case: Case) -> Reuse | None:
    """Such loads that also miss in the L1; None without any."""
    trace, misses = case.trace, case.profiled.misses
    loads = [
        i.pc for i in trace.instructions
        if i.access == LOAD and i.space == "global" and i.destinations and i.count_bytes == 1
        and misses.l1_misses[i.pc] > _LEAST_MISSES * misses.l1_reads[i.pc]
    ]  # fmt: skip
    arrays = _arrays(trace, loads)[1] if loads else {}
    shared = {pcs: len(touched) / len(_of_blocks(trace, touched)) for pcs, touched in arrays.items()}
    reused = {pcs: warps for pcs, warps in shared.items() if warps >= _LEAST_REUSE}
    return Reuse(tuple(sorted(pc for pcs in reused for pc in pcs)), tuple(reused.values())) if reused else None


def arrays_of_blocks(trace: KernelTrace, pcs: Sequence[int]) -> tuple[int, list[float]]:
    """How many blocks were looked at; for each array that they load at `pcs`, the bytes of the sectors that each of them touches,
    all blocks together.
    """
    blocks, arrays = _arrays(trace, pcs)
    return blocks, [float(len(_of_blocks(trace, touched)) * SECTOR_BYTES) for touched in arrays.values()]


def _arrays(trace: KernelTrace, pcs: Sequence[int]) -> tuple[int, dict[tuple[int, ...], Longs]]:
    """How many blocks are looked at, the first of the trace; and the sectors that each of their warps touches, warp and sector in
    one number, for the pcs of each array: those whose ranges of sectors overlap.
    """
    chunk = next(iter(trace.chunks), None)
    if chunk is None:
        return 0, {}
    accesses, per_block = AccessReader(trace).read(chunk), trace.header.warps_per_block
    last = int(accesses.warp[np.searchsorted(np.cumsum(accesses.sectors), _LOOKED_AT) - 1]) if len(accesses.warp) else 0
    blocks = max(1, last // per_block)
    looked_at = int(np.searchsorted(accesses.warp, blocks * per_block))  # they are in the order of warps
    known: dict[int, Longs] = trace.kept.setdefault("touched by blocks", {})  # several rules ask for the same loads
    for pc in set(pcs) - known.keys():
        here = accesses.reordered(np.flatnonzero(accesses.pc[:looked_at] == pc))
        known[pc] = distinct(np.repeat(here.warp, here.sectors) << 32 | here.touched.astype(np.int64))
    touched = {pc: known[pc] for pc in pcs if len(known[pc])}
    groups, last = list[list[int]](), -1
    ranges = sorted((int((each & _SECTOR).min()), int((each & _SECTOR).max()), pc) for pc, each in touched.items())
    for low, high, pc in ranges:
        if low > last:
            groups.append([])
        groups[-1].append(pc)
        last = max(last, high)
    return blocks, {tuple(group): distinct(np.concatenate([touched[pc] for pc in group])) for group in groups}


def _of_blocks(trace: KernelTrace, touched: Longs) -> Longs:
    """The sectors that each block touches, of those of its warps."""
    return distinct((touched >> 32) // trace.header.warps_per_block << 32 | touched & _SECTOR)


_SECTOR = 2**32 - 1


class Tiling:
    """Data that the threads of a block share and load again: the trace is rewritten, and everything is evaluated again."""

    name = "tiling"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for all such loads, if an SM has shared memory left for its blocks."""
        reuse, header = case.once(reuse_in_blocks), case.trace.header
        used = header.static_shared_bytes + header.dynamic_shared_bytes
        of_block = case.gpu.sm.shared_memory_bytes // case.profiled.occupancy.blocks_per_sm
        room = of_block - used - case.gpu.sm.shared_memory_unit_bytes
        room = min(room, _STATIC_MOST - header.static_shared_bytes)
        if reuse is None or room < SECTOR_BYTES:
            return
        misses = case.profiled.misses
        lines = heaviest_lines(case, lambda pc: pc in reuse.pcs, misses.l1_misses)
        pcs = list(reuse.pcs)
        missed, reads = int(misses.l1_misses[pcs].sum()), int(misses.l1_reads[pcs].sum())
        warps = " and ".join(three_digits(each) for each in sorted(reuse.warps, reverse=True)[:3])
        yield WhatIf(
            title=f"tiles in shared memory: each block loads the data of {listed([row for _, row, _ in lines])} once",
            place=place_of(lines[0][1]),
            reason=f"{warps} warps of a block load each sector of {'these arrays' if len(reuse.warps) > 1 else 'the array'}, and "
            f"{percent(missed / reads)} of these requests miss in the L1",
            cost="a loop over tiles, with a barrier before and after each, which are not counted",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(staged(case.trace, pcs, room)),
            relieves=("mem_data", "mshr", "noc", "dram", "lsu"),
        )


_STATIC_MOST = 48 * 1024


# -- What if adjacent words of a thread were one access?

_WIDEST = 16


@dataclass(frozen=True)
class Group:
    """Loads of one basic block from adjacent addresses of each thread, in the order of execution, and their bytes together."""

    pcs: tuple[int, ...]
    bytes: int

    @property
    def kept(self) -> int:
        """The one that does the work of all."""
        return self.pcs[0]


def adjacent(trace: KernelTrace) -> list[Group]:
    """The groups of loads whose threads read adjacent words in several instructions."""
    texts, found = texts_of(trace), list[Group]()
    for begin, end in pairwise(trace.block_start.tolist()):
        open_: dict[tuple[str, str, tuple[int, ...]], list[tuple[int, int]]] = {}
        for instruction in trace.instructions[begin:end]:
            address = address_of(texts[instruction.pc]) if _can_widen(instruction) else None
            if address is not None:
                base, offset = address
                open_.setdefault((instruction.opcode, base, instruction.sources), []).append((offset, instruction.pc))
            written_ = set(instruction.destinations)
            closed = [key for key in open_ if written_.intersection(key[2]) or instruction.op_class == "barrier"]
            for key in closed:
                found += _runs(trace, open_.pop(key))
        for members in open_.values():
            found += _runs(trace, members)
    return sorted(found, key=lambda group: group.pcs)


def _can_widen(instruction: StaticInstruction) -> bool:
    loads = instruction.access == LOAD and instruction.space == "global" and bool(instruction.destinations)
    return loads and 0 < instruction.access_bytes < _WIDEST


def _runs(trace: KernelTrace, members: list[tuple[int, int]]) -> list[Group]:
    """The groups of accesses at these offsets: as wide as the addresses allow, if the base is a multiple of the widest access."""
    width, at = trace.instructions[members[0][1]].access_bytes, dict(members)
    groups = []
    for size in (16, 8, 4):
        for offset in sorted(at):
            inside = [offset + k for k in range(0, size, width)]
            if size > width and offset % size == 0 and all(each in at for each in inside):
                groups.append(Group(tuple(sorted(at.pop(each) for each in inside)), size))
    return groups


def widened(trace: KernelTrace, groups: Sequence[Group]) -> KernelTrace:
    """`trace` with one load in the place of each group."""
    code = [[each] for each in trace.instructions]
    kept_of = np.arange(len(code), dtype=np.int64)
    for group in groups:
        members = [trace.instructions[pc] for pc in group.pcs]
        wide = replace(
            trace.instructions[group.kept], access_bytes=group.bytes, write_barrier=_first_waited_for(trace, group),
            destinations=tuple(dict.fromkeys(r for each in members for r in each.destinations)),
        )  # fmt: skip
        for pc in group.pcs:
            code[pc] = [wide] if pc == group.kept else []
            kept_of[pc] = group.kept
    instructions, start, first = recoded(trace, code)
    held = EventBytes.of(instructions)

    def rewrite(chunk: TraceChunk, accesses: Accesses) -> TraceChunk:
        kept = accesses.reordered(np.flatnonzero(kept_of[accesses.pc] == accesses.pc))
        return written(replace(kept, pc=first[kept.pc]), held, np.asarray(chunk.path), chunk.first_warp)

    weight = (kept_of == np.arange(len(code))).astype(np.float64)
    return replace(
        trace, instructions=instructions, block_start=start, chunks=Rewritten(trace, rewrite), origin="", extra={},
        header=executing(trace, weight),
    )  # fmt: skip


def _first_waited_for(trace: KernelTrace, group: Group) -> int:
    """Of the barriers that the loads of a group release, the one that an instruction waits for first."""
    barriers = {trace.instructions[pc].write_barrier for pc in group.pcs} - {NO_BARRIER}
    end = int(trace.block_start[np.searchsorted(trace.block_start, group.pcs[0], side="right")])
    for instruction in trace.instructions[group.pcs[0] : end]:
        for barrier in sorted(barriers):
            if instruction.waits >> barrier & 1:
                return barrier
    return trace.instructions[group.kept].write_barrier


def aligned(trace: KernelTrace, groups: Sequence[Group]) -> list[Group]:
    """The groups whose loads always touch the same sectors, in the blocks looked at: the threads' addresses are multiples of what
    a group loads, or the words of a group would sometimes lie in two sectors."""
    chunk = next(iter(trace.chunks), None)
    if chunk is None or not groups:
        return []
    accesses = AccessReader(trace).read(chunk)
    by_pc = {pc: accesses.reordered(np.flatnonzero(accesses.pc == pc)) for group in groups for pc in group.pcs}

    def same(first: Accesses, other: Accesses) -> bool:
        return np.array_equal(first.sectors, other.sectors) and np.array_equal(first.touched, other.touched)

    return [group for group in groups if len(by_pc[group.kept].pc) and all(same(by_pc[group.kept], by_pc[pc]) for pc in group.pcs)]


class WideLoads:
    """Adjacent words that a thread loads one by one: the trace is rewritten, and everything is evaluated again."""

    name = "wide_loads"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for all such loads, if it makes the instructions notably fewer."""
        trace, executions = case.trace, case.profiled.misses.executions
        groups = [group for group in adjacent(trace) if executions[group.kept]]
        less = sum(int(executions[list(group.pcs)].sum()) - int(executions[group.kept]) for group in groups)
        if less < _LEAST_FEWER * trace.header.recorded_instructions:
            return
        groups = aligned(trace, groups)
        pcs = [pc for group in groups for pc in group.pcs]
        less = int(executions[pcs].sum()) - sum(int(executions[group.kept]) for group in groups)
        if less < _LEAST_FEWER * trace.header.recorded_instructions:
            return
        widest = max(groups, key=lambda group: int(executions[group.kept]) * len(group.pcs))
        each = trace.instructions[widest.kept].access_bytes
        lines = heaviest_lines(case, lambda pc: pc in pcs, executions)
        yield WhatIf(
            title=f"wide loads of {listed([row for _, row, _ in lines])}: {widest.bytes} bytes at once instead of {each}",
            place=place_of(lines[0][1]),
            reason=f"a thread loads {len(widest.pcs)} adjacent words with {len(widest.pcs)} instructions; "
            f"{percent(less / trace.header.recorded_instructions)} of the instructions are the others of such loads",
            cost=f"a vector type, such as float4; addresses must be multiples of {widest.bytes} bytes",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(widened(trace, groups)),
            part=less / int(executions[pcs].sum()),
        )


_LEAST_FEWER = 0.01
