"""GPUs and interval profiles for the tests of models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from warpsight.caches.miss_profile import SHARES
from warpsight.gpu.spec import DispatchSpec, DramSpec, GpuSpec, L1Spec, L2Spec, NocSpec, SmSpec
from warpsight.intervals.interval_profile import IntervalProfile, KernelCounts, LaunchShape, ResourceDemands

FREE = DispatchSpec()


def gpu(
    *, noc: float = 1050e9, dram: float = 480e9, sm_count: int = 28, schedulers: int = 1, width: int = 1, policy: str = "gto",
    mshrs: int = 128, clock: float = 1.4e9, queue: int = 0,
    dispatch: DispatchSpec = FREE,
) -> GpuSpec:
    """MDM's baseline (MICRO 2020, Table III) with changes."""
    return GpuSpec(
        "made-up", clock, sm_count, SmSpec(64, 32, 65536, 98304, schedulers, width, policy), {"int": 4}, {"int": 1},
        L1Spec(49152, 128, 128, 6, mshrs, 64, 25), NocSpec(noc, queue), L2Spec(3 << 20, 128, 128, 8, 128, 64, 120, slices=24),
        DramSpec(dram, 24, 220), dispatch=dispatch,
    )  # fmt: skip


def profile(rows: list[tuple[float, ...]], **fields: Any) -> IntervalProfile:
    """Rows: instructions, stall cycles, cause (0 none, 1 compute, 2 memory), memory instructions, read and write misses, DRAM reads
    and writes."""
    columns = np.array(rows, dtype=np.float64).T
    values: dict[str, Any] = {
        "kernel": "made-up", "warps_per_sm": 64, "total_warp_instructions": int(columns[0].sum()) * 64 * 28, "llc_miss_ratio": 0.5,
        "instructions": columns[0], "stall_cycles": columns[1], "cause": columns[2].astype(np.int8),
        "pc": np.full(len(rows), -1, dtype=np.int32), "memory_instructions": columns[3], "read_misses": columns[4],
        "write_misses": columns[5], "dram_reads": columns[6], "dram_writes": columns[7],
    }  # fmt: skip
    values["demands"] = demands(columns)
    return IntervalProfile(**{**values, **fields})


def demands(columns: Any, **changes: float) -> ResourceDemands:
    """What a warp with those intervals asks for, if all warps are like it and traffic is even."""
    reads, writes, dram = columns[4].sum(), columns[5].sum(), columns[6].sum() + columns[7].sum()
    found = {
        "unit_cycles": 0.0, "l1_cycles": reads + writes, "read_misses": reads, "fetched_bytes": 128.0 * reads,
        "sent_bytes": 128.0 * writes, "sent_requests": writes, "sent_flits": 5.0 * writes, "dram_bytes": 128.0 * dram,
        "slice_accesses": reads + writes,
        "dram_alternating": min(columns[6].sum(), columns[7].sum()),
        "atomic_repeats": 0.0, "dram_share": 0.5,
        **dict.fromkeys(SHARES, 1.0), "barriers": 0.0, "stall_cycles": columns[1].sum(), "stall_in_step": 0.5 * columns[1].sum(),
        "work_imbalance": 1.0, "longest_warp": 1.0, "way_wait": 0.0,
    }  # fmt: skip
    return ResourceDemands(**{name: float(value) for name, value in {**found, **changes}.items()})


def without_traffic(profile: IntervalProfile) -> IntervalProfile:
    """The same with requests that all hit, or none."""
    assert profile.demands is not None
    names = ("read_misses", "fetched_bytes", "sent_bytes", "sent_requests", "sent_flits", "dram_bytes", "dram_alternating",
             "slice_accesses", "atomic_repeats")
    quiet = dict.fromkeys(("read_misses", "write_misses", "dram_reads", "dram_writes"), np.zeros(len(profile.instructions)))
    return replace(profile, **quiet, demands=replace(profile.demands, **dict.fromkeys(names, 0.0)))  # type: ignore[arg-type]


def counts_like(made: IntervalProfile) -> KernelCounts:
    """Counts by kind that fit the intervals: the misses of a warp are the transactions of its uncoalesced half."""
    memory = float(made.memory_instructions.sum())
    misses = float(made.read_misses.sum() + made.write_misses.sum())
    shape = made.launch or LaunchShape(28 * made.warps_per_sm, 1, made.warps_per_sm)
    return KernelCounts(
        max(float(made.instructions.sum()) - memory, 1.0), memory / 2, memory / 2, max(1.0, misses / max(memory, 1.0)),
        memory / 4, 128.0 if memory else 0.0, shape.blocks, shape.warps_per_block, shape.blocks_per_sm, "sectors", "given",
    )  # fmt: skip


_stall = st.floats(0, 2000)
_interval = st.one_of(
    st.tuples(st.integers(1, 300), _stall, st.just(1), *[st.just(0)] * 5),
    st.tuples(
        st.integers(1, 300), _stall, st.just(2), st.integers(1, 4),
        st.floats(0, 40), st.floats(0, 40), st.floats(0, 30), st.floats(0, 9),
    ),
)
_shape = st.builds(LaunchShape, st.integers(1, 4000), st.just(8), st.integers(1, 8), st.just("threads"), st.just(1.0))


@st.composite
def profiles(draw: st.DrawFn) -> IntervalProfile:
    """Any profile, with or without a launch, with or without memory."""
    rows = draw(st.lists(_interval, min_size=1, max_size=6))
    launch = draw(st.none() | _shape)
    fields: dict[str, Any] = {"llc_miss_ratio": draw(st.floats(0, 1)), "launch": launch}
    fields["warps_per_sm"] = draw(st.integers(1, 64)) if launch is None else 8 * launch.blocks_per_sm
    fields["nonoverlapped_instructions"] = draw(st.none() | st.floats(0, 1e5))
    fields["total_warp_instructions"] = draw(st.integers(1, 10**12))
    found = profile(rows, **fields)
    assert found.demands is not None
    share = st.floats(0.05, 1)
    changes = {name: draw(share) for name in SHARES}
    changes["atomic_repeats"] = draw(st.floats(0, 200))
    changes |= {"unit_cycles": draw(st.floats(0, 500)), "work_imbalance": draw(st.floats(0.8, 3))}
    changes["longest_warp"] = draw(st.floats(1, 50))
    changes["way_wait"] = draw(st.just(0.0) | share)
    changes["barriers"] = draw(st.integers(0, 9))
    return replace(found, demands=replace(found.demands, **changes), counts=counts_like(found))


gpus = st.builds(
    gpu,
    noc=st.floats(1e10, 1e13), dram=st.floats(1e10, 1e13), sm_count=st.integers(1, 100), schedulers=st.sampled_from([1, 2, 4]),
    width=st.sampled_from([1, 2]), policy=st.sampled_from(["lrr", "gto"]), mshrs=st.integers(8, 512), clock=st.floats(5e8, 3e9),
    queue=st.just(0) | st.integers(1, 512),
    dispatch=st.just(FREE)
    | st.builds(DispatchSpec, st.integers(0, 5000), st.floats(0, 5), st.integers(0, 1000), st.integers(0, 20)),
)  # fmt: skip
