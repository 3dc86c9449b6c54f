"""What a profiler measured of one launch: the contract between the readers of its files and the comparison with predictions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.result.prediction import COMPONENT_PARTS, SHARED

# name -> (unit in which it is kept, meaning)
FIELDS: dict[str, tuple[str, str]] = {
    "cycles": ("cycles", "cycles that the launch took"),
    "seconds": ("s", "time that the launch took on the GPU"),
    "sm_clock": ("Hz", "clock of the SMs while it ran"),
    "warp_instructions": ("", "warp instructions executed"),
    "thread_instructions": ("", "thread instructions executed"),
    "ipc": ("", "warp instructions per SM and elapsed cycle"),
    "ipc_active": ("", "warp instructions per SM and active cycle"),
    "l1_hit_rate": ("", "fraction of all L1 sectors that hit, including stores and local accesses"),
    "l1_load_hit_rate": ("", "fraction of the L1 sectors of global loads that hit"),
    "l2_hit_rate": ("", "fraction of the L2 sectors that hit, also those that a write stores without a fetch"),
    "l2_lookup_hit_rate": ("", "fraction of the L2 sectors whose line was there, of a simulator: a write that allocates is a miss"),
    "l1_load_sectors": ("", "32 B sectors of global loads at the L1"),
    "l1_store_sectors": ("", "32 B sectors of global stores at the L1"),
    "l2_sectors": ("", "32 B sectors read and written at the L2"),
    "l2_read_sectors": ("", "32 B sectors read at the L2"),
    "l2_write_sectors": ("", "32 B sectors written at the L2"),
    "dram_bytes": ("B", "bytes read and written at DRAM"),
    "dram_read_bytes": ("B", "bytes read at DRAM"),
    "dram_write_bytes": ("B", "bytes written at DRAM"),
    "occupancy": ("", "resident warps over warp slots of an active SM"),
}


@dataclass(frozen=True)
class Measure:
    """A `value` in the unit of `FIELDS`, and the profiler's name of the `metric`."""

    value: float
    metric: str


@dataclass(frozen=True)
class Stall:
    """One stall reason: `value` as the profiler gives it, its `share` of all reasons in the file, and the nearest component.

    `component` is one of the CPI stack, "" if none is near.
    """

    reason: str
    value: float
    share: float
    component: str
    metric: str


@dataclass(frozen=True)
class MeasuredLaunch:
    """One launch, or (`invocations` above 1) the mean of several of one kernel, which a profiler did not separate.

    `number` identifies a launch in the file. `grid` and `block` are None if the file does not contain them. `measures` has the keys
    of `FIELDS` that were measured. `absent` are metrics that the profiler names without a value.
    """

    number: str
    kernel: str
    device: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    invocations: int
    measures: dict[str, Measure]
    stalls: tuple[Stall, ...]
    absent: tuple[str, ...]
    place: str

    def value(self, name: str) -> float | None:
        """The field `name`, None if it was not measured."""
        measure = self.measures.get(name)
        return measure.value if measure else None

    def clock(self) -> Measure | None:
        """The SM clock in Hz: as measured, else cycles over time, else None."""
        if "sm_clock" in self.measures:
            return self.measures["sm_clock"]
        cycles, seconds = self.measures.get("cycles"), self.measures.get("seconds")
        if cycles is None or seconds is None or not seconds.value:
            return None
        return Measure(cycles.value / seconds.value, f"{cycles.metric} / {seconds.metric}")

    def component_shares(self) -> dict[str, float]:
        """Shares of the stall reasons by component of the CPI stack, ``""`` for reasons near none. Empty without stalls."""
        shares: dict[str, float] = {}
        for stall in self.stalls:
            shares[stall.component] = shares.get(stall.component, 0.0) + stall.share
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def to_json(self) -> dict[str, Any]:
        """The document of a launch: every field of `FIELDS`, None for what was not measured."""

        measures = {name: dict(self.measures[name].__dict__) if name in self.measures else None for name in FIELDS}
        return {
            "number": self.number, "kernel": self.kernel, "device": self.device or None,
            "grid": list(self.grid) if self.grid else None, "block": list(self.block) if self.block else None,
            "invocations": self.invocations,
            **measures,
            "stalls": [{**stall.__dict__, "component": stall.component or None} for stall in self.stalls],
            "absent": list(self.absent),
            "place": self.place,
        }


