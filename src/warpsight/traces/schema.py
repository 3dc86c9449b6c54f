"""The trace: the contract between producers of memory and instruction streams and the models.

Nothing in a trace depends on a cache, a latency or an SM count. One `KernelTrace` per launch.

**Static part.** One `StaticInstruction` per instruction of the trace's level: PTX, or machine code (`sass`); its `pc` is its index.
Basic blocks are runs of consecutive pcs.

**Dynamic part.** Warps are numbered over the launch: warp `w` is warp `w % warps_per_block` of block `w // warps_per_block`
(blocks in x-fastest order). Each warp has

* a *path*: the basic blocks it executed, as runs `(block, active lanes, repeat)`. Warps that did the same share one path;
* *events*: one small record per executed memory instruction, and per barrier for a part of a block, in path order, also when the
  guard left no lane active (zeros then). Its bytes are, in this order and each only where it applies: number of sectors (spaces
  global, local, generic), bank-conflict degree (spaces shared, generic: passes through the banks), most lanes that share one
  address (atomics), and what it does at an mbarrier, or at a barrier for a part of a block (`BARRIER_RECORD`);
* *sectors*: for each event with sectors, that many 32-byte sector numbers (byte address // 32, lane order, duplicates merged).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from warpsight.base.display import DISPLAY
from warpsight.isa.matrix_products import matrix_product
from warpsight.isa.sass.native import NO_BARRIER
from warpsight.kernels.launch import LaunchShape

SCHEMA_VERSION = 7
LEVELS = ("ptx", "sass")
SECTOR_BYTES = 32
WARP_SIZE = 32

NEXT_GROUP = -2  # of `StaticInstruction.wait_groups`

# Where an event says what its instruction does at an mbarrier, at the end. `object` is the mbarrier's place in the shared memory of
# the block, in units of 8 bytes. `amount`: arrivals; of a test the parity of the phase that it waits for. `bytes` that the phase
# has to wait for beyond them, below 0 if they have come. `expected`: the arrivals of a phase of this mbarrier; of a copy with a
# multicast the ranks of the blocks that its data reach, as a mask; of another copy 0. `blocks`: the ranks of the blocks of the
# cluster at whose mbarrier at that place this happens, as a mask, `amount` and `bytes` at each; 0: at that of its own block.
BARRIER_RECORD = np.dtype([("object", "<u2"), ("amount", "<u2"), ("bytes", "<i4"), ("expected", "<u2"), ("blocks", "<u2")])
NO_OBJECT = 0xFFFF  # no lane was active
# A barrier that counts threads (`bar.sync a, b`) is an object, too: NAMED_BARRIER + a, beyond any shared memory. Each warp arrives
# with 32 threads (one whose lanes come one by one with those that come), and a phase expects b. `bytes` and `blocks` are 0.
NAMED_BARRIER = 0xFF00

GROUP_KINDS = COPIES, PRODUCTS, WRITES, READS = "copies", "products", "writes", "reads"

LOAD, STORE, ATOMIC = ACCESSES = "load", "store", "atomic"
_GROUP_PRODUCTS = ("wgmma", "HGMMA", "IGMMA", "QGMMA", "BGMMA")
_TENSOR_MEMORY_PRODUCTS = ("tcgen05.mma", "UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA")
SECTOR_SPACES = ("global", "local", "generic")
BANK_SPACES = ("shared", "generic")


@lru_cache(1 << 10)  # asked of all instructions for each design, and there are few opcodes
def _is_block_barrier(opcode: str) -> bool:
    base, *modifiers = opcode.lower().split(".")
    return base in ("bar", "barrier") and not {"warp", "arrive", "arv"}.intersection(modifiers)  # arrive: PTX, arv: SASS


@dataclass(frozen=True, slots=True)
class StaticInstruction:
    """One instruction of the kernel as written.

    `op_class` is a key of the GPU description's `latency` (int, fp32, fp64, sfu, shared, ...) or `branch`, `barrier`, `memory`,
    `control`. `space` and `access` are empty unless it touches memory; `access` is load, store or atomic; `access_bytes` per lane.
    `sources` and `destinations` are dense register numbers, predicates (and the guard) included. The next four are the control word
    of machine code (`isa/sass/native.py`): cycles before the next instruction may issue, the barriers released when the result is
    written and when the operands have been read, and the barriers waited for as a mask. `wait_groups` (-1: none) makes it wait
    for asynchronous copies: at most so many of the groups closed before it may still be on their way. `NEXT_GROUP` is a wait on an
    mbarrier where copies arrive on mbarriers: for the oldest group of its warp that the warp has not waited for in this way. Its
    event counts sectors, if any, in `count_bytes`, the lowest first: 3 of a bulk copy, which may move millions of bytes.
    `wait_kind`, one of `GROUP_KINDS`, is what its groups are of: asynchronous copies of lanes, products of warp groups, writes of
    bulk copies, and what these read in shared memory. `at_barrier`: its event ends with a `BARRIER_RECORD`, also of a barrier that
    counts threads. `ends_products`: a product of machine code with which a group of them ends.
    """

    pc: int
    opcode: str
    op_class: str
    destinations: tuple[int, ...]
    sources: tuple[int, ...]
    space: str
    access: str
    access_bytes: int
    file: str
    line: int
    ptx_line: int
    stall: int = 0
    write_barrier: int = NO_BARRIER
    read_barrier: int = NO_BARRIER
    waits: int = 0
    wait_groups: int = -1
    count_bytes: int = 1
    wait_kind: str = COPIES
    at_barrier: bool = False
    ends_products: bool = False

    @property
    def is_async_copy(self) -> bool:
        """A copy of each lane from device to shared memory, which no register waits for."""
        return self.access == LOAD and self.opcode.startswith(("LDGSTS", "cp.async.ca", "cp.async.cg"))

    @property
    def bypasses_l1(self) -> bool:
        """An asynchronous copy that takes no line of the L1 on its way, and does not read from it."""
        past_l1 = self.opcode.startswith("LDGSTS") and ".BYPASS" in self.opcode
        return self.is_bulk or past_l1 or self.opcode.startswith("cp.async.cg")

    @property
    def is_bulk(self) -> bool:
        """A bulk or tensor copy between device and shared memory, which the SM's unit for such copies (TMA) makes."""
        return self.count_bytes > 1 and self.has_sectors

    @property
    def is_async_product(self) -> bool:
        """A product of a warp group or with tensor memory, which goes on while the warp issues."""
        return self.op_class == "tensor" and self.opcode.startswith((*_GROUP_PRODUCTS, *_TENSOR_MEMORY_PRODUCTS))

    @property
    def uses_tensor_memory(self) -> bool:
        """A product with tensor memory: one warp issues it, and the tensor cores of all schedulers of the SM make a part of it."""
        return self.op_class == "tensor" and self.opcode.startswith(_TENSOR_MEMORY_PRODUCTS)

    @property
    def commits_products(self) -> bool:
        """It arrives on an mbarrier when the products with tensor memory that its warp has issued before are done."""
        return self.at_barrier and self.opcode.startswith(("tcgen05.commit", "UTCBAR"))

    @property
    def waits_at_barrier(self) -> bool:
        """It waits until a phase of the mbarrier that its event names is over."""
        return self.at_barrier and self.polls_mbarrier and self.wait_groups == -1

    @property
    def joins(self) -> tuple[str, ...]:
        """The kinds of groups that it becomes a part of, as what goes on asynchronously."""
        if self.is_bulk:
            return () if self.access == LOAD else (WRITES, READS)
        return (COPIES,) if self.is_async_copy else (PRODUCTS,) if self.is_async_product and not self.uses_tensor_memory else ()

    @property
    def ends(self) -> tuple[str, ...]:
        """The kinds of groups that end with it."""
        if self.ends_products or self.opcode.startswith("wgmma.commit_group"):
            return (PRODUCTS,)
        if self.opcode.startswith(("cp.async.bulk.commit_group", "UTMACMDFLUSH")):
            return WRITES, READS
        return (COPIES,) if self.closes_group else ()

    @property
    def closes_group(self) -> bool:
        """The asynchronous copies since the last such instruction are a group from here on."""
        return self.opcode.startswith(("LDGDEPBAR", "cp.async.commit_group", "cp.async.wait_all")) or self.arrives_with_copies

    @property
    def arrives_with_copies(self) -> bool:
        """It arrives on an mbarrier when the asynchronous copies before it have."""
        return self.opcode.startswith(("ARRIVES.LDGSTSBAR", "cp.async.mbarrier.arrive"))

    @property
    def polls_mbarrier(self) -> bool:
        """A test of an mbarrier, which a warp repeats until it succeeds."""
        return self.opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait", "SYNCS.PHASECHK"))

    @property
    def product(self) -> tuple[str, float] | None:
        """Of a matrix multiply: its kind and its work, as `isa.matrix_products` has them."""
        return matrix_product(self.opcode) if self.op_class == "tensor" else None

    @property
    def event_bytes(self) -> int:
        """Bytes that this instruction adds to a warp's events each time it executes."""
        return self.sector_bytes + self.has_degree + self.has_sharing + (BARRIER_RECORD.itemsize if self.at_barrier else 0)

    @property
    def sector_bytes(self) -> int:
        """The first bytes of its event, in which sectors are counted; 0 where it has none."""
        return self.count_bytes if self.has_sectors else 0

    @property
    def has_sectors(self) -> bool:
        """Its event counts sectors (first bytes)."""
        return bool(self.access) and self.space in SECTOR_SPACES

    @property
    def has_degree(self) -> bool:
        """Its event holds a bank-conflict degree."""
        return bool(self.access) and self.space in BANK_SPACES

    @property
    def has_sharing(self) -> bool:
        """Its event holds the number of lanes that share an address."""
        return self.access == ATOMIC and self.space in SECTOR_SPACES + BANK_SPACES

    @property
    def adds_lanes_up(self) -> bool:
        """A shared-memory atomic that adds 1 for each lane: the hardware counts the lanes at one address and adds once."""
        return self.opcode.startswith("ATOMS.POPC")

    @property
    def is_fence(self) -> bool:
        """It waits for the accesses that its warp has made before, but not for asynchronous copies."""
        return self.opcode.lower().split(".")[0] in ("membar", "fence")

    @property
    def is_block_barrier(self) -> bool:
        """The whole block waits here, or a part of it. At warp-wide and arrive-only barriers no other warp waits."""
        return _is_block_barrier(self.opcode)

    @property
    def is_timed_barrier(self) -> bool:
        """It arrives at a barrier, in machine code: only there the time of barriers is known."""
        return self.opcode.split(".")[0] == "BAR" and self.stall > 0

    @property
    def waits_for_part(self) -> bool:
        """It arrives at a barrier for a part of a block, and waits there for the others of that part."""
        return self.at_barrier and self.is_block_barrier


