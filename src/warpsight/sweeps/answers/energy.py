"""Energy over clocks: which core clock and memory speed take the least time, energy, and energy times delay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError
from warpsight.base.units import FREQUENCY, format_quantity
from warpsight.sweeps.answers.results import check_one_of, plain
from warpsight.sweeps.answers.selection import Selection, Term, check_names, figures
from warpsight.sweeps.names import DESIGN

CORE_CLOCK, UTILISATION = "core_clock", "utilisation"
ALL = "all kernels"
MEASURES = ("seconds", "joules", "edp", "ed2p")
"""Time; energy; energy x delay in J s (Gonzalez and Horowitz, IEEE J. Solid-State Circuits 31(9), 1996); energy x delay^2 in J s^2,
which voltage scaling alone leaves about the same (Martin, Nystroem and Penzes, in Power Aware Computing, 2002)."""


@dataclass(frozen=True)
class PowerCurve:
    """Watts at core clocks in Hz, ascending; straight lines between, nothing outside. Made by `power_curve`."""

    points: tuple[tuple[float, float], ...]

    def watts(self, clocks: NDArray[np.float64]) -> NDArray[np.float64]:
        """At each clock, (n,). Raises UsageError for one outside the points."""
        hertz, watts = (np.array(each) for each in zip(*self.points, strict=True))
        outside = clocks[(clocks < hertz[0]) | (clocks > hertz[-1])]
        if outside.size:
            ends = " to ".join(format_quantity(float(each), FREQUENCY) for each in (hertz[0], hertz[-1]))
            raise UsageError(f"the curve goes from {ends}, and the core clock is {format_quantity(float(outside[0]), FREQUENCY)}",
                             place="power curve", remedy="give a point there, or leave the clock out")  # fmt: skip
        return np.asarray(np.interp(clocks, hertz, watts), np.float64)


def power_curve(points: Sequence[tuple[float, float]], place: str = "power curve") -> PowerCurve:
    """The curve through points of (Hz, W), in any order.

    Raises UsageError where there is none, a clock is given twice, or a clock or power is not finite and above 0.
    """
    if not points:
        raise UsageError("there are no points", place=place, remedy="give a clock and its power, as in 1.4 GHz and 120 W")
    for hertz, watts in points:
        if not (isfinite(hertz) and isfinite(watts) and hertz > 0 and watts > 0):
            what = f"{hertz:g} Hz with {watts:g} W is not a valid point"
            raise UsageError(what, place=place, remedy="give a clock and a power above 0")
    ordered = tuple(sorted((float(hertz), float(watts)) for hertz, watts in points))
    for (one, _), (other, _) in pairwise(ordered):
        if one == other:
            raise UsageError(f"{format_quantity(one, FREQUENCY)} is given twice", place=place, remedy="give each clock one power")
    return PowerCurve(ordered)


def energy(
    selection: Selection, *, core: str = CORE_CLOCK, memory: str | None = None, power: PowerCurve | Term | None = None
) -> dict[str, Any]:
    """Seconds, and with a power also watts, J, J s and J s^2, of each kernel that counts and of all, on every chosen design.

    `core` is the key of the core clock, `memory` that of the memory's speed (`dram.bandwidth`), if it is swept. `power` is a curve,
    or an expression in watts over the designs' keys and `utilisation`, the share of SM cycles in which instructions issue
    (`cpi_stack.base` over `cpi`), 0 to 1. All kernels run one after the other: seconds and joules are sums, the products are of
    these sums. In the document `of` has an entry for each, `clocks` ascending, and `best`, the design of least seconds, joules, edp
    and ed2p; of equal ones the lowest number.

    Raises UsageError for keys that are not there or no numbers, two designs of the same clocks, a clock outside the curve, and an
    expression that is not finite and above 0 everywhere.
    """
    results = selection.results
    clocks = {key: _numbers(selection, key) for key in (core, memory) if key is not None}
    order = np.lexsort([selection.designs, *(clocks[key] for key in (memory, core) if key is not None)])
    _apart(selection, clocks, order)
    places = selection.positions[order]
    clocks = {key: each[order] for key, each in clocks.items()}
    seconds = results.figures("seconds")[:, places]
    used = (results.figures("cpi_stack.base") / results.figures("cpi"))[:, places]
    rows = list(selection.performance.kernels)
    watts = _watts(selection, places, power, clocks[core], used) if power is not None else None
    total = seconds[rows].sum(axis=0)
    mean = (used[rows] * seconds[rows]).sum(axis=0) / total
    joules = (watts[rows] * seconds[rows]).sum(axis=0) if watts is not None else None
    memories = None if memory is None else clocks[memory]
    entries = [_entry(selection, ALL, places, (clocks[core], memories), total, mean, joules)]
    for k in rows if len(rows) > 1 else ():
        own = watts[k] * seconds[k] if watts is not None else None
        entries.append(_entry(selection, results.kernels[k], places, (clocks[core], memories), seconds[k], used[k], own))
    return {**selection.head("dvfs"), "core": core, "memory": memory, "power": _power_document(power),
            "notes": _notes(power, memory, clocks), "of": entries}  # fmt: skip


def _numbers(selection: Selection, key: str) -> NDArray[np.float64]:
    check_one_of(key, selection.results.keys, "key")
    column = selection.results.keys[key][selection.positions]
    if column.dtype == object or np.any(column <= 0):
        raise UsageError(f"{key} is not a number above 0 on every design", place="dvfs",
                         remedy="name the key of a clock or bandwidth")  # fmt: skip
    return column


def _apart(selection: Selection, clocks: Mapping[str, NDArray[np.float64]], order: NDArray[np.int64]) -> None:
    """Refuses two designs of the same clocks: they differ in something else, and neither is the one to show."""
    table = np.column_stack(list(clocks.values()))[order]
    same = np.flatnonzero(np.all(table[1:] == table[:-1], axis=1))
    if same.size:
        one, other = selection.designs[order[same[0] : same[0] + 2]]
        raise UsageError(f"designs {one} and {other} have the same {' and '.join(clocks)}", place="dvfs",
                         remedy="fix the other keys by a constraint, or name the memory's key")  # fmt: skip


def _watts(
    selection: Selection, places: NDArray[np.int64], power: PowerCurve | Term, core: NDArray[np.float64], used: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The power of each kernel on each design, (K, n)."""
    if isinstance(power, PowerCurve):
        return np.broadcast_to(power.watts(core), used.shape)
    results = selection.results
    check_names(power, {*results.keys, UTILISATION}, "power")
    keys = {name: results.keys[name][places] for name in power.formula.names if name != UTILISATION}
    keys[DESIGN] = results.designs[places].astype(np.float64)
    out = np.full(used.shape, np.nan)
    for k in selection.performance.kernels:
        columns = keys if UTILISATION not in power.formula.names else {**keys, UTILISATION: used[k]}
        out[k] = figures(power, columns, results.designs[places], "power")
        negative = np.flatnonzero(out[k] <= 0)
        if negative.size:
            what = f"is {out[k, negative[0]]:g} W on design {results.designs[places[negative[0]]]}"
            raise UsageError(what, place=f'power "{power.text}"', remedy="write an expression that is above 0 at every clock")
    return out


