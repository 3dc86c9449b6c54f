"""What the metrics of Nsight Compute are made of: counts of a launch, its cycles, and what its warps wait for.

All counts are of the whole launch, all cycles of a mean SM. The caches count requests of a line and 32 B sectors; where Nsight
Compute counts sectors, a request counts with the sectors that a request of its instruction touches on average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from warpsight.analysis.report_data.resources import needs_of
from warpsight.caches.miss_profile import Counts, MissProfile
from warpsight.equations.resources import grid_cycles_of
from warpsight.gpu.design import Design
from warpsight.gpu.occupancy import block_limits
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import CAUSES
from warpsight.intervals.usage import (
    conflict_passes,
    dram_bytes,
    hit_rates,
    l1_cycles,
    l2_sectors,
    lane_executions,
    occurrences,
    path_use,
    unit_cycles,
)
from warpsight.isa.sass.native import NO_BARRIER
from warpsight.models.interval_model import residency
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.result.prediction import STRUCT_PARTS, Prediction
from warpsight.traces.schema import ATOMIC, LOAD, STORE, StaticInstruction, TraceHeader

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

GLOBAL, LOCAL, SHARED = "global", "local", "shared"
RED, ATOM = "red", "atom"  # an atomic that returns nothing, and one that does

# The stall reason of each component of a CPI stack. A warp whose load has left for the memory system waits on its scoreboard,
# whatever queue the load is in. `com_data` and `lsu` are divided between several reasons, see `Quantities.states`.
_LONG, _SHORT, _WAIT = "long_scoreboard", "short_scoreboard", "wait"
_MATH, _LG, _MIO, _TEX, _MISC = "math_pipe_throttle", "lg_throttle", "mio_throttle", "tex_throttle", "misc"
_REASONS = {
    "mem_data": _LONG, "mshr": _LONG, "noc": _LONG, "dram": _LONG, "sync": "barrier", "com_struct": _MATH, "drain": "drain",
    **dict.fromkeys(STRUCT_PARTS, _MATH), "banks": _MIO,
}  # fmt: skip
SELECTED, NOT_SELECTED = "selected", "not_selected"
STALLS = (_LONG, _SHORT, _WAIT, _MATH, _LG, _MIO, _TEX, "barrier", "drain", NOT_SELECTED, SELECTED, _MISC)
_NOT_OF_WARPS = ("base", "idle", "launch")
_TEXTURES = ("tex", "tld", "txd", "txq", "su")  # what the texture unit executes, which has metrics of its own


@dataclass(frozen=True)
class Quantities:
    """The quantities of a launch, from its trace and caches on `gpu` and a `prediction` that was made of them."""

    profiled: ProfiledTrace
    gpu: GpuSpec
    prediction: Prediction

    @property
    def header(self) -> TraceHeader:
        """What was run."""
        return self.profiled.trace.header

    @property
    def _instructions(self) -> tuple[StaticInstruction, ...]:
        return self.profiled.trace.instructions

    @property
    def _misses(self) -> MissProfile:
        return self.profiled.misses

    @cached_property
    def _scale(self) -> float:
        """The launch over its recorded part."""
        return self.header.blocks / self.header.recorded_blocks

    @cached_property
    def _times(self) -> Counts:
        return occurrences(self.profiled.trace, path_use(self.profiled.trace)[0])

    def _sum(self, counts: Counts | Floats, chosen: Mask | None = None) -> float:
        return float((counts if chosen is None else counts[chosen]).sum()) * self._scale

    # -- Instructions.

    def executed(self, op_class: str) -> float:
        """Warp instructions of an op class."""
        return self._sum(self._times, np.array([each.op_class == op_class for each in self._instructions], dtype=np.bool_))

    def thread_instructions(self, *opcodes: str) -> float | None:
        """Thread instructions of machine code with these opcodes. None for PTX, and if a predicate guards one of them: a trace has
        the lanes at the beginning of a basic block, not those whose predicate holds.
        """
        texts = self.profiled.trace.extra.get("sass", {})
        chosen = [each.pc for each in self._instructions if each.opcode.partition(".")[0] in opcodes]
        if self.header.level != "sass" or any(texts.get(str(pc), "@").startswith("@") for pc in chosen):
            return None
        trace = self.profiled.trace
        return float(lane_executions(trace, path_use(trace)[0])[chosen].sum()) * self._scale

    @cached_property
    def lsu_instructions(self) -> float:
        """Instructions that the load-store unit executes: accesses to memory with at least one active lane."""
        return self._sum(np.maximum(self._misses.executions, self._misses.shared_executions))

    def pipe(self, unit: str) -> float:
        """Active cycles in which the functional units of an op class are occupied, in percent. Reads of special registers take
        none of the units that Nsight Compute names.
        """
        special = np.array([each.opcode.startswith(("S2R", "S2UR")) for each in self._instructions], dtype=np.bool_)
        cycles = self._sum(unit_cycles(self.profiled.trace, self.gpu, self._times, unit), ~special)
        return 100.0 * cycles / (self.gpu.sm_count * self.gpu.sm.schedulers * self.active_cycles)

    @cached_property
    def busiest_pipe(self) -> float:
        """`pipe` of the busiest one."""
        return max(self.pipe(unit) for unit in self.gpu.initiation_cycles)

    @cached_property
    def lsu_issue(self) -> float:
        """Memory instructions per active cycle, in percent of those that the load-store unit of an SM can begin."""
        return 100.0 * self.lsu_instructions * self.gpu.sm.access_interval_cycles / (self.gpu.sm_count * self.active_cycles)

    # -- Memory: requests of instructions, sectors, lines and bytes.

    def _of(self, space: str, access: str) -> Mask:
        """The instructions of the load-store unit that access a space in a way: load, store, red, atom."""
        def fits(each: StaticInstruction) -> bool:
            kind = (RED if each.opcode.lower().startswith(RED) else ATOM) if each.access == ATOMIC else each.access
            spaces = (GLOBAL, "generic") if space == GLOBAL else (space,)
            beside = each.is_bulk or each.is_async_copy or _is_texture(each)
            return kind == access and each.space in spaces and not beside

        return np.array([fits(each) for each in self._instructions], dtype=np.bool_)

    def requests(self, space: str, access: str) -> float:
        """Executed instructions with at least one active lane."""
        counts = self._misses.shared_executions if space == SHARED else self._misses.executions
        return self._sum(counts, self._of(space, access))

    def sectors(self, space: str, access: str) -> float:
        """Sectors that they touch."""
        return self._sum(self._misses.sectors, self._of(space, access))

    def wavefronts(self, access: str) -> float:
        """Passes through the banks of shared memory."""
        return self._sum(self._misses.shared_passes, self._of(SHARED, access))

    def conflicts(self, access: str) -> float:
        """Those of them that are due to bank conflicts."""
        return self._sum(conflict_passes(self._instructions, self._misses), self._of(SHARED, access))

    def l1_load_hits(self, *spaces: str) -> float:
        """Sectors of loads that hit in the L1."""
        pcs = [pc for space in spaces for pc in np.flatnonzero(self._of(space, LOAD)).tolist()]
        return sum((hit_rates(self._instructions, self._misses, [pc])[0] or 0.0) * float(self._misses.sectors[pc])
                   for pc in pcs) * self._scale  # fmt: skip

    def _at_l2(self, part: int) -> dict[str, float]:
        """One of the counts of `intervals.usage.l2_sectors` by the kind of access."""
        counts = l2_sectors(self._instructions, self._misses, self.gpu.l1)[part]
        chosen = {access: np.array([each.access == access for each in self._instructions]) for access in (LOAD, STORE)}
        chosen |= {kind: self._of(GLOBAL, kind) for kind in (RED, ATOM)}
        return {kind: self._sum(counts, mask) for kind, mask in chosen.items()}

    @cached_property
    def l2_sectors(self) -> dict[str, float]:
        """Sectors that SMs read at the L2 (`LOAD`), write there (`STORE`), and that atomics change there (`ATOM`, `RED`)."""
        return self._at_l2(0)

    @cached_property
    def l2_hits(self) -> dict[str, float]:
        """Those of them that the L2 has. A write hits unless a part of its line has to be fetched."""
        return self._at_l2(1)

    @cached_property
    def dram_bytes(self) -> tuple[float, float]:
        """Bytes read and written at DRAM."""
        read, written = dram_bytes(self._misses)
        return read * self._scale, written * self._scale

    @cached_property
    def utilization(self) -> dict[str, float]:
        """Percent of the peak in the elapsed cycles by resource: issue, units, l1, noc, l2, dram (`report_data.resources`)."""
        return {need.name: 100.0 * need.cycles / self.prediction.cycles for need in needs_of(self.profiled, self.gpu)}

    # -- Cycles of a mean SM.

    @cached_property
    def per_sm(self) -> float:
        """Warp instructions of a mean SM."""
        return self.header.warp_instructions / self.gpu.sm_count

    @cached_property
    def _grid_cycles(self) -> float:
        """Those in which the grid begins and ends, and its first warps read their parameters."""
        once = grid_cycles_of(self.gpu, self.profiled.profile.uses_memory)
        return min(once, self.prediction.cpi_stack.get("launch", 0.0) * self.per_sm)

    @cached_property
    def active_cycles(self) -> float:
        """Those in which an SM has a warp: all but `idle`, and those of the grid."""
        return self.prediction.cycles - self.prediction.cpi_stack.get("idle", 0.0) * self.per_sm - self._grid_cycles

    @cached_property
    def ipc(self) -> float:
        """Warp instructions per active cycle of an SM."""
        return self.per_sm / self.active_cycles

    @cached_property
    def issue(self) -> float:
        """The share of the issue slots that are used in the active cycles (0 to 1)."""
        return min(self.ipc / (self.gpu.sm.schedulers * self.gpu.sm.issue_width), 1.0)

    # -- Warps.

    @cached_property
    def block_limits(self) -> dict[str, int]:
        """Blocks that each resource allows on an SM."""
        header = self.header
        shared = header.static_shared_bytes + header.dynamic_shared_bytes
        return block_limits(self.gpu, header.threads_per_block, header.registers_per_thread, shared)

    @cached_property
    def active_warps(self) -> float:
        """Warps on an SM in an active cycle: the mean over its waves, without the cycles in which their places wait for blocks."""
        rows = residency(self.profiled.profile, Design.of(self.gpu))
        resident = float((rows.times * rows.warps).sum() / rows.times.sum())
        empty = self.prediction.cpi_stack.get("launch", 0.0) * self.per_sm - self._grid_cycles
        return resident * (1.0 - min(max(empty, 0.0) / self.active_cycles, 1.0))

    @cached_property
    def warp_latency(self) -> float:
        """Cycles between two instructions of a warp (Little's law: warps over instructions per cycle)."""
        return max(self.active_warps / self.ipc, 1.0)

    @cached_property
    def states(self) -> dict[str, float]:
        """`warp_latency` by what the warp waits for, in cycles: one cycle selected, then the stall reasons.

        An eligible warp waits for its issue slot as in a queue: with N warps that use a share U of the slots, one in S cycles each,
        1 / S x (1 / (1 - (N - 1) / N x U) - 1), the equation of the model `warpsight`. The rest is divided as the stack is.
        """
        stack = {name: value for name, value in self.prediction.cpi_stack.items() if name not in _NOT_OF_WARPS and value > 0}
        waiting, warps = sum(stack.values()), max(self.active_warps, 1.0)
        left = self.warp_latency - 1.0
        service = 1.0 / (self.gpu.sm.schedulers * self.gpu.sm.issue_width)
        free = 1.0 - (warps - 1.0) / warps * self.issue
        queued = min(left, service * (1.0 / free - 1.0)) if waiting else left
        states = dict.fromkeys(STALLS, 0.0) | {SELECTED: 1.0, NOT_SELECTED: queued}
        for name, value in stack.items():
            for reason, share in self._reasons(name).items():
                states[reason] += (left - queued) * value / waiting * share
        return states

    def _reasons(self, component: str) -> Mapping[str, float]:
        """The stall reasons of a component, with their shares."""
        if component == "com_data":
            return {_SHORT: self._by_scoreboard, _WAIT: 1.0 - self._by_scoreboard}
        if component == "lsu":
            return self._port
        return {_REASONS.get(component, _MISC): 1.0}

    @cached_property
    def _by_scoreboard(self) -> float:
        """The part of the stalls for arithmetic in which the result announces itself on a scoreboard (a barrier of the control
        word; of PTX: of shared memory and special functions), and is not there after a fixed time."""
        profile = self.profiled.profile
        chosen = (profile.cause == CAUSES.index("compute")) & (profile.pc >= 0)
        stalls, native = profile.stall_cycles[chosen], self.header.level == "sass"
        makers = [self._instructions[pc] for pc in profile.pc[chosen].tolist()]
        announced = [each.write_barrier != NO_BARRIER if native else each.op_class in ("shared", "sfu") for each in makers]
        return float(stalls[np.array(announced, dtype=np.bool_)].sum() / stalls.sum()) if stalls.sum() > 0 else 0.0

    @cached_property
    def _port(self) -> dict[str, float]:
        """The parts of the load-store unit's cycles that are for shared memory, for textures, and for the rest."""
        cycles = l1_cycles(self.profiled.trace, self._misses, self.gpu)
        shared = np.array([each.space == SHARED for each in self._instructions], dtype=np.bool_)
        texture = np.array([_is_texture(each) for each in self._instructions], dtype=np.bool_)
        parts = {_MIO: shared, _TEX: texture, _LG: ~(shared | texture)}
        whole = float(cycles.sum())
        return {reason: float(cycles[part].sum()) / whole for reason, part in parts.items()} if whole > 0 else {_LG: 1.0}


def _is_texture(instruction: StaticInstruction) -> bool:
    return instruction.opcode.lower().startswith(_TEXTURES)
