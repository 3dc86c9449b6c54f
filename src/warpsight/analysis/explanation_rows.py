"""Which instructions the cycles of a CPI stack come from: one rule per component, and rows by instruction, line or basic block.

The rules are explained in docs/explanation/explain.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import SpecError
from warpsight.caches.miss_profile import MissProfile
from warpsight.gpu.operations import ISSUE_ONLY, occupied
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.algorithm import interval_spans
from warpsight.intervals.demands import port_conflicts
from warpsight.intervals.interval_profile import CAUSES, IntervalProfile
from warpsight.intervals.usage import hit_rates, l1_cycles, lane_executions, leaving, requests, unit_cycles
from warpsight.isa.sass.native import BARRIERS
from warpsight.result.prediction import SHARED, Component
from warpsight.traces.marks import marks
from warpsight.traces.path_store import pieces
from warpsight.traces.schema import LOAD, KernelTrace, StaticInstruction

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """The input of the rules: a trace, its cache counts on a GPU, and its interval profile.

    `warps` int64 [paths]: warps on each path. `times` int64 [instructions]: warp executions of each pc. `waiting` int32
    [intervals]: the pc that waits at the end of each interval of the representative warp, -1 for none.
    """

    trace: KernelTrace
    misses: MissProfile
    profile: IntervalProfile
    gpu: GpuSpec
    warps: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    waiting: npt.NDArray[np.int32]


def divided(
    stack: Mapping[str, float], evidence: Evidence, components: Mapping[str, Component] = SHARED
) -> tuple[dict[str, Floats], dict[str, float]]:
    """Each component over the instructions, float64 [instructions]; and what is charged to no instruction, by component.

    A component that a model declares is charged as its `charged_to` in `components` says. The rest is `idle`, components that are
    charged to nothing, and those whose cause the trace does not show.
    """
    parts: dict[str, Floats] = {}
    rest: dict[str, float] = {}
    for name, value in stack.items():
        weights = _weights(name, evidence, components) if value else np.zeros(len(evidence.times))
        total = float(weights.sum())
        parts[name] = value * (weights / total) if total > 0 else np.zeros(len(weights))
        if value and total <= 0:
            rest[name] = value
    return parts, rest


def _weights(name: str, evidence: Evidence, components: Mapping[str, Component]) -> Floats:
    """How much of a component each instruction is charged with, float64 [instructions]; all 0 if none is."""
    charged_to = components[name].charged_to if name in components else ""
    if name in RULES and not charged_to:
        charged_to = name
    return RULES[charged_to](evidence) if charged_to in RULES else _executed(charged_to, evidence)


def _executed(op_class: str, evidence: Evidence) -> Floats:
    """The executions of instructions of one op class."""
    of_class = [instruction.op_class == op_class for instruction in evidence.trace.instructions]
    return np.where(of_class, evidence.times, 0).astype(np.float64)


def _issued(evidence: Evidence) -> Floats:
    return evidence.times.astype(np.float64)


def _waited(cause: str) -> Callable[[Evidence], Floats]:
    """Stall cycles of the representative warp, by the stalled instruction."""

    def weights(evidence: Evidence) -> Floats:
        chosen = (evidence.profile.cause == CAUSES.index(cause)) & (evidence.waiting >= 0)
        return np.bincount(evidence.waiting[chosen], evidence.profile.stall_cycles[chosen], len(evidence.times)).astype(np.float64)

    return weights


def _waited_for_memory(evidence: Evidence) -> Floats:
    """If no load stalls a warp, by execution: a model may still charge accesses to device memory, as MWP-CWP does."""
    waited = _waited("memory")(evidence)
    return waited if waited.any() else evidence.misses.executions.astype(np.float64)


def _last_stores(evidence: Evidence) -> Floats:
    """The last store or atomic of each warp to device memory, which the end of the launch waits for."""
    trace = evidence.trace
    writes = [instruction.has_sectors and instruction.access != LOAD for instruction in trace.instructions]
    last = np.array([max((pc for pc in range(*span) if writes[pc]), default=-1) for span in pairwise(trace.block_start.tolist())])
    weights = np.zeros(len(evidence.times))
    for part, paths in pieces(trace.paths):
        runs = np.flatnonzero(last[paths.block] >= 0)
        found = np.searchsorted(runs, paths.offset[1:]) - 1  # the last run with one before the end of each path
        own = (found >= 0) & (runs[found] >= paths.offset[:-1]) if len(runs) else np.zeros(len(found), dtype=np.bool_)
        np.add.at(weights, last[paths.block[runs[found[own]]]], evidence.warps[part][own])
    return weights


def _in_mshrs(evidence: Evidence) -> Floats:
    return leaving(evidence.trace.instructions, evidence.misses)[0].astype(np.float64)


def _on_the_network(evidence: Evidence) -> Floats:
    reads, others = leaving(evidence.trace.instructions, evidence.misses)
    return (reads + others + evidence.misses.atomic_cycles).astype(np.float64)


def _at_dram(evidence: Evidence) -> Floats:
    return (evidence.misses.dram_reads + evidence.misses.dram_writes).astype(np.float64)


def _unit_held(evidence: Evidence) -> Floats:
    """Cycles for which instructions occupy their unit beyond the issue cycle: arithmetic, shared memory, load-store.

    If none does, the contention is between schedulers that share a unit: then all cycles that the units are occupied.
    Raises SpecError for an unknown unit.
    """
    initiation = np.array([_initiation(instruction, evidence.gpu) for instruction in evidence.trace.instructions])
    misses = evidence.misses
    # a generic access may go only to shared memory, and then has fewer requests than executions
    queued = np.maximum(requests(evidence.trace.instructions, misses) - misses.executions, 0)
    longer: Floats = evidence.times * (initiation - 1) + (misses.shared_passes - misses.shared_executions) + queued
    longer += misses.shared_repeats * evidence.gpu.sm.atomic_lane_cycles
    if longer.any():
        return longer
    units = np.array([instruction.op_class not in ISSUE_ONLY for instruction in evidence.trace.instructions], dtype=np.float64)
    return evidence.times * units


def _conflicting(evidence: Evidence) -> Floats:
    """Cycles of the load-store unit due to bank conflicts."""
    return port_conflicts(evidence.trace, evidence.misses, evidence.gpu)


def _at_the_port(evidence: Evidence) -> Floats:
    """Cycles of the load-store unit without bank conflicts; where shuffles or constant loads are the busiest unit, theirs too."""
    trace, gpu, demands = evidence.trace, evidence.gpu, evidence.profile.demands
    cycles = l1_cycles(trace, evidence.misses, gpu) - _conflicting(evidence)
    if demands is not None and demands.unit in ("shared", "constant"):
        cycles = cycles + unit_cycles(trace, gpu, evidence.times, demands.unit) / gpu.sm.schedulers
    return cycles


def _in_pipe(*units: str) -> Callable[[Evidence], Floats]:
    """Cycles for which instructions occupy the busiest of these functional units."""

    def weights(evidence: Evidence) -> Floats:
        cycles = [unit_cycles(evidence.trace, evidence.gpu, evidence.times, unit) for unit in units]
        return max(cycles, key=lambda each: float(each.sum()))

    return weights


def _initiation(instruction: StaticInstruction, gpu: GpuSpec) -> float:
    """Cycles until a unit accepts the next instruction; 1 for op classes without a unit and for memory."""
    op_class = instruction.op_class
    if op_class in (*ISSUE_ONLY, "memory"):
        return 1.0
    if op_class not in gpu.initiation_cycles:
        known = ", ".join(sorted(gpu.initiation_cycles))
        what = f'{gpu.name} has no initiation interval for op class "{op_class}"'
        raise SpecError(what, place=f"initiation.{op_class}", remedy=f"add it to the GPU description; it has {known}")
    return float(occupied(gpu, op_class, instruction.product)[0][1])


# Weights [instructions], 0 or more. `idle` and `launch` have no rule: no instruction causes them.
RULES: dict[str, Callable[[Evidence], Floats]] = {
    "base": _issued,
    "com_data": _waited("compute"),
    "com_struct": _unit_held,
    "banks": _conflicting,
    "lsu": _at_the_port,
    "alu": _in_pipe("int"),
    "fma": _in_pipe("fp32", "imad"),
    "xu": _in_pipe("sfu"),
    **{name: _in_pipe(name) for name in ("fp16", "fp64", "tensor", "uniform")},
    "mem_data": _waited_for_memory,
    "mshr": _in_mshrs,
    "noc": _on_the_network,
    "dram": _at_dram,
    "sync": partial(_executed, "barrier"),
    "drain": _last_stores,
}


# -- The rows of an explanation: numbers of instructions, and of the source lines or basic blocks that they are grouped into.

Longs = npt.NDArray[np.int64]

VIEWS = ("line", "source", "block", "sass")


@dataclass(frozen=True)
class Wait:
    """An operand waited for: its producer at `pc`, and the `stall_cycles` of the representative warp alone."""

    pc: int
    opcode: str
    file: str
    line: int
    ptx_line: int
    stall_cycles: float


@dataclass(frozen=True)
class MachineWord:
    """What is known of an instruction of machine code before it is executed: its section and its byte address there, its control
    word (`isa/sass/native.py`), and how many 32-bit registers are needed after it.
    """

    section: str
    address: int
    stall: int
    yields: bool
    write_barrier: int
    read_barrier: int
    waits: tuple[int, ...]
    live_registers: int


@dataclass(frozen=True)
class ExplanationRow:
    """A PTX line, a source line, a basic block or an instruction of machine code.

    Counts are of the recorded launch, warp instructions throughout. `cpi_stack` is this row's part of the prediction's, `cpi` their
    sum and `share` that over the prediction's CPI. `issue_cycles` (base) and `wait_cycles` (all else) are parts of the predicted
    cycles. `cause` is the largest component, empty without any.
    `lanes` active at the entry of the basic block, mean. `requests_per_execution` lines at L1 (for atomics sectors at L2) of a
    memory instruction with an active lane, `sectors_per_request`, and `hit_rates` of loads (atomics: only L2): None where there are
    none. `intervals` first and last, from 0, of the representative warp; None if it does not execute the row. `waits_for` longest
    first. `machine` is of the view `sass` alone.
    """

    pcs: tuple[int, ...]
    block: int
    file: str
    line: int
    ptx_lines: tuple[int, int]
    text: str
    executions: int
    lanes: float | None
    cpi_stack: dict[str, float]
    cpi: float
    share: float
    issue_cycles: float
    wait_cycles: float
    cause: str
    requests_per_execution: float | None
    sectors_per_request: float | None
    l1_hit_rate: float | None
    l2_hit_rate: float | None
    intervals: tuple[int, int] | None
    waits_for: tuple[Wait, ...]
    machine: MachineWord | None = None

    def to_json(self) -> dict[str, Any]:
        """The row of a result document. `asdict` would copy every number: two thirds of the time of a long kernel's document."""
        machine = None if self.machine is None else dict(vars(self.machine))
        waits = tuple(dict(vars(each)) for each in self.waits_for)
        return {**vars(self), "cpi_stack": dict(self.cpi_stack), "waits_for": waits, "machine": machine}


