"""The machine that the compiled simulation runs, and its memory.

The GPU description is checked and reduced to plain numbers. The kernel's code and the units of the machine are tables, filled for a
launch on an empty GPU.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import packed_lines
from warpsight.addressing.mapping import SET_INDEX_RULES, SLICE_INDEX_RULES
from warpsight.base.errors import LimitError, SpecError, UsageError
from warpsight.base.records import Memory, dtype_of, fields_of, row_type
from warpsight.caches.exact.geometry import check_hierarchy, most_dirty, sector_groups
from warpsight.caches.exact.program import path_entries
from warpsight.gpu.occupancy import gpc_of_sms
from warpsight.gpu.operations import ISSUE_ONLY, occupied, op_latency, pass_cycles, remote_pass_cycles, shared_latency
from warpsight.gpu.spec import CacheSpec, GpuSpec, L1Spec
from warpsight.isa.sass.native import BARRIERS, operand_cycles
from warpsight.simulator import codes
from warpsight.simulator.machine import Machine
from warpsight.simulator.state import Channel, Instruction, Scheduler, Slice, Sm, State, Warp
from warpsight.simulator.structures import Cache
from warpsight.traces.events import barrier_objects
from warpsight.traces.schema import (
    ATOMIC,
    GROUP_KINDS,
    LOAD,
    NEXT_GROUP,
    NO_OBJECT,
    SECTOR_BYTES,
    STORE,
    KernelTrace,
    StaticInstruction,
    products_are_awaited,
)
from warpsight.traces.window import block_order

Rows = npt.NDArray[Any]
Numbers = dict[str, int]

# -- The machine.

WRITE_BACK_CYCLES, _MOST_TARGETS = 1, 1 << 22  # of the data of an access into the registers


def _check(gpu: GpuSpec, blocks_per_sm: int, warps_per_block: int) -> None:
    check_hierarchy(gpu, blocks_per_sm)
    slots = blocks_per_sm * warps_per_block
    if -(-slots // gpu.sm.schedulers) > codes.WHEEL:
        what = f"{slots} warps on {gpu.sm.schedulers} schedulers: the simulator has {codes.WHEEL} warps a scheduler at most"
        raise LimitError(what, place=f"{gpu.name}: sm.max_warps", remedy="lower sm.max_warps, or give more sm.schedulers")
    for name, cache in (("l1", gpu.l1), ("l2", gpu.l2)):
        if cache.mshrs * cache.targets > _MOST_TARGETS:
            what = f"{cache.mshrs:,} MSHRs x {cache.targets:,} targets are more than {_MOST_TARGETS:,} waiting requests"
            raise LimitError(what, place=f"{gpu.name}: {name}.targets", remedy=f"lower {name}.mshrs or {name}.targets")
    if gpu.dram.row_bytes % gpu.l2.line_bytes:
        what = f"a row of {gpu.dram.row_bytes} B is not a whole number of L2 lines of {gpu.l2.line_bytes} B"
        remedy = "make it a multiple of l2.line, for example 2 KiB, or 0 B for memory without rows"
        raise SpecError(what, place=f"{gpu.name}: dram.row", remedy=remedy)
    if gpu.l2.slices % gpu.dram.channels:
        what = f"{gpu.l2.slices} L2 slices do not divide evenly among {gpu.dram.channels} memory channels"
        raise SpecError(what, place=f"{gpu.name}: dram.channels", remedy="make l2.slices a multiple of dram.channels")


def machine_of(gpu: GpuSpec, blocks: int, warps_per_block: int, blocks_per_sm: int) -> Numbers:
    """Check `gpu` and return the fields of `state.Machine` that it and a launch of `blocks` blocks decide.

    Raises SpecError, LimitError or UsageError for what cannot be simulated.
    """
    if blocks < 1:
        raise UsageError("the launch has no blocks", remedy="record a launch with at least one block")
    _check(gpu, blocks_per_sm, warps_per_block)
    return {
        "sm_count": gpu.sm_count, "schedulers": gpu.sm.schedulers, "issue_width": gpu.sm.issue_width,
        "greedy": gpu.sm.policy == "gto", "places": blocks_per_sm, "slots": blocks_per_sm * warps_per_block,
        "block_ticks": round(codes.TICKS * gpu.dispatch.block_interval_ns * 1e-9 * gpu.core_clock_hz),
        "vacant_cycles": gpu.dispatch.block_cycles, "start_cycles": gpu.dispatch.warp_cycles,
        "fetch_width": gpu.sm.fetch_width, "blocks": blocks, "warps_per_block": warps_per_block,
        "slices": gpu.l2.slices, "lines_per_piece": gpu.l2.slice_interleave_bytes // gpu.l2.line_bytes,
        "slice_rule": SLICE_INDEX_RULES[gpu.l2.slice_index],
        **_latencies(gpu), **_memory(gpu),
    }  # fmt: skip


_ANY = 1 << 16  # more sectors than a request has


def load_store_unit_of(gpu: GpuSpec, level: str) -> Numbers:
    """The fields of `state.Machine` that say how fast the load-store unit is for instructions of `level`."""
    native, width = level == "sass", gpu.sm.access_width_bytes
    own = pass_cycles(gpu) if native else 1
    return {
        "access_cycles": gpu.sm.access_interval_cycles if native else 1,
        "pass_cycles": own, "cluster_pass_cycles": max(own, remote_pass_cycles(gpu)),
        "sectors_a_cycle": max(1, width // SECTOR_BYTES) if native and width else _ANY,
    }  # fmt: skip


def waits_of(trace: KernelTrace, gpu: GpuSpec) -> Numbers:
    """The fields of `state.Machine` on barriers, a block's mbarriers, and the bulk copies that an SM can have under way."""
    bulk, timed = any(i.is_bulk for i in trace.instructions), any(i.stall for i in trace.instructions)
    barriers = (gpu.sm.barrier_interval_cycles, gpu.sm.barrier_latency_cycles) if timed else (0, 0)
    known = {"phases": max(1, len(barrier_objects(trace))), "copies": _COPIES_UNDER_WAY if bulk else 1}
    return known | dict(zip(("barrier_cycles", "barrier_latency"), barriers, strict=True))


