"""What a GPU is, to every other part of Warpsight. Frozen; every quantity carries its unit in its name.

Below the spec stand the numbers that follow from it: the latency of an op class, peak rates, and the timing that orders
accesses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from warpsight.base.errors import SpecError, suggestion


@dataclass(frozen=True)
class SmSpec:
    """One streaming multiprocessor: what limits residency, and how it issues.

    `policy` is the warp scheduler, `lrr` or `gto`; `issue_width` warp instructions per scheduler and cycle.
    `access_queue` issued memory instructions wait, in order, for the load-store unit. Allocation units follow
    CUDA's occupancy rules: registers per warp are rounded up to `register_unit`, a block's shared memory to
    `shared_memory_unit_bytes`. `shared_memory_reserved_bytes` of each block's go to the system (CUDA: 1 KiB from sm_80 on).
    `max_shared_memory_per_block_bytes` is the most one block may have, 0: all of the SM's.
    """

    max_warps: int
    max_blocks: int
    registers: int
    shared_memory_bytes: int
    schedulers: int
    issue_width: int
    policy: str
    max_threads_per_block: int = 1024
    max_registers_per_thread: int = 255
    register_unit: int = 256
    shared_memory_unit_bytes: int = 256
    shared_memory_banks: int = 32
    access_queue: int = 20
    fetch_width: int = 0
    max_shared_memory_per_block_bytes: int = 0
    shared_memory_reserved_bytes: int = 0


@dataclass(frozen=True)
class CacheSpec:
    """A set-associative cache. The L1 is per SM; the L2 is `slices` equal parts, `size_bytes` in all.

    `latency_cycles` is the round trip of a hit seen by the SM, without contention. `index` is a rule of `addressing.setindex`.
    `mshrs` and `targets` per L1 or per slice; `warp_mshrs` (L1) are the most for one warp, 0: all. `slice_interleave_bytes` (L2):
    consecutive bytes that share a slice. `miss_queue` (L1): packets that wait for the network. `allocation` (L1): when a miss takes
    a line, on-miss or on-fill.
    """

    size_bytes: int
    line_bytes: int
    sector_bytes: int
    ways: int
    mshrs: int
    targets: int
    latency_cycles: int
    index: str = "modulo"
    replacement: str = "lru"
    write_policy: str = "write-through"
    write_allocate: bool = False
    slices: int = 1
    slice_interleave_bytes: int = 256
    warp_mshrs: int = 0
    miss_queue: int = 16
    allocation: str = "on-miss"

    @property
    def sets(self) -> int:
        """Sets in one slice."""
        return self.size_bytes // (self.line_bytes * self.ways * self.slices)


@dataclass(frozen=True)
class NocSpec:
    """The network between SMs and L2. `bandwidth_bytes_per_s` is the aggregate in one direction.

    `queue` is how many requests of one SM the network can hold, 0: as many as the SM makes. Packets are cut into flits of
    `flit_bytes` of data; `buffer` of them wait at the far end of each port.
    """

    bandwidth_bytes_per_s: float
    queue: int = 0
    flit_bytes: int = 32
    buffer: int = 64


@dataclass(frozen=True)
class DramSpec:
    """Device memory. `latency_cycles` is what a DRAM access adds to an L2 hit's round trip; bandwidth is the aggregate.

    `queue` accesses wait at a channel. `row_bytes` is what an open row of one of a channel's `banks` holds, 0: rows cost nothing;
    then opening, closing one, and turning the bus between reads and writes take their cycles.
    """

    bandwidth_bytes_per_s: float
    channels: int
    latency_cycles: int
    queue: int = 64
    row_bytes: int = 0
    banks: int = 16
    activate_cycles: int = 0
    precharge_cycles: int = 0
    turnaround_cycles: int = 0


@dataclass(frozen=True)
class MwpSpec:
    """What the MWP-CWP model alone asks of a GPU (Hong and Kim, ISCA 2009, Tables 1 and 6). 0 cycles: derived from the rest.

    `memory_latency_cycles` (Mem_LD): 0 is an L2 hit's round trip plus DRAM's latency. Departure delays: 0 is the time that an SM's
    share of the DRAM bandwidth takes for an L1 line (coalesced) or an L1 sector (uncoalesced). `issue_cycles` that a scheduler's
    slot is busy with a warp instruction. `coalescing` is a rule of `addressing.transactions`.
    """

    memory_latency_cycles: int = 0
    departure_coalesced_cycles: int = 0
    departure_uncoalesced_cycles: int = 0
    issue_cycles: int = 1
    coalescing: str = "sectors"


@dataclass(frozen=True)
class DvfsSpec:
    """Which clock to predict for. `target_clock_hz` is asked for by models of clock changes (CRISP); 0: the core clock."""

    target_clock_hz: float = 0.0


@dataclass(frozen=True)
class OrderSpec:
    """The timing by which the cache simulation orders the accesses of warps and SMs. 0: the GPU's own.

    A description fixes it, and changes on top of the description leave it: a design differs from its neighbour by what was changed,
    not by a thrashing that another order happened to cause (docs/adr/0015-order-of-accesses.md).
    """

    core_clock_hz: float = 0.0
    l1_mshrs: int = 0
    l1_latency_cycles: int = 0
    noc_bandwidth_bytes_per_s: float = 0.0
    l2_mshrs: int = 0
    l2_latency_cycles: int = 0
    dram_bandwidth_bytes_per_s: float = 0.0
    dram_latency_cycles: int = 0


@dataclass(frozen=True)
class GpuSpec:
    """A GPU. `latency_cycles` and `initiation_cycles` are by op class. `sources` maps keys to where numbers come from."""

    name: str
    core_clock_hz: float
    sm_count: int
    sm: SmSpec
    latency_cycles: dict[str, int]
    initiation_cycles: dict[str, int]
    l1: CacheSpec
    noc: NocSpec
    l2: CacheSpec
    dram: DramSpec
    sources: dict[str, str] = field(default_factory=dict)
    description: str = ""
    mwp: MwpSpec = field(default_factory=MwpSpec)
    dvfs: DvfsSpec = field(default_factory=DvfsSpec)
    order: OrderSpec = field(default_factory=OrderSpec)


# -- The latency of an op class on a GPU.

# What issues and is done: nothing waits on its result longer than on its issue.
ISSUE_ONLY = ("branch", "barrier", "control")


def op_latency(gpu: GpuSpec, op_class: str, instruction: str) -> int:
    """Cycles from issue to dependent issue. Raises SpecError, naming the `instruction`, for a class that `gpu` gives none for."""
    if op_class in gpu.latency_cycles:
        return gpu.latency_cycles[op_class]
    hint = suggestion(op_class, gpu.latency_cycles)
    raise SpecError(
        f'{instruction} is of op class "{op_class}", for which {gpu.name} gives no latency{hint}',
        place=f"latency.{op_class}",
        remedy=f"add `latency: {{{op_class}: N cycles}}` to the GPU description; it has {', '.join(sorted(gpu.latency_cycles))}",
    )


# -- What a GPU can do at most, as it is described.

_LANES = 32


def peak_flops(gpu: GpuSpec, op_class: str) -> float:
    """Operations a second of `op_class`, a multiply-add counted as two: what all SMs can begin, as the GPU is described.

    A scheduler begins a warp instruction of the class every initiation interval, and no more instructions than its issue width.
    """
    every = max(gpu.initiation_cycles[op_class], 1 / gpu.sm.issue_width)
    return gpu.sm_count * gpu.sm.schedulers * _LANES * 2 * gpu.core_clock_hz / every


# -- The GPU by whose timing the cache simulation orders accesses.

def ordered(gpu: GpuSpec) -> GpuSpec:
    """`gpu` with the timing of its `order` in place of its own: what caches are simulated with. Its geometry stays its own."""
    order = gpu.order
    l1 = replace(
        gpu.l1, mshrs=order.l1_mshrs or gpu.l1.mshrs, latency_cycles=order.l1_latency_cycles or gpu.l1.latency_cycles
    )
    l2 = replace(
        gpu.l2, mshrs=order.l2_mshrs or gpu.l2.mshrs, latency_cycles=order.l2_latency_cycles or gpu.l2.latency_cycles
    )
    noc = replace(gpu.noc, bandwidth_bytes_per_s=order.noc_bandwidth_bytes_per_s or gpu.noc.bandwidth_bytes_per_s)
    dram = replace(
        gpu.dram,
        bandwidth_bytes_per_s=order.dram_bandwidth_bytes_per_s or gpu.dram.bandwidth_bytes_per_s,
        latency_cycles=order.dram_latency_cycles or gpu.dram.latency_cycles,
    )
    return replace(gpu, core_clock_hz=order.core_clock_hz or gpu.core_clock_hz, l1=l1, l2=l2, noc=noc, dram=dram)