class Table:
    """The data of `rows`, computed once: `parts` as `divided` returns them, for a prediction of `cpi` and `cycles`."""

    def __init__(self, evidence: Evidence, parts: dict[str, Floats], cpi: float, cycles: float) -> None:
        self._evidence, self._parts, self._cpi, self._cycles = evidence, parts, cpi, cycles
        self._lanes = lane_executions(evidence.trace, evidence.warps)
        self._requests = requests(evidence.trace.instructions, evidence.misses)
        path = evidence.profile.path
        assert path is not None, "a profile made from a trace has its path"
        self._spans = interval_spans(evidence.trace, path, evidence.profile.instructions)
        self._waits = _waits(evidence)
        self._texts: dict[str, dict[str, str]] = {"line": evidence.trace.extra.get("ptx", {})}
        self._texts["sass"] = evidence.trace.extra.get("sass", {})

    def rows(self, view: str) -> tuple[ExplanationRow, ...]:
        """One row per instruction, PTX line, source line (in order of file and line, those without last) or basic block."""
        return tuple(self._row(group, view) for group in groups(self._evidence.trace, view))

    def _row(self, group: Sequence[int], view: str) -> ExplanationRow:
        pcs, trace = np.array(group), self._evidence.trace
        first = trace.instructions[group[0]]
        if len(group) == 1:  # as most rows of a long kernel
            stack = {name: float(part[group[0]]) for name, part in self._parts.items()}
        else:
            stack = {name: float(part[pcs].sum()) for name, part in self._parts.items()}
        cpi, times = sum(stack.values()), int(self._evidence.times[pcs].sum())
        lines = [trace.instructions[pc].ptx_line for pc in group]
        scale = self._cycles / self._cpi
        spans = self._spans[pcs][self._spans[pcs, 0] >= 0]
        block = int(np.searchsorted(trace.block_start, group[0], side="right")) - 1
        return ExplanationRow(
            pcs=tuple(group),
            block=block if view in ("block", "sass") or (view == "line" and not has_machine_code(trace)) else -1,
            file=first.file,
            line=first.line,
            ptx_lines=(min(lines), max(lines)),
            text=self._text(first, view),
            executions=times,
            lanes=float(self._lanes[pcs].sum()) / times if times else None,
            cpi_stack=stack,
            cpi=cpi,
            share=cpi / self._cpi,
            issue_cycles=stack.get("base", 0.0) * scale,
            wait_cycles=(cpi - stack.get("base", 0.0)) * scale,
            cause=max(stack, key=lambda name: stack[name]) if cpi else "",
            **_memory(self._evidence, self._requests, pcs),
            intervals=(int(spans[:, 0].min()), int(spans[:, 1].max())) if len(spans) else None,
            waits_for=self._waits_of(group),
            machine=machine_word(trace, first) if view == "sass" else None,
        )

    def _text(self, first: StaticInstruction, view: str) -> str:
        """The text of a row that has one: of its PTX line or its instruction."""
        if view not in self._texts or (view == "line" and not first.ptx_line and has_machine_code(self._evidence.trace)):
            return ""
        return self._texts[view].get(str(first.pc), instruction_text(self._evidence.trace, first.pc))

    def _waits_of(self, group: Sequence[int]) -> tuple[Wait, ...]:
        """The operands that these instructions wait for, longest stall first."""
        cycles: dict[int, float] = {}
        for pc in group:
            for producer, stall in self._waits.get(pc, {}).items():
                cycles[producer] = cycles.get(producer, 0.0) + stall
        producers = [self._evidence.trace.instructions[pc] for pc in sorted(cycles, key=lambda pc: (-cycles[pc], pc))]
        return tuple(Wait(made.pc, made.opcode, made.file, made.line, made.ptx_line, cycles[made.pc]) for made in producers)