def _entry(
    selection: Selection, kernel: str, places: NDArray[np.int64], clocks: tuple[NDArray[np.float64], NDArray[np.float64] | None],
    seconds: NDArray[np.float64], used: NDArray[np.float64], joules: NDArray[np.float64] | None,
) -> dict[str, Any]:
    numbers = selection.results.designs[places]
    measures: dict[str, NDArray[np.float64]] = {"seconds": seconds}
    if joules is not None:
        measures |= {"joules": joules, "edp": joules * seconds, "ed2p": joules * seconds**2}
    rows = []
    for n, number in enumerate(numbers):
        row = {"design": int(number), "core": plain(clocks[0][n]), "memory": None if clocks[1] is None else plain(clocks[1][n])}
        row |= {UTILISATION: plain(used[n]), "watts": None if joules is None else plain(joules[n] / seconds[n])}
        rows.append(row | {name: plain(measures[name][n]) if name in measures else None for name in MEASURES})
    best = {name: int(numbers[np.lexsort((numbers, each))[0]]) for name, each in measures.items()}
    return {"kernel": kernel, "clocks": rows, "best": best}


def _power_document(power: PowerCurve | Term | None) -> dict[str, Any] | None:
    if power is None:
        return None
    if isinstance(power, PowerCurve):
        return {"kind": "curve", "points": [list(point) for point in power.points]}
    return {"kind": "expression", "text": power.text}


def _notes(power: PowerCurve | Term | None, memory: str | None, clocks: Mapping[str, NDArray[np.float64]]) -> list[str]:
    if memory is not None and isinstance(power, PowerCurve) and np.ptp(clocks[memory]) > 0:
        return [f"the power curve depends on the core clock only: it gives the same power at every {memory}"]
    return []
