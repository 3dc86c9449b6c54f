"""Fits keys of a GPU description to timings of the micro-benchmarks: latencies, MSHRs, L1 geometry, bandwidths.

Then the result document, and the description.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.addressing.mapping import SET_INDEX_RULES, set_index
from warpsight.base.units import format_quantity
from warpsight.gpu.describe import describe
from warpsight.gpu.key import WORD
from warpsight.gpu.spec import KEYS, GpuSpec
from warpsight.hardware.microbenchmarks.timings import CHASE, MISSES, RESIDENT, STREAM, Timing, Timings
from warpsight.pipeline.provenance import TOOL


@dataclass(frozen=True)
class Fitted:
    """`value` of `key` in its base unit (a word for l1.index), fitted to `rows` timings, with a `quality` in words.

    `deviation` (a fraction) is the error of the fit: the relative spread of a plateau, the residual of a line, the part
    of the accesses whose hit or miss is not explained.
    """

    key: str
    value: float | str
    rows: int
    deviation: float
    quality: str


@dataclass(frozen=True)
class Refused:
    """The reason why the timings do not determine `key`."""

    key: str
    reason: str


FitResult = Fitted | Refused


def spread(values: Sequence[float]) -> float:
    """Half the distance from the 10th to the 90th percentile, relative to the median: 0.02 means +-2 %."""
    low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [10, 50, 90])
    return float((high - low) / (2 * middle))


# -- Latencies from pointer chases (Hong and Kim, ISCA 2009, section 5.1), of working sets that fit one level but not the one
# before.

# Maximum spread of a plateau, and its minimum number of working sets.
FLAT, ENOUGH = 0.1, 2
# Minimum ratio of the latencies of two levels; below it they count as one.
_APART = 1.2


def latencies(timings: Timings, gpu: GpuSpec) -> list[FitResult]:
    """`l1.latency`, `l2.latency` and `dram.latency` in cycles (in addition to an L2 hit).

    Uses working sets of adjacent lines. The level that serves a set follows from the approximate cache sizes of `gpu` and from the
    timings: up to half of the L1; from twice the largest set with the L1's latency to half of the L2; above twice the L2 and twice
    the largest set with its latency. Between these ranges levels mix.
    """
    line, l2_size = gpu.l1.line_bytes, gpu.l2.size_bytes
    rows = timings.of(CHASE, lambda row: row.stride == line)
    first = _level(rows, 0, gpu.l1.size_bytes // 2, 0.0, line)
    l1 = _latency("l1.latency", first, 0.0)
    if isinstance(first, str):
        return [l1, *(Refused(key, "requires l1.latency") for key in ("l2.latency", "dram.latency"))]
    second = _level(rows, 2 * first.reach, l2_size // 2, first.cycles, line)
    l2 = _latency("l2.latency", second, 0.0)
    if isinstance(second, str):
        return [l1, l2, Refused("dram.latency", "requires l2.latency")]
    third = _level(rows, 2 * max(second.reach, l2_size), None, second.cycles, line)
    return [l1, l2, _latency("dram.latency", third, second.cycles)]


@dataclass(frozen=True)
class _Level:
    """A plateau: the median `cycles` of a load, its `spread`, the number of `rows`; `reach` is the largest working set as fast."""

    cycles: float
    spread: float
    rows: int
    reach: int


def _level(rows: Sequence[Timing], least: int, most: int | None, before: float, line: int) -> _Level | str:
    """The plateau of working sets from `least` to `most` bytes, above the latency `before`; or the reason why there is none."""
    if most is not None and least > most:
        return f"working sets of {least // 2:,} B have the latency of the previous level; the next should end at {2 * most:,} B"
    times = [row.each for row in rows if row.size >= least and (most is None or row.size <= most)]
    where = f"at least {least:,} B" if most is None else f"{least:,} to {most:,} B"
    if len(times) < ENOUGH:
        return f"{len(times)} chases with a stride of one line ({line} B) have working sets of {where}; {ENOUGH} are needed"
    flat = spread(times)
    if flat > FLAT:
        return f"latencies of working sets of {where} differ by {100 * flat:.0f} %: no plateau"
    cycles = float(np.median(times))
    if cycles < _APART * before:
        return f"working sets of {where} take {cycles:.1f} cycles per load, like the previous level ({before:.1f})"
    reach = max(row.size for row in rows if row.each <= (1 + FLAT) * cycles)
    return _Level(cycles, flat, len(times), reach)


def _latency(key: str, level: _Level | str, before: float) -> FitResult:
    if isinstance(level, str):
        return Refused(key, level)
    quality = f"{level.cycles:.1f} cycles per load, flat within {100 * level.spread:.1f} %"
    if before:
        quality += f", minus {before:.1f} of an L2 hit"
    return Fitted(key, float(round(level.cycles - before)), level.rows, level.spread, quality)


# -- The L1's MSHRs (Nugteren et al., HPCA 2014, section 5): time over misses in flight.
#
# After a number of misses comes a load that hits. It passes them, and its time grows by about one cycle per miss, until there is
# one miss more than MSHRs: that one blocks the L1 until a line arrives.

MSHRS_KEY = "l1.mshrs"
_LEAST_MISS_ROWS = 8
# Minimum jump, in L1 latencies and in the usual time per miss.
_JUMP_LATENCIES, _JUMP_STEPS = 2.0, 8.0


def miss_registers(timings: Timings, l1_latency: float | None) -> FitResult:
    """`l1.mshrs`, where the time jumps; refused without a jump, or if the counts next to it were not both timed."""
    rows = sorted(timings.of(MISSES), key=lambda row: row.count)
    if len(rows) < _LEAST_MISS_ROWS:
        return Refused(MSHRS_KEY, f"requires {_LEAST_MISS_ROWS} timings of {MISSES}; there are {len(rows)}")
    if l1_latency is None:
        return Refused(MSHRS_KEY, "requires l1.latency")
    counts = np.array([row.count for row in rows])
    times = np.array([row.time for row in rows])
    jumps, steps = np.diff(times), np.diff(counts)
    usual = float(np.median(np.abs(jumps / steps)))
    least = np.maximum(_JUMP_LATENCIES * l1_latency, _JUMP_STEPS * usual * steps)
    long = np.flatnonzero(jumps > least)
    if not len(long):
        reason = f"up to {int(counts[-1])} misses in flight delay no hit: there are more MSHRs, or misses do not block the L1"
        return Refused(MSHRS_KEY, reason)
    first = int(long[0])
    if steps[first] > 1:
        low, high = int(counts[first]), int(counts[first + 1])
        return Refused(MSHRS_KEY, f"between {low} and {high - 1}; time each count of misses from {low} to {high}")
    # after the jump the hit must stay delayed, else it was noise
    if float(times[first + 1 :].min()) < float(times[: first + 1].max()) + float(least[first]) / 2:
        return Refused(MSHRS_KEY, f"the time jumps at {int(counts[first + 1])} misses and falls again: noise; time it again")
    noise = float(np.abs(jumps[:first] - usual * steps[:first]).max() / jumps[first]) if first else 0.0
    quality = f"a hit is delayed {jumps[first]:.0f} cycles longer after {int(counts[first + 1])} misses"
    return Fitted(MSHRS_KEY, float(counts[first]), len(rows), noise, quality)


# -- Size, ways and set index of the L1, from the working sets and strides that hit.
#
# A ring of lines that is followed repeatedly hits if no set has more lines than ways; if one has, LRU misses all lines of that
# set. So a cache predicts the part of each ring's loads that miss, and the measured part follows from the mean latency, which
# lies between the L1's and the L2's. Caches of every rule, number of sets and ways that agree with the sweep of adjacent lines
# are tried; the answer is the one that explains the rings best, unless others explain them nearly as well.
#
# The base of a ring is aligned to 1 MiB, so that higher address bits only permute sets.

GEOMETRY_KEYS = ("l1.size", "l1.ways", "l1.index")
ALIGNED = 1 << 20
# A ring of adjacent lines fits if at most this part of its loads misses.
_FITS = 0.02
# The part of loads that may be unexplained, and the minimum advantage of the best cache over others.
_GOOD, _BETTER = 0.08, 0.02
_MOST_SETS, _LEAST_GEOMETRY_ROWS = 2048, 8

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Cache:
    rule: str
    sets: int
    ways: int
    error: float

    @property
    def lines(self) -> int:
        return self.sets * self.ways


def geometry(timings: Timings, gpu: GpuSpec, l1_latency: float | None, l2_latency: float | None) -> list[FitResult]:
    """`l1.size` (bytes), `l1.ways` and `l1.index`, for lines of the length in `gpu`."""
    if l1_latency is None or l2_latency is None:
        return [Refused(key, "requires l1.latency and l2.latency") for key in GEOMETRY_KEYS]
    line = gpu.l1.line_bytes
    rings = timings.of(CHASE, lambda row: row.stride >= line and row.stride % line == 0 and row.size <= ALIGNED)
    parts = np.array([np.clip((row.each - l1_latency) / (l2_latency - l1_latency), 0, 1) for row in rings])
    bracket = _bracket(rings, parts, line)
    if isinstance(bracket, str):
        return [Refused(key, bracket) for key in GEOMETRY_KEYS]
    low, high = bracket
    caches = _candidates(rings, parts, line, low, high)
    between = f"the L1 holds between {low * line / 1024:g} and {high * line / 1024:g} KiB of adjacent lines of {line} B"
    if not caches or caches[0].error > _GOOD:
        best_so_far = f"; the best cache explains all but {100 * caches[0].error:.0f} %" if caches else ""
        reason = f"no LRU cache explains which working sets hit{best_so_far}; {between}"
        return [Refused(key, reason) for key in GEOMETRY_KEYS]
    best = caches[0]
    near = [cache for cache in caches if cache.error < best.error + _BETTER]
    cache = f"{best.sets} sets of {best.ways} ways"
    quality = f"all but {100 * best.error:.1f} % of the loads of {len(rings)} rings hit or miss as {cache}"
    values: dict[str, tuple[float | str, set[object]]] = {
        "l1.size": (float(best.lines * line), {cache.lines for cache in near}),
        "l1.ways": (float(best.ways), {cache.ways for cache in near}),
        "l1.index": (best.rule, {cache.rule for cache in near}),
    }
    results: list[FitResult] = []
    for key, (value, others) in values.items():
        if len(others) > 1:
            listed = ", ".join(map(str, sorted(others, key=str)[:6]))
            name = "lines" if key == "l1.size" else key
            results.append(Refused(key, f"the rings do not distinguish {name} {listed}; {between}"))
        else:
            results.append(Fitted(key, value, len(rings), best.error, quality))
    return results


def _bracket(rings: Sequence[Timing], parts: Floats, line: int) -> tuple[int, int] | str:
    """The largest number of adjacent lines that all hit, and the smallest that do not; or the reason why it is unknown."""
    dense = [(row.size // line, part) for row, part in zip(rings, parts.tolist(), strict=True) if row.stride == line]
    above = [lines for lines, part in dense if part > _FITS]
    fitting = [lines for lines, part in dense if part <= _FITS and lines < min(above, default=0)]
    if len(rings) < _LEAST_GEOMETRY_ROWS or not fitting:
        return f"requires working sets of adjacent lines that hit, and larger ones that do not; there are {len(dense)}"
    return max(fitting), min(above)


def _candidates(rings: Sequence[Timing], parts: Floats, line: int, low: int, high: int) -> list[_Cache]:
    """Caches that hold between `low` and `high` adjacent lines, the best first; of equally good ones the simplest first."""
    caches: list[_Cache] = []
    for rule, number in SET_INDEX_RULES.items():
        sets = 1
        while sets <= min(_MOST_SETS, high):
            ways = range(max(1, -(-low // sets)), -(-high // sets))
            if ways and (rule == "modulo" or sets > 1):
                errors = _errors(rings, parts, line, sets, number, ways)
                caches += [_Cache(rule, sets, way, error) for way, error in zip(ways, errors, strict=True)]
            sets *= 2
    order = list(SET_INDEX_RULES)
    return sorted(caches, key=lambda cache: (round(cache.error, 6), order.index(cache.rule), cache.sets))


def _errors(rings: Sequence[Timing], parts: Floats, line: int, sets: int, rule: int, ways: range) -> list[float]:
    """For each number of ways the root mean square error of the part that misses."""
    set_of = np.array([set_index(number, sets, rule) for number in range(ALIGNED // line)])
    held = np.arange(ways.start, ways.stop)[:, None]
    predicted = np.zeros((len(ways), len(rings)))
    for column, ring in enumerate(rings):
        lines = np.bincount(set_of[: ring.size // line : ring.stride // line])
        # lines per set and the number of such sets: few distinct values
        each, count = np.unique(lines, return_counts=True)
        predicted[:, column] = np.where(each > held, each * count, 0).sum(axis=1) / lines.sum()
    return [float(error) for error in np.sqrt(np.square(predicted - parts).mean(axis=1))]


# -- Bandwidths: the slope of time over bytes, which excludes the launch overhead; the fastest of several grids.
#
# A bandwidth is only reached with more misses in flight than needed to hide the latency (Little's law). If the L1s' MSHRs
# limit them, the time depends on the MSHRs instead of the bandwidth, and the answer is refused.

# Minimum points and maximum residual of a line.
_POINTS, _STRAIGHT = 3, 0.05
# Maximum part of the bandwidth that the misses in flight allow.
_BOUND = 0.8
# Minimum growth of the bytes for a slope.
_GROWTH = 1.5


@dataclass(frozen=True)
class _Slope:
    bytes_per_s: float
    deviation: float
    rows: int
    grid: str


def bandwidths(timings: Timings, gpu: GpuSpec, mshrs: float | None, l2: float | None, dram: float | None) -> list[FitResult]:
    """`dram.bandwidth` and `noc.bandwidth` in bytes per second.

    `mshrs` and the latencies `l2` and `dram` (cycles; additional ones of DRAM) are the fitted ones, None if unknown.
    """
    in_memory = None if l2 is None or dram is None else l2 + dram
    return [
        _bandwidth("dram.bandwidth", timings.of(STREAM), gpu, mshrs, in_memory),
        _bandwidth("noc.bandwidth", timings.of(RESIDENT), gpu, mshrs, l2),
    ]


def _bandwidth(key: str, rows: Sequence[Timing], gpu: GpuSpec, mshrs: float | None, latency: float | None) -> FitResult:
    grids: dict[tuple[int, int], list[Timing]] = {}
    for row in rows:
        grids.setdefault((row.blocks, row.threads), []).append(row)
    slopes = [slope for grid in grids.values() if (slope := _slope(grid)) is not None]
    name = STREAM if key == "dram.bandwidth" else RESIDENT
    if not slopes:
        return Refused(key, f"requires {_POINTS} timings of {name} with one grid and increasing bytes; there are {len(rows)}")
    straight = [slope for slope in slopes if slope.deviation <= _STRAIGHT]
    if not straight:
        least = min(slope.deviation for slope in slopes)
        return Refused(key, f"the time of {name} does not grow linearly with bytes: {100 * least:.0f} % off a line at best")
    best = max(straight, key=lambda slope: slope.bytes_per_s)
    if mshrs is not None and latency is not None:
        most = gpu.sm_count * mshrs * gpu.l1.line_bytes / latency * gpu.core_clock_hz
        if best.bytes_per_s > _BOUND * most:
            reason = (
                f"reached {best.bytes_per_s / 1e9:.0f} GB/s, but {mshrs:.0f} misses in flight per SM allow only about "
                f"{most / 1e9:.0f} GB/s: the time depends on the MSHRs, and the bandwidth is at least the value reached"
            )
            return Refused(key, reason)
    quality = f"slope of {best.rows} timings with {best.grid}, {100 * best.deviation:.1f} % off the line"
    return Fitted(key, best.bytes_per_s, best.rows, best.deviation, quality)


def _slope(rows: Sequence[Timing]) -> _Slope | None:
    """Bytes per second by least squares, relative residuals; None for too few or too similar points."""
    moved = np.array([row.size for row in rows], dtype=np.float64)
    seconds = np.array([row.time for row in rows]) / 1e9
    if len(rows) < _POINTS or moved.max() < _GROWTH * moved.min():
        return None
    design = np.stack([np.ones_like(moved), moved / moved.max()], axis=1)
    (start, grown), *_ = np.linalg.lstsq(design, seconds, rcond=None)
    if grown <= 0:
        return None
    residual = float(np.abs(design @ np.array([start, grown]) - seconds).max() / grown)
    return _Slope(float(moved.max() / grown), residual, len(rows), f"{rows[0].blocks} blocks of {rows[0].threads}")


# -- The result document, and the description.

def fit(timings: Timings, gpu: GpuSpec) -> dict[str, Any]:
    """The result document: `fitted` keys with value, quality and the value of `gpu`, and `refused` ones with the reason.

    `gpu` has what the timings lack: the number of SMs, the clock, the L1's line, and the approximate sizes of L1 and L2.
    """
    levels = latencies(timings, gpu)
    l1, l2, dram = map(_value, levels)
    registers = miss_registers(timings, l1)
    results: list[FitResult] = [*levels, registers, *geometry(timings, gpu, l1, l2)]
    results += bandwidths(timings, gpu, _value(registers), l2, dram)
    described = {row.key: row.value for row in describe(gpu)}
    fitted = [
        {
            "key": result.key, "value": result.value, "text": _text(result), "described": described[result.key],
            "timings": result.rows, "deviation": result.deviation, "quality": result.quality,
        }
        for result in results
        if isinstance(result, Fitted)
    ]
    refused = [{"key": result.key, "reason": result.reason} for result in results if isinstance(result, Refused)]
    return {
        "tool": TOOL, "gpu": gpu.name, "timings": timings.origin, "device": timings.device or None, "rows": len(timings.rows),
        "fitted": fitted, "refused": refused,
    }


def description(document: dict[str, Any], like: str, name: str) -> str:
    """A GPU description in YAML that inherits from `like` and has the fitted keys, each with its source and quality."""
    file = Path(document["timings"]).name
    lines = ["schema: 1", f"like: {_quoted(like)}", f"name: {_quoted(name)}"]
    sections: dict[str, list[str]] = {}
    for row in document["fitted"]:
        section, _, key = row["key"].partition(".")
        sections.setdefault(section, []).append(f"  {key}: {row['text']}")
        if row["key"] == "dram.bandwidth":  # what a stream reached, not the peak
            sections[section].append("  efficiency: 1")
    for section, keys in sections.items():
        lines += [f"{section}:", *keys]
    lines.append("sources:")
    for row in document["fitted"]:
        source = f"calibrated: {file}; {row['timings']} timings, {row['quality']}"
        lines.append(f"  {row['key']}: {_quoted(source)}")
        if row["key"] == "dram.bandwidth":
            lines.append(f"  dram.efficiency: {_quoted('dram.bandwidth is what a stream reached')}")
    return "\n".join(lines) + "\n"


def _value(result: FitResult) -> float | None:
    return float(result.value) if isinstance(result, Fitted) else None


def _text(fitted: Fitted) -> str:
    kind = KEYS[fitted.key].kind
    if kind == WORD:
        return str(fitted.value)
    number = float(fitted.value)
    # four digits of a bandwidth, as clocks vary
    return format_quantity(float(f"{number:.4g}") if kind == "bandwidth" else int(number), kind)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
