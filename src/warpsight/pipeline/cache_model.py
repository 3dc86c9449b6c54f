"""The reuse-distance cache model on a trace, a kernel or an access list: from options to the result.

`cache_sweep` runs it over cache sizes, ways, line sizes and miss registers (HPCA 2014, section 7 and Fig. 12).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from warpsight.addressing.mapping import FERMI_SETS
from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch
from warpsight.caches.reuse import access_list, access_stream
from warpsight.caches.reuse.access_list import AccessList, is_access_list, read_access_list
from warpsight.caches.reuse.access_stream import AccessStream
from warpsight.caches.reuse.model import Analysis, Placement, analyse, next_level
from warpsight.caches.reuse.one_pass import all_sizes_and_ways
from warpsight.caches.reuse.result import CacheResult
from warpsight.caches.reuse.settings import ReuseSettings, settings_of
from warpsight.gpu.occupancy import Occupancy, occupancy, with_own_l1
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.evaluate import trace_occupancy
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import obtain_trace
from warpsight.traces.schema import KernelTrace

HIGHEST_BIT = 62  # addresses are held as signed numbers of 64 bits


@dataclass(frozen=True)
class CacheOptions:
    """The options of a run of the model; None: as the model or the GPU has it.

    `cores`: blocks go to so many; None: one for an access list, which says nothing of cores, else all SMs of the GPU. `max_threads`
    keeps to the first whole blocks (HPCA 2014, section 4.6 takes one core and 8,192 threads). `changes` are fields of
    `ReuseSettings`, such as `miss_latency` or `without`.
    """

    cores: int | None = None
    max_threads: int | None = None
    stores: bool = False
    l2: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Accesses:
    """Where accesses come from, to be coalesced for any line size: a trace or a list, with its GPU."""

    source: KernelTrace | AccessList
    gpu: GpuSpec
    options: CacheOptions

    def stream(self, line_bytes: int) -> AccessStream:
        """The accesses for lines of that size."""
        bounds = {"stores": self.options.stores, "most_threads": self.options.max_threads}
        if isinstance(self.source, AccessList):
            return access_list.of_list(self.source, line_bytes, **bounds)  # type: ignore[arg-type]
        return access_stream.of_trace(self.source, line_bytes, **bounds)  # type: ignore[arg-type]

    @property
    def resident(self) -> Occupancy:
        """The launch's; of a list without registers or shared memory."""
        if isinstance(self.source, AccessList):
            return occupancy(self.gpu, self.source.threads_per_block, 0, 0)
        return trace_occupancy(self.source, self.gpu)

    def placement(self) -> Placement:
        """How many cores, and blocks on each by the GPU's occupancy."""
        cores = 1 if isinstance(self.source, AccessList) else self.gpu.sm_count
        return Placement(cores if self.options.cores is None else self.options.cores, self.resident.blocks_per_sm)

    def settings(self) -> ReuseSettings:
        """The GPU's L1 with the changes of the options. Raises SpecError or UsageError for what cannot be modelled.

        By default a list is issued by accesses, as in the paper and by other tools; a trace by requests, nearer to hardware.
        """
        issue = "access" if isinstance(self.source, AccessList) else "request"
        settings = replace(settings_of(with_own_l1(self.gpu, self.resident).l1), **{"issue": issue, **self.options.changes})
        settings.check()
        return settings

    @property
    def name(self) -> str:
        """The kernel, or the file of the list."""
        return self.source.origin if isinstance(self.source, AccessList) else self.source.header.kernel