# What follows from the code alone is asked for again with every GPU and every change that is evaluated: of so many kernels it is
# kept.
_KERNELS_KEPT = 8
Code = TypeVar("Code", bound=Sequence[StaticInstruction])
Made = TypeVar("Made")
Rest = ParamSpec("Rest")


def kept_of_code(make: Callable[Concatenate[Code, Rest], Made]) -> Callable[Concatenate[Code, Rest], Made]:
    """What `make` makes of instructions, and arrays if it takes any, is kept; nobody may change it.

    Instructions are known by their identity: to compare or to hash all of them takes as long as much of what is made.
    """
    kept: list[tuple[object, tuple[Any, ...], Made]] = []

    @wraps(make)
    def kept_or_made(instructions: Code, /, *rest: Rest.args, **named: Rest.kwargs) -> Made:
        arrays: tuple[Any, ...] = (*rest, *named.values())
        for same, others, made in kept:
            if same is instructions and all(np.array_equal(one, other) for one, other in zip(arrays, others, strict=True)):
                return made
        made = make(instructions, *rest, **named)
        kept[:] = [(instructions, arrays, made), *kept[: _KERNELS_KEPT - 1]]
        return made

    return cast(Callable[Concatenate[Code, Rest], Made], kept_or_made)


def products_are_awaited(instructions: Sequence[StaticInstruction]) -> bool:
    """Whether waits for products are known; else, as in traces of other tools, registers say who waits for a product."""
    return any(i.commits_products or (i.wait_kind == PRODUCTS and i.wait_groups >= 0) for i in instructions)


