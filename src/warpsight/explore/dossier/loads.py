"""What each memory instruction does: the sectors that a warp's lanes ask for, how far data are from their last use, its hits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.explore.dossier.lanes import Lanes, lanes_of
from warpsight.explore.dossier.patterns import TYPICAL, Access, Longs, examples, histograms, typical_and_worst
from warpsight.explore.dossier.reuse_curves import reuse_curves
from warpsight.explore.watch import Watch
from warpsight.trace.schema import LOAD, SECTOR_BYTES

if TYPE_CHECKING:
    from warpsight.caches.miss_profile import MissProfile
    from warpsight.explore.pipeline import ProfiledTrace
    from warpsight.explore.request import KernelRequest
    from warpsight.gpu.spec import GpuSpec
    from warpsight.trace.schema import StaticInstruction

# Instructions that are drawn, those with most sectors; fewer of long code, so that a report stays small.
DRAWN, DRAWN_OF_LONG, LONG = 40, 12, 1000


def loads(
    profiled: ProfiledTrace, gpu: GpuSpec, request: KernelRequest | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """`loads`, an entry for each load, store and atomic, by pc; and `loads_about`, what a reader must know of all of
    them: `line_bytes` and `l1_lines` of the L1, `lanes_unknown` and `reuse_note` (why some lanes are not known, which blocks reuse
    is of; "": nothing to say), and `drawn`: how many have patterns and a curve, those with most sectors.

    An entry has `pc`, `opcode`, `space`, `access`, `access_bytes` of a lane, `file`, `line`, `ptx_line`, `executions` with an
    active lane, `sectors` and `passes` (through the banks of shared memory) as pairs (how many, executions), `levels` (requests by
    what became of them, from the miss profile), and where they are drawn `patterns` and `reuse`. A pattern is `typical`, the most
    frequent number of sectors, or the `worst`; with `executions` that have as many, `warp` and `before` of one of them, its
    `sectors` in the order of lanes, from the first line on, `lines` of them, and `lanes`: byte offsets from there, null: not
    active; or null where they are not known. `bytes_asked`: by these lanes, each byte once; null like them.
    Raises as `trace_kernel` does, where the kernel of `request` is run again for the lanes.
    """
    trace, misses = profiled.trace, profiled.misses
    sectors, passes = histograms(trace)
    memory = [instruction for instruction in trace.instructions if instruction.event_bytes]
    asked = sectors @ np.arange(sectors.shape[1])
    drawn = sorted((i.pc for i in memory if asked[i.pc]), key=lambda pc: (-int(asked[pc]), pc))
    drawn = drawn[: DRAWN if len(trace.instructions) <= LONG else DRAWN_OF_LONG]
    patterns, unknown = _patterns(profiled, gpu, drawn, sectors, request, watch)
    reading = [pc for pc in sorted(drawn) if trace.instructions[pc].access == LOAD]
    curves, note = reuse_curves(trace, gpu, profiled.occupancy.blocks_per_sm, reading, int(misses.l1_reads.sum()))
    entries = []
    for instruction in memory:
        pc = instruction.pc
        entry = _described(instruction, misses)
        entry |= {"sectors": _pairs(sectors[pc]), "passes": _pairs(passes[pc]), "levels": levels(misses, pc)}
        entry |= {name: made[pc] for name, made in (("patterns", patterns), ("reuse", curves)) if pc in made}
        entries.append(entry)
    line = gpu.l1.line_bytes
    about = {"line_bytes": line, "l1_lines": gpu.l1.size_bytes // line, "drawn": len(drawn), "lanes_unknown": unknown,
             "reuse_note": note}  # fmt: skip
    return {"loads": entries, "loads_about": about}


def levels(misses: MissProfile, pc: int) -> dict[str, dict[str, int]]:
    """Requests of an instruction by level and what became of them; what is 0 is left out."""
    counts = {
        "L1": {"hit": misses.l1_hits, "merged": misses.l1_merges, "miss": misses.l1_misses, "written through": misses.l1_writes},
        "L2 reads": {"hit": misses.l2_read_hits, "merged": misses.l2_read_merges, "miss": misses.l2_read_misses},
        "L2 writes": {"hit": misses.l2_write_hits, "miss": misses.l2_write_misses},
        "DRAM": {"read": misses.dram_reads, "written": misses.dram_writes},
    }
    found = {level: {kind: int(count[pc]) for kind, count in kinds.items() if count[pc]} for level, kinds in counts.items()}
    return {level: kinds for level, kinds in found.items() if kinds}


def _described(instruction: StaticInstruction, misses: MissProfile) -> dict[str, Any]:
    names = ("pc", "opcode", "space", "access", "access_bytes", "file", "line", "ptx_line")
    entry: dict[str, Any] = {name: getattr(instruction, name) for name in names}
    counts = misses.executions if instruction.has_sectors else misses.shared_executions
    entry["executions"] = int(counts[instruction.pc])
    return entry


def _pairs(histogram: Longs) -> list[list[int]]:
    there = np.flatnonzero(histogram)
    return np.stack([there, histogram[there]], axis=1).tolist()  # type: ignore[no-any-return]


def _patterns(
    profiled: ProfiledTrace, gpu: GpuSpec, pcs: Sequence[int], sectors: Longs, request: KernelRequest | None, watch: Watch | None
) -> tuple[dict[int, list[dict[str, Any]]], str]:
    """By pc its typical access and, unless that is one, its worst; and why lanes of some are not known."""
    chosen: list[tuple[str, Access]] = []
    counts = typical_and_worst(sectors)
    for kind, count in counts.items():
        other = [pc for pc in pcs if kind == TYPICAL or count[pc] != counts[TYPICAL][pc]]
        chosen += [(kind, access) for _, access in sorted(examples(profiled.trace, other, count).items())]
    lanes, unknown = lanes_of(profiled.trace, request, [access for _, access in chosen], watch)
    found: dict[int, list[dict[str, Any]]] = {}
    for (kind, access), known in zip(chosen, lanes, strict=True):
        executions = int(sectors[access.pc, len(access.sectors)])
        asked = None if known is None else len({*known} - {None}) * profiled.trace.instructions[access.pc].access_bytes
        pattern = {"kind": kind, "executions": executions, **_placed(access, known, gpu.l1.line_bytes), "bytes_asked": asked}
        found.setdefault(access.pc, []).append(pattern)
    return found, unknown


def _placed(access: Access, lanes: Lanes | None, line_bytes: int) -> dict[str, Any]:
    """Sectors and lanes from the beginning of the first line on, whose address in the emulated memory says nothing."""
    lowest = min(access.sectors) * SECTOR_BYTES // line_bytes * line_bytes
    sectors = [sector - lowest // SECTOR_BYTES for sector in access.sectors]
    placed = None if lanes is None else [None if address is None else _within(address, lowest) for address in lanes]
    return {
        "warp": access.warp, "before": access.before, "sectors": sectors, "lines": _lines(sectors, line_bytes), "lanes": placed,
    }  # fmt: skip


def _within(address: int, lowest: int) -> int:
    # sectors are numbers of 32 bits, so that addresses above 2^37 come back to the beginning
    return address % (SECTOR_BYTES << 32) - lowest


def _lines(sectors: list[int], line_bytes: int) -> int:
    return len({sector * SECTOR_BYTES // line_bytes for sector in sectors})