def has_machine_code(trace: KernelTrace) -> bool:
    """Whether its instructions are machine code, with a listing of it."""
    return "machine_code" in trace.extra


def machine_word(trace: KernelTrace, instruction: StaticInstruction) -> MachineWord:
    """What is known of an instruction of a trace with machine code."""
    facts, waits = trace.extra["machine_code"], tuple(k for k in range(BARRIERS) if instruction.waits >> k & 1)
    section, address, yields, live = (facts[name][instruction.pc] for name in ("section", "address", "yields", "live_registers"))
    barriers = instruction.write_barrier, instruction.read_barrier
    return MachineWord(section, address, instruction.stall, yields, *barriers, waits, live)


def groups(trace: KernelTrace, view: str) -> list[list[int]]:
    """The pcs of each row, in order."""
    if view == "line" and has_machine_code(trace):  # several instructions are made from a line, and some from none
        by_line: dict[int, list[int]] = {}
        for instruction in trace.instructions:
            by_line.setdefault(instruction.ptx_line, []).append(instruction.pc)
        return [by_line[line] for line in sorted(by_line, key=lambda line: (not line, line))]
    if view in ("line", "sass"):
        return [[instruction.pc] for instruction in trace.instructions]
    if view == "block":
        return [list(range(begin, end)) for begin, end in pairwise(trace.block_start.tolist()) if end > begin]
    lines: dict[tuple[str, int], list[int]] = {}
    for instruction in trace.instructions:
        lines.setdefault((instruction.file, instruction.line), []).append(instruction.pc)
    # what has no source line comes last
    return [lines[key] for key in sorted(lines, key=lambda key: (not key[0], key))]


