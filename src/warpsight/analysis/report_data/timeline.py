"""The states of the warps of one SM in the simulator, cycle by cycle, in a window small enough for a page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from warpsight.base.errors import UsageError
from warpsight.simulator.simulate import Ints, Simulation, Timeline
from warpsight.traces.schema import KernelTrace

MOST = 6000  # instructions in a window
MAP_STEPS = 240  # parts of the map of the whole launch
FULL = 0.9  # of the most resident warps: the slots count as full, although a block has just ended
ISSUED, READY, NONE = "I", "E", "-"
# By cause (`timing.result.Timeline`): a warp's start, arithmetic, memory, barrier, fetch.
_WAITS = "-AMBF"
STATES = {
    "I": "issued",
    "A": "waits for an arithmetic result",
    "M": "waits for memory",
    "B": "waits at a barrier",
    "F": "waits for instruction fetch",
    "E": "eligible, but another warp was selected or its unit was busy",
    "-": "no warp, or a warp that has just started",
}


@dataclass(frozen=True)
class Window:
    """The cycles `begin` to `end` (exclusive) of the SM `sm`, at most as many as `MOST` instructions take.

    Without a `begin`, those around the middle of the longest time in which the slots are full: caches are warm then.
    """

    sm: int = 0
    begin: int | None = None
    end: int | None = None


START = Window()


def window_of(text: str | None, sm: int | None) -> Window:
    """The window `BEGIN:END` of that SM (default 0). Raises UsageError."""
    if text is None:
        return Window(sm or 0)
    cycles = re.fullmatch(r"(\d+):(\d*)", text, re.ASCII)
    if not cycles or (cycles[2] and int(cycles[2]) <= int(cycles[1])):
        remedy = "give BEGIN:END in cycles, as in 0:2000, or BEGIN: for as many cycles as fit"
        raise UsageError(f'"{text}" is not a range of cycles', place="timeline_cycles", remedy=remedy)
    return Window(sm or 0, int(cycles[1]), int(cycles[2]) if cycles[2] else None)


def timeline_part(trace: KernelTrace, simulation: Simulation, window: Window) -> dict[str, Any]:
    """The states of each warp slot of the watched SM over the cycles of `window`, or as much of it as fits on a page.

    Keys: `sm`; the `cycles` [begin, end) shown, of the `simulated_cycles`; `issued` instructions in them, of the `issued_of`
    recorded ones, `truncated` if there were more; `states` [{letter, name, warp_cycles}]; `rows`, for each slot its `runs` (a
    letter and a number of cycles, default 1: "-2IA5I2M340"; I is one instruction per cycle), `pcs` (of each I in order, and of the
    instruction that waits at the end), `warps` ([first index in pcs, number in the launch]); `instructions` by pc; `map`: all
    recorded cycles in steps of `step` cycles, with the `warp_cycles` of each state in each step, and `steady`, a cycle in the
    middle of the longest time in which the slots are full. Raises UsageError if the window starts after the recorded cycles.
    """
    timeline = simulation.timeline
    assert timeline is not None, "the simulation recorded an SM"
    kept = int(timeline.issued[-1]) + 1 if timeline.truncated else simulation.cycles
    if window.begin is not None and window.begin >= kept:
        what = f"cycle {window.begin:,} is after the {kept:,} recorded cycles of SM {window.sm}"
        raise UsageError(what, place="timeline_cycles", remedy="start earlier")
    whole = _map(timeline, kept)
    begin = _around(timeline.issued, whole["steady"]) if window.begin is None else window.begin
    end = min(kept, kept if window.end is None else window.end, _room(timeline, begin, kept))
    rows = [_row(timeline, slot, begin, end) for slot in np.unique(timeline.slot).tolist()]
    counted = dict.fromkeys(STATES, 0)
    for row in rows:
        for letter, cycles in row["runs"]:
            counted[letter] += cycles
    used = sorted({pc for row in rows for pc in row["pcs"]})
    return {
        "sm": timeline.sm,
        "cycles": [begin, end],
        "simulated_cycles": simulation.cycles,
        "issued": counted[ISSUED],
        "issued_of": len(timeline.issued),
        "truncated": timeline.truncated,
        "states": [{"letter": letter, "name": name, "warp_cycles": counted[letter]} for letter, name in STATES.items()],
        "rows": [{**row, "runs": _text(row["runs"])} for row in rows],
        "instructions": {str(pc): _instruction(trace, pc) for pc in used},
        "map": whole,
    }


def _around(issued: Ints, cycle: int) -> int:
    """Where MOST instructions begin that have `cycle` in their middle; 0 if there are no more."""
    first = min(int(np.searchsorted(issued, cycle)) - MOST // 2, len(issued) - MOST)
    return int(issued[first - 1]) + 1 if first > 0 else 0


def _map(timeline: Timeline, kept: int) -> dict[str, Any]:
    """The warp cycles of each state, but `-`, in steps of the same number of cycles (the last one may be shorter)."""
    order = np.argsort(timeline.slot, kind="stable")
    slot, warp, issued, cause = (column[order] for column in (timeline.slot, timeline.warp, timeline.issued, timeline.cause))
    again = np.append(False, slot[1:] == slot[:-1])[: len(slot)].astype(bool)  # not the first record of its slot
    free = np.where(again, np.roll(issued, 1) + 1, 0)
    ready = np.maximum(free, np.minimum(timeline.ready[order], issued))
    same = again & (warp == np.roll(warp, 1))
    step = -(-kept // MAP_STEPS)
    edges = np.append(np.arange(0, kept, step), kept)
    spans = {ISSUED: (issued, issued + 1), READY: (ready, issued)}
    for number, letter in enumerate(_WAITS):
        own = same & (cause == number)
        spans |= {letter: (free[own], ready[own])} if letter != NONE else {}
    counted = {letter: np.diff(_until(stops, edges) - _until(starts, edges)).tolist() for letter, (starts, stops) in spans.items()}
    resident = np.sum(list(counted.values()), axis=0) / np.diff(edges)
    full = [list(places) for yes, places in groupby(range(len(resident)), lambda at: resident[at] >= FULL * resident.max()) if yes]
    longest = max(full, key=len)
    return {"step": step, "steady": int(edges[longest[0]] + edges[longest[-1] + 1]) // 2,
            "warp_cycles": {letter: counts for letter, counts in counted.items() if any(counts)}}  # fmt: skip


def _until(times: Ints, edges: Ints) -> Ints:
    """For each edge, the sum of the times, each at most the edge."""
    ordered = np.sort(times)
    below = np.searchsorted(ordered, edges)
    found: Ints = np.append(0, np.cumsum(ordered))[below] + (len(ordered) - below) * edges
    return found


def _room(timeline: Timeline, begin: int, kept: int) -> int:
    """The cycle up to which at most MOST instructions are issued after `begin`."""
    after = int(np.searchsorted(timeline.issued, begin)) + MOST
    return max(begin + 1, int(timeline.issued[after])) if after < len(timeline.issued) else kept


def _row(timeline: Timeline, slot: int, begin: int, end: int) -> dict[str, Any]:
    """The runs of a slot in the window, as pairs, with their instructions and warps."""
    records = np.flatnonzero(timeline.slot == slot)
    issue_cycles = timeline.issued[records]
    # also one record before the window, where the slot's first state starts, and one after it, which is waited for
    first, last = int(np.searchsorted(issue_cycles, begin)), int(np.searchsorted(issue_cycles, end))
    runs: list[tuple[str, int]] = []
    pcs: list[int] = []
    warps: list[list[int]] = []
    free, resident = (int(issue_cycles[first - 1]) + 1, int(timeline.warp[records[first - 1]])) if first else (0, -1)
    for record in records[first : last + 1].tolist():
        issued, warp = int(timeline.issued[record]), int(timeline.warp[record])
        ready = max(free, min(int(timeline.ready[record]), issued))
        wait = _WAITS[timeline.cause[record]] if warp == resident else NONE
        for letter, start, stop in ((wait, free, ready), (READY, ready, issued), (ISSUED, issued, issued + 1)):
            runs.append((letter, max(0, min(stop, end) - max(start, begin))))
        if issued < end or any(cycles for letter, cycles in runs[-3:] if letter != NONE):
            if not warps or warps[-1][1] != warp:
                warps.append([len(pcs), warp])
            pcs.append(int(timeline.pc[record]))
        free, resident = issued + 1, warp
    runs.append((NONE, max(0, end - max(free, begin))))
    there = groupby((run for run in runs if run[1]), key=lambda run: run[0])
    joined = [(letter, sum(cycles for _, cycles in same)) for letter, same in there]
    return {"slot": slot, "runs": joined, "pcs": pcs, "warps": warps}


def _text(runs: list[tuple[str, int]]) -> str:
    return "".join(f"{letter}{cycles if cycles > 1 else ''}" for letter, cycles in runs)


def _instruction(trace: KernelTrace, pc: int) -> dict[str, Any]:
    return {name: getattr(trace.instructions[pc], name) for name in ("opcode", "file", "line", "ptx_line")}
