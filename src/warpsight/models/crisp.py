"""CRISP (Nath and Tullsen, MICRO 2015): the time at a lower clock, from stall components at the nominal one.

All times are in cycles of the nominal clock. `slowdown` is the nominal clock over the target's, at least 1. Arguments
broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.base.errors import SpecError
from warpsight.base.units import FREQUENCY, format_quantity
from warpsight.gpu.design import Design
from warpsight.gpu.key import Key
from warpsight.intervals.interval_profile import CAUSES, Floats, IntervalProfile
from warpsight.models.base import MODELS, STACK_PREFIX, About, answer_of
from warpsight.models.contention import gpumech_mshrs, gpumech_queues
from warpsight.models.interval_model import INTERVAL_CHECKS, IntervalModel, residency
from warpsight.result.prediction import COMPONENTS


def load_critical_path(overlapped: Any, load_stalls: Any, slowdown: Any) -> Any:
    """Time of load stalls and of the computation that overlaps with them: memory takes the same time at every clock.

    At the nominal clock it is the sum of both; at lower clocks the stretched computation can be longer.
    """
    return np.maximum(slowdown * overlapped, load_stalls + overlapped)


def compute_store_path(computation: Any, store_stalls: Any, slowdown: Any) -> Any:
    """Time of the other computation and of store stalls, which stretched computation hides."""
    return np.maximum(slowdown * computation, computation + store_stalls)


TARGET_CLOCK = Key("crisp.target_clock", FREQUENCY, "clock to predict for, at most core_clock; 0 Hz: core_clock", 0, 1e11, "0 Hz")

# k is the nominal clock over the target's. Stalls are GPUMech's at the nominal clock, in its cycles.
_LOADS = "(max(k O, L + O) / k - O) x {name} / L of the load critical path: L all load stalls, O the computation overlapping them"


class Crisp(IntervalModel):
    """Nath and Tullsen, MICRO 2015, as MDM (MICRO 2020, section VII) compares it: `crisp.target_clock` from `core_clock`.

    CRISP reads its stall components from hardware counters at the nominal clock. Here, they come from GPUMech's equations for the
    interval profile at `core_clock`, so at that clock the prediction is GPUMech's. CRISP adds the change with the clock, and only
    that change is meaningful. Cycles, CPI and IPC count the target clock.
    """

    name = "crisp"
    title = "CRISP: time at a lower clock, from stalls at the nominal one"
    source = "Nath and Tullsen: CRISP, MICRO 2015; components by Huang et al.: GPUMech, MICRO 2014"
    needs = frozenset({"misses", "dram"})
    memory_levels = False  # those at the nominal clock do not apply to the stretched time
    parameters = (TARGET_CLOCK,)
    about = About(
        equations=(
            "load critical path: max of the stretched overlapped computation, and load stalls plus that computation",
            "compute/store path: max of the stretched computation, and computation plus store stalls",
            "GPUMech eqs. 4-23 for the components at the nominal clock, in place of hardware counters",
        ),
        assumptions=(
            "memory takes the same time in seconds at every clock: L2, NoC and DRAM have clocks of their own",
            "computation takes the same cycles at every clock",
            "stalls of the DRAM queue belong to loads and stores in proportion to their requests",
            "load stalls that multithreading hides overlap with computation",
        ),
        fails=(
            "clocks above the nominal one are refused: the components do not show what limits there",
            "what GPUMech's components miss at the nominal clock: NoC, divergence beyond MSHRs, barriers, bank conflicts",
            "overlap that changes with the clock (MDM, MICRO 2020, section VII)",
        ),
        citation="R. Nath and D. Tullsen. The CRISP performance model for dynamic voltage and frequency scaling in a GPGPU. "
        "MICRO 2015.",
        by_component={
            "base": "GPUMech's at the nominal clock: computation takes the same cycles at every clock",
            "com_data": "GPUMech's at the nominal clock: computation takes the same cycles at every clock",
            "mem_data": _LOADS.format(name="mem_data"),
            "mshr": _LOADS.format(name="mshr"),
            "dram": _LOADS.format(name="dram's part of loads") + "; and max(k C, C + stores) / k - C "
            "of the compute/store path, C the other computation",
            "idle": "all other components x the ratio of idle to them at the nominal clock",
        },
        checks=(*INTERVAL_CHECKS, "noc-load"),
    )

    def contention(self, profile: IntervalProfile, design: Design, warps: Floats) -> dict[str, Floats]:
        """Stalls at the nominal clock beyond latency, by GPUMech eqs. 18-23, [R, I] by component, for `warps` [R]."""
        behind = gpumech_queues(profile, design, warps, noc=False, dram=True)
        return gpumech_mshrs(profile, design, warps, behind, queued=False).by_component()

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`. Raises SpecError for a target clock above the nominal one."""
        slowdown = design.core_clock_hz / _target(design)
        nominal = super().evaluate(profile, design)
        stack = {name: nominal[f"{STACK_PREFIX}{name}"] for name in COMPONENTS}
        busy = sum(stack.values(), np.zeros(len(design))) - stack["idle"]
        spread = stack["idle"] / busy
        writes, reads = float(profile.dram_writes.sum()), float(profile.dram_reads.sum())
        store_share = writes / (reads + writes) if writes else 0.0
        scaled = _scaled(stack, _memory_cpi(profile, design), store_share, slowdown)
        scaled["idle"] = sum(scaled.values(), np.zeros(len(design))) * spread
        return answer_of(profile, design, scaled, clock_hz=_target(design))


