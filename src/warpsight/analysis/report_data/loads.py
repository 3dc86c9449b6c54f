"""The memory instructions of a report: sectors, typical and worst access patterns, reuse curves, and hits by level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import lazy_loader as lazy
import numpy as np
import numpy.typing as npt

from warpsight.base.progress import Watch, stage
from warpsight.caches.miss_profile import MissProfile
from warpsight.caches.reuse import state as at
from warpsight.caches.reuse.access_stream import of_trace
from warpsight.caches.reuse.model import Placement, evaluate
from warpsight.caches.reuse.settings import settings_of
from warpsight.emulator.codegen.recording import LaneAddresses, ProbedAccess
from warpsight.gpu.occupancy import with_own_l1
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch import input_hash, kernel_hash
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.request import KernelRequest
from warpsight.traces.events import ChunkEvents, EventReader
from warpsight.traces.schema import LOAD, SECTOR_BYTES, WARP_SIZE, KernelTrace, StaticInstruction, TraceChunk

emulator = lazy.load("warpsight.emulator.run.launch", suppress_warning=True)  # compilers take long to load

Longs = npt.NDArray[np.int64]

TYPICAL, WORST = "typical", "worst"
_BYTE = 256


@dataclass(frozen=True)
class Access:
    """One access of a warp: instruction, warp of the trace, and how many accesses of that warp there came before.

    `sectors` in the order of lanes; `lanes` active at the entry of the basic block: a predicate may leave fewer.
    """

    pc: int
    warp: int
    before: int
    sectors: tuple[int, ...]
    lanes: int


def histograms(trace: KernelTrace) -> tuple[Longs, Longs]:
    """Executions of each pc by sectors of device memory, int64 [pcs, 256 or more], and by passes through the banks of shared
    memory, int64 [pcs, 256].
    """
    count = len(trace.instructions)
    passes, tables = np.zeros(count * _BYTE, np.int64), list[Longs]()
    has_sectors = np.array([instruction.sector_bytes for instruction in trace.instructions], np.int64)
    has_degree = np.array([instruction.has_degree for instruction in trace.instructions], np.bool_)
    reader = EventReader(trace)
    for chunk in trace.chunks:
        events = reader.read(chunk)
        columns = int(events.sectors.max(initial=0)) + 1
        tables.append(np.bincount(events.pc * columns + events.sectors, minlength=count * columns).reshape(count, columns))
        banks = np.flatnonzero(has_degree[events.pc])
        degree = np.asarray(chunk.events)[events.byte[banks] + has_sectors[events.pc[banks]]].astype(np.int64)
        passes += np.bincount(events.pc[banks] * _BYTE + degree, minlength=len(passes))
    sectors = np.zeros((count, max([_BYTE, *(table.shape[1] for table in tables)])), np.int64)
    for table in tables:
        sectors[:, : table.shape[1]] += table
    both = sectors, passes.reshape(count, _BYTE)
    for table in both:
        table[:, 0] = 0  # no active lane, or an access to the other space
    return both


def typical_and_worst(sectors: Longs) -> dict[str, Longs]:
    """For each pc the most frequent number of sectors (of ties the smallest), and the largest; 0 without an access."""
    return {TYPICAL: sectors.argmax(axis=1), WORST: np.where(sectors > 0, np.arange(sectors.shape[1]), 0).max(axis=1)}


def examples(trace: KernelTrace, pcs: Sequence[int], counts: Longs) -> dict[int, Access]:
    """For each of `pcs` the access with `counts[pc]` sectors nearest to the middle of the recorded launch."""
    target = np.full(len(trace.instructions), -1, np.int64)
    target[list(pcs)] = counts[list(pcs)]
    middle, best, nearest = trace.header.warps // 2, dict[int, Access](), dict[int, int]()
    reader = EventReader(trace)
    for chunk in trace.chunks:
        events = reader.read(chunk)
        for number in _nearest(events, target, middle - chunk.first_warp):
            pc, warp = int(events.pc[number]), int(events.warp[number])
            distance = abs(warp + chunk.first_warp - middle)
            if pc not in best or distance < nearest[pc]:
                nearest[pc], best[pc] = distance, _access(chunk, events, number)
    return best


def _nearest(events: ChunkEvents, target: Longs, middle: int) -> Iterator[int]:
    """For each pc the number of the first event with the wanted sectors, of the warp nearest to `middle`."""
    fitting = np.flatnonzero((events.sectors > 0) & (events.sectors == target[events.pc]))
    order = fitting[np.lexsort((np.abs(events.warp[fitting] - middle), events.pc[fitting]))]
    _, first = np.unique(events.pc[order], return_index=True)
    yield from order[first].tolist()


def _access(chunk: TraceChunk, events: ChunkEvents, number: int) -> Access:
    pc, warp = int(events.pc[number]), int(events.warp[number])
    begin = int(np.searchsorted(events.warp, warp))
    first = int(events.first[number])
    own = np.asarray(chunk.sectors)[first : first + int(events.sectors[number])]
    before = int(np.count_nonzero(events.pc[begin:number] == pc))
    return Access(pc, warp + chunk.first_warp, before, tuple(own.tolist()), int(events.lanes[number]))


# -- The addresses of lanes, which a trace does not have: from a second run of the kernel, or derived from the sectors.

Lanes = tuple[int | None, ...]

NO_KERNEL = "a trace has the sectors of an access in the order of its lanes, but not the address of each lane"
CHANGED = "the kernel or its input has changed since it was traced, so it could not be run again for the addresses of lanes"
NOT_FOUND = "the address of each lane is recorded only for plain loads, stores and atomics to device memory"


def lanes_of(
    trace: KernelTrace, gpu: GpuSpec, request: KernelRequest | None, accesses: Sequence[Access], watch: Watch | None = None
) -> tuple[list[Lanes | None], str]:
    """For each access the byte addresses of the 32 lanes (None: inactive), or None if they are unknown; and the reason, or "".

    The kernel of `request` runs again (at level `sass` as machine code of `gpu`) with probes at these accesses. A result is used
    only if it has the sectors of the trace. Raises as `trace_kernel`.
    """
    if request is None or request.is_trace:
        return [_from_sectors(access) for access in accesses], NO_KERNEL
    probes = _run_again(trace, gpu, request, accesses, watch)
    if probes is None:
        return [_from_sectors(access) for access in accesses], CHANGED
    lanes = [_checked(access, each) or _from_sectors(access) for access, each in zip(accesses, probes, strict=True)]
    return lanes, NOT_FOUND if None in lanes else ""


def sectors_of(lanes: Lanes) -> tuple[int, ...]:
    """The sectors of these addresses in the order of lanes, each once; numbered as in a trace."""
    return tuple(dict.fromkeys(address // SECTOR_BYTES & 0xFFFFFFFF for address in lanes if address is not None))


def _run_again(
    trace: KernelTrace, gpu: GpuSpec, request: KernelRequest, accesses: Sequence[Access], watch: Watch | None
) -> list[LaneAddresses | None] | None:
    """The probes' results at the accesses; None if the launch has changed."""
    ready, header = prepare(request, gpu), trace.header
    target = ready.source.target if ready.architecture is None else ready.architecture.real
    now = kernel_hash(ready.launch.kernel, ready.source), input_hash(ready.launch), ready.sample, target
    if now != (header.kernel_hash, header.input_hash, header.sampled_blocks, header.target):
        return None
    warps = _warps_of_launch(ready, header.warps_per_block, [access.warp for access in accesses])
    probes = [ProbedAccess(access.pc, warp, access.before) for access, warp in zip(accesses, warps, strict=True)]
    addresses: list[LaneAddresses | None] | None = emulator.lane_addresses(
        ready.source,
        ready.launch,
        probes,
        architecture=ready.architecture,
        max_instructions=ready.max_instructions,
        progress=stage(watch, "finding the lanes of accesses"),
        options=replace(ready.options, output=StringIO()),  # its output was printed the first time
    )
    return addresses