@dataclass(frozen=True)
class PathTable:
    """The distinct dynamic streams. Path p is entries `offset[p]:offset[p+1]` of `block`, `lanes` and `repeat`.

    `block` int32 basic-block number, `lanes` uint8 active lanes at its entry, `repeat` int32 times in succession (>= 1).
    """

    offset: npt.NDArray[np.int64]
    block: npt.NDArray[np.int32]
    lanes: npt.NDArray[np.uint8]
    repeat: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offset) - 1


@dataclass(frozen=True)
class TraceChunk:
    """The dynamic part of consecutive warps (whole blocks): warps `first_warp` .. `first_warp + len(path)`.

    `path` int32 [n]; `event_offset`, `sector_offset` int64 [n + 1] into `events` uint8 and `sectors` uint32.
    `loops`: of packed streams, int64 [n, 5] (`packing.Loop`).
    """

    first_warp: int
    path: npt.NDArray[np.int32]
    event_offset: npt.NDArray[np.int64]
    events: npt.NDArray[np.uint8]
    sector_offset: npt.NDArray[np.int64]
    sectors: npt.NDArray[np.uint32]
    loops: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class TraceHeader(LaunchShape):
    """What was run, as instructions of `level`.

    `cluster` is the shape of a thread block cluster, in blocks: (1, 1, 1) where the launch has none.

    `registers_from` is the origin of `registers_per_thread`: assembler, override, trace or estimate.

    `warp_instructions` and `thread_instructions` are of the whole launch. If only some blocks are recorded, `sampled_blocks` is
    their number and `sampled_instructions` their warp instructions (else both are 0), and `thread_instructions` is scaled to the
    launch.
    """

    kernel: str
    mangled: str
    source: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared_bytes: int
    dynamic_shared_bytes: int
    registers_per_thread: int
    registers_from: str
    target: str
    kernel_hash: str
    input_hash: str
    warp_instructions: int
    thread_instructions: int
    emulation_seconds: float
    tool_version: str
    sampled_blocks: int = 0
    sampled_instructions: int = 0
    level: str = "ptx"
    cluster: tuple[int, int, int] = (1, 1, 1)
    schema: int = SCHEMA_VERSION

    @property
    def recorded_blocks(self) -> int:
        """Blocks in the trace."""
        return self.sampled_blocks or self.blocks

    @property
    def recorded_instructions(self) -> int:
        """Warp instructions in the trace."""
        return self.sampled_instructions if self.sampled_blocks else self.warp_instructions

    @property
    def warps(self) -> int:
        """Warps in the trace."""
        return self.recorded_blocks * self.warps_per_block


