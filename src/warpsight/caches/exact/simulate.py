"""Exact simulation of the L1 of every SM and of the shared L2 over all warps of a launch.

Hits and misses are exact for the order in which the accesses arrive, and that order is the *interleaving*:

`clocked` (the default). SMs act in the order of their clocks. A warp reaches its next access after the instructions between (one
per cycle and scheduler, each as late as its operands demand) and after its data has arrived; the scheduler picks among
the eligible warps, greedy-then-oldest or round-robin as the GPU says. Issued accesses wait in order, `sm.access_queue` at most, for
the load-store unit, which takes n cycles for n line requests. A miss holds an MSHR until its data is back: after the latency of its
level, and its queueing delays at the L2 slice's port to the network and at the memory channel. A request for a line in flight is a
*merge*. All this decides an order. It is not a prediction of time.

`round-robin`. One memory instruction of each warp in turn, SMs in turn (GPUMech, MICRO 2014, section IV; MDM, MICRO 2020). Nothing
takes time, so a line is there as soon as it is requested, and no request merges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.addressing.mapping import first_wave
from warpsight.base.records import Memory
from warpsight.base.room import drop_pages
from warpsight.caches.exact.between import L2Lines, lines_left, lines_of, put_l2
from warpsight.caches.exact.engine import BAD_TRACE, DONE, NEED_BLOCK, PAUSED, run
from warpsight.caches.exact.geometry import machine_of, sector_groups
from warpsight.caches.exact.l2 import ROW_PLACES, traffic_measures, traffic_of
from warpsight.caches.exact.program import Program, program_of
from warpsight.caches.exact.state import AT_ONCE, FEW_WAYS, HOST_LINE, NEVER, NO_LINE, TICKS, State
from warpsight.caches.miss_profile import COUNTS, MissProfile
from warpsight.gpu.occupancy import gpc_of_sms, resident_clusters
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.events import most_sectors
from warpsight.traces.schema import KernelTrace
from warpsight.traces.window import TraceWindow, block_order, contradiction

TURNS_PER_REPORT = 1_000_000
TURNS_PER_LOOK = 1 << 16  # of an observer

Progress = Callable[[int, int], None]
Observer = Callable[[Memory, bool], bool]
"""Is called with the state, and whether the simulation only reports (else it comes to another chunk, or to its end). Whether it may
stop here.
"""


class CacheSimulation:
    """A launch in the caches of a GPU: what it needs is set up once, and it is simulated from any content of the L2."""

    def __init__(
        self, trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, *, interleaving: str = "clocked",
        progress: Progress | None = None, observer: Observer | None = None, places: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Arguments and errors as for `simulate_caches`. `observer` is called before each chunk of the trace, at each report and at
        the end. The first blocks start in `places`, in this order, which are numbered SM by SM; by default on all SMs in turn.
        """
        header = trace.header
        self._places = places
        self._trace, self._gpu, self._is_clocked = trace, gpu, interleaving == "clocked"
        self._progress, self._observer = progress, observer
        self._machine = machine_of(gpu, header.recorded_blocks, header.warps_per_block, blocks_per_sm, interleaving)
        resident_clusters(gpu, blocks_per_sm, header.cluster_blocks)  # else no block would ever start
        self._machine["most_requests"] = most_sectors(trace) + 1
        self._machine["cluster_blocks"], self._machine["in_order"] = header.cluster_blocks, header.starts_in_order
        self._machine["gpcs"] = max(1, gpu.gpc_count) if header.cluster_blocks > 1 else 1
        self._order = block_order(header)
        self._program = program_of(trace, gpu, self._is_clocked)

    def run(self, before: L2Lines | None = None) -> tuple[MissProfile, L2Lines]:
        """The misses of the launch, and the lines that it leaves in the L2, which holds `before` at its start (None: nothing)."""
        found, memory = self._simulated(before)
        return found, lines_of(memory, self._gpu.l2.ways)

    def misses(self, before: L2Lines | None = None) -> MissProfile:
        """The misses alone, as `run` has them."""
        return self._simulated(before)[0]

    def _simulated(self, before: L2Lines | None) -> tuple[MissProfile, Memory]:
        gpu = self._gpu
        memory = _initial_memory(self._machine, self._program, gpu)
        if self._places is not None:
            sm, place = np.divmod(self._places, int(self._machine["blocks_per_sm"]))
            memory["free_places"]["sm"], memory["free_places"]["place"] = sm, place
        memory.put("block_order", self._order)
        put_l2(memory, gpu.l2.ways, before)
        _run_launch(memory, self._trace, self._progress, self._observer)
        found = _profile(memory)
        if self._is_clocked:
            near, far, dram = gpu.l2.latency_cycles, gpu.l2.far_latency_cycles, gpu.dram.latency_cycles
            found = replace(found, l2_latency_cycles=near, far_latency_cycles=far, dram_latency_cycles=dram)
        return found, memory

    def left(self) -> L2Lines:
        """What the launch leaves in an empty L2. Where no line is evicted, it need not be simulated."""
        known = lines_left(self._trace, self._gpu)
        return self.run()[1] if known is None else known


