"""Mem_LD and the departure delays of MWP-CWP from timings of micro-benchmarks (Hong and Kim, ISCA 2009, section 5.1).

Fitted by least squares: Levenberg's method with numerical derivatives, from several starts.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.base.inputs import read_input
from warpsight.equations.mwp_cwp import Parameters, solve
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import KernelCounts
from warpsight.models.mwp_cwp import DEPARTURE_COALESCED, DEPARTURE_UNCOALESCED, ISSUE_CYCLES, MEMORY_LATENCY
from warpsight.models.mwp_cwp import parameters as mwp_parameters
from warpsight.pipeline.provenance import TOOL

Floats = npt.NDArray[np.float64]

_STEPS = 200
_ENOUGH = 1e-12


def _least_squares(residuals: Callable[[Floats], Floats], start: Floats, least: Floats) -> tuple[float, Floats]:
    """The minimum of the sum of squares from `start` [p], and the parameters there, [p], each of them at least `least` [p].

    `residuals` maps [p] to [n].
    """
    point, damping = np.maximum(start, least), 1e-3
    value = residuals(point)
    jacobian = _derivatives(residuals, point, value)
    for _ in range(_STEPS):
        normal = jacobian.T @ jacobian
        scale = np.diag(normal) + 1e-30
        step = np.linalg.lstsq(normal + damping * np.diag(scale), -jacobian.T @ value, rcond=None)[0]
        candidate = np.maximum(point + step, least)
        new = residuals(candidate)
        if new @ new < value @ value:
            gain = 1 - (new @ new) / (value @ value)
            point, value, damping = candidate, new, max(damping / 5, 1e-12)
            jacobian = _derivatives(residuals, point, value)
            if gain < _ENOUGH:
                break
        else:
            damping *= 4
            if damping > 1e12:
                break
    return float(value @ value), point


def _derivatives(residuals: Callable[[Floats], Floats], point: Floats, value: Floats) -> Floats:
    """Forward differences, [n, p]."""
    columns = []
    for k in range(len(point)):
        width = 1e-6 * max(abs(float(point[k])), 1.0)
        moved = point.copy()
        moved[k] += width
        columns.append((residuals(moved) - value) / width)
    return np.stack(columns, axis=1)


REQUIRED = ("Threads_per_block", "Blocks", "Active_blocks_per_SM", "Comp_insts", "Coal_Mem_insts", "Uncoal_Mem_insts", "cycles")
OPTIONAL = {"Synch_insts": 0.0, "Uncoal_per_mw": 32.0, "Load_bytes_per_warp": 128.0}
_POSITIVE = ("Threads_per_block", "Blocks", "Active_blocks_per_SM", "cycles", "Uncoal_per_mw", "Load_bytes_per_warp")
_WHOLE = ("Threads_per_block", "Blocks", "Active_blocks_per_SM")
# Above the values of any launch and kernel.
_MOST = 1e18
_COLUMNS = (*REQUIRED, *OPTIONAL, "name")
FITTED = ("Mem_LD", "Departure_del_uncoal", "Departure_del_coal")
KEYS = (MEMORY_LATENCY.name, DEPARTURE_UNCOALESCED.name, DEPARTURE_COALESCED.name)
_PAGE = "docs/explanation/mwp-cwp.md describes the columns"

# Starts of the search, over the range of GPUs; the equations are not smooth, so one start is not enough.
_STARTS = ((200.0, 400.0, 800.0), (2.0, 10.0, 40.0), (1.0, 4.0, 16.0, 64.0))
_BEST_STARTS = 6
# A parameter has no effect if doubling it changes no timing by more than this share.
_NO_EFFECT = 1e-6


@dataclass(frozen=True)
class MwpTimings:
    """Micro-benchmarks, one per row: `columns` by name, float64 [n]; `names` for display; `origin` the file."""

    names: tuple[str, ...]
    columns: dict[str, Floats]
    origin: str


def read_mwp_timings(path: str) -> MwpTimings:
    """The CSV `path`, a header and one micro-benchmark per line.

    Raises UsageError if it cannot be read, FormatError, with line and column, if it is not such a table.
    """
    try:
        text = read_input(path).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=_PAGE) from None
    except UnicodeDecodeError:
        raise FormatError("is not UTF-8 text", place=path, remedy=_PAGE) from None
    rows = [(number, row) for number, row in enumerate(csv.reader(text.splitlines()), 1) if row and not row[0].startswith("#")]
    if not rows:
        raise FormatError("is empty", place=path, remedy=f"give a header and a line per timing; {_PAGE}")
    header = [cell.strip() for cell in rows[0][1]]
    _check_header(header, f"{path}:{rows[0][0]}")
    values: dict[str, list[float]] = {name: [] for name in (*REQUIRED, *OPTIONAL)}
    names = []
    for number, row in rows[1:]:
        place = f"{path}:{number}"
        if len(row) != len(header):
            message = f"has {len(row)} cells, but the header has {len(header)}"
            raise FormatError(message, place=place, remedy="give one cell for each column")
        cells = dict(zip(header, (cell.strip() for cell in row), strict=True))
        names.append(cells.get("name", "") or f"line {number}")
        for name, column in values.items():
            column.append(_number(name, cells[name], place) if name in cells else OPTIONAL[name])
        if values["Comp_insts"][-1] + values["Coal_Mem_insts"][-1] + values["Uncoal_Mem_insts"][-1] <= 0:
            raise FormatError("has no instructions", place=place, remedy="Comp_insts and the memory instructions are per thread")
    if not names:
        raise FormatError("has no timings", place=path, remedy="give one line for each micro-benchmark")
    return MwpTimings(tuple(names), {name: np.array(column) for name, column in values.items()}, path)


def _check_header(header: list[str], place: str) -> None:
    for name in header:
        if name not in _COLUMNS:
            remedy = f"columns: {', '.join(REQUIRED)}; optional: {', '.join((*OPTIONAL, 'name'))}"
            raise FormatError(f'"{name}" is not a column of timings{suggestion(name, _COLUMNS)}', place=place, remedy=remedy)
        if header.count(name) > 1:
            raise FormatError(f"has two columns {name}", place=place, remedy="keep one of them")
    for name in REQUIRED:
        if name not in header:
            raise FormatError(f"has no column {name}", place=place, remedy=_PAGE)


def _number(name: str, text: str, place: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    least = "above 0" if name in _POSITIVE else "of 0 or more"
    if not 0 <= number < _MOST or (number == 0 and name in _POSITIVE):
        message = f'{name} is "{text}", not a number {least} and below {_MOST:g}'
        raise FormatError(message, place=place, remedy="correct the cell, or remove the line")
    if name in _WHOLE and not number.is_integer():
        raise FormatError(f'{name} is "{text}", not a whole number', place=place, remedy="correct the cell, or remove the line")
    return number


def calibrate(timings: MwpTimings, gpu: GpuSpec) -> dict[str, Any]:
    """The result document: the fitted parameters, those that the timings do not determine, whole cycles for a description,
    residuals.

    Least squares of the relative errors in cycles. A parameter without effect keeps the GPU's value. Raises UsageError if there
    are fewer timings than parameters, or no parameter has an effect.
    """
    parameters, own = _parameters(timings, gpu)
    measured = timings.columns["cycles"]

    def errors(point: Floats) -> Floats:
        return _cycles(parameters, point) / measured - 1

    free = _determined(parameters, measured)
    if not free:
        remedy = "add micro-benchmarks with memory instructions and little computation"
        raise UsageError("no timing depends on Mem_LD or a departure delay", place=timings.origin, remedy=remedy)
    if len(measured) < len(free):
        message = f"{'1 timing does' if len(measured) == 1 else f'{len(measured)} timings do'} not determine {len(free)} parameters"
        raise UsageError(message, place=timings.origin, remedy="give more micro-benchmarks")

    def with_free(values: Floats) -> Floats:
        point = own.copy()
        point[free] = values
        return point

    grid = [np.array(point)[free] for point in itertools.product(*_STARTS)]
    starts = sorted(grid, key=lambda values: float(np.square(errors(with_free(values))).sum()))[:_BEST_STARTS]
    least = np.full(len(free), 1e-3)
    fits = [_least_squares(lambda values: errors(with_free(values)), start, least) for start in starts]
    point = with_free(min(fits, key=lambda fit: fit[0])[1])
    free = [k for k in free if not _is_idle(errors, point, own, k)]
    point = np.where(np.isin(np.arange(len(own)), free), point, own)
    whole = np.array([max(1.0, round(float(v))) for v in point])
    return _document(timings, gpu, point, whole, free, errors(point), errors(whole), _cycles(parameters, whole))


def _parameters(timings: MwpTimings, gpu: GpuSpec) -> tuple[Parameters, Floats]:
    """The equations' parameters for all timings at once, and the GPU's own values of the fitted ones."""
    column = timings.columns
    design = Design.of(gpu)
    warps = np.ceil(column["Threads_per_block"] / 32)
    base = mwp_parameters(KernelCounts(1, 0, 0, 1, 0, 0, gpu.sm_count, 1, 1, gpu.sm.coalescing), design)
    slots = np.minimum(design.sm_schedulers * design.sm_issue_width, column["Active_blocks_per_SM"] * warps)
    whole = replace(
        base, issue_cycles=design.parameter(ISSUE_CYCLES) / slots, warps_per_block=warps, blocks=column["Blocks"],
        active_blocks=column["Active_blocks_per_SM"], active_sms=np.minimum(gpu.sm_count, column["Blocks"]),
        computation_instructions=column["Comp_insts"], uncoalesced_instructions=column["Uncoal_Mem_insts"],
        coalesced_instructions=column["Coal_Mem_insts"], synchronizations=column["Synch_insts"],
        transactions=column["Uncoal_per_mw"], load_bytes=column["Load_bytes_per_warp"],
    )
    own = [base.memory_latency, base.departure_uncoalesced, base.departure_coalesced]
    return whole, np.array([float(np.asarray(value).reshape(-1)[0]) for value in own])


def _cycles(parameters: Parameters, point: Floats) -> Floats:
    latency, uncoalesced, coalesced = point.tolist()
    own = replace(parameters, memory_latency=latency, departure_uncoalesced=uncoalesced, departure_coalesced=coalesced)
    return np.asarray(solve(own)["Final_cycles"], dtype=np.float64)


def _determined(parameters: Parameters, measured: Floats) -> list[int]:
    """The parameters that affect any timing anywhere in the search: their indices in `FITTED`."""
    free = []
    for k in range(len(FITTED)):
        for start in itertools.product(*_STARTS):
            point = np.array(start)
            moved = point.copy()
            moved[k] *= 2
            if np.abs((_cycles(parameters, moved) - _cycles(parameters, point)) / measured).max() > _NO_EFFECT:
                free.append(k)
                break
    return free


def _is_idle(errors: Callable[[Floats], Floats], point: Floats, own: Floats, k: int) -> bool:
    """Whether parameter `k` affects no timing near the fit, nor with the GPU's own value."""
    here = errors(point)
    others = [np.where(np.arange(len(point)) == k, value, point) for value in (point[k] / 2, point[k] * 1.1, own[k])]
    return all(np.abs(errors(other) - here).max() <= _NO_EFFECT for other in others)


