"""What if the launch used the SMs better or the GPU had more: one more block per SM, even blocks, a resource twice as large?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from warpsight.analysis.advice.rule import ARCHITECT, MODEL, PROGRAMMER, Case, WhatIf
from warpsight.analysis.advice.work_rules import ResidentBlocks
from warpsight.base.units import percent, thousands, three_digits
from warpsight.equations.resources import grid_cycles_of
from warpsight.gpu.describe import resolved
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import Occupancy, occupancy, resident_clusters
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile, divided
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace, TraceHeader


def next_step(case: Case) -> tuple[TraceHeader, Occupancy] | None:
    """The launch with the smallest reduction of registers and shared memory that raises its occupancy, and that occupancy; None if
    threads or blocks limit it as well."""
    header, now = case.trace.header, case.profiled.occupancy.blocks_per_sm

    def raised(registers: int, shared: int) -> bool:
        return occupancy(case.gpu, header.threads_per_block, registers, shared).blocks_per_sm > now

    shared = header.static_shared_bytes + header.dynamic_shared_bytes
    if not raised(1, 0):
        return None
    registers = header.registers_per_thread
    while not raised(registers, 0):
        registers -= 1
    if not raised(registers, shared):
        # a block's shared memory is rounded up to units, so only whole units need to be tried
        unit = case.gpu.sm.shared_memory_unit_bytes
        shared = (shared - 1) // unit * unit
        while not raised(registers, shared):
            shared = max(0, shared - unit)
    static = min(header.static_shared_bytes, shared)
    changed = replace(header, registers_per_thread=registers, static_shared_bytes=static, dynamic_shared_bytes=shared - static)
    return changed, occupancy(case.gpu, header.threads_per_block, registers, shared)


class OccupancyStep:
    """Fewer registers or less shared memory: occupancy, caches, profile and model are evaluated again."""

    name = "occupancy"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The next step, if registers or shared memory limit the occupancy."""
        step = next_step(case)
        if step is None:
            return
        header, reached = step
        before, now = case.trace.header, case.profiled.occupancy
        less = []
        if header.registers_per_thread < before.registers_per_thread:
            less.append(f"{header.registers_per_thread} registers per thread instead of {before.registers_per_thread}")
        shared = [part.static_shared_bytes + part.dynamic_shared_bytes for part in (header, before)]
        if shared[0] < shared[1]:
            less.append(f"{shared[0]:,} bytes of shared memory per block instead of {shared[1]:,}")
        trace: KernelTrace = replace(case.trace, header=header)
        yield WhatIf(
            title=f"occupancy from {three_digits(now.fraction)} to {three_digits(reached.fraction)}: {' and '.join(less)}",
            place="launch",
            reason=f"{now.blocks_per_sm} blocks fit on an SM, limited by {now.limiter}; with this change {reached.blocks_per_sm}",
            cost="__launch_bounds__ or less shared memory; register spills are not counted",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(trace),
        )


# -- What if the blocks were spread evenly over the SMs?

