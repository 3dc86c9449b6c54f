"""The hierarchy once more, naively: Python lists in order of use, one memory instruction of each warp in turn, SMs in turn.

Shares nothing with the code under test but the trace and the GPU description.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from warpsight.gpu.spec import CacheSpec, GpuSpec, L2Spec
from warpsight.traces.schema import KernelTrace

Access = tuple[int, list[int]]  # pc, sectors
Counts = Counter[tuple[str, int]]


@dataclass
class Line:
    number: int
    valid: set[int] = field(default_factory=set)
    dirty: set[int] = field(default_factory=set)
    copied: set[int] = field(default_factory=set)


class Cache:
    def __init__(self, spec: CacheSpec) -> None:
        self.spec = spec
        self.sets: dict[Any, list[Line]] = {}

    def place(self, line: int) -> list[Line]:
        address, inner, piece, slices = line * self.spec.line_bytes, line, 1, self.spec.slices
        if isinstance(self.spec, L2Spec) and slices > 1:
            piece = self.spec.slice_interleave_bytes
            inner = (address // (piece * slices) * piece + address % piece) // self.spec.line_bytes
        row = inner % self.spec.sets
        if self.spec.index == "xor":
            row ^= inner // self.spec.sets % self.spec.sets
        return self.sets.setdefault((address // piece % slices, row), [])

    def units(self, sectors: set[int]) -> set[int]:
        """The cache's own sectors (by number over all memory) that these 32 B sectors lie in."""
        return {sector * 32 // self.spec.sector_bytes for sector in sectors}

    def take(self, line: int) -> Line | None:
        """The line if present, as the most recently used."""
        ways = self.place(line)
        for entry in ways:
            if entry.number == line:
                ways.remove(entry)
                ways.append(entry)
                return entry
        return None

    def put(self, line: int) -> tuple[Line, Line | None]:
        ways = self.place(line)
        ways.append(Line(line))
        return ways[-1], ways.pop(0) if len(ways) > self.spec.ways else None


class Hierarchy:
    def __init__(self, trace: KernelTrace, gpu: GpuSpec) -> None:
        self.code, self.gpu = trace.instructions, gpu
        self.count: Counts = Counter()
        self.atomic_time: defaultdict[int, Fraction] = defaultdict(Fraction)  # by pc, beyond a cycle for each sector
        self.l1 = [Cache(gpu.l1) for _ in range(gpu.sm_count)]
        self.l2 = Cache(gpu.l2)

    def add(self, name: str, pc: int, n: int = 1) -> None:
        self.count[name, pc] += n

    def l2_access(self, sm: int, pc: int, sectors: set[int], write: bool, whole: bool) -> None:
        name = "l2_write" if write else "l2_read"
        line = min(sectors) * 32 // self.gpu.l2.line_bytes
        needed = self.l2.units(sectors)
        self.add(name + "s", pc)
        entry = self.l2.take(line)
        there = entry is not None and needed <= (entry.valid | entry.dirty if write else entry.valid)
        self.add(name + ("_hits" if there else "_misses"), pc)
        copied = set() if entry is None else entry.copied
        spec = self.gpu.l2
        upper_half = line * spec.line_bytes // spec.slice_interleave_bytes % spec.slices >= spec.slices / 2
        other = spec.far_latency_cycles > 0 and not write and upper_half != bool(sm % 2)
        if other and there:
            self.add("l2_far_hits", pc, not needed <= copied)
        if entry is None:
            entry, old = self.l2.put(line)
            if old is not None:
                self.write_back(pc, old)
        covered = write and whole and len(sectors) * 32 == len(needed) * self.gpu.l2.sector_bytes
        marks = write and self.gpu.l2.partial_writes == "mask"
        if not (there or covered or marks):
            self.add("dram_reads", pc)
            self.add("dram_read_sectors", pc, len(needed - entry.valid) * self.gpu.l2.sector_bytes // 32)
        if covered or not marks:
            entry.valid |= needed
        entry.copied = copied - needed if write else copied | needed if other else copied
        if write:
            entry.dirty |= needed
            dirty = [one for one in self.l2.place(line) if one.dirty]
            if len(dirty) > max(1, int(self.gpu.l2.dirty_share * self.gpu.l2.ways)):
                self.write_back(pc, dirty[0])
                if not dirty[0].valid:
                    self.l2.place(line).remove(dirty[0])

    def write_back(self, pc: int, line: Line) -> None:
        if line.dirty:
            self.add("dram_writes", pc)
            self.add("dram_write_sectors", pc, len(line.dirty) * self.gpu.l2.sector_bytes // 32)
        line.dirty = set()

    def send(self, sm: int, pc: int, sectors: set[int], write: bool, whole: bool = False) -> None:
        per_line = self.gpu.l2.line_bytes // 32
        for line in sorted({sector // per_line for sector in sectors}):
            self.l2_access(sm, pc, {s for s in sectors if s // per_line == line}, write, whole)

    def access(self, sm: int, pc: int, sectors: list[int], lanes: int, sharing: int) -> None:
        kind = self.code[pc].access
        self.add("executions", pc)
        self.add("sectors", pc, len(sectors))
        if kind == "load" and len({s // 4 for s in sectors}) > -(-32 * self.code[pc].access_bytes // 128) + 1:
            self.add("divergent", pc)
        if kind == "atomic":
            self.add("atomic_repeats", pc, sharing - 1)
            distinct = max(0, lanes - (sharing - 1)) * self.code[pc].access_bytes
            each = math.ceil(distinct / len(sectors)) if distinct <= 32 * len(sectors) else self.code[pc].access_bytes
            for number, sector in enumerate(sectors):
                changed = Fraction(each, self.gpu.l2.atomic_width_bytes)
                self.atomic_time[pc] += max(changed, sharing if number == 0 else 1) - 1
                self.send(sm, pc, {sector}, False)
                self.send(sm, pc, {sector}, True)
            return
        per_line, cache = self.gpu.l1.line_bytes // 32, self.l1[sm]
        together: list[int] = []  # lines looked up in this cycle
        for line in dict.fromkeys(sector // per_line for sector in sectors):
            if kind == "load":
                if not together or any((line - other) % self.gpu.l1.tag_lookups == 0 for other in together):
                    self.add("tag_cycles", pc)
                    together = []
                together.append(line)
            part = {s for s in sectors if s // per_line == line}
            entry = cache.take(line)
            if kind == "store":
                self.add("l1_writes", pc)
                self.send(sm, pc, part, True, lanes * self.code[pc].access_bytes >= 32 * len(sectors))
                continue
            self.add("l1_reads", pc)
            needed = cache.units(part)
            if entry is not None and needed <= entry.valid:
                self.add("l1_hits", pc)
                continue
            self.add("l1_misses", pc)
            if entry is None:
                entry, _ = cache.put(line)
            unit = self.gpu.l1.sector_bytes // 32
            self.send(sm, pc, {u * unit + k for u in needed - entry.valid for k in range(unit)}, False)
            entry.valid |= needed


def warp_streams(trace: KernelTrace) -> list[list[tuple[int, list[int], int, int]]]:
    """Per warp its global accesses, as (pc, sectors, active lanes, those of an atomic that share an address)."""
    streams = []
    paths, starts = trace.paths, trace.block_start
    for chunk in trace.chunks:
        for k, path in enumerate(chunk.path):
            events = iter(chunk.events[chunk.event_offset[k] : chunk.event_offset[k + 1]].tolist())
            sectors = chunk.sectors[chunk.sector_offset[k] : chunk.sector_offset[k + 1]].tolist()
            stream = []
            for entry in range(paths.offset[path], paths.offset[path + 1]):
                block = paths.block[entry]
                for pc in list(range(starts[block], starts[block + 1])) * int(paths.repeat[entry]):
                    instruction = trace.instructions[pc]
                    n = next(events) if instruction.has_sectors else 0
                    others = [next(events) for _ in range(instruction.event_bytes - instruction.has_sectors)]
                    if n:
                        stream.append((pc, sectors[:n], int(paths.lanes[entry]), others[-1] if instruction.has_sharing else 1))
                        sectors = sectors[n:]
            streams.append(stream)
    return streams


def simulate_naively(trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int) -> Counts:
    """Counts by (field, pc)."""
    machine, streams = Hierarchy(trace, gpu), warp_streams(trace)
    per_block = trace.header.warps_per_block
    waiting = list(range(trace.header.blocks))
    slots: list[list[int | None]] = [[None] * (blocks_per_sm * per_block) for _ in range(gpu.sm_count)]
    last = [-1] * gpu.sm_count

    def launch(sm: int, place: int) -> None:
        if waiting:
            block = waiting.pop(0)
            slots[sm][place * per_block : (place + 1) * per_block] = range(block * per_block, (block + 1) * per_block)

    for place in range(blocks_per_sm):
        for sm in range(gpu.sm_count):
            launch(sm, place)
    while any(warp is not None for row in slots for warp in row):
        for sm, row in enumerate(slots):
            # One turn: the next warp that has something left. Warps found finished on the way leave, and blocks follow.
            done = False
            while not done and any(warp is not None for warp in row):
                last[sm] = (last[sm] + 1) % len(row)
                warp = row[last[sm]]
                if warp is None:
                    continue
                if streams[warp]:
                    machine.access(sm, *streams[warp].pop(0))
                    done = True
                    continue
                row[last[sm]] = None
                place = last[sm] // per_block
                if all(other is None for other in row[place * per_block : (place + 1) * per_block]):
                    launch(sm, place)
    for pc, time in machine.atomic_time.items():
        machine.add("atomic_cycles", pc, int(time))
    return machine.count
