"""The table of the keys of a GPU description: what a file and `--set` may contain, and where each value goes in `GpuSpec`.

The loader, the writer, the `gpus` commands and the reference page all follow this table; nothing else lists the keys.
`Problems` collects the errors of a description: a load reports the first, a check reports all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warpsight.base.errors import SpecError, suggestion
from warpsight.base.units import BANDWIDTH, COUNT, CYCLES, FREQUENCY, SIZE

WORD, FLAG = "word", "true or false"
TEXT_KEYS = ("schema", "name", "description", "like", "sources")
OP_CLASSES = ("int", "fp32", "fp64", "sfu", "shared", "fp16", "tensor")

_MOST_CYCLES, _MOST_COUNT, _MOST_BYTES = 10**6, 2**20, 2**40


@dataclass(frozen=True)
class Key:
    """One key. `kind` is a dimension of `base.units`, or `WORD` (one of `choices`), or `FLAG`.

    `path` is the attribute path in `GpuSpec`; a last part in brackets is a dictionary key. `least` and `most` bound it, in base
    units. `default` is text as a file would write it, or `=other.key` for that key's value; None: the key is required; empty: the
    GPU may lack what it describes, and then the spec lacks it. `reason` is the source that a default carries.
    """

    name: str
    path: str
    kind: str
    meaning: str
    least: float = 1
    most: float = _MOST_COUNT
    default: str | None = None
    reason: str = ""
    choices: tuple[str, ...] = ()

    @property
    def numeric(self) -> bool:
        """A number, so it must have a source."""
        return self.kind not in (WORD, FLAG)


def _count(name: str, path: str, meaning: str, *, default: str | None = None, reason: str = "", most: float = _MOST_COUNT) -> Key:
    return Key(name, path, COUNT, meaning, 1, most, default, reason)


def _size(name: str, path: str, meaning: str, *, default: str | None = None, reason: str = "", least: float = 1) -> Key:
    return Key(name, path, SIZE, meaning, least, _MOST_BYTES, default, reason)


def _cycles(name: str, path: str, meaning: str, *, default: str | None = None, reason: str = "", least: float = 1) -> Key:
    return Key(name, path, CYCLES, meaning, least, _MOST_CYCLES, default, reason)


_CUDA = "default: CUDA occupancy rules, the same on every GPU of compute capability 5.0 to 9.0"

_WHOLE_GPU = (
    Key("core_clock", "core_clock_hz", FREQUENCY, "clock of the SMs; all cycles count it", 1e6, 1e11),
    _count("sm_count", "sm_count", "streaming multiprocessors", most=2**16),
)
_SM = (
    _count("sm.max_warps", "sm.max_warps", "warp slots of an SM", most=1024),
    _count("sm.max_blocks", "sm.max_blocks", "block slots of an SM", most=1024),
    _count("sm.registers", "sm.registers", "32-bit registers of an SM", most=2**24),
    _size("sm.shared_memory", "sm.shared_memory_bytes", "shared memory of an SM", least=0),
    _count("sm.schedulers", "sm.schedulers", "warp schedulers of an SM; warps and registers are split evenly among them", most=64),
    _count("sm.issue_width", "sm.issue_width", "warp instructions that one scheduler issues a cycle", most=16),
    Key("sm.policy", "sm.policy", WORD, "which eligible warp issues: lrr round-robin, gto greedy then oldest",
        choices=("lrr", "gto")),
    _count("sm.max_threads_per_block", "sm.max_threads_per_block", "largest block", default="1024", reason=_CUDA, most=1024),
    _count("sm.max_registers_per_thread", "sm.max_registers_per_thread", "most registers a thread can have",
           default="255", reason=_CUDA, most=1024),
    _count("sm.register_unit", "sm.register_unit", "registers of a warp come in multiples of this", default="256", reason=_CUDA),
    _size("sm.shared_memory_unit", "sm.shared_memory_unit_bytes", "shared memory of a block is given in multiples of this",
          default="256 B", reason=_CUDA),
    _count("sm.shared_memory_banks", "sm.shared_memory_banks", "shared-memory banks, 4 B wide",
           default="32", reason="default: CUDA, 32 banks since compute capability 2.0", most=1024),
    _count("sm.access_queue", "sm.access_queue", "memory instructions that wait, issued and in order, for the load-store unit",
           default="20", reason="estimated: calibrated against the reference simulator, see docs/explanation/caches.md", most=1024),
    Key("sm.fetch_width", "sm.fetch_width", COUNT, "instructions that a warp's buffer takes at a time, of one warp of the SM a "
        "cycle, in the simulator; 0: fetch is no limit", 0, 64, default="0", reason="default: no limit"),
    _size("sm.max_shared_memory_per_block", "sm.max_shared_memory_per_block_bytes", "most shared memory of one block; 0 B: all",
          default="0 B", reason="default: all of the SM's", least=0),
    _size("sm.shared_memory_reserved", "sm.shared_memory_reserved_bytes", "shared memory of each block that the system takes",
          default="0 B", reason="default: CUDA takes none before compute capability 8.0", least=0),
)

_OP_MEANING = {
    "int": "integer and logic operations, conversions, moves", "fp32": "32-bit floating point", "fp64": "64-bit floating point",
    "sfu": "special functions: reciprocal, square root, sine, exponential", "fp16": "16-bit floating point",
    "tensor": "warp matrix multiply; none: the GPU has no tensor cores", "shared": "shared-memory access without bank conflict",
}


# the default latency and initiation interval of the classes that not every paper, or not every GPU, has
_OP_DEFAULTS = {
    "fp16": ("=latency.fp32", "=initiation.fp32", "default: as fp32"),
    "tensor": ("", "", ""),
}


def _op_key(op: str) -> tuple[Key, Key]:
    """Latency and initiation interval of an op class."""
    latency, initiation, reason = _OP_DEFAULTS.get(op, (None, "1 cycle", "default: fully pipelined"))
    meaning = _OP_MEANING[op]
    return (
        _cycles(f"latency.{op}", f"latency_cycles[{op}]", f"issue to dependent issue: {meaning}", default=latency, reason=reason),
        _cycles(f"initiation.{op}", f"initiation_cycles[{op}]", f"between two warp instructions of a scheduler: {meaning}",
                default=initiation, reason=reason),
    )


_OPS = tuple(key for column in zip(*(_op_key(op) for op in OP_CLASSES), strict=True) for key in column)


def _cache(level: str, where: str, policy: str, allocate: str) -> tuple[Key, ...]:
    """The keys that L1 and L2 share."""
    def name(part: str) -> str:
        return f"{level}.{part}"

    per = "L1" if level == "l1" else "slice"
    return (
        _size(name("size"), name("size_bytes"), f"capacity, {where}"),
        _size(name("line"), name("line_bytes"), "cache line, a power of two", least=32),
        _size(name("sector"), name("sector_bytes"), "what a miss fetches, a power of two that divides the line",
              default=f"={name('line')}", reason="default: not sectored", least=32),
        _count(name("ways"), name("ways"), "lines in a set", most=4096),
        _count(name("mshrs"), name("mshrs"), f"miss registers per {per}: lines that can be in flight"),
        _count(name("targets"), name("targets"), "requests that one miss register can hold",
               default="64", reason="default: estimated"),
        _cycles(name("latency"), name("latency_cycles"), "round trip of a hit seen by the SM, without contention"),
        Key(name("index"), name("index"), WORD, "set of a line: modulo; xor and fermi fold higher bits in (2^n sets)",
            default="modulo", choices=("modulo", "xor", "fermi")),
        Key(name("replacement"), name("replacement"), WORD, "which line leaves a full set: the least recently used",
            default="lru", choices=("lru",)),
        Key(name("write_policy"), name("write_policy"), WORD, "when a write goes on: at once, or when its line leaves",
            default=policy, choices=("write-through", "write-back")),
        Key(name("write_allocate"), name("write_allocate"), FLAG, "whether a write that misses takes a line", default=allocate),
    )


def _row_cycles(name: str, meaning: str) -> Key:
    """A time of the row model, which costs nothing unless it is given."""
    reason = "default: nothing, as dram.row"
    return _cycles(name, f"{name}_cycles", f"{meaning}, in the simulator", default="0 cycles", reason=reason, least=0)


_GDDR = "default: JEDEC GDDR5 (JESD212), 16 banks"

_MEMORY = (
    *_cache("l1", "per SM", "write-through", "false"),
    Key("l1.warp_mshrs", "l1.warp_mshrs", COUNT, "miss registers for one warp, in the reuse-distance model; 0: all of the L1's", 0,
        default="0", reason="default: no limit of its own"),
    _count("l1.miss_queue", "l1.miss_queue", "packets that wait in the L1 for the network, in the simulator",
           default="16", reason="default: estimated, as detailed simulators have it"),
    Key("l1.allocation", "l1.allocation", WORD, "when a miss takes a line of its set, in the simulator: at once, or with its data",
        default="on-miss", choices=("on-miss", "on-fill")),
    Key("noc.bandwidth", "noc.bandwidth_bytes_per_s", BANDWIDTH, "between all SMs and the L2, one direction, aggregate", 1, 1e18),
    Key("noc.queue", "noc.queue", COUNT, "requests of an SM that its queue holds, which blocks a streaming L1; 0: no bound", 0,
        default="0", reason="default: no bound, since the L1's miss registers block first"),
    _size("noc.flit", "noc.flit_bytes", "data that a port passes as one piece; a packet is at least one, in the simulator",
          default="32 B", reason="default: one sector"),
    _count("noc.buffer", "noc.buffer", "packets that wait at each slice and each SM, in the simulator",
           default="64", reason="default: estimated, as detailed simulators have it", most=4096),
    *_cache("l2", "all slices together", "write-back", "true"),
    _count("l2.slices", "l2.slices", "equal parts of the L2, each with its own port", most=4096),
    _size("l2.slice_interleave", "l2.slice_interleave_bytes", "consecutive bytes that one slice holds, a power of two",
          default="256 B", reason="default: estimated"),
    Key("dram.bandwidth", "dram.bandwidth_bytes_per_s", BANDWIDTH, "peak of all channels together", 1, 1e18),
    _count("dram.channels", "dram.channels", "memory channels", most=4096),
    _cycles("dram.latency", "dram.latency_cycles", "what an access adds to an L2 hit's round trip, without contention", least=0),
    _count("dram.queue", "dram.queue", "accesses that wait at a channel, in the simulator",
           default="64", reason="default: estimated, as detailed simulators have it", most=4096),
    _size("dram.row", "dram.row_bytes", "bytes of an open row of a bank, in the simulator; 0 B: rows cost nothing",
          default="0 B", reason="default: the bandwidth is what streams reach", least=0),
    _count("dram.banks", "dram.banks", "banks of a channel, each with an open row, in the simulator",
           default="16", reason=_GDDR, most=32),
    _row_cycles("dram.activate", "opening a row, a part of dram.latency"),
    _row_cycles("dram.precharge", "closing a row before another opens"),
    _row_cycles("dram.turnaround", "the bus between reads and writes"),
)

_MWP_REASON = "default: derived from other keys, see docs/explanation/mwp-cwp.md"
_MWP = (
    _cycles("mwp.memory_latency", "mwp.memory_latency_cycles", "MWP-CWP's Mem_LD; 0 cycles: an L2 hit and DRAM",
            default="0 cycles", reason=_MWP_REASON, least=0),
    _cycles("mwp.departure_coalesced", "mwp.departure_coalesced_cycles",
            "MWP-CWP's Departure_del_coal; 0 cycles: an L1 line at an SM's share of the DRAM bandwidth",
            default="0 cycles", reason=_MWP_REASON, least=0),
    _cycles("mwp.departure_uncoalesced", "mwp.departure_uncoalesced_cycles",
            "MWP-CWP's Departure_del_uncoal; 0 cycles: an L1 sector at an SM's share of the DRAM bandwidth",
            default="0 cycles", reason=_MWP_REASON, least=0),
    _cycles("mwp.issue_cycles", "mwp.issue_cycles", "MWP-CWP's Issue_cycles: an issue slot is busy with a warp instruction",
            default="1 cycle", reason="default: a scheduler issues a warp instruction every cycle"),
    Key("mwp.coalescing", "mwp.coalescing", WORD,
        "transactions of a warp: distinct L1 sectors, or the rules of compute capability 1.0 or 1.3",
        default="sectors", choices=("sectors", "cc1.0", "cc1.3")),
)

_DVFS = (
    Key("dvfs.target_clock", "dvfs.target_clock_hz", FREQUENCY, "clock that CRISP predicts for, from core_clock; 0 Hz: core_clock",
        0, 1e11, "0 Hz", "default: the core clock"),
)

# what the order of accesses follows: key of the order, attribute, key of the GPU
_FOLLOWED = (
    ("core_clock", "core_clock_hz", "core_clock"),
    ("l1_mshrs", "l1_mshrs", "l1.mshrs"),
    ("l1_latency", "l1_latency_cycles", "l1.latency"),
    ("noc_bandwidth", "noc_bandwidth_bytes_per_s", "noc.bandwidth"),
    ("l2_mshrs", "l2_mshrs", "l2.mshrs"),
    ("l2_latency", "l2_latency_cycles", "l2.latency"),
    ("dram_bandwidth", "dram_bandwidth_bytes_per_s", "dram.bandwidth"),
    ("dram_latency", "dram_latency_cycles", "dram.latency"),
)


def _order_key(name: str, attribute: str, followed: str) -> Key:
    """A key of the timing by which the cache simulation orders accesses."""
    own = next(key for key in (*_WHOLE_GPU, *_MEMORY) if key.name == followed)
    meaning = f"{followed} by which the cache simulation orders accesses; 0: the GPU's own"
    reason = f"default: {followed} as described"
    return Key(f"order.{name}", f"order.{attribute}", own.kind, meaning, 0, own.most, f"={followed}", reason)


_ORDER = tuple(_order_key(*row) for row in _FOLLOWED)

KEYS: dict[str, Key] = {key.name: key for key in (*_WHOLE_GPU, *_SM, *_OPS, *_MEMORY, *_MWP, *_DVFS, *_ORDER)}
ORDER: dict[str, str] = {f"order.{name}": followed for name, _, followed in _FOLLOWED}
"""The keys of the order of accesses, and the key that each of them follows in a description."""
SECTIONS: tuple[str, ...] = tuple(dict.fromkeys(name.partition(".")[0] for name in KEYS if "." in name))


# -- What is wrong with a description, collected: a load reports the first, a check all of them.

class Problems(list[SpecError]):
    """The errors found so far, in the order in which a reader would want them."""

    def add(self, what: str, *, place: str, remedy: str = "") -> None:
        """Records one error."""
        self.append(SpecError(what, place=place, remedy=remedy))

    def raise_first(self) -> None:
        """Raises the first error, if there is one."""
        if self:
            raise self[0]

    def unknown_key(self, name: str, place: str, *, dotted: bool = False) -> None:
        """Records a key that is not in the table, with the nearest one. `dotted`: suggest it with its section."""
        section, _, last = name.rpartition(".")
        within = [key.removeprefix(f"{section}.") for key in KEYS if section and key.startswith(f"{section}.")]
        hint = suggestion(last, within)
        if hint and dotted:
            hint = hint.replace('"', f'"{section}.', 1)
        everything: Iterable[str] = (*KEYS, *SECTIONS, *(() if dotted else TEXT_KEYS))
        near = hint or suggestion(name, everything)
        listed = ", ".join(within or (*(key for key in KEYS if "." not in key), *SECTIONS))
        self.add(f"{name} is not a known key{near}", place=place, remedy=f"known here: {listed}")