class ChunkSource(ABC):
    """Where a trace's chunks come from: memory, or a folder that is read piece by piece. `held`: each iteration gives the same
    objects, so that what is made of a chunk can be kept.
    """

    held: bool = False

    @abstractmethod
    def __iter__(self) -> Iterator[TraceChunk]: ...

    def packed(self) -> Iterator[TraceChunk]:
        """The chunks with their loops packed, where the source has them so: for readers of paths, and of such streams."""
        return iter(self)


class InMemory(ChunkSource):
    """Chunks held in memory, in warp order."""

    held = True

    def __init__(self, chunks: list[TraceChunk]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[TraceChunk]:
        return iter(self._chunks)


_MOST_KEPT = 2 << 20  # bytes of events of which something is kept with a trace: some hundred bytes each


@dataclass(frozen=True)
class KernelTrace:
    """One launch: header, static instructions, basic blocks, paths, and the warps' streams in chunks.

    `block_start` int32 [basic blocks + 1]: basic block b holds pcs `block_start[b]` .. `block_start[b + 1]`.
    Iterate `chunks` as often as needed; a stored trace is read from disk each time. `waves`: what was executed for a trace of
    sampled waves, which has the measured blocks alone. `kept` has what was made of this trace and is needed again; a trace that
    is made of it by `replace` begins without.
    """

    header: TraceHeader
    instructions: tuple[StaticInstruction, ...] = field(repr=False)
    block_start: npt.NDArray[np.int32] = field(repr=False)
    paths: PathTable = field(repr=False)
    chunks: ChunkSource = field(repr=False)
    origin: str = ""
    notes: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    waves: WaveSample | None = field(default=None, repr=False)
    kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def uses_memory(self) -> bool:
        """Whether it has an access to device memory."""
        return any(each.has_sectors for each in self.instructions)

    def once(self, name: str, chunk: TraceChunk, make: Callable[[], Made]) -> Made:
        """What `make` makes of a chunk, some numbers for each event: once, if the trace holds its chunks and they are small."""
        if not self.chunks.held or not any(chunk is each for each in self.chunks):
            return make()
        if (name, id(chunk)) not in self.kept:
            made, left = make(), self.kept.get("room", _MOST_KEPT) - len(chunk.events)
            if left < 0:
                return made
            self.kept[name, id(chunk)], self.kept["room"] = made, left
        found: Made = self.kept[name, id(chunk)]
        return found

    def remote(self) -> frozenset[int]:
        """The pcs whose accesses to shared memory are to that of another block of the cluster.

        PTX says so, or has generic addresses. Machine code has these alone for other blocks, and others for its own shared memory.
        """
        if self.header.cluster_blocks == 1:
            return frozenset()
        shared = [each for each in self.instructions if each.has_degree]
        return frozenset(each.pc for each in shared if "shared::cluster" in each.opcode or each.space == "generic")

    def _repr_html_(self) -> str | None:
        return DISPLAY.html(self)


@dataclass(frozen=True)
class WaveSample:
    """Sampled waves of a launch: the trace of all blocks that were `executed`, in their order, and what they are there for.

    `label` int64 [executed blocks]: 0 of a block that only warms the caches up; else the number of the measured wave, of which 1 is
    the launch's first and the largest its last. `start` int64: where, among the executed blocks, those that follow each other in
    the launch begin; `first` int64: the number in the launch of the first block of each. `kept` has results that are expensive to
    make again, and `stretches` such of stretches, which samples of the launch with the same ones share.
    Waves of long blocks are simulated `apart`, on so many `threads` of this machine. Blocks of a stretch begin then at a `place` of
    their loops, float64, between 0 and 1.
    """

    executed: KernelTrace
    label: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    place: npt.NDArray[np.float64]
    kept: dict[str, Any] = field(default_factory=dict, compare=False)
    stretches: dict[str, dict[Any, Any]] = field(default_factory=dict, compare=False)
    threads: int = field(default=1, compare=False)
    apart: bool = False

    @property
    def measured(self) -> int:
        """How many waves are measured."""
        return int(self.label.max())


# -- Where a producer stores a trace.

class TraceSink(Protocol):
    """Takes chunks in warp order, then everything that is known only at the end."""

    def add(self, chunk: TraceChunk) -> None:
        """Take the next chunk."""

    def restart(self) -> None:
        """Drop all chunks: the producer starts again."""

    def finish(
        self, header: TraceHeader, instructions: tuple[StaticInstruction, ...], block_start: npt.NDArray[np.int32], paths: PathTable
    ) -> KernelTrace:
        """Close the trace and return it, ready to be read."""