def simulate_caches(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, *, progress: Progress | None = None, interleaving: str = "clocked",
    warm: bool = False,
) -> MissProfile:
    """Simulate the caches of `gpu` under the whole launch; `blocks_per_sm` blocks are resident on each SM.

    `progress` is called from time to time with the warps that have ended and the warps of the launch. `interleaving` is `clocked`
    or `round-robin` (see the module). All caches are empty at the start; with `warm` the L2 is as an earlier launch of the same
    trace has left it, its dirty lines included, and the L1s are empty. Memory is bounded by the chunks of the resident warps and
    the one that follows.
    Raises SpecError for a hierarchy that cannot be simulated, UsageError for `blocks_per_sm` below 1 or an unknown interleaving,
    FormatError for a trace that contradicts itself.
    """
    simulation = CacheSimulation(trace, gpu, blocks_per_sm, interleaving=interleaving, progress=progress)
    return simulation.misses(simulation.left() if warm else None)


def compile_engine() -> None:
    """Compile the engine, or read it from disk, before several threads need it at once."""
    memory = Memory(State)
    memory.root["bad_warp"] = 0  # a trace that contradicts itself ends at once
    run(memory.address, 0)


def _run_launch(memory: Memory, trace: KernelTrace, progress: Progress | None, observer: Observer | None) -> None:
    """From the initial state of a launch to its end."""
    header, window, state = trace.header, TraceWindow(trace, packed=True), memory.root
    memory.put("events", window.events)
    memory.put("sectors", window.sectors)
    outcome, turns = NEED_BLOCK, TURNS_PER_REPORT if observer is None else TURNS_PER_LOOK
    dropped = 0  # turns before the pages of the paths were dropped last
    while outcome != DONE:
        memory.put("window", window.warps)
        outcome = run(memory.address, turns)
        launched = int(state["next_block"]) * header.warps_per_block
        if observer is not None and observer(memory, outcome == PAUSED):
            return
        if outcome == NEED_BLOCK:
            # behind it are all blocks that have not started: those of a cluster start together
            window.extend(memory["slots"], int(header.block_at(state["next_block"])) * header.warps_per_block)
            state["first_warp"], state["end_warp"] = window.first, window.end
        elif outcome == BAD_TRACE:
            raise contradiction(trace, int(state["bad_warp"]))
        if outcome == NEED_BLOCK or state["turns"] - dropped >= TURNS_PER_REPORT:
            dropped = int(state["turns"])
            drop_pages(memory["path"])
        if progress is not None:
            progress(launched - int(state["live_warps"]), header.warps)


def _initial_memory(machine: Any, program: Program, gpu: GpuSpec) -> Memory:
    """The state before a launch: cold caches, no warp resident, the first wave of blocks queued."""
    loads = machine["loads"] = _entries_of_loads(program.loads)
    sms, slices = int(machine["sm_count"]), int(machine["slices"])
    places, slots, schedulers = (sms * int(machine[name]) for name in ("blocks_per_sm", "warp_slots", "schedulers"))
    l1_sets, l2_sets = sms * int(machine["l1"]["sets"]), slices * int(machine["l2"]["sets"])
    l2_lines, l2_words = l2_sets * int(machine["l2"]["ways"]), l2_sets * int(machine["l2_order_words"])
    memory = Memory(
        State, counters=len(program.code), free_places=places, gpcs=int(machine["gpcs"]), sms=sms, schedulers=schedulers,
        places=places, slots=slots, warps=slots, eligible=schedulers * int(machine["scheduler_slots"]),
        ages=schedulers * int(machine["scheduler_slots"]),
        load_ready=slots * loads, waiting_accesses=sms * int(machine["access_queue"]), current=int(machine["most_requests"]),
        upcoming=int(machine["lookahead"]) // max(1, int(machine["request_ticks"])),
        requests=sms * 2 * int(machine["most_requests"]),
        l1_lines=l1_sets * int(machine["l1"]["ways"]), l1_sets=l1_sets, l1_tags=_l1_tags(l1_sets, machine),
        l1_buckets=sms * int(machine["l1_buckets"]),
        mshrs=sms * 2 * int(machine["l1_mshrs"]), l2_lines=l2_lines, l2_tags=l2_lines + AT_ONCE, l2_order=l2_words,
        l2_dirty=l2_sets, l2_copies=l2_lines if machine["partitions"] > 1 else 0,
        replies=slices, stores=slices, atomics=slices, channels=int(machine["channels"]),
        open_rows=ROW_PLACES * int(machine["channels"]), flights=l2_lines if machine["merged_reads"] > 1 else 0,
    )
    state = memory.root
    state["machine"] = machine
    tables = {name: getattr(program, name) for name in ("basic_blocks", "stops", "code", "path")}
    for name, table in {**tables, "l1_groups": sector_groups(gpu.l1), "l2_groups": sector_groups(gpu.l2)}.items():
        memory.put(name, table)
    _assign_slots(memory["warps"], machine)
    memory["slots"]["id"] = -1
    memory["eligible"][:] = NEVER
    memory["schedulers"]["picked"] = memory["schedulers"]["last"] = -1
    memory["schedulers"]["time"] = memory["sms"]["lsu"]["next_event"] = NEVER
    memory["sms"]["lsu"]["slot"] = -1
    _free_all_places(memory, machine)
    _link_l1_ways(memory, machine)
    state["bad_warp"], state["next_sm"] = -1, sms
    return memory