def balanced(profile: IntervalProfile, sm_count: int) -> IntervalProfile:
    """The same instructions in as many blocks as fill the SMs equally. The profile must have a launch."""
    assert profile.launch is not None
    blocks = -(-profile.launch.blocks // sm_count) * sm_count
    demands = profile.demands and divided(profile.demands, blocks / profile.launch.blocks)
    return replace(profile, launch=replace(profile.launch, blocks=blocks), demands=demands)


_OTHER_BLOCKS = "divide the work differently: a grid-stride loop with a multiple of the SMs as blocks, or smaller blocks"
_SPLIT_LOOP = "divide the loop of each block among several (split-K in a product of matrices)"
_MORE_BLOCKS = f"smaller blocks or tiles, or {_SPLIT_LOOP}"
_SHORTER_WARPS = f"{_SPLIT_LOOP}; smaller blocks alone do not help, as each warp waits as long as before"


class Balance:
    """Load imbalance between SMs: the model is evaluated for the same work in equal parts."""

    name = "balance"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The change, if the blocks are not a multiple of the SMs, or have unequal work."""
        profile, launch = case.profiled.profile, case.profiled.profile.launch
        if launch is None:
            return
        places = resident_clusters(case.gpu, launch.blocks_per_sm, launch.cluster_blocks) * launch.cluster_blocks
        sms = places // launch.blocks_per_sm  # that blocks can fill: GPCs hold whole clusters
        even = balanced(profile, sms)
        assert even.launch is not None
        blocks, busiest = launch.blocks, -(-launch.blocks // sms)
        if blocks % sms and not case.proposed(LaunchOverhead()):  # which fills the SMs evenly, too
            idle = percent(1 - blocks / (busiest * sms))
            has = "1 block" if busiest == 1 else f"{busiest} blocks"
            title = f"the same work in {even.launch.blocks} blocks instead of {blocks}, equally many per SM"
            reason = f"the busiest of {sms} SMs runs {has}; the SMs spend {idle} of their time waiting for it{_unequal(profile)}"
        elif profile.demands is not None and profile.demands.work_imbalance > 1:
            more = three_digits(profile.demands.work_imbalance)
            title = f"the same work divided equally over the {blocks} blocks"
            reason = f"the busiest of {sms} SMs has {more} times the mean work, in the same number of blocks"
        else:
            return
        yield WhatIf(
            title=title,
            place="launch",
            reason=reason,
            cost=_OTHER_BLOCKS if blocks >= sms else _SHORTER_WARPS if _is_latency_bound(case.prediction) else _MORE_BLOCKS,
            owner=PROGRAMMER,
            evaluate=lambda: case.with_profile(even),
            again=MODEL,
        )


def _is_latency_bound(prediction: Prediction) -> bool:
    """Whether the SMs that have blocks mostly wait for what their warps wait for, so that fewer warps would take them as long."""
    stack = prediction.cpi_stack
    waits = sum(stack.get(name, 0.0) for name in ("com_data", "mem_data", "sync"))
    return waits > (prediction.cpi - stack.get("idle", 0.0) - stack.get("launch", 0.0)) / 2


# -- What if launching took less time?

class LaunchOverhead:
    """Block starts: the model is evaluated for the same work in as many blocks as are resident at once."""

    name = "launch"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """Fewer blocks, if more than are resident at once, for a model and a GPU where launching takes time; not where these would
        also have one prologue (rule `resident_blocks`)."""
        profile, part = case.profiled.profile, _launching(case)
        if not part or profile.launch is None:
            return
        launch = profile.launch
        resident = resident_clusters(case.gpu, launch.blocks_per_sm, launch.cluster_blocks) * launch.cluster_blocks
        if launch.blocks > resident and not case.proposed(ResidentBlocks()):
            fewer = replace(
                profile, launch=replace(launch, blocks=resident),
                demands=profile.demands and divided(profile.demands, resident / launch.blocks),
            )  # fmt: skip
            yield WhatIf(
                title=f"the same work in {resident} blocks instead of {launch.blocks}, as many as are resident at once",
                place="launch",
                reason=f"{part}, and each block adds to this{_last_wave(launch.blocks, resident)}",
                cost="a grid-stride loop, or more elements per thread",
                owner=PROGRAMMER,
                evaluate=lambda: case.with_profile(fewer),
                again=MODEL,
            )


class Fusion:
    """Begin and end of the grid: the model is evaluated for a grid that does not begin and end on its own. It helps any short
    launch, whatever the kernel does."""

    name = "fusion"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The change, for a model and a GPU where launching takes time."""
        grid, part = grid_cycles_of(case.gpu, case.profiled.profile.uses_memory), _launching(case)
        if part and grid and case.profiled.profile.launch is not None:
            reads = " and to read its parameters" if case.profiled.profile.uses_memory else ""
            free = load_gpu(case.gpu, ["dispatch.grid=0 cycles", "dispatch.parameter_reads=0"])
            yield WhatIf(
                title="fuse the kernel with the one before or after it",
                place="launch",
                reason=f"{part}, {thousands(grid)} of them to begin and end the grid{reads}",
                cost="one kernel does the work of both; this also saves the time between the two launches",
                owner=PROGRAMMER,
                evaluate=lambda: case.with_gpu(free),
                again=MODEL,
            )


def _unequal(profile: IntervalProfile) -> str:
    """How unequal the blocks are, which equal blocks would not be."""
    imbalance = profile.demands.work_imbalance if profile.demands is not None else 1.0
    return f"; blocks are unequal, which takes {three_digits(imbalance)} times as long" if imbalance >= _UNEQUAL else ""


_UNEQUAL = 1.05


def _last_wave(blocks: int, resident: int) -> str:
    """How many blocks the last wave has, if the SMs have places for more."""
    left = blocks % resident
    return f"; the last of {-(-blocks // resident)} waves fills {left} of {resident} places" if left else ""


_LEAST_LAUNCHING = 0.01  # of the cycles


def _launching(case: Case) -> str:
    """What the launch itself takes, as a reason; empty where that is next to nothing."""
    prediction = case.prediction
    cycles = prediction.cpi_stack["launch"] / prediction.cpi * prediction.cycles
    enough = cycles > _LEAST_LAUNCHING * prediction.cycles
    return f"launching takes {thousands(cycles)} of {thousands(prediction.cycles)} cycles" if enough else ""


# -- What if a resource of the GPU were twice as large?

# Key, its name, and the components of the CPI stack that it may reduce.
LEVERS = (
    ("l1.mshrs", "L1 MSHRs", ("mshr",)),
    ("noc.bandwidth", "NoC bandwidth", ("noc", "mshr")),
    ("dram.bandwidth", "DRAM bandwidth", ("dram", "mshr")),
    ("l1.size", "L1 size", ("mem_data", "mshr", "noc")),
    ("l2.size", "L2 size", ("mem_data", "mshr", "dram")),
    ("sm.registers", "registers per SM", ("com_data", "mem_data", "idle")),
)


def setting(gpu: GpuSpec, key: str) -> str:
    """`key=value` with twice the GPU's value, in its own unit: `dram.bandwidth=960 GB/s`."""
    section, name = key.split(".")
    value = re.fullmatch(r"([\d.]+)(.*)", str(resolved(gpu)[section][name]))
    assert value is not None, f"{key} is a number with a unit"
    return f"{key}={2 * float(value[1]):.15g}{value[2]}"


class Doubled:
    """Everything is evaluated again for a GPU with one value changed."""

    name = "doubled"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each of `LEVERS`."""
        stack, cpi = case.prediction.cpi_stack, case.prediction.cpi
        for key, called, relieved in LEVERS:
            part = sum(stack[name] for name in relieved)
            yield WhatIf(
                title=f"{called} x 2",
                place=key,
                reason=_reason(relieved, part / cpi),
                cost="another GPU: area and power",
                owner=ARCHITECT,
                evaluate=lambda key=key: case.with_gpu(load_gpu(case.gpu, [setting(case.gpu, key)])),  # type: ignore[misc]
                setting=setting(case.gpu, key),
            )


def _reason(relieved: tuple[str, ...], share: float) -> str:
    """What the change may reduce. A model without these components may still depend on the key: bandwidth bounds MWP in MWP-CWP."""
    if share == 0:
        return f"the CPI stack has no {' or '.join(relieved)}, but the model's other components depend on it"
    return f"{' and '.join(relieved)}: {percent(share)} of the cycles"