def geometry_of(cache: CacheSpec) -> Numbers:
    """The fields of `structures.Geometry`, without the table of sector groups."""
    return {
        "sets": cache.sets, "ways": cache.ways, "index_rule": SET_INDEX_RULES[cache.index],
        "line_sectors": cache.line_bytes // SECTOR_BYTES, "mshrs": cache.mshrs, "targets": cache.targets,
        "buckets": 1 << (2 * cache.mshrs - 1).bit_length(),
        "allocate_on_fill": isinstance(cache, L1Spec) and cache.allocation == "on-fill",
    }  # fmt: skip


_COPIES_SENT, _COPIES_UNDER_WAY = 8, 64


def queues_of(gpu: GpuSpec, machine: Numbers) -> dict[str, dict[str, int]]:
    """How many elements each queue (`structures.Queue`) of an SM, of a slice and of a channel has room for."""
    return {
        "sm": {
            "copy_queue": _COPIES_SENT * machine["most_requests"] if machine["copies"] > 1 else 1,  # several of the largest copies
            "access_queue": gpu.sm.access_queue, "async_queue": gpu.sm.access_queue,
            "pipeline": (machine["pipeline_cycles"] + 1) * machine["tag_banks"],
            # what comes from the other partition of the L2 leaves room for what passes it on the way
            "arrival_queue": gpu.noc.buffer + machine["far_cycles"],
            # a line that lies in several lines of the L2 is sent as a whole
            "miss_queue": max(1, gpu.l1.miss_queue, gpu.l1.line_bytes // gpu.l2.line_bytes),
        },
        # a line that comes from memory answers all its requests at once
        "slice": {"inbox": machine["l2_cycles"] + gpu.noc.buffer, "outbox": gpu.noc.buffer + gpu.l2.targets},
        "channel": {"returning": gpu.l2.mshrs * machine["slices_per_channel"] * (gpu.l2.line_bytes // SECTOR_BYTES)},
    }


def _memory(gpu: GpuSpec) -> Numbers:
    dram, rows = gpu.dram, gpu.dram.row_bytes > 0
    channel = dram.bandwidth_bytes_per_s * dram.efficiency / dram.channels
    return {
        "channels": dram.channels, "slices_per_channel": gpu.l2.slices // dram.channels,
        "dram_cycles": dram.latency_cycles, "dram_queue": max(2, dram.queue),
        "dram_ticks": max(1, round(codes.TICKS * SECTOR_BYTES * gpu.core_clock_hz / channel)),
        "banks": dram.banks, "row_sectors": dram.row_bytes // SECTOR_BYTES,
        "open_ticks": codes.TICKS * dram.activate_cycles if rows else 0,
        "close_ticks": codes.TICKS * dram.precharge_cycles if rows else 0,
        "row_ticks": round(codes.TICKS * dram.row_interval_ns * 1e-9 * gpu.core_clock_hz) if rows else 0,
        "turnaround_ticks": codes.TICKS * dram.turnaround_cycles,
        "masks": gpu.l2.partial_writes == "mask", "random": gpu.l2.replacement == "random", "most_dirty": most_dirty(gpu.l2),
    }  # fmt: skip


def _latencies(gpu: GpuSpec) -> Numbers:
    """Divides the round trips of the description, so that an access without contention takes exactly what they say."""
    l1, l2, flit_bytes = gpu.l1.latency_cycles, gpu.l2.latency_cycles, gpu.noc.flit_bytes
    # reading registers and adding an offset is what an integer operation does
    address = min(gpu.latency_cycles["int"], l1 - 1)
    write_back = min(WRITE_BACK_CYCLES, l1 - address)
    pipeline = l1 - address - write_back
    port = gpu.noc.bandwidth_bytes_per_s / gpu.l2.slices
    flit = max(1, round(codes.TICKS * flit_bytes * gpu.core_clock_hz / port))
    line_bytes = min(gpu.l1.line_bytes, gpu.l1.sector_bytes)
    there, back = math.ceil(flit / codes.TICKS), math.ceil(max(1, -(-line_bytes // flit_bytes)) * flit / codes.TICKS)
    fixed = address + pipeline + there + back + 1
    if l2 < fixed:
        what = f"an L2 round trip of {l2} cycles is shorter than its way: the L1 ({l1} cycles) and the ports ({there + back})"
        remedy = f"give l2.latency of at least {fixed} cycles, or a shorter l1.latency or more noc.bandwidth"
        raise SpecError(what, place=f"{gpu.name}: l2.latency", remedy=remedy)
    return {
        "address_cycles": address, "write_back_cycles": write_back, "pipeline_cycles": pipeline, "tag_banks": gpu.l1.tag_lookups,
        "shared_cycles": max(1, shared_latency(gpu, remote=False) - address),
        "cluster_cycles": max(1, shared_latency(gpu, remote=True) - address),
        "flit_bytes": flit_bytes, "flit_ticks": flit, "tpcs": -(-gpu.sm_count // gpu.noc.tpc_sms),
        "request_ticks": codes.TICKS if gpu.noc.tpc_sms > 1 else 0,
        "store_ticks": codes.TICKS * gpu.noc.store_time_cycles, "l2_cycles": l2 - fixed, "far_cycles": gpu.l2.far_latency_cycles,
        "atomic_width": gpu.l2.atomic_width_bytes, "merged_reads": gpu.l2.merged_reads,
    }  # fmt: skip


# -- The kernel's instructions.

_ACCESS = {LOAD: codes.IS_LOAD, STORE: codes.IS_STORE, ATOMIC: codes.IS_ATOMIC}
_ALWAYS_FREE = "asynchronous"  # a unit of products that wait for their pipe while the warp issues


class Code(NamedTuple):
    """The rows of `state.Instruction` and the registers that they point to, how many registers, loads and units there are.

    The last of the loads are `groups` groups of asynchronous work of each kind.
    """

    rows: Rows
    touched: npt.NDArray[np.int32]
    registers: int
    loads: int
    groups: int
    units: int


def _kind(instruction: StaticInstruction) -> int:
    if instruction.op_class == "barrier" and instruction.at_barrier:
        return codes.BARRIER
    if instruction.has_sectors:
        return codes.GLOBAL
    if instruction.event_bytes:
        return codes.SHARED
    if instruction.is_block_barrier:
        return codes.BARRIER
    return codes.FENCE if instruction.is_fence else codes.ALU


def _latency(instruction: StaticInstruction, gpu: GpuSpec) -> int:
    """Issue to dependent issue. Raises SpecError for an op class that the GPU has no latency for."""
    if instruction.access:
        return gpu.latency_cycles["int"]  # constants and parameters lie next to the register file and cost what a move costs
    if instruction.op_class in ISSUE_ONLY or instruction.op_class == "memory":
        return 1
    named = f'"{instruction.opcode}" ({instruction.file}:{instruction.line})'
    return op_latency(gpu, instruction.op_class, named, instruction.product)


# -- What an instruction waits for: registers that it reads or writes. Machine code names barriers instead, which may be those of
# several instructions at a time. The simulator has a register for each instruction that sets one, and waits for all that do.

_RESULT, _OPERANDS = "result", "operands"
Setters = dict[int, list[Hashable]]


def _setters(instructions: Sequence[StaticInstruction]) -> Setters:
    """By barrier, the registers of the instructions that set it."""
    found: Setters = {}
    for i in instructions:
        found.setdefault(i.write_barrier, []).append((_RESULT, i.pc))
        found.setdefault(i.read_barrier, []).append((_OPERANDS, i.pc))
    return found


def scoreboard(
    instruction: StaticInstruction, setters: Setters | None
) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...], Hashable | None]:
    """The registers that an instruction writes and waits for, and the one that says that its operands have been read (None: none).

    `setters` are those of machine code, else None.
    """
    i = instruction
    if setters is None:
        return i.destinations, i.sources, None
    waited = [register for k in range(BARRIERS) if i.waits >> k & 1 for register in setters.get(k, [])]
    written = ((_RESULT, i.pc),) if i.write_barrier < BARRIERS else ()
    return written, tuple(waited), (_OPERANDS, i.pc) if i.read_barrier < BARRIERS else None


# Groups of copies beyond those that an instruction lets be on their way: beyond that many, the oldest and the newest are one. A
# wait on an mbarrier is for the oldest of up to `_ON_MBARRIERS`.
_MORE_GROUPS, _ON_MBARRIERS = 8, 16


def _mask(kinds: tuple[str, ...]) -> int:
    return sum(1 << GROUP_KINDS.index(kind) for kind in kinds)


def _barrier(instruction: StaticInstruction) -> int:
    """What it does at an mbarrier (`Instruction.at_barrier`)."""
    if not instruction.at_barrier:
        return codes.PRODUCT if instruction.uses_tensor_memory else codes.NOT_THERE
    if instruction.polls_mbarrier:
        return codes.TESTS if instruction.waits_at_barrier else codes.NOT_THERE
    if instruction.waits_for_part:
        return codes.MEETS
    return codes.COMPLETES if instruction.is_bulk else codes.COMMITS if instruction.commits_products else codes.ARRIVES


def _most_groups(instruction: StaticInstruction) -> int:
    return _ON_MBARRIERS if instruction.wait_groups == NEXT_GROUP else instruction.wait_groups


def _first_group(instruction: StaticInstruction) -> int:
    """The `first_group` of an instruction: one that closes a group and waits, waits for that, too."""
    if instruction.wait_groups == NEXT_GROUP:
        return codes.OLDEST_GROUP
    return instruction.wait_groups + (0 if instruction.closes_group or instruction.wait_groups < 0 else 1)


def _pipes(instruction: StaticInstruction, gpu: GpuSpec, controlled: bool) -> tuple[tuple[str, int], ...]:
    """The pipes that an instruction occupies and their cycles, as `gpu.operations.occupied` has them.

    What only issues goes through the integer pipe at the level of PTX, and has a unit of its own in machine code (`controlled`).
    """
    op_class = "int" if instruction.access else instruction.op_class
    if op_class == "tensor" and op_class in gpu.latency_cycles:
        return occupied(gpu, op_class, instruction.product)
    return occupied(gpu, op_class if op_class in gpu.latency_cycles or (controlled and op_class in ISSUE_ONLY) else "int")


def code_of(trace: KernelTrace, gpu: GpuSpec) -> Code:
    """The code of `trace` on `gpu`. Raises SpecError for an op class without a latency."""
    numbers: dict[Hashable, int] = {}  # of the registers, in the order of first appearance
    setters = _setters(trace.instructions) if any(i.stall for i in trace.instructions) else None
    pipes = [_pipes(i, gpu, setters is not None) for i in trace.instructions]
    names = sorted({name for each in pipes for name, _ in each} | {_ALWAYS_FREE})
    units = {name: k for k, name in enumerate(names, codes.UNIT_ASYNC_COPIES + 1)}
    rows: list[tuple[int, ...]] = []
    touched: list[int] = []
    loads = 0
    most = max((_most_groups(i) for i in trace.instructions), default=-1)
    copies, awaited, remote = most >= 0, products_are_awaited(trace.instructions), trace.remote()
    for i in trace.instructions:
        kind = _kind(i)
        written, waited, operands_read = scoreboard(i, setters)
        registers = [numbers.setdefault(r, len(numbers)) for r in dict.fromkeys(written + waited)]
        through_unit = kind in (codes.GLOBAL, codes.SHARED)
        returns = through_unit and i.access != STORE and bool(written) and not (i.is_bulk or (copies and i.is_async_copy))
        asynchronous = i.is_async_product and awaited
        named = [_ALWAYS_FREE] * 2 if asynchronous else [pipes[i.pc][0][0], pipes[i.pc][-1][0]]
        queue = codes.UNIT_ASYNC_COPIES if copies and i.is_async_copy else codes.UNIT_MEMORY
        unit, whole = (queue if through_unit else units[name] for name in named)
        written = () if asynchronous else written  # only what waits for its group may read them
        rows.append((
            kind, unit, whole, pipes[i.pc][0][1], pipes[i.pc][-1][1], _latency(i, gpu), max(1, i.stall),
            len(touched), len(registers), len(set(written)),
            numbers.setdefault(operands_read, len(numbers)) if operands_read else -1,
            operand_cycles(i.opcode, i.space, i.access, i.access_bytes), _ACCESS.get(i.access, -1), i.access_bytes,
            packed_lines(i.access_bytes), i.event_bytes, i.sector_bytes, i.has_degree, i.pc in remote, loads if returns else -1,
            copies and i.is_async_copy, i.is_bulk, i.bypasses_l1, 0 if i.adds_lanes_up else gpu.sm.atomic_lane_cycles,
            units[pipes[i.pc][0][0]] if asynchronous else -1, _mask(i.ends) if copies else 0,
            GROUP_KINDS.index(i.wait_kind), _first_group(i), _barrier(i),
        ))  # fmt: skip
        touched += registers
        loads += returns
    code, table = np.array(rows, dtype_of(Instruction)), np.array(touched, np.int32)
    code["registers"] = code["registers"] * table.itemsize + table.ctypes.data
    groups = most + _MORE_GROUPS if copies else 0
    loads = max(1, loads) + len(GROUP_KINDS) * groups
    return Code(code, table, max(1, len(numbers)), loads, groups, codes.UNIT_ASYNC_COPIES + 1 + len(units))


# -- The units. Every table of a unit is an equal part of one array that all units of its kind share.

class _Tables:
    """Allocates the tables of units, and keeps them alive."""

    def __init__(self) -> None:
        self.kept: list[Rows] = []

    def give(self, units: Rows, record: type, field: str, count: int) -> Rows:
        """Let `field` of each of the `units`, rows of `record`, point to `count` rows of zeros; returns the rows of all."""
        dtype = dtype_of(row_type(fields_of(record)[field]))
        table = np.zeros(len(units) * count, dtype)
        units[field] = table.ctypes.data + np.arange(len(units), dtype=np.uint64) * np.uint64(count * dtype.itemsize)
        self.kept.append(table)
        return table


def _cache(tables: _Tables, caches: Rows, geometry: Numbers) -> Rows:
    """Empty caches, all MSHRs free; returns their lines."""
    lines = tables.give(caches, Cache, "lines", geometry["sets"] * geometry["ways"])
    lines["number"] = -1
    tables.give(caches, Cache, "buckets", geometry["buckets"])[:] = -1
    tables.give(caches, Cache, "mshrs", geometry["mshrs"])
    tables.give(caches, Cache, "targets", geometry["mshrs"] * geometry["targets"])
    return lines


def _queues(tables: _Tables, units: Rows, record: type, entries: dict[str, str], rooms: Numbers) -> None:
    """The queues of a unit; `entries` names the table of each."""
    for queue, room in rooms.items():
        units[queue]["room"] = room
        tables.give(units, record, entries[queue], room)


def _sms(tables: _Tables, sms: Rows, machine: Numbers, rooms: Numbers) -> Rows:
    """SMs without blocks; returns all their warps."""
    sms["number"], sms["gpc"] = np.arange(len(sms)), gpc_of_sms(len(sms), machine["gpcs"])
    sms["in_hand"] = sms["waits_for"] = -1
    places = tables.give(sms, Sm, "places", machine["places"])
    places["live"] = places["free_since"] = -1
    tables.give(sms, Sm, "oldest_first", machine["places"])
    tables.give(sms, Sm, "lines", 2 * machine["most_requests"])
    queues = {
        "access_queue": "accesses", "async_queue": "async_copies", "copy_queue": "copy_requests", "pipeline": "pipeline_requests",
        "miss_queue": "packets", "arrival_queue": "arrivals",
    }  # fmt: skip
    _queues(tables, sms, Sm, queues, rooms)
    schedulers = tables.give(sms, Sm, "schedulers", machine["schedulers"])
    schedulers["number"] = np.arange(len(schedulers))
    schedulers["index"] = schedulers["number"] % machine["schedulers"]
    schedulers["last"] = schedulers["last_issue"] = -1
    for field, count in (("wheel", codes.WHEEL), ("wants", machine["units"]), ("unit_free", machine["units"])):
        tables.give(schedulers, Scheduler, field, count)
    warps = tables.give(sms, Sm, "warps", machine["slots"])
    warps["id"] = -1
    warps["slot"] = np.arange(len(warps)) % machine["slots"]
    warps["bit"], warps["scheduler"] = np.divmod(warps["slot"], machine["schedulers"])
    warps["place"] = warps["slot"] // machine["warps_per_block"]
    tables.give(warps, Warp, "registers_ready", machine["registers"])
    tables.give(warps, Warp, "loads", machine["loads"])
    tables.give(warps, Warp, "group", len(GROUP_KINDS))
    tables.give(sms, Sm, "copies", machine["copies"])["pc"] = -1
    tables.give(sms, Sm, "phases", machine["places"] * machine["phases"])
    return warps


def _merger(tables: _Tables, memory: Memory, merged_reads: int, most: int) -> None:
    """What the slices know of reads that others may join: at `most` so many are in their queues or wait for memory."""
    reads = most if merged_reads > 1 else 1
    geometry = {"mshrs": reads, "targets": merged_reads, "buckets": 1 << (2 * reads - 1).bit_length()}
    _cache(tables, memory["slices"]["merger"], {"sets": 0, "ways": 0, **geometry})
    for field, value in geometry.items():
        memory.root["merger"][field] = value


def _slices_and_channels(tables: _Tables, slices: Rows, channels: Rows, machine: Numbers, rooms: dict[str, Numbers]) -> None:
    slices["number"], channels["number"] = np.arange(len(slices)), np.arange(len(channels))
    slices["channel"] = slices["number"] // machine["slices_per_channel"]
    slices["waits_for"] = -1
    _queues(tables, slices, Slice, {"inbox": "packets", "outbox": "replies"}, rooms["slice"])
    tables.give(channels, Channel, "accesses", machine["dram_queue"])
    tables.give(channels, Channel, "banks", machine["banks"])["row"] = -1 if machine["row_sectors"] else 0
    _queues(tables, channels, Channel, {"returning": "replies"}, rooms["channel"])


# -- The whole.

class LaunchMemory(NamedTuple):
    """The `State`, the tables of all warp slots and of all lines of the L2; `kept` is what the state points to."""

    state: Memory
    warps: Rows
    l2_lines: Rows
    kept: list[Rows]


def _agenda(memory: Memory, machine: Numbers) -> None:
    """No unit acts."""
    sms, slices, channels = machine["sm_count"], machine["slices"], machine["channels"]
    lengths = {
        "next_return": channels, "next_pick": channels, "next_l2": slices, "next_reply": slices, "next_arrival": sms,
        "next_l1": sms, "next_port": sms, "next_copy": sms, "next_lsu": sms, "next_scheduler": sms * machine["schedulers"],
    }  # fmt: skip
    times = np.full(sum(lengths.values()), codes.NEVER, np.int64)
    memory.put("agenda", times)
    memory.root["agenda_length"] = len(times)
    first = 0
    for name, length in lengths.items():
        memory.put(name, times[first : first + length])
        first += length


def new_memory(trace: KernelTrace, gpu: GpuSpec, machine: Numbers, code: Code) -> LaunchMemory:
    """The state for a launch of `trace`: cold caches, no warp resident, all places free; without a trace window.

    `machine` has every field of `state.Machine`.
    """
    most = max(machine["sm_count"] * machine["schedulers"], machine["slices"], machine["channels"])
    instructions = len(code.rows)
    memory = Memory(
        State, sms=machine["sm_count"], slices=machine["slices"], channels=machine["channels"], due=most,
        due_bits=-(-most // 64), counters=instructions, stack=instructions, issues=machine["watch_room"],
        gpc_blocks=machine["gpcs"], residences=machine["blocks"] if machine["cluster_blocks"] > 1 else 1,
    )  # fmt: skip
    memory.root["machine"] = tuple(machine[name] for name in fields_of(Machine))
    memory.put("path", path_entries(trace.paths))
    memory.put("code", code.rows)
    objects = barrier_objects(trace)
    numbers = np.full(NO_OBJECT + 1, -1, np.int32)
    numbers[objects] = np.arange(len(objects))
    memory.put("objects", numbers)
    memory.put("block_start", trace.block_start.astype(np.int64))
    memory.put("block_order", block_order(trace.header))
    tables, rooms = _Tables(), queues_of(gpu, machine)
    warps = _sms(tables, memory["sms"], machine, rooms["sm"])
    _slices_and_channels(tables, memory["slices"], memory["channels"], machine, rooms)
    for name, cache, caches in (("l1", gpu.l1, memory["sms"]["l1"]), ("l2", gpu.l2, memory["slices"]["cache"])):
        geometry, groups = geometry_of(cache), sector_groups(cache)
        for field, value in {**geometry, "sector_groups": groups.ctypes.data}.items():
            memory.root[name][field] = value
        lines = _cache(tables, caches, geometry)  # those of the L2 come last
        tables.kept.append(groups)
    _merger(tables, memory, machine["merged_reads"], sum(rooms["slice"].values()) + gpu.l2.mshrs * gpu.l2.targets)
    _agenda(memory, machine)
    memory.root["free_places"] = machine["sm_count"] * machine["places"]
    memory.root["bad_warp"] = -1
    return LaunchMemory(memory, warps, lines, [*tables.kept, code.touched])