def _entries_of_loads(loads: int) -> int:
    """Entries for the loads of a warp: whole lines of the host's caches, or a part of one."""
    return 1 << (loads - 1).bit_length() if 0 < loads < HOST_LINE else -(-loads // HOST_LINE) * HOST_LINE


def _free_all_places(memory: Memory, machine: Any) -> None:
    """All places wait for a block. Those of a GPC: its SMs in turn, the next place of each once all have one."""
    per_sm, first = int(machine["blocks_per_sm"]), 0
    memory["sms"]["gpc"] = numbers = gpc_of_sms(int(machine["sm_count"]), int(machine["gpcs"]))
    for gpc, ring in enumerate(memory["gpcs"]):
        sms = np.flatnonzero(numbers == gpc)
        room = len(sms) * per_sm
        queue = memory["free_places"][first : first + room]
        queue["sm"], queue["place"] = sms[first_wave(room, len(sms), per_sm)], np.arange(room) // len(sms)
        ring["first"], ring["room"], ring["tail"] = first, room, room
        first += room


def _assign_slots(warps: Any, machine: Any) -> None:
    """The warp slots of an SM belong to its schedulers in turn."""
    sm, slot = np.divmod(np.arange(len(warps)), machine["warp_slots"])
    place, warps["scheduler"] = np.divmod(slot, machine["schedulers"])
    warps["turn"] = (sm * machine["schedulers"] + warps["scheduler"]) * machine["scheduler_slots"] + place


def _l1_tags(sets: int, machine: Any) -> int:
    """Rows of `State.l1_tags` for that many sets: `l1._find` reads `FEW_WAYS` of each, the last ones from the next set."""
    ways = int(machine["l1"]["ways"])
    return sets * ways + FEW_WAYS if ways <= FEW_WAYS else 0


def _link_l1_ways(memory: Memory, machine: Any) -> None:
    """All ways are empty: in each set they are in use in the order of their numbers, of which the last is the oldest."""
    sets, ways = int(machine["l1"]["sets"]), int(machine["l1"]["ways"])
    numbers = np.tile(np.arange(sets * ways), int(machine["sm_count"]))
    memory["l1_lines"]["newer"], memory["l1_lines"]["older"] = numbers - 1, numbers + 1  # those at the ends are not used
    memory["l1_tags"][:] = NO_LINE
    each = memory["l1_sets"]
    each["first"] = each["newest"] = numbers[::ways]
    each["oldest"] = numbers[::ways] + ways - 1
    each["order"] = sum(way << 4 * way for way in range(min(ways, FEW_WAYS)))


def counts_of(memory: Memory) -> dict[str, Any]:
    """What the simulation has counted so far, by the names of `COUNTS`: int64 [instructions] each, times in cycles."""
    counters = memory["counters"]
    counts: dict[str, Any] = {name: counters[name].copy() for name in COUNTS}
    counts["merged_wait_cycles"] //= TICKS
    counts["atomic_cycles"] //= memory.root["machine"]["atomic_width"]
    return counts


def _profile(memory: Memory) -> MissProfile:
    return MissProfile(**counts_of(memory) | traffic_measures(traffic_of(memory)))