def checked_changes(changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` as they are. Raises UsageError for one that is no field of `ReuseSettings`."""
    for name in changes:
        if name not in ReuseSettings.__dataclass_fields__:
            known = "hit_latency, miss_latency, sigma, seed, clip, issue"
            raise UsageError(f'"{name}" is not a parameter of the model', place="cache_model", remedy=f"give some of {known}")
    return changes


def accesses_of(
    source: KernelTrace | KernelRequest, gpu: GpuSpec, options: CacheOptions, *, watch: Watch | None = None
) -> Accesses:
    """Read or make what `source` names: an access list (.trc, .trc.gz), a trace folder, a kernel; or take a trace as it is."""
    if not isinstance(source, KernelRequest):
        return Accesses(source, gpu, options)
    if isinstance(source.path, str) and is_access_list(source.path):
        source.refuse_launch_options()
        return Accesses(read_access_list(source.path), gpu, options)
    return Accesses(obtain_trace(source, gpu=gpu, watch=watch), gpu, options)


def cache_result(accesses: Accesses) -> CacheResult:
    """Run the model once: misses by class, set, instruction and source line."""
    settings, placement = accesses.settings(), accesses.placement()
    stream = accesses.stream(settings.line_bytes)
    analysis = analyse(settings, stream, placement, keep_misses=accesses.options.l2)
    totals, outcome = analysis.totals(), analysis.outcome
    transactions, misses = stream.transactions, stream.transactions - totals["hits"]
    instructions, notes = _by_instruction(accesses, analysis), list(stream.notes)
    if settings.index == "fermi" and settings.sets > FERMI_SETS:
        used = f"the Fermi hash has six bits: {FERMI_SETS} of the {settings.sets} sets are used"
        notes.append(f"{used}; l1.index=modulo uses all")
    return CacheResult(
        kernel=accesses.name, gpu=accesses.gpu.name, accesses=stream.loads, transactions=transactions, misses=misses, **totals,
        miss_rate=misses / transactions if transactions else 0.0,
        miss_rate_without_latency=(misses - totals["latency"]) / transactions if transactions else 0.0,
        mshr_difference=analysis.mshr_difference, cancelled=outcome.cancelled, histogram=_histogram(outcome.by_set),
        histogram_whole_cache=_histogram(outcome.by_cache), cores=min(placement.cores, max(1, stream.blocks)),
        blocks_per_core=placement.blocks_per_core, blocks=stream.blocks, threads=stream.blocks * stream.threads_per_block,
        settings=_document(settings), instructions=instructions, source_lines=_by_source_line(instructions),
        l2=_second_level(accesses, stream, analysis) if accesses.options.l2 else {}, notes=notes, tool=TOOL,
    )


def _histogram(counts: Any) -> dict[str, int]:
    return {"inf" if place == 0 else str(place - 1): int(count) for place, count in enumerate(counts) if count}


def _document(settings: ReuseSettings) -> dict[str, Any]:
    names = (
        "size_bytes", "line_bytes", "ways", "sets", "index", "mshrs", "warp_mshrs", "hit_latency", "miss_latency", "sigma",
        "seed", "clip", "issue",
    )
    return {name: getattr(settings, name) for name in names} | {
        "index_bits": [list(group) for group in settings.index_bits], "without": sorted(settings.without)
    }


_CLASSES = ("hits", "compulsory", "capacity", "associativity", "latency", "mshr")


def _by_instruction(accesses: Accesses, analysis: Analysis) -> list[dict[str, Any]]:
    """A row for each instruction with transactions, the most misses first; none for a list, which has no instructions."""
    if isinstance(accesses.source, AccessList):
        return []
    rows = []
    for instruction, counts in zip(accesses.source.instructions, analysis.counts.tolist(), strict=False):
        if sum(counts):
            classes = dict(zip(_CLASSES, counts, strict=True))
            place = {"pc": instruction.pc, "ptx_line": instruction.ptx_line, "file": instruction.file, "line": instruction.line}
            rows.append({**place, "opcode": instruction.opcode, "transactions": sum(counts), "misses": sum(counts[1:]), **classes})
    return sorted(rows, key=lambda row: (-int(row["misses"]), row["pc"]))


def _by_source_line(instructions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for one in instructions:
        if one["line"]:
            row = rows.setdefault((one["file"], one["line"]), {"file": one["file"], "line": one["line"]})
            for name in ("transactions", "misses", *_CLASSES):
                row[name] = row.get(name, 0) + one[name]
    return sorted(rows.values(), key=lambda row: (-row["misses"], row["file"], row["line"]))


def _second_level(accesses: Accesses, stream: AccessStream, analysis: Analysis) -> dict[str, Any]:
    """The L2 that takes the misses of all cores modelled."""
    cache = settings_of(accesses.gpu.l2)
    cache.check()
    outcome = next_level(cache, stream, analysis.outcome.misses)
    hits, compulsory, capacity, associativity = (int(n) for n in outcome.counts.sum(axis=0)[:4])
    total, misses = hits + compulsory + capacity + associativity, compulsory + capacity + associativity
    return {
        "transactions": total, "hits": hits, "misses": misses, "miss_rate": misses / total if total else 0.0,
        "compulsory": compulsory, "capacity": capacity, "associativity": associativity, "histogram": _histogram(outcome.by_set),
        "settings": _document(cache),
    }


def parse_index_bits(text: str) -> tuple[tuple[int, ...], ...]:
    """`7^13,8^14`: the bits of the byte address that each bit of the set index is made of, the lowest index bit first.

    Raises UsageError for anything else.
    """
    groups = text.split(",")
    if not all(re.fullmatch(r"\d{1,2}(\^\d{1,2})*", group) for group in groups):
        message = f'"{text}" is not a list of the address bits of each set index bit'
        raise UsageError(message, place="index_bits", remedy="give for example 7^13,8^14,9^15,10^17,11^19,12")
    bits = tuple(tuple(int(bit) for bit in group.split("^")) for group in groups)
    for group, written in zip(bits, groups, strict=True):
        if max(group) > HIGHEST_BIT:
            message = f"bit {max(group)} is not a bit of an address"
            raise UsageError(message, place="index_bits", remedy=f"give bits of up to {HIGHEST_BIT}")
        if len(set(group)) < len(group):
            message = f'"{written}" has the same bit twice, which cancels out'
            raise UsageError(message, place="index_bits", remedy="give each bit of a group once")
    return bits


def line_bits(bits: tuple[tuple[int, ...], ...], line_bytes: int) -> tuple[tuple[int, ...], ...]:
    """Bits of the byte address as bits of the line number. Raises UsageError for one within a line."""
    shift = line_bytes.bit_length() - 1
    low = [bit for group in bits for bit in group if bit < shift]
    if low:
        message = f"bit {low[0]} of the address lies within a line of {line_bytes} B"
        raise UsageError(message, place="index_bits", remedy=f"give bits from {shift} on")
    return tuple(tuple(bit - shift for bit in group) for group in bits)


AXES = {"size": "size_bytes", "ways": "ways", "line": "line_bytes", "mshrs": "mshrs"}
MOST_POINTS = 100_000


def parse_axes(texts: Sequence[str]) -> dict[str, list[int]]:
    """`size=4K:64K ways=1,2,4,8`: values by axis. A range doubles from its first to its last. Raises UsageError."""
    axes: dict[str, list[int]] = {}
    for text in texts:
        axis, _, values = text.partition("=")
        if axis not in AXES or axis in axes:
            message = f'"{text}" is not one of {", ".join(AXES)} with values, each axis once'
            raise UsageError(message, place="sweep", remedy="give for example size=4K:64K ways=1,2,4,8")
        axes[axis] = [value for part in values.split(",") for value in _values(axis, part)]
    return axes


def _values(axis: str, text: str) -> list[int]:
    first, colon, last = text.partition(":")
    least, most = _number(axis, first), _number(axis, last if colon else first)
    if least > most:
        raise UsageError(f"{axis}={text} has its last value below its first", place="sweep", remedy="write the smaller value first")
    values = [least]
    while values[-1] * 2 <= most:
        values.append(values[-1] * 2)
    if values[-1] != most:
        remedy = f"end at {values[-1]} or {values[-1] * 2}, or list the values with commas"
        raise UsageError(f"{axis}={text}: doubling from {least} never gives {most}", place="sweep", remedy=remedy)
    return values


def _number(axis: str, text: str) -> int:
    unit = {"K": 1024, "M": 1024**2}.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    if not (digits.isascii() and digits.isdigit()) or int(digits) == 0 or len(digits) > 9:
        message = f'"{text}" is not a value of {axis}'
        raise UsageError(message, place="sweep", remedy="give a whole number of 1 or more, as 48K or 64")
    return int(digits) * unit


def cache_sweep(accesses: Accesses, axes: dict[str, list[int]]) -> list[dict[str, Any]]:
    """A row for each point: its values, transactions, misses by class and rates. A size that its ways do not divide is an error.

    Without latencies the order of accesses does not depend on the cache: then one pass answers for all sizes and ways of a line.
    """
    base = accesses.settings()
    names = [AXES[axis] for axis in axes]
    points = [replace(base, **dict(zip(names, values, strict=True))) for values in product(*axes.values())]  # type: ignore[arg-type]
    if len(points) > MOST_POINTS:
        raise UsageError(f"{len(points):,} points are more than {MOST_POINTS:,}", place="sweep", remedy="give fewer values")
    for point in points:
        point.check()
    placement, rows = accesses.placement(), dict[int, dict[str, Any]]()
    for line in dict.fromkeys(point.line_bytes for point in points):
        stream = accesses.stream(line)
        chosen = {k: point for k, point in enumerate(points) if point.line_bytes == line}
        if "latency" in base.without:
            sizes = [(point.size_bytes, point.ways) for point in chosen.values()]
            totals = all_sizes_and_ways(next(iter(chosen.values())), stream, placement, sizes)
        else:
            totals = [analyse(point, stream, placement).totals() for point in chosen.values()]
        for (k, point), counts in zip(chosen.items(), totals, strict=True):
            rows[k] = _row(point, stream.transactions, counts)
    return [rows[k] for k in range(len(points))]


def _row(point: ReuseSettings, transactions: int, counts: dict[str, int]) -> dict[str, Any]:
    misses = transactions - counts["hits"]
    values = {axis: getattr(point, name) for axis, name in AXES.items()}
    return {**values, "transactions": transactions, **counts, "misses": misses, "miss_rate": misses / max(1, transactions)}