def _document(
    timings: MwpTimings, gpu: GpuSpec, point: Floats, whole: Floats, free: list[int], exact: Floats, rounded: Floats,
    predicted: Floats,
) -> dict[str, Any]:
    rows = zip(timings.names, timings.columns["cycles"].tolist(), predicted.tolist(), rounded.tolist(), strict=True)
    parameters: list[dict[str, Any]] = [
        {"name": name, "key": key, "fitted": k in free, "value": float(point[k]), "cycles": int(whole[k])}
        for k, (name, key) in enumerate(zip(FITTED, KEYS, strict=True))
    ]
    notes = [f"no timing depends on {p['name']}; it keeps the value of {gpu.name}" for p in parameters if not p["fitted"]]
    small = [p for p in parameters if p["value"] < 0.5]
    notes += [f"{p['name']} fits best at {p['value']:.3g} cycles; the minimum in a description is 1" for p in small]
    return {
        "tool": TOOL, "gpu": gpu.name, "timings": timings.origin, "parameters": parameters,
        "mean_absolute_error": float(np.abs(rounded).mean()),
        "mean_absolute_error_unrounded": float(np.abs(exact).mean()),
        "residuals": [dict(zip(("name", "cycles", "predicted", "relative_error"), row, strict=True)) for row in rows],
        "notes": notes,
    }


def mwp_description(document: dict[str, Any], like: str, name: str) -> str:
    """A GPU description in YAML that inherits from `like` and has the fitted values, in whole cycles, with their source."""
    fitted = [p for p in document["parameters"] if p["fitted"]]
    lines = ["schema: 1", f"like: {like}", f"name: {name}", "mwp-cwp:"]
    lines += [f"  {p['key'].partition('.')[2]}: {p['cycles']} {'cycle' if p['cycles'] == 1 else 'cycles'}" for p in fitted]
    error, count = 100 * document["mean_absolute_error"], len(document["residuals"])
    timings = Path(document["timings"]).name
    source = f"fitted by warpsight calibrate to {count} timings of {timings}, mean absolute error {error:.2g} %"
    return "\n".join([*lines, "sources:", *(f"  {p['key']}: \"{source}\"" for p in fitted)]) + "\n"
