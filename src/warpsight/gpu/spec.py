"""What a GPU is, to every other part of Warpsight: the table of the keys of a description, and the frozen spec made of it.

A field of a spec is a key: its annotation holds unit, meaning, bounds and the step of a prediction that reads it first. The name of
the key is the field's without the unit (`l1.size` for `l1.size_bytes`), its default the field's. Files, `GpuSpec`, `Design`,
what a sweep shares, the documentation and error messages follow this table; nothing else lists the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, get_type_hints

from warpsight.base.units import BANDWIDTH, CYCLES, ENERGY, FREQUENCY, POWER, SIZE, TIME, format_quantity
from warpsight.gpu.key import (
    CACHES,
    MODEL,
    PROFILE,
    PROGRAM,
    RESIDENCY,
    SIMULATOR,
    Key,
    bandwidth,
    count,
    cycles,
    flag,
    share,
    size,
    time,
    word,
)
from warpsight.gpu.power import PowerSpec

CAPABILITIES = ("none", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")

Content = int | float | bool | str
"""A value of a key: a number in base units, a flag or a word."""

_CUDA = "default: CUDA occupancy rules, the same on every GPU of compute capability 5.0 to 9.0"
_LIKE_SIMULATORS = "default: estimated, as detailed simulators have it"
_AS_STREAMS = "default: the bandwidth is what streams reach"
_CALIBRATED = "estimated: calibrated against the cycle-level simulator, see docs/explanation/caches.md"
_NO_COST = "default: nothing, as detailed simulators have it"
_NO_ROWS = "default: nothing, as dram.row"
_UNTIMED = "default: nothing, as in the papers' simulators"


@dataclass(frozen=True)
class SmSpec:
    """One streaming multiprocessor: what limits residency, and how it issues.

    As CUDA's occupancy rules have it, registers of a warp and shared memory of a block are multiples of `*_unit`.
    """

    max_warps: Annotated[int, count("warp slots of an SM", RESIDENCY, most=1024)]
    max_blocks: Annotated[int, count("block slots of an SM", RESIDENCY, most=1024)]
    registers: Annotated[int, count("32-bit registers of an SM", RESIDENCY, most=2**24)]
    shared_memory_bytes: Annotated[int, size("shared memory of an SM", RESIDENCY, least=0)]
    schedulers: Annotated[int, count("warp schedulers of an SM; warps and registers are split evenly among them", CACHES, most=64)]
    issue_width: Annotated[int, count("warp instructions that one scheduler issues a cycle", CACHES, most=16)]
    policy: Annotated[str, word("which eligible warp issues: lrr round-robin, gto greedy then oldest", CACHES, "lrr", "gto")]
    max_threads_per_block: Annotated[int, count("largest block", RESIDENCY, reason=_CUDA, most=1024)] = 1024
    max_registers_per_thread: Annotated[int, count("most registers a thread can have", RESIDENCY, reason=_CUDA, most=1024)] = 255
    register_unit: Annotated[int, count("registers of a warp come in multiples of this", RESIDENCY, reason=_CUDA)] = 256
    shared_memory_unit_bytes: Annotated[int, size(
        "shared memory of a block is allocated in multiples of this", RESIDENCY, reason=_CUDA)] = 256
    shared_memory_banks: Annotated[int, count(
        "shared-memory banks, 4 B wide; a trace counts the conflicts of 32", PROFILE,
        reason="default: CUDA, 32 banks since compute capability 2.0", most=1024)] = 32
    access_queue: Annotated[int, count(
        "memory instructions that wait, issued and in order, for the load-store unit", CACHES, reason=_CALIBRATED, most=1024)] = 20
    access_interval_cycles: Annotated[int, cycles(
        "between two memory instructions of machine code that the load-store unit of the SM begins", PROFILE, most=64,
        reason="default: one a cycle, as 32 lanes of an SM load and store")] = 1
    access_width_bytes: Annotated[int, size(
        "bytes a cycle between registers and L1 or shared memory, for machine code; 0 B: a line, or a pass through the banks",
        PROFILE, least=0, reason="default: 32 banks of 4 B, a line of 128 B")] = 0
    atomic_lane_cycles: Annotated[int, cycles(
        "of the load-store unit for each further lane of a shared-memory atomic at the same address", PROFILE, least=0, most=1024,
        reason=_UNTIMED)] = 0
    barrier_interval_cycles: Annotated[int, cycles(
        "between two warps that arrive at barriers, in machine code", PROFILE, least=0, most=1024, reason=_UNTIMED)] = 0
    barrier_latency_cycles: Annotated[int, cycles(
        "from the last arrival at a barrier until its block goes on", PROFILE, least=0, most=1024, reason=_UNTIMED)] = 0
    fetch_width: Annotated[int, count(
        "instructions that a warp's buffer takes at a time, of one warp of the SM a cycle, in the simulator; 0: fetch is no limit",
        SIMULATOR, least=0, most=64, reason="default: no limit")] = 0
    max_shared_memory_per_block_bytes: Annotated[int, size(
        "most shared memory of one block; 0 B: all", RESIDENCY, reason="default: all of the SM's", least=0)] = 0
    shared_memory_reserved_bytes: Annotated[int, size(
        "shared memory of each block that the system takes", RESIDENCY,
        reason="default: CUDA takes none before compute capability 8.0", least=0)] = 0
    cluster_latency_cycles: Annotated[int, cycles(
        "round trip of a load from shared memory of another block of the cluster, without conflicts; 0: latency.shared", PROFILE,
        least=0, reason="default: as in the block's own shared memory")] = 0
    cluster_width_bytes: Annotated[int, size(
        "bytes a cycle between an SM and the shared memory of other blocks of the cluster, in each direction; 0 B: as in its own",
        PROFILE, least=0, reason="default: as in the block's own shared memory")] = 0
    coalescing: Annotated[str, word(
        "transactions of a warp, as mwp-cwp counts them: distinct L1 sectors, or the rules of compute capability 1.0 or 1.3",
        PROFILE, "sectors", "cc1.0", "cc1.3")] = "sectors"


@dataclass(frozen=True)
class CacheSpec:
    """A set-associative cache: what L1 and L2 have in common. `index` is a rule of `addressing.mapping`."""

    size_bytes: Annotated[int, size("capacity, {all}", CACHES)]
    line_bytes: Annotated[int, size("cache line, a power of two", CACHES, least=32)]
    sector_bytes: Annotated[int, size(
        "what a miss fetches, a power of two that divides the line", CACHES,
        default="={level}.line", reason="default: not sectored", least=32)]
    ways: Annotated[int, count("lines in a set", CACHES, most=4096)]
    mshrs: Annotated[int, count("miss registers per {one}: lines that can be in flight", CACHES)]
    targets: Annotated[int, count(
        "requests that one miss register can hold, in the simulator", SIMULATOR, default="64", reason="default: estimated")]
    latency_cycles: Annotated[int, cycles("round trip of a hit seen by the SM, without contention", PROFILE, orders=True)]
    index: Annotated[str, word(
        "set of a line: modulo; xor and fermi fold higher bits in (2^n sets)", CACHES, "modulo", "xor", "fermi")] = "modulo"
    replacement: Annotated[str, word("which line leaves a full set: {replacement}", CACHES, "lru", "random")] = "lru"
    write_policy: Annotated[str, word(
        "when a write goes on: at once, or when its line leaves; only {policy} is modelled", CACHES,
        "write-through", "write-back")] = "write-through"
    write_allocate: Annotated[bool, flag("whether a write that misses takes a line; only {allocates} is modelled", CACHES)] = False
    slices: int = 1

    @property
    def sets(self) -> int:
        """Sets in one slice."""
        return self.size_bytes // (self.line_bytes * self.ways * self.slices)


@dataclass(frozen=True)
class L1Spec(CacheSpec):
    """The L1 of one SM: write-through, without write allocation."""

    mshrs: Annotated[int, count("miss registers per {one}: lines that can be in flight", MODEL, orders=True)]
    warp_mshrs: Annotated[int, count(
        "miss registers for one warp, in the reuse-distance model; 0: all of the L1's", CACHES, least=0,
        reason="default: no limit of its own")] = 0
    miss_queue: Annotated[int, count(
        "packets that wait in the L1 for the network, in the simulator", SIMULATOR, reason=_LIKE_SIMULATORS)] = 16
    allocation: Annotated[str, word(
        "when a miss takes a line of its set: at once, or with its data (streaming)", CACHES, "on-miss", "on-fill")] = "on-miss"
    tag_lookups: Annotated[int, count(
        "lines of a load (2^n) looked up in a cycle if their lowest bits differ", CACHES, most=32, reason="default: one")] = 1
    carve_out: Annotated[bool, flag(
        "whether shared memory that a launch does not need becomes L1, in the steps of the compute capability", CACHES)] = False


@dataclass(frozen=True)
class L2Spec(CacheSpec):
    """The L2: `slices` equal parts, `size_bytes` in all; write-back, with write allocation."""

    write_policy: Annotated[str, word(
        "when a write goes on: at once, or when its line leaves; only {policy} is modelled", CACHES,
        "write-through", "write-back")] = "write-back"
    write_allocate: Annotated[bool, flag("whether a write that misses takes a line; only {allocates} is modelled", CACHES)] = True
    slices: Annotated[int, count("equal parts of the L2, each with its own port", CACHES, most=4096)] = field(kw_only=True)
    slice_interleave_bytes: Annotated[int, size(
        "consecutive bytes that one slice holds, a power of two", CACHES, reason="default: estimated")] = 256
    slice_index: Annotated[str, word(
        "how addresses go to slices: round-robin (modulo), or round-robin from a start that a hash of the address gives", CACHES,
        "modulo", "hash")] = "modulo"
    atomic_width_bytes: Annotated[int, size(
        "of a sector that a slice changes in a cycle for an atomic; each lane at the same address takes a cycle", CACHES, most=32,
        reason="default: a sector a cycle, as any access")] = 32
    far_latency_cycles: Annotated[int, cycles(
        "what a hit in the other of two partitions adds to the round trip; 0: one partition", CACHES, least=0,
        reason="default: one partition")] = 0
    merged_reads: Annotated[int, count(
        "of a sector that a slice answers together, while one is on its way", CACHES, most=1024, reason="default: each alone")] = 1
    partial_writes: Annotated[str, word(
        "what becomes of a sector that is written in part and not there: it is fetched first, or its bytes are marked (mask)",
        CACHES, "fetch", "mask")] = "fetch"
    dirty_share: Annotated[float, share("most of a set's lines that are dirty; with more, the least recently used is written back",
                                        CACHES, reason="default: all of them")] = 1.0


@dataclass(frozen=True)
class NocSpec:
    """The network between SMs and L2."""

    bandwidth_bytes_per_s: Annotated[float, bandwidth("between all SMs and the L2, one direction, aggregate", MODEL, orders=True)]
    queue: Annotated[int, count(
        "requests of an SM that its queue holds, which blocks a streaming L1; 0: no bound", MODEL, least=0,
        reason="default: no bound, since the L1's miss registers block first")] = 0
    flit_bytes: Annotated[int, size(
        "data that a port passes as one piece; a packet is at least one, in the simulator", SIMULATOR,
        reason="default: one sector")] = 32
    store_time_cycles: Annotated[int, cycles(
        "of an SM's port for a store of a part of a sector or a sector of an atomic: a third each for header, mask of bytes, data",
        MODEL, least=0, most=1024, reason="default: its data's time at the bandwidth")] = 0
    tpc_sms: Annotated[int, count("SMs of a TPC, which sends a load request per cycle", MODEL, most=64, reason="default: one")] = 1
    buffer: Annotated[int, count("packets that wait at each slice and SM", SIMULATOR, reason=_LIKE_SIMULATORS, most=4096)] = 64


@dataclass(frozen=True)
class DramSpec:
    """Device memory."""

    bandwidth_bytes_per_s: Annotated[float, bandwidth("peak of all channels together", MODEL, orders=True)]
    efficiency: Annotated[float, share(
        "what a stream of reads reaches of the peak: refresh, activations that nothing hides", MODEL, orders=True,
        reason=_AS_STREAMS)] = field(default=1.0, kw_only=True)
    channels: Annotated[int, count("memory channels", CACHES, most=4096)]
    latency_cycles: Annotated[int, cycles(
        "what an access adds to an L2 hit's round trip, without contention", PROFILE, least=0, orders=True)]
    queue: Annotated[int, count(
        "accesses that wait at a channel; so many writes go out together, and accesses to a row", CACHES,
        reason=_LIKE_SIMULATORS, most=4096)] = 64
    row_bytes: Annotated[int, size(
        "bytes of an open row of a bank; 0 B: rows cost nothing", CACHES, reason=_AS_STREAMS, least=0)] = 0
    banks: Annotated[int, count(
        "banks of a channel, each with an open row, in the simulator", SIMULATOR,
        reason="default: JEDEC GDDR5 (JESD212), 16 banks", most=32)] = 16
    activate_cycles: Annotated[int, cycles(
        "opening a row, a part of dram.latency, in the simulator", SIMULATOR, reason=_NO_ROWS, least=0)] = 0
    precharge_cycles: Annotated[int, cycles(
        "closing a row before another opens, in the simulator", SIMULATOR, reason=_NO_ROWS, least=0)] = 0
    row_interval_ns: Annotated[float, time(
        "between two rows that a channel opens, whatever their banks", MODEL, reason=_NO_ROWS)] = 0.0
    turnaround_cycles: Annotated[int, cycles(
        "idle time of the bus between reads and writes, each way", MODEL, least=0, reason="default: nothing, as in streams")] = 0


@dataclass(frozen=True)
class DispatchSpec:
    """What it costs to launch a grid and to place its blocks on the SMs."""

    grid_cycles: Annotated[int, cycles(
        "to begin and to end a grid, however many blocks it has", MODEL, reason=_NO_COST, least=0)] = 0
    parameter_reads: Annotated[int, count(
        "round trips to the L2 before the first warps of a kernel that uses memory have its parameters", MODEL, reason=_NO_COST,
        least=0)] = 0
    block_interval_ns: Annotated[float, time(
        "between two blocks that the GPU sends to its SMs; 0 ns: an SM gets one every cycle", MODEL, reason=_NO_COST)] = 0.0
    block_cycles: Annotated[int, cycles(
        "from the end of a block until the next one starts in its place", MODEL, reason=_NO_COST, least=0)] = 0
    warp_cycles: Annotated[int, cycles("between the starts of two warps of a block", MODEL, reason=_NO_COST, least=0)] = 0
    launch_interval_ns: Annotated[float, time(
        "between two launches that the host issues, a property of driver and host, for programs", PROGRAM, reason=_NO_COST)] = 0.0


@dataclass(frozen=True)
class Reference:
    """The GPU that a design is a change of: its timing orders the accesses in the cache simulation, unless the method says `own`.

    `like` is its name in the catalogue or its file. `timing` holds its values of the keys that order accesses (`Key.orders`).
    """

    like: str = field(compare=False)
    timing: Mapping[str, Content]


@dataclass(frozen=True)
class GpuSpec:
    """A GPU. `latency_cycles` and `initiation_cycles` are by op class. `sources` maps keys to where numbers come from.

    `parameters` are those of models that the description states, by name (`crisp.target_clock`), in base units. `reference` is the
    catalogue's GPU or the file that the description is `like`, however many files deep, itself if it is like none; None for a GPU
    that was made in Python, which is its own.
    """

    name: str
    core_clock_hz: Annotated[float, Key("", FREQUENCY, "clock of the SMs; all cycles count it", 1e6, 1e11, step=MODEL, orders=True)]
    sm_count: Annotated[int, count("streaming multiprocessors", CACHES, most=2**16)]
    sm: SmSpec
    latency_cycles: dict[str, int]
    initiation_cycles: dict[str, int]
    l1: L1Spec
    noc: NocSpec
    l2: L2Spec
    dram: DramSpec
    compute_capability: Annotated[str, word(
        "whose machine code the GPU executes; none: kernels are executed as PTX", CACHES, *CAPABILITIES)] = "none"
    gpc_count: Annotated[int, count(
        "graphics processing clusters (GPCs), among which the SMs are divided in pairs: a thread block cluster is on one of them; "
        "0: on any SMs", CACHES, least=0, most=1024, reason="default: any SMs, as of GPUs without clusters")] = 0
    dispatch: DispatchSpec = field(default_factory=DispatchSpec)
    power: PowerSpec = field(default_factory=PowerSpec)
    sources: dict[str, str] = field(default_factory=dict)
    description: str = ""
    parameters: dict[str, Content] = field(default_factory=dict)
    reference: Reference | None = None

    @cached_property
    def by_key(self) -> Mapping[str, Content]:
        """Every value by key, in the order of the table, then parameters. Op classes that it lacks are absent."""
        values = {name: value_of(self, key) for name, key in KEYS.items()}
        return {name: value for name, value in values.items() if value is not None} | self.parameters


# Op classes, what they mean, and the class whose numbers one without a statement has; itself: the GPU may lack it.
_OP_CLASSES = (
    ("int", "integer and logic operations, conversions, moves", ""),
    ("fp32", "32-bit floating point", ""),
    ("fp64", "64-bit floating point", ""),
    ("sfu", "special functions: reciprocal, square root, sine, exponential", ""),
    ("shared", "shared-memory access without bank conflict", ""),
    ("fp16", "16-bit floating point", "fp32"),
    ("tensor", "warp matrix multiply, 16x8x16 of 16-bit numbers with 16-bit sums; none: the GPU has no tensor cores", "tensor"),
    ("tensor_half", "one of half the depth, of any type but fp64; none: as the first of two steps of the whole one", "tensor_half"),
    ("tensor_fp32acc", "warp matrix multiply, 16x8x16 of 16-bit numbers with 32-bit sums", "tensor"),
    ("tensor_tf32", "warp matrix multiply, 16x8x8 of tf32", "tensor_fp32acc"),
    ("tensor_int8", "warp matrix multiply, 16x8x32 of 8-bit integers", "tensor"),
    ("tensor_int4", "warp matrix multiply, 16x8x64 of 4-bit integers; none: the GPU does not have it", "tensor_int4"),
    ("tensor_b1", "warp matrix multiply, 16x8x256 of bits; none: the GPU does not have it", "tensor_b1"),
    ("tensor_fp64", "warp matrix multiply, 16x8x4 of fp64; none: the GPU does not have it", "tensor_fp64"),
    ("tensor_fp8", "warp matrix multiply, 16x8x32 of 8-, 6- or 4-bit floats with 16-bit sums; none: the GPU does not have it",
     "tensor_fp8"),
    ("tensor_fp8_fp32acc", "the same with 32-bit sums", "tensor_fp8"),
    ("tensor_fp4", "warp matrix multiply, 16x8x64 of 4-bit floating point with block scales; none: the GPU does not have it",
     "tensor_fp4"),
    ("tensor_group", "multiply of a warp group (wgmma), for each 16x8x16 of a warp or 256 bits; none: the GPU does not have it",
     "tensor_group"),
    ("imad", "32-bit integer multiply-add of machine code, on the fp32 pipe", "fp32"),
    ("uniform", "operations of machine code on uniform registers", "int"),
    ("constant", "load of machine code from the constant cache", "int"),
)
OP_CLASSES = tuple(name for name, _, _ in _OP_CLASSES)
TENSOR, HALF = "tensor", "tensor_half"
KINDS_OF_PRODUCTS = tuple(name for name in OP_CLASSES if name.startswith(TENSOR) and name != HALF)

# how the attribute of a key is named: the key, and the base unit of its dimension
_UNIT_SUFFIXES = {SIZE: "_bytes", CYCLES: "_cycles", FREQUENCY: "_hz", BANDWIDTH: "_bytes_per_s", TIME: "_ns",
                  POWER: "_w", ENERGY: "_pj"}  # fmt: skip
_CACHE_WORDS = {
    "l1": {"level": "l1", "all": "per SM", "one": "L1", "policy": "write-through", "allocates": "false",
           "replacement": "the least recently used; only lru is modelled"},
    "l2": {"level": "l2", "all": "all slices together", "one": "slice", "policy": "write-back", "allocates": "true",
           "replacement": "the least recently used, or any (random)"},
}


# -- The table: every key by name, in the order in which descriptions are printed.

def content_text(kind: str, content: Content) -> str:
    """A value of a key of that `kind` as a file writes it."""
    if isinstance(content, bool):
        return str(content).lower()
    return content if isinstance(content, str) else format_quantity(content, kind)


def _section_keys(section: str, spec: Any) -> Iterator[Key]:
    """The keys of one part of the spec, by the annotations of its fields."""
    hints, wording = get_type_hints(spec, include_extras=True), _CACHE_WORDS.get(section, {})
    prefix = f"{section}." if section else ""
    for each in fields(spec):
        for key in getattr(hints[each.name], "__metadata__", ()):
            default = None if each.default is MISSING else content_text(key.kind, each.default)
            yield replace(
                key,
                name=prefix + each.name.removesuffix(_UNIT_SUFFIXES.get(key.kind, "")),
                path=prefix + each.name,
                meaning=key.meaning.format(**wording),
                default=key.default.format(**wording) if key.default else default,
            )


def _op_keys(section: str, meaning: str, step: str, default: str | None, reason: str) -> Iterator[Key]:
    """The keys of a section by op class."""
    for op, use, like in _OP_CLASSES:
        own, why = (default, reason) if not like else ("", "") if like == op else (f"={section}.{like}", f"default: as {like}")
        yield replace(
            cycles(f"{meaning}: {use}", step, default=own, reason=why), name=f"{section}.{op}", path=f"{section}_cycles[{op}]"
        )


def _table() -> Iterator[Key]:
    yield from _section_keys("", GpuSpec)
    for name, hint in get_type_hints(GpuSpec).items():
        if is_dataclass(hint):
            yield from _section_keys(name, hint)
        elif name == "latency_cycles":
            yield from _op_keys("latency", "issue to dependent issue", CACHES, None, "")
        elif name == "initiation_cycles":
            meaning = "between two warp instructions of a scheduler"
            yield from _op_keys("initiation", meaning, PROFILE, "1 cycle", "default: fully pipelined")


KEYS: dict[str, Key] = {key.name: key for key in _table()}
SECTIONS: tuple[str, ...] = tuple(dict.fromkeys(name.partition(".")[0] for name in KEYS if "." in name))


def value_of(gpu: GpuSpec, key: Key) -> Content | None:
    """The value of `key` on `gpu`, in base units; None where the GPU lacks what it describes, or does not state the parameter."""
    if not key.path:
        return gpu.parameters.get(key.name)
    path, _, op = key.path.partition("[")
    value: Any = attrgetter(path)(gpu)
    return value.get(op[:-1]) if op else value  # type: ignore[no-any-return]


def changed(gpu: GpuSpec, values: Mapping[str, Content]) -> GpuSpec:
    """`gpu` with other `values` by key, in base units. Nothing is checked."""
    parts: dict[str, dict[str, Content]] = {}
    own: dict[str, Any] = {}
    for name, value in values.items():
        section, _, attribute = KEYS[name].path.partition(".")
        if attribute:
            parts.setdefault(section, {})[attribute] = value
        else:
            own[section] = value
    return replace(gpu, **own, **{section: replace(getattr(gpu, section), **part) for section, part in parts.items()})
