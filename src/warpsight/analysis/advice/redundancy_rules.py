"""What if accesses that repeat were not made: of a thread at one address, or of all threads of the grid at the same words?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpsight.analysis.advice.rewriting import (
    Accesses,
    AccessReader,
    EventBytes,
    Longs,
    Rewritten,
    address_of,
    depends_on,
    distinct,
    instructions_of,
    recoded,
    texts_of,
    written,
)  # fmt: skip
from warpsight.analysis.advice.rule import PROGRAMMER, Case, WhatIf, heaviest_lines, listed, place_of
from warpsight.analysis.advice.skipping import Visits, skipping, visits_of
from warpsight.base.errors import LimitError
from warpsight.base.units import percent
from warpsight.intervals.usage import l1_cycles, path_use
from warpsight.isa.sass.native import NO_BARRIER
from warpsight.traces.schema import ATOMIC, LOAD, SECTOR_BYTES, STORE, KernelTrace, StaticInstruction, TraceChunk

# Accesses that could be left out must be this part of all instructions.
_LEAST = 0.01

# -- What if a register held what a thread loads and stores at one address again and again?

# Accesses that must happen, as other threads may look: volatile ones, and those of memory models.
_ORDERED = (".strong", ".volatile", ".relaxed", ".acquire", ".release", ".mmio")
Address = tuple[str, int, int, tuple[int, ...]]


def _addresses(trace: KernelTrace) -> dict[Address, list[StaticInstruction]]:
    """The loads and stores of device memory that always happen, by address: its text, offset, bytes and registers."""
    found: dict[Address, list[StaticInstruction]] = {}
    for instruction, text in zip(trace.instructions, texts_of(trace), strict=True):
        plain = not text.startswith("@") and not any(word in instruction.opcode.lower() for word in _ORDERED)
        address = address_of(text) if plain and _is_plain(instruction) else None
        if address is not None:
            registers = instruction.sources
            if instruction.access == STORE:
                registers = registers[: len(registers) - _data_registers(instruction, text)]
            if registers:
                found.setdefault((*address, instruction.access_bytes, registers), []).append(instruction)
    return found


def _is_plain(instruction: StaticInstruction) -> bool:
    """A load into registers or a store of device memory."""
    is_load = instruction.access == LOAD and bool(instruction.destinations)
    return instruction.space == "global" and instruction.count_bytes == 1 and (is_load or instruction.access == STORE)


def _data_registers(instruction: StaticInstruction, text: str) -> int:
    """How many registers hold what a store stores: they are the last of its sources."""
    data = text.rpartition("]")[2]
    if "%" in data:
        return data.count("%")
    return 0 if "RZ" in data else max(1, instruction.access_bytes // 4)


def repeated(trace: KernelTrace, visits: Visits) -> tuple[Longs, list[StaticInstruction]]:
    """The executions of loads and stores that a register would make needless, as `skipping` numbers them; and the instructions
    that access the same addresses, these among them.

    They access an address that the thread has accessed before (a load), or will store to again (a store), with the same registers
    in its address, none of which is written in between, the same lanes, and no barrier, fence or atomic in between. No other
    instruction of the blocks looked at accesses the same sectors, unless all only load.
    """
    addresses = {address: members for address, members in _addresses(trace).items() if _may_repeat(trace, address, members)}
    if len(addresses) * len(visits.block) > _MOST_STEPS:
        return np.zeros(0, dtype=np.int64), []
    repeats = {address: _repeats(trace, visits, address, members) for address, members in addresses.items()}
    alone = list(_not_shared(trace, {address: addresses[address] for address, executions in repeats.items() if len(executions)}))
    skipped = np.concatenate([np.zeros(0, dtype=np.int64), *(repeats[address] for address in alone)])
    return np.sort(skipped), [member for address in alone for member in addresses[address]]


_MOST_STEPS = 1 << 25  # addresses times visits: what a proposal may take


def _may_repeat(trace: KernelTrace, address: Address, members: list[StaticInstruction]) -> bool:
    """Whether an address may be accessed twice before its registers change: it is in two places, or its block writes none."""
    block = int(np.searchsorted(trace.block_start, members[0].pc, side="right")) - 1
    written_ = (r for i in instructions_of(trace, block) for r in i.destinations)
    return len(members) > 1 or not set(address[3]).intersection(written_)


def _repeats(trace: KernelTrace, visits: Visits, address: Address, members: list[StaticInstruction]) -> Longs:
    """The executions of `members`, which have that address, that repeat one."""
    steps = _steps(trace, address, {member.pc for member in members})
    length = np.array([len(each) for each in steps], dtype=np.int64)
    flat = np.array([step for each in steps for step in each], dtype=np.int64).reshape(-1, 2)
    here = np.flatnonzero(length[visits.block])
    times = length[visits.block[here]]
    visit = np.repeat(here, times)
    within = np.arange(len(visit)) - np.repeat(np.cumsum(times) - times, times)
    pc, kind = flat[(np.cumsum(length) - length)[visits.block[visit]] + within].T
    access = kind != _BREAK
    path = np.searchsorted(visits.first, visit, side="right")
    lanes = visits.lanes[visit]
    # a stay is what a register could hold: it ends where the address may change, and where lanes come or go
    same = np.zeros(len(visit), dtype=np.int64)
    same[1:] = (path[1:] != path[:-1]) | (lanes[1:] != lanes[:-1])
    stay = np.cumsum(same + ~access)[access]
    pc, kind, visit = pc[access], kind[access], visit[access]
    first = np.ones(len(pc), dtype=np.bool_)
    first[1:] = stay[1:] != stay[:-1]
    stores = np.flatnonzero(kind == _STORE)
    last = np.ones(len(stores), dtype=np.bool_)
    last[:-1] = stay[stores[1:]] != stay[stores[:-1]]
    needless = (kind == _LOAD) & ~first
    needless[stores] = ~last
    return np.asarray(visit[needless] * len(trace.instructions) + pc[needless], dtype=np.int64)


_LOAD, _STORE, _BREAK = range(3)


def _steps(trace: KernelTrace, address: Address, members: set[int]) -> list[list[tuple[int, int]]]:
    """What matters to an address in each basic block, in order: the pcs of its accesses, and of what ends what a register holds."""
    registers, steps = set(address[3]), list[list[tuple[int, int]]]()
    for begin, end in zip(trace.block_start[:-1].tolist(), trace.block_start[1:].tolist(), strict=True):
        inside = list[tuple[int, int]]()
        for i in trace.instructions[begin:end]:
            if i.pc in members:
                inside.append((i.pc, _LOAD if i.access == LOAD else _STORE))
            if registers.intersection(i.destinations) or i.is_fence or i.op_class == "barrier" or i.access == ATOMIC:
                inside.append((i.pc, _BREAK))
        steps.append(inside)
    return steps


def _not_shared(trace: KernelTrace, addresses: dict[Address, list[StaticInstruction]]) -> Iterator[Address]:
    """Those of the addresses whose sectors no other instruction accesses, in the first blocks, unless all only load."""
    chunk = next(iter(trace.chunks), None)
    if chunk is None or not addresses:
        return
    accesses = AccessReader(trace).read(chunk)
    by = accesses.pc[accesses.own]
    stores = np.array([i.access != LOAD for i in trace.instructions], dtype=np.bool_)
    for address, members in addresses.items():
        own = np.isin(by, [member.pc for member in members])
        read_only = all(member.access == LOAD for member in members)
        others = ~own & (stores[by] if read_only else True)
        if not np.isin(accesses.touched[own], accesses.touched[others]).any():
            yield address


def loads_first(code: list[StaticInstruction]) -> list[StaticInstruction]:
    """The code of a basic block as a compiler orders it where no store is in the way: loads, and what makes their addresses, first.

    What else accesses memory, and barriers, stay where they are, and loads behind them. A register that is written again in the
    block is another one each time, but the last.
    """
    last = {register: k for k, i in enumerate(code) for register in i.destinations}
    new, named, after = max((0, *last, *(r for i in code for r in i.sources))) + 1, dict[int, int](), list[StaticInstruction]()
    for k, i in enumerate(code):
        sources = tuple(named.get(r, r) for r in i.sources)
        for r in i.destinations:
            named[r] = r if last[r] == k else new
            new += last[r] != k
        after.append(replace(i, sources=sources, destinations=tuple(named[r] for r in i.destinations)))
    ordered, part = list[StaticInstruction](), list[StaticInstruction]()
    for i in after:
        if (i.event_bytes and not (i.access == LOAD and _is_plain(i))) or i.op_class in ("barrier", "branch", "control"):
            ordered += [*_split(part), i]
            part = []
        else:
            part.append(i)
    return ordered + _split(part)


def _split(part: list[StaticInstruction]) -> list[StaticInstruction]:
    """The loads and what they need first, in their order; but nothing is moved over another use of a register that it writes."""
    needed, wanted = set[int](), set[int]()
    for k in reversed(range(len(part))):
        if part[k].access == LOAD or wanted.intersection(part[k].destinations):
            needed.add(k)
            wanted.update(part[k].sources)
    first, rest = list[StaticInstruction](), list[StaticInstruction]()
    behind, read, stuck = set[int](), set[int](), False  # written and read by what stays behind; whether a load does
    for k, i in enumerate(part):
        clear = behind.isdisjoint((*i.sources, *i.destinations)) and read.isdisjoint(i.destinations)
        ready = k in needed and clear and not (stuck and i.access == LOAD)
        if not ready:
            read.update(i.sources)
            behind.update(i.destinations)
            stuck = stuck or i.access == LOAD
        (first if ready else rest).append(i)
    return first + rest


class Registers:
    """Loads and stores at one address again and again: the trace is rewritten, and everything is evaluated again."""

    name = "registers"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for all such accesses, if they are a notable part of the instructions."""
        trace = case.trace
        if trace.waves is not None:
            return
        try:
            visits = visits_of(trace)
        except LimitError:
            return
        skipped, members = repeated(trace, visits)
        count = len(trace.instructions)
        path = np.searchsorted(visits.first, skipped // count, side="right") - 1
        times = np.bincount(skipped % count, weights=path_use(trace)[0][path].astype(np.float64), minlength=count)
        if times.sum() < _LEAST * trace.header.recorded_instructions:
            return
        lines = heaviest_lines(case, lambda pc: times[pc] > 0, times.astype(np.int64))
        kinds = {member.access for member in members if times[member.pc]}
        what = "loads and stores" if len(kinds) > 1 else "stores" if STORE in kinds else "loads"
        again = "stores to an address that it stores to again" if STORE in kinds else "loads what it has loaded before"
        assembled = trace.header.level == "sass" and STORE in kinds  # the order of PTX is that of the source
        executed = case.profiled.misses.executions[[member.pc for member in members]].sum()
        yield WhatIf(
            title=f"{what} of {listed([row for _, row, _ in lines])} once: a register holds the value meanwhile",
            place=place_of(lines[0][1]),
            reason=f"a thread {again}; {percent(times.sum() / executed)} of these accesses and "
            f"{percent(times.sum() / trace.header.recorded_instructions)} of the instructions could be left out",
            cost="a local variable in the loop, stored after it"
            if STORE in kinds
            else "a local variable, or __restrict__, so that the compiler knows that no store changes it",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(skipping(trace, visits, skipped, loads_first if assembled else list)),
        )


# -- What if loads of the same word by all threads of the grid came from the constant cache?

# Bytes of __constant__ variables that a kernel can have (CUDA C++ Programming Guide, "Technical Specifications").
_CONSTANT_BYTES = 64 * 1024
# The part of all sectors that each warp touches, from which on the warps are taken to read the same.
_LEAST_COMMON = 0.5


def uniform_loads(trace: KernelTrace) -> tuple[list[int], int]:
    """The loads whose lanes read one word, of a few that all warps of the first blocks read and no instruction writes: their pcs,
    and the bytes of the sectors that they touch."""
    texts, chunk = texts_of(trace), next(iter(trace.chunks), None)
    if not any(texts) or chunk is None:
        return [], 0
    lanes = depends_on(trace, {"tid.x", "tid.y", "tid.z", "laneid", "warpid"}).sources
    accesses = AccessReader(trace).read(chunk)
    own, writes = accesses.own, np.array([i.access not in ("", LOAD) for i in trace.instructions], dtype=np.bool_)
    written_ = distinct(accesses.touched[writes[accesses.pc[own]]])
    found, sectors = list[int](), list[npt.NDArray[np.uint32]]()
    for i in trace.instructions:
        if i.access != LOAD or not _is_plain(i) or i.pc in lanes or any(word in i.opcode.lower() for word in _ORDERED):
            continue
        here = accesses.pc[own] == i.pc
        touched, warps = accesses.touched[here], accesses.warp[own[here]]
        all_, per_warp = distinct(touched), distinct(warps << 32 | touched.astype(np.int64))
        executing = len(distinct(warps))
        if executing and len(per_warp) >= _LEAST_COMMON * executing * len(all_) and not np.isin(all_, written_).any():
            found.append(i.pc)
            sectors.append(all_)
    return found, len(distinct(np.concatenate(sectors))) * SECTOR_BYTES if sectors else 0


def from_constants(trace: KernelTrace, pcs: list[int]) -> KernelTrace:
    """`trace` with the loads of `pcs` from the constant cache, at the same place: no sectors, and no barrier to wait for."""
    op_class, opcode = ("constant", "LDC") if trace.header.level == "sass" else ("int", "ld.const")
    code = [
        [replace(i, opcode=opcode, op_class=op_class, space="", access="", access_bytes=0, write_barrier=NO_BARRIER)]
        if i.pc in pcs else [i] for i in trace.instructions
    ]  # fmt: skip
    instructions, _, _ = recoded(trace, code)
    held = EventBytes.of(instructions)
    chosen = np.array(pcs, dtype=np.int64)

    def rewrite(chunk: TraceChunk, accesses: Accesses) -> TraceChunk:
        left = accesses.reordered(np.flatnonzero(~np.isin(accesses.pc, chosen)))
        return written(left, held, np.asarray(chunk.path), chunk.first_warp)

    return replace(trace, instructions=instructions, chunks=Rewritten(trace, rewrite), origin="")


class Constants:
    """Loads of the same few words by all threads: the trace is rewritten, and everything is evaluated again."""

    name = "constants"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for all such loads, if they are a notable part of the instructions and the words fit."""
        trace, executions = case.trace, case.profiled.misses.executions
        pcs, bytes_ = uniform_loads(trace)
        share = int(executions[pcs].sum()) / trace.header.recorded_instructions
        if not pcs or share < _LEAST or bytes_ > _CONSTANT_BYTES:
            return
        lines = heaviest_lines(case, lambda pc: pc in pcs, executions)
        port = l1_cycles(trace, case.profiled.misses, case.gpu)
        yield WhatIf(
            title=f"loads of {listed([row for _, row, _ in lines])} from __constant__ memory, or a kernel parameter",
            place=place_of(lines[0][1]),
            reason=f"all lanes load the same word, and all warps the same {bytes_:,} bytes; these loads are {percent(share)} of "
            f"the instructions, and {percent(float(port[pcs].sum()) / float(port.sum()))} of the cycles of the load-store unit",
            cost=f"a __constant__ array, or a struct that is passed by value; {_CONSTANT_BYTES // 1024} KiB at most. __ldg() does "
            "not save these accesses of the L1",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(from_constants(trace, pcs)),
        )
