"""CRISP (Nath and Tullsen, MICRO 2015): the time at a lower clock, from stall components at the nominal one.

All times are in cycles of the nominal clock. `slowdown` is the nominal clock over the target's, at least 1. Arguments
broadcast.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import SpecError
from warpsight.base.units import FREQUENCY, format_quantity
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import CAUSES, IntervalProfile
from warpsight.models import interval_model
from warpsight.models.base import MODELS, About, Design, predict_one
from warpsight.models.contention import gpumech_mshrs, gpumech_queues
from warpsight.models.interval_model import INTERVAL_CHECKS, residency
from warpsight.result.prediction import COMPONENTS, Prediction


def load_critical_path(overlapped: Any, load_stalls: Any, slowdown: Any) -> Any:
    """Time in which loads are waited for, with the computation they overlap: memory's own time does not change with the clock.

    At the nominal clock it is both together; computation that is stretched beyond that time takes over.
    """
    return np.maximum(slowdown * overlapped, load_stalls + overlapped)


def compute_store_path(computation: Any, store_stalls: Any, slowdown: Any) -> Any:
    """The rest: computation that no load overlaps, and stalls of stores, which stretched computation hides."""
    return np.maximum(slowdown * computation, computation + store_stalls)


# -- CRISP: the time at a lower clock, from stall components at the nominal one.

Floats = npt.NDArray[np.float64]

# k is the nominal clock over the target's. Stalls are GPUMech's at the nominal clock, in its cycles.
_LOADS = "(max(k O, L + O) / k - O) x {name} / L, of the load critical path: L all load stalls, O the computation that they overlap"


class Crisp:
    """Nath and Tullsen, MICRO 2015, as MDM (MICRO 2020, section VII) compares it: `dvfs.target_clock` from `core_clock`.

    CRISP reads its stall components from hardware counters at the nominal clock. No counter exists here: the components are what
    GPUMech's equations give for the interval profile at `core_clock`, so at that clock the answer is GPUMech's. What CRISP adds,
    and what its answers are good for, is the change with the clock. Cycles, CPI and IPC count the target clock.
    """

    name = "crisp"
    title = "CRISP: time at a lower clock, from stalls at the nominal one"
    source = "Nath and Tullsen: CRISP, MICRO 2015; components by Huang et al.: GPUMech, MICRO 2014"
    needs = frozenset({"misses", "dram"})
    about = About(
        equations=(
            "load critical path: the larger of stretched overlapped computation, and load stalls with that computation",
            "compute/store path: the larger of stretched computation, and computation with store stalls",
            "GPUMech eqs. 4-23 for the components at the nominal clock, in place of hardware counters",
        ),
        assumptions=(
            "memory takes the same time in seconds at every clock: L2, NoC and DRAM have clocks of their own",
            "computation takes the same cycles at every clock",
            "the DRAM queue's stalls are of loads and stores in proportion to their requests",
            "load stalls that multithreading hides are hidden by computation",
        ),
        fails=(
            "clocks above the nominal one are refused: what limits there is not in the components",
            "whatever GPUMech's components miss at the nominal clock: NoC, divergence beyond MSHRs, barriers, bank conflicts",
            "overlap that itself changes with the clock (MDM, MICRO 2020, section VII)",
        ),
        citation="R. Nath and D. Tullsen. The CRISP performance model for dynamic voltage and frequency scaling in a GPGPU. "
        "MICRO 2015.",
        stack=("base", "com_data", "mem_data", "mshr", "dram", "idle"),
        by_component={
            "base": "GPUMech's at the nominal clock: computation takes the same cycles at every clock",
            "com_data": "GPUMech's at the nominal clock: computation takes the same cycles at every clock",
            "mem_data": _LOADS.format(name="mem_data"),
            "mshr": _LOADS.format(name="mshr"),
            "dram": _LOADS.format(name="dram's part of loads") + "; and max(k C, C + stores) / k - C "
            "of the compute/store path, C the other computation",
            "idle": "all others together x what idle is of them at the nominal clock",
        },
        checks=(*INTERVAL_CHECKS, "noc-load"),
    )

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """See `Model.predict`. Raises SpecError for a target clock above the nominal one."""
        # the levels that served loads at the nominal clock are not those of the stretched time
        return predict_one(self, replace(profile, memory_stall_levels=None), gpu)

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`. Raises SpecError for a target clock above the nominal one."""
        slowdown = design.core_clock_hz / _target(design)
        nominal = interval_model.evaluate(profile, design, contention)
        stack = {name: nominal[f"cpi_stack.{name}"] for name in COMPONENTS}
        busy = sum(stack.values(), np.zeros(len(design))) - stack["idle"]
        spread = stack["idle"] / busy
        scaled = _scaled(stack, _memory_cpi(profile, design), _store_share(profile), slowdown)
        scaled["idle"] = sum(scaled.values(), np.zeros(len(design))) * spread
        cpi = sum((scaled[name] for name in COMPONENTS), np.zeros(len(design)))
        ipc_gpu = design.sm_count / cpi
        cycles = profile.total_warp_instructions / ipc_gpu
        seconds = cycles / _target(design)
        answer = {"cycles": cycles, "seconds": seconds, "ipc_sm_warp": 1 / cpi, "ipc_gpu_warp": ipc_gpu, "cpi": cpi}
        return answer | {f"cpi_stack.{name}": scaled[name] for name in COMPONENTS}