def instruction_text(trace: KernelTrace, pc: int) -> str:
    """An instruction whose text is unknown: opcode, registers by number, written `d <- s`."""
    instruction = trace.instructions[pc]
    made, read = (" ".join(f"r{number}" for number in part) for part in (instruction.destinations, instruction.sources))
    return " ".join(word for word in (instruction.opcode, made, "<-" if read else "", read) if word)


def _memory(evidence: Evidence, requests_by_pc: Longs, pcs: Longs) -> dict[str, Any]:
    """The columns on device memory; a ratio without a denominator is None."""
    misses, instructions = evidence.misses, evidence.trace.instructions
    memory = pcs[marks(instructions).sectors[pcs]]
    if not len(memory):
        return dict.fromkeys(("requests_per_execution", "sectors_per_request", "l1_hit_rate", "l2_hit_rate"))
    requested = int(requests_by_pc[memory].sum())
    l1, l2 = hit_rates(instructions, misses, memory.tolist())
    return {
        "requests_per_execution": _ratio(requested, int(misses.executions[memory].sum())),
        "sectors_per_request": _ratio(int(misses.sectors[memory].sum()), requested),
        "l1_hit_rate": l1,
        "l2_hit_rate": l2,
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _waits(evidence: Evidence) -> dict[int, dict[int, float]]:
    """Stall cycles of the representative warp by stalled pc and by the pc of the producer."""
    profile, count = evidence.profile, len(evidence.times)
    stalled = (evidence.waiting >= 0) & (profile.pc >= 0) & (profile.stall_cycles > 0)
    keys = evidence.waiting[stalled].astype(np.int64) * count + profile.pc[stalled]
    pairs, where = np.unique(keys, return_inverse=True)
    cycles = np.bincount(where, profile.stall_cycles[stalled], len(pairs))
    stalls: dict[int, dict[int, float]] = {}
    for key, stall in zip(pairs.tolist(), cycles.tolist(), strict=True):
        stalls.setdefault(key // count, {})[key % count] = stall
    return stalls