@dataclass(frozen=True)
class Measurements:
    """The launches of one file, in its order. `tool` is ncu, nvprof or accelsim; `notes` are on how it was read."""

    tool: str
    origin: str
    launches: tuple[MeasuredLaunch, ...]
    notes: tuple[str, ...]


_SHARES = ("l1_hit_rate", "l1_load_hit_rate", "l2_hit_rate", "l2_lookup_hit_rate", "occupancy")


def above_one(launches: Sequence[MeasuredLaunch]) -> list[str]:
    """A note on shares above 100 %: profilers give them if hits and lookups of a short kernel come from different replays."""
    named = [
        f"{launch.kernel} #{launch.number}: {launch.measures[name].metric} is {100 * launch.measures[name].value:.0f} %"
        for launch in launches
        for name in _SHARES
        if name in launch.measures and launch.measures[name].value > 1
    ]
    if not named:
        return []
    more = f", and {len(named) - 1} more such" if len(named) > 1 else ""
    return [f"{named[0]}{more}: the kernel is too short to be measured over several passes"]


# -- Stall reasons of profilers, and the nearest component of the CPI stack.
#
# Nsight Compute counts what each warp waited for in each cycle; a CPI stack counts what an SM's issue slots were lost to. These are
# similar but not the same (`result.prediction`): shares are shown side by side, without an error.

# Families of metrics that name a reason, the best first. A file may have several; shares are of one family.
_FAMILIES = (
    re.compile(r"smsp__average_warps_issue_stalled_(?P<reason>\w+?)_per_issue_active\.ratio"),
    re.compile(r"smsp__average_warp_latency_issue_stalled_(?P<reason>\w+?)\.ratio"),
    re.compile(r"smsp__warp_issue_stalled_(?P<reason>\w+?)_per_warp_active\.pct"),
    re.compile(r"smsp__warps_issue_stalled_(?P<reason>\w+?)\.(?:avg|sum)"),
    re.compile(r"smsp__pcsamp_warps_issue_stalled_(?P<reason>\w+)"),
    re.compile(r"Stall (?P<reason>[A-Z][\w ]*)"),
    re.compile(r"stall_(?P<reason>\w+)"),
)
_NOT_ISSUED = "_not_issued"
# nvprof's reasons, and the nearest ones of Nsight Compute (its documentation's table of nvprof metrics)
_NVPROF = {
    "memory_dependency": "long scoreboard", "exec_dependency": "wait", "sync": "barrier", "pipe_busy": "math pipe throttle",
    "memory_throttle": "lg throttle", "inst_fetch": "no instruction", "constant_memory_dependency": "imc miss",
    "not_selected": "not selected", "texture": "tex throttle", "other": "misc",
}  # fmt: skip


def is_stall(metric: str) -> bool:
    """Whether the metric is that of a stall reason."""
    return any(_reason(metric, number) for number in range(len(_FAMILIES)))


def component_of(reason: str) -> str:
    """The component of the CPI stack with this reason among its nearest ones, a shared one if any; "" if none is near."""
    for component in (SHARED | COMPONENT_PARTS).values():
        for near in component.nsight.split(", "):
            # Nsight's full name of some is longer: math pipe throttle
            if near and (reason == near or reason.startswith(f"{near} ")):
                return component.name
    return ""


def stalls_of(values: dict[str, float]) -> tuple[Stall, ...]:
    """The reasons among `values` by metric, the largest first, from the best family that has any."""
    for number in range(len(_FAMILIES)):
        reasons = {metric: reason for metric in values if (reason := _reason(metric, number))}
        whole = sum(values[metric] for metric in reasons)
        if reasons and whole > 0:
            rows = [
                Stall(reason, values[metric], values[metric] / whole, component_of(reason), metric)
                for metric, reason in reasons.items()
            ]
            return tuple(sorted(rows, key=lambda stall: -stall.value))
    return ()


def _reason(metric: str, number: int) -> str:
    match = _FAMILIES[number].fullmatch(metric)
    if not match or match["reason"].endswith(_NOT_ISSUED):
        return ""
    reason = match["reason"].lower()
    return _NVPROF.get(reason, reason.replace("_", " "))