def contention(profile: IntervalProfile, design: Design, warps: Floats) -> dict[str, Floats]:
    """Stalls at the nominal clock beyond latency, by GPUMech eqs. 18-23, [R, I] by component, for `warps` [R]."""
    behind = gpumech_queues(profile, design, warps, noc=False)
    return gpumech_mshrs(profile, design, warps, behind, queued=False).by_component()


def _target(design: Design) -> Floats:
    """The clock asked for, hertz [D]: the nominal one where none was."""
    target = np.where(design.target_clock_hz > 0, design.target_clock_hz, design.core_clock_hz)
    above = target > design.core_clock_hz
    if above.any():
        asked, nominal = (format_quantity(float(clock[above][0]), FREQUENCY) for clock in (target, design.core_clock_hz))
        what = f"CRISP predicts lower clocks, and {asked} is above the nominal {nominal}"
        raise SpecError(what, place="dvfs.target_clock", remedy="describe the GPU at its highest clock, and ask for a lower one")
    return target


def _memory_cpi(profile: IntervalProfile, design: Design) -> Floats:
    """Memory stalls of the representative warp alone, hidden ones included, per warp instruction of an SM, [D]."""
    found = residency(profile, design)
    stalls = float(profile.stall_cycles @ (profile.cause == CAUSES.index("memory")))
    executed = np.bincount(found.point, found.times * found.warps, len(design)) * profile.instructions.sum()
    waves = np.bincount(found.point, found.times, len(design))
    return np.asarray(waves * stalls / executed, dtype=np.float64)


def _store_share(profile: IntervalProfile) -> float:
    """The part of DRAM's queue that stores make."""
    writes, reads = float(profile.dram_writes.sum()), float(profile.dram_reads.sum())
    return writes / (reads + writes) if writes else 0.0


def _scaled(stack: dict[str, Floats], alone: Floats, store_share: float, slowdown: Floats) -> dict[str, Floats]:
    """The busy CPI stack in cycles of the target clock.

    Computation keeps its cycles; what is left of each path beyond it is shared among its stalls as at the nominal clock.
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
    scaled = {name: np.zeros(len(slowdown)) for name in COMPONENTS}
    scaled |= {"base": stack["base"], "com_data": stack["com_data"]}
    scaled |= {name: cycles * share for name, cycles in loads.items()}
    scaled["dram"] = scaled["dram"] + left_stores
    return scaled


MODELS.add(Crisp.name, Crisp())