def _target(design: Design) -> Floats:
    """The target clock, hertz [D]: the nominal one where none is set."""
    stated = design.parameter(TARGET_CLOCK)
    target = np.where(stated > 0, stated, design.core_clock_hz)
    above = target > design.core_clock_hz
    if above.any():
        highest, nominal = (format_quantity(float(clock[above][0]), FREQUENCY) for clock in (target, design.core_clock_hz))
        what = f"CRISP predicts lower clocks, and {highest} is above the nominal {nominal}"
        raise SpecError(what, place=TARGET_CLOCK.name, remedy="describe the GPU at its highest clock, and ask for a lower one")
    return target


def _memory_cpi(profile: IntervalProfile, design: Design) -> Floats:
    """Memory stalls of the representative warp alone, hidden ones included, per warp instruction of an SM, [D]."""
    waves = residency(profile, design)
    stalls = float(profile.stall_cycles @ (profile.cause == CAUSES.index("memory")))
    executed = np.bincount(waves.point, waves.times * waves.warps, len(design)) * profile.instructions.sum()
    return np.asarray(np.bincount(waves.point, waves.times, len(design)) * stalls / executed, dtype=np.float64)


def _scaled(stack: dict[str, Floats], alone: Floats, store_share: float, slowdown: Floats) -> dict[str, Floats]:
    """The busy CPI stack in cycles of the target clock.

    Computation keeps its cycles; the rest of each path is divided among its stalls as at the nominal clock.
    """
    computation = stack["base"] + stack["com_data"]
    stores = stack["dram"] * store_share
    loads = {"mem_data": stack["mem_data"], "mshr": stack["mshr"], "dram": stack["dram"] - stores}
    stalls = sum(loads.values(), np.zeros(len(slowdown)))
    overlapped = np.clip(alone - stack["mem_data"], 0.0, computation)
    rest = computation - overlapped
    # a path is never shorter than its computation; the maximum takes off the rounding of the division
    left = np.maximum(load_critical_path(overlapped, stalls, slowdown) / slowdown - overlapped, 0.0)
    left_stores = np.maximum(compute_store_path(rest, stores, slowdown) / slowdown - rest, 0.0)
    share = np.divide(left, stalls, out=np.zeros(len(slowdown)), where=stalls > 0)
    scaled = {"base": stack["base"], "com_data": stack["com_data"], **{name: cycles * share for name, cycles in loads.items()}}
    scaled["dram"] = scaled["dram"] + left_stores
    return scaled


MODELS.add(Crisp.name, Crisp())