def _warps_of_launch(ready: ReadyLaunch, per_block: int, warps: Sequence[int]) -> list[int]:
    """The numbers in the launch of warps of the trace, which may be a sample of the blocks."""
    if not ready.sample:
        return list(warps)
    blocks = np.flatnonzero(emulator.choose_blocks(ready.launch.blocks, ready.sample, ready.seed)).tolist()
    return [blocks[warp // per_block] * per_block + warp % per_block for warp in warps]


def _checked(access: Access, probe: LaneAddresses | None) -> Lanes | None:
    """A probe's result if its sectors are those of the access; else None: another access, or one recorded differently."""
    if probe is None:
        return None
    lanes = tuple(int(address) if probe.mask >> lane & 1 else None for lane, address in enumerate(probe.addresses))
    return lanes if sectors_of(lanes) == access.sectors else None


def _from_sectors(access: Access) -> Lanes | None:
    """The sector address of each lane if the sectors determine it: 32 sectors are those of 32 lanes."""
    if len(access.sectors) != WARP_SIZE or access.lanes != WARP_SIZE:
        return None
    return tuple(sector * SECTOR_BYTES for sector in access.sectors)


# -- A load's L1 hits as a function of the L1 size: the reuse distances of each instruction, from one LRU stack per SM.

MOST_REQUESTS = 4_000_000  # a limit for the blocks on the stacks: some seconds
MOST_STEPS = 40  # points of a curve
_SHARE_DIGITS = 5


def reuse_curves(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, pcs: Sequence[int], requests: int
) -> tuple[dict[int, dict[str, Any]], str]:
    """For each load of `pcs` the share of its requests that hit in LRU caches, by size; and notes for the reader.

    A curve has `capacities` (lines), `hit_shares` of the `requests`, and `first_uses` (compulsory misses). The stacks see only
    loads, of an SM's resident warps one access each in turn: the order of the reuse-distance model without latencies (HPCA 2014).
    `requests`: the approximate number of the launch; of long launches the first blocks are used. No curve for lines that are no
    multiple of a sector. Raises SpecError for an L1 that cannot be modelled.
    """
    line = gpu.l1.line_bytes
    if line % SECTOR_BYTES:
        return {}, f"no reuse distances: lines of {line} B are not a multiple of a sector"
    threads = None  # a limit that keeps about `MOST_REQUESTS` of the launch's requests
    if requests > MOST_REQUESTS:
        threads = max(1, trace.header.recorded_blocks * MOST_REQUESTS // requests) * trace.header.threads_per_block
    stream = of_trace(trace, line, most_threads=threads)
    settings = settings_of(gpu.l1).off("associativity", "latency", "mshr")
    kept = evaluate(settings, stream, Placement(gpu.sm_count, blocks_per_sm), keep_all=True).misses
    order = np.argsort(kept[at.KEPT_PC], kind="stable")
    by_pc, distance = kept[at.KEPT_PC][order], kept[at.KEPT_DISTANCE][order]
    edges = np.searchsorted(by_pc, [*pcs, *(pc + 1 for pc in pcs)]).reshape(2, -1)
    own = {pc: distance[begin:end] for pc, begin, end in zip(pcs, *edges.tolist(), strict=True) if end > begin}
    return {pc: curve(values, gpu.l1.size_bytes // line) for pc, values in own.items()}, "; ".join(stream.notes)


def curve(distances: Longs, lines: int) -> dict[str, Any]:
    """The curve of reuse distances (-1: first use): its steps (at most `MOST_STEPS`), and the point at `lines`."""
    reused = np.sort(distances[distances >= 0])
    rises, times = np.unique(reused + 1, return_counts=True)  # a distance below n hits in n lines
    if len(rises) > MOST_STEPS:
        risen = np.cumsum(times) / len(reused)
        rises = rises[np.unique(np.searchsorted(risen, np.arange(1, MOST_STEPS + 1) / MOST_STEPS).clip(max=len(rises) - 1))]
    capacities = sorted({1, lines, *rises.tolist()})
    hits = np.searchsorted(reused, capacities, side="left")
    return {
        "capacities": capacities,
        "hit_shares": [round(share, _SHARE_DIGITS) for share in (hits / len(distances)).tolist()],
        "requests": len(distances),
        "first_uses": len(distances) - len(reused),
    }


# -- The entries of all memory instructions.

# Instructions that are drawn, those with the most sectors; fewer for long code, to keep a report small.
DRAWN, DRAWN_OF_LONG, LONG = 40, 12, 1000


AccessPatterns = tuple[list[tuple[int, list[dict[str, Any]]]], str, list[tuple[int, list[list[int]], list[list[int]]]]]
"""The patterns of drawn instructions as (pc, patterns); why lanes of some are unknown; and (pc, `sectors`, `passes`) of all memory
instructions, as `loads` has them. Plain values.
"""


def loads(
    profiled: ProfiledTrace, gpu: GpuSpec, request: KernelRequest | None = None, watch: Watch | None = None,
    patterns: AccessPatterns | None = None,
) -> dict[str, Any]:
    """`loads`, an entry for each load, store and atomic, by pc; and `loads_about`, about all of them: `line_bytes` and `l1_lines`
    of the L1, `lanes_unknown` and `reuse_note` (why some lanes are unknown, which blocks the reuse is of; "": no note), and
    `drawn`: the number with patterns and a curve, those with the most sectors.

    An entry has `pc`, `opcode`, `space`, `access`, `access_bytes` of a lane, `file`, `line`, `ptx_line`, `executions` with an
    active lane, `sectors` and `passes` (through the banks of shared memory) as pairs (how many, executions), `levels` (requests by
    outcome, from the miss profile), and if drawn `patterns` and `reuse`. A pattern is `typical`, the most frequent number of
    sectors, or the `worst`; with its number of `executions`, `warp` and `before` of one of them, its `sectors` in the order of
    lanes relative to the first line, the number of `lines`, and `lanes`: byte offsets from there, null for inactive; or null if
    they are unknown. `bytes_asked`: by these lanes, each byte once; null if unknown. `patterns` are `access_patterns`, if these are
    known. Raises as `trace_kernel`, as the kernel of `request` is run again for the lanes.
    """
    trace, misses = profiled.trace, profiled.misses
    found, unknown, counts = patterns or access_patterns(trace, gpu, request, watch)
    drawn = [pc for pc, _ in found]
    reading = [pc for pc in sorted(drawn) if trace.instructions[pc].access == LOAD]
    gpu = with_own_l1(gpu, profiled.occupancy)
    curves, note = reuse_curves(trace, gpu, profiled.occupancy.blocks_per_sm, reading, int(misses.l1_reads.sum()))
    entries = []
    for pc, sectors, passes in counts:
        entry = _described(trace.instructions[pc], misses)
        entry |= {"sectors": sectors, "passes": passes, "levels": levels(misses, pc)}
        entry |= {name: made[pc] for name, made in (("patterns", dict(found)), ("reuse", curves)) if pc in made}
        entries.append(entry)
    line = gpu.l1.line_bytes
    about = {"line_bytes": line, "l1_lines": gpu.l1.size_bytes // line, "drawn": len(drawn), "lanes_unknown": unknown,
             "reuse_note": note}  # fmt: skip
    return {"loads": entries, "loads_about": about}


def levels(misses: MissProfile, pc: int) -> dict[str, dict[str, int]]:
    """Requests of an instruction by level and outcome, without zeros."""
    counts = {
        "L1": {"hit": misses.l1_hits, "merged": misses.l1_merges, "miss": misses.l1_misses, "written through": misses.l1_writes},
        "L2 reads": {"hit": misses.l2_read_hits, "merged": misses.l2_read_merges, "miss": misses.l2_read_misses},
        "L2 writes": {"hit": misses.l2_write_hits, "miss": misses.l2_write_misses},
        "DRAM": {"read": misses.dram_reads, "written": misses.dram_writes},
    }
    requests = {level: {kind: int(count[pc]) for kind, count in kinds.items() if count[pc]} for level, kinds in counts.items()}
    return {level: kinds for level, kinds in requests.items() if kinds}


def _described(instruction: StaticInstruction, misses: MissProfile) -> dict[str, Any]:
    names = ("pc", "opcode", "space", "access", "access_bytes", "file", "line", "ptx_line")
    entry: dict[str, Any] = {name: getattr(instruction, name) for name in names}
    counts = misses.executions if instruction.has_sectors else misses.shared_executions
    entry["executions"] = int(counts[instruction.pc])
    return entry


def _pairs(histogram: Longs) -> list[list[int]]:
    there = np.flatnonzero(histogram)
    return np.stack([there, histogram[there]], axis=1).tolist()  # type: ignore[no-any-return]


def access_patterns(
    trace: KernelTrace, gpu: GpuSpec, request: KernelRequest | None = None, watch: Watch | None = None
) -> AccessPatterns:
    """The typical access of each drawn instruction, and the worst if it differs, from the trace alone. Raises as `loads`."""
    sectors, passes = histograms(trace)
    pcs = _drawn(trace, sectors)
    chosen: list[tuple[str, Access]] = []
    counts = typical_and_worst(sectors)
    for kind, count in counts.items():
        other = [pc for pc in pcs if kind == TYPICAL or count[pc] != counts[TYPICAL][pc]]
        chosen += [(kind, access) for _, access in sorted(examples(trace, other, count).items())]
    lanes, unknown = lanes_of(trace, gpu, request, [access for _, access in chosen], watch)
    patterns: dict[int, list[dict[str, Any]]] = {}
    for (kind, access), known in zip(chosen, lanes, strict=True):
        executions = int(sectors[access.pc, len(access.sectors)])
        requested = None if known is None else len({*known} - {None}) * trace.instructions[access.pc].access_bytes
        pattern = {"kind": kind, "executions": executions, **_placed(access, known, gpu.l1.line_bytes), "bytes_asked": requested}
        patterns.setdefault(access.pc, []).append(pattern)
    memory = [instruction.pc for instruction in trace.instructions if instruction.access and instruction.event_bytes]
    return list(patterns.items()), unknown, [(pc, _pairs(sectors[pc]), _pairs(passes[pc])) for pc in memory]


def _drawn(trace: KernelTrace, sectors: Longs) -> list[int]:
    """The pcs of the instructions with the most sectors, these first."""
    traffic = sectors @ np.arange(sectors.shape[1])
    memory = (each.pc for each in trace.instructions if each.access and each.event_bytes and traffic[each.pc])
    drawn = sorted(memory, key=lambda pc: (-int(traffic[pc]), pc))
    return drawn[: DRAWN if len(trace.instructions) <= LONG else DRAWN_OF_LONG]


def _placed(access: Access, lanes: Lanes | None, line_bytes: int) -> dict[str, Any]:
    """Sectors and lanes relative to the start of the first line, whose absolute address is meaningless."""
    lowest = min(access.sectors) * SECTOR_BYTES // line_bytes * line_bytes
    sectors = [sector - lowest // SECTOR_BYTES for sector in access.sectors]
    lines = len({sector * SECTOR_BYTES // line_bytes for sector in sectors})
    wrap = SECTOR_BYTES << 32  # sectors are 32-bit numbers, so addresses wrap at 2^37
    placed = None if lanes is None else [None if address is None else address % wrap - lowest for address in lanes]
    return {"warp": access.warp, "before": access.before, "sectors": sectors, "lines": lines, "lanes": placed}
