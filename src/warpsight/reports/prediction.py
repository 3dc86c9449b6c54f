"""Predictions as terminal text: one, several in a table, the demonstration, whole programs, MWP-CWP's parameters."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from warpsight.base.units import percent, significant, thousands, three_digits
from warpsight.gpu.loader import OVERRIDE_SOURCE
from warpsight.kernels.mangling import unscoped_name
from warpsight.pipeline.timeline import range_name, ranges_by_name
from warpsight.reports.stack import decimals, dominant, queueing, shares, shown, stack_table, stacks_beside
from warpsight.reports.terminal import PLAIN, Style, counted, shortened
from warpsight.result.prediction import components_of, relative_error

_PLACES = {
    "mshr": "waiting for an MSHR", "noc_queue": "NoC queueing", "l2": "L2", "dram_queue": "DRAM queueing", "dram": "DRAM",
}  # fmt: skip


def predictions_text(documents: list[dict[str, Any]], style: Style = PLAIN) -> str:
    """One block of text per prediction, and the notes once at the end.

    It is at most 120 columns wide, unless a file name is longer.
    """
    return "\n\n".join(prediction_text(document, style) for document in documents) + notes_text(documents, style)


def difference(cycles: float, other: float) -> str:
    """The relative difference of `cycles` to `other`: `+110 %`."""
    return f"{100 * relative_error(cycles, other):+,.0f} %"


def prediction_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Heading, headline figures, bottleneck and CPI stack."""
    stack = [*stack_table(document, style), *miss_latency(document)]
    return "\n".join([heading(document), "", *headline(document, style), "", *stack])


def miss_latency(document: dict[str, Any]) -> list[str]:
    """The parts of the mean latency of an L1 read miss, for models that give them."""
    parts = document["provenance"].get("model", {}).get("l1_miss_latency")
    if not parts:
        return []
    spent = ", ".join(f"{thousands(cycles)} {_PLACES.get(name, name)}" for name, cycles in parts.items() if cycles)
    return ["", f" L1 miss latency {thousands(sum(parts.values()))} cycles: {spent}"]


def heading(document: dict[str, Any]) -> str:
    """Tool, kernel, launch, GPU, level and model in one line."""
    provenance = document["provenance"]
    launch = provenance.get("launch") or {}
    source = f"{launch['source']} : " if launch.get("source") else ""
    parts = [provenance.get("tool", "warpsight"), source + document["kernel"]]
    if launch:
        parts.append(launch_shape(launch))
    parts.append(document["gpu"] + with_changes(provenance))
    if launch.get("level"):
        of = f" of {launch['target']}" if launch["target"] != "sass" else ""
        parts.append("PTX" if launch["level"] == "ptx" else f"machine code{of}")
    varied = "caches_before" in provenance.get("varied", ())
    before = None if varied else provenance.get("method", {}).get("caches_before")
    return "   ".join([*parts, f"model {document['model']}", *([caches_before(before)] if before else [])])


def with_changes(provenance: dict[str, Any], *, clock: bool = True) -> str:
    """The values of the GPU that `--set` has changed, to follow its name: ` with sm_count=56, l1.mshrs=64`, or nothing. Without
    `clock` the core clock is left out, where it is shown anyway."""
    gpu = provenance.get("gpu") or {}
    keys = [key for key, source in gpu.get("sources", {}).items() if source == OVERRIDE_SOURCE and (clock or key != "core_clock")]
    values = [reduce(lambda section, name: section[name], key.split("."), gpu) for key in keys]
    return f" with {', '.join(f'{key}={value}' for key, value in zip(keys, values, strict=True))}" if keys else ""


_BEFORE = {"cold": "cold L2", "warm": "warm L2", "program": "L2 of the launches before"}


def caches_before(state: str) -> str:
    """The state of the L2 at the start of a launch, for people: `warm L2`."""
    return _BEFORE.get(state, f"L2 after {state}")


def headline(document: dict[str, Any], style: Style = PLAIN) -> list[str]:
    """Cycles, time, IPC and class; occupancy; bottleneck."""
    cycles, seconds = thousands(document["cycles"]), style.time(document["seconds"])
    verb = "simulated" if "simulator" in document["provenance"].get("method", {}) else "predicted"
    lines = [f"  {verb}    {cycles} cycles   {seconds}   IPC/SM {three_digits(document['ipc_sm_warp'])} (warp)"]
    if classification(document):
        lines.append(f"  class        {classification(document)}")
    if document["occupancy"]:
        limiter = f", limited by {document['occupancy_limiter']}" if document["occupancy_limiter"] else ""
        lines.append(f"  occupancy    {three_digits(document['occupancy'])}{limiter}")
    return [*lines, f"  bound by     {style.strong(document['bound_by'])}"]


def classification(document: dict[str, Any]) -> str:
    """`memory-divergent (64.2 divergent loads per 1000 instructions)`; empty if the divergence is not known."""
    if document["dpki"] is None:
        return ""
    return f"{document['class']} ({three_digits(document['dpki'])} divergent loads per 1000 instructions)"


def notes_text(documents: list[dict[str, Any]], style: Style = PLAIN) -> str:
    """The notes of all documents, each once, or nothing."""
    notes = notes_of(documents)
    lines = "".join(f"\n{style.faint(f' note: {note}')}" for note in notes)
    return f"\n{lines}" if notes else ""


def notes_of(documents: list[dict[str, Any]]) -> list[str]:
    """The notes of all documents, each once."""
    return list(dict.fromkeys(note for document in documents for note in document["provenance"].get("notes", ())))


def dimensions(size: Sequence[int]) -> str:
    """A grid or block as CUDA writes it: `(128,1,1)`."""
    return f"({','.join(map(str, size))})"


def launch_shape(launch: dict[str, Any], size: Callable[[Sequence[int]], str] = dimensions) -> str:
    """Grid, block and, where the launch has clusters, their shape: `grid (8,1,1) block (64,1,1) cluster (2,1,1)`."""
    return " ".join(f"{name} {size(launch[name])}" for name in ("grid", "block", "cluster") if name in launch)


# -- Several predictions as a table: one row each, the CPI stack in columns.

_LABEL_WIDTH = 28
_TITLES = {"warps_per_sm": "warps per SM", "caches_before": "L2 before"}


def rows_text(documents: list[dict[str, Any]], style: Style = PLAIN) -> str:
    """A table per model. `provenance.varied` of each document names what varies in its row."""
    models = dict.fromkeys(document["model"] for document in documents)
    tables = [_rows_table([document for document in documents if document["model"] == model], style) for model in models]
    return "\n\n".join(tables) + notes_text(documents, style)


def _rows_table(documents: list[dict[str, Any]], style: Style) -> str:
    """Heading, column names and rows of one model."""
    names = shown(documents)
    digits = decimals(max(document["cpi"] for document in documents))
    number = max(len(f"{document['cpi']:,.{digits}f}") for document in documents)
    widths = {name: max(len(name), number) + 2 for name in ("CPI", *names)}
    labels = _labels(documents)
    titles = "".join(f"{_TITLES.get(key, key):>{width}}" for key, width in labels.items())
    columns = "".join(f"{name:>{widths[name]}}" for name in names)
    head = f"{titles}{'cycles':>14}{'IPC/SM':>9}{'CPI':>{widths['CPI']}}  ={columns}"
    lines = [heading(documents[0]), "", style.strong(head)]
    for document in documents:
        varied = document["provenance"]["varied"]
        label = "".join(f"{_label(varied[key]):>{width}}" for key, width in labels.items())
        figures = f"{thousands(document['cycles']):>14}{three_digits(document['ipc_sm_warp']):>9}"
        total = f"{document['cpi']:>{widths['CPI']},.{digits}f}"
        share = shares(document)
        parts = [
            style.component(name, f"{document['cpi_stack'].get(name, 0.0):>{widths[name]},.{digits}f}", share.get(name, 0.0))
            for name in names
        ]
        lines.append(f"{label}{figures}{total}   {''.join(parts)}")
    return "\n".join(lines)


def _labels(documents: list[dict[str, Any]]) -> dict[str, int]:
    """Width of the column of each varied quantity."""
    varied = [document["provenance"]["varied"] for document in documents]
    return {key: max(8 if key == "launch" else 15, *(len(_label(row[key])) + 2 for row in varied)) for key in varied[0]}


def _label(value: Any) -> str:
    return shortened(str(value), _LABEL_WIDTH)


# -- The demonstration: two predictions of a loop side by side, with one line of explanation each.

def demo_text(documents: list[dict[str, Any]], strides: list[int], style: Style = PLAIN) -> str:
    """Headline figures and CPI stacks of the same kernel at each stride, and the cause of the difference."""
    first = documents[0]
    titles = [f"stride {stride}" for stride in strides]
    about = "the loop of Listing 1 in the MDM paper (MICRO 2020)"
    head = f"{first['provenance']['tool']}   {about}   {first['gpu']}   model {first['model']}"
    lines = [head, "", style.strong(_demo_row("", titles)), *_demo_numbers(documents, style), ""]
    lines += [*stacks_beside(documents, titles, style), ""]
    columns = zip(titles, documents, strides, strict=True)
    lines += [f" {title:<10} {demo_explanation(document, stride)}" for title, document, stride in columns]
    return "\n".join(lines) + notes_text(documents, style)


def _demo_numbers(documents: list[dict[str, Any]], style: Style) -> list[str]:
    rows = {
        "predicted": [f"{thousands(d['cycles'])} cycles" for d in documents],
        "time": [style.time(d["seconds"]) for d in documents],
        "instructions": [f"{thousands(d['warp_instructions'])} (warp)" for d in documents],
        "IPC/SM": [f"{three_digits(d['ipc_sm_warp'])} (warp)" for d in documents],
        "class": [classification(d).split(" (")[0] for d in documents],
        "bound by": [d["bound_by"] for d in documents],
    }
    return [_demo_row(label, cells) for label, cells in rows.items()]


def _demo_row(label: str, cells: list[str]) -> str:
    return f"  {label:<15}{''.join(f'{cell:<34}' for cell in cells)}".rstrip()


def demo_explanation(document: dict[str, Any], stride: int) -> str:
    """One line: how the loads map to cache lines (a fact of the kernel), then where the cycles go (from the prediction)."""
    lines = min(32, max(1, stride * 32 * 4 // 128))
    access = "neighbouring threads share a line" if lines == 1 else f"one line per thread, {lines} requests per load"
    if queueing(document) > 0.5:
        return f"{access}: {percent(queueing(document))} of the cycles are spent on MSHRs and NoC and DRAM queues"
    largest = dominant(document)
    part = f"{percent(shares(document)[largest])} of the cycles"
    return f"{access}: the largest part, {part}, is {largest}, {components_of(document)[largest].meaning}"


# -- The run of a program as terminal text: one line per launch, or per kernel if there are many launches.

_MOST_LAUNCHES = 40
_NAME_WIDTH = 32
_HINT = "  (a program whose runtime is linked statically must not be stripped; nvcc -cudart shared always works)"


def program_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Heading, the launches or their sums, totals."""
    totals = document["totals"]
    command = " ".join(document["command"])
    executed = "PTX" if document["level"] == "ptx" else f"machine code for {document['target']}"
    model = [f"model {document['model']}", caches_before(document["caches_before"])]
    head = "   ".join([document["tool"], command, document["gpu"], executed, *model])
    if not document["used_cuda"]:
        return f"{head}\n\n  the program did not call CUDA{_ended(document)}\n{_HINT}"
    if not document["launches"]:
        return f"{head}\n\n  no kernel was launched{_ended(document)}"
    many = totals["launches"] > _MOST_LAUNCHES
    table = _kernels(document, style) if many else _launches(document, style)
    notes = []
    if totals["scaled"]:
        scaled = counted(totals["scaled"], "launch")
        wrong = totals["scaled_error"]
        checked = "" if wrong is None else f"; where both were made, they differ by {percent(wrong)} of the time"
        notes.append(f" note: ~ marks times extrapolated from predicted launches of the kernel ({scaled}{checked})")
    if totals.get("from_waves"):
        launches, width = counted(totals["from_waves"], "launch"), percent(totals["half_width"])
        notes.append(f" note: predicted from sampled waves: {launches}, cycles +-{width} at most; --exact records every block")
    if totals["launches"] > totals["predicted"] + totals["failed"] and document["caches_before"] == "program":
        notes.append(" note: launches that were not traced leave the L2 as it was")
    places = document["out_of_bounds"]["places"]
    if places:
        accesses = counted(sum(place["accesses"] for place in places), "access")
        notes.append(f" note: {accesses} out of bounds at {counted(len(places), 'place')} read zeros or wrote nothing")
    if totals["failed"]:
        notes.append(f"  {'failed':<8} {totals['failed']} of {counted(totals['launches'], 'launch')}; see the errors above")
    summary = (
        f"  {'total':<8} {counted(totals['launches'], 'launch')}, {thousands(totals['warp_instructions'])} warp instructions, "
        f"{thousands(totals['cycles'])} cycles, {style.time(totals['seconds'])}{_ended(document)}"
    )
    others = []
    if interval := totals.get("launch_interval_seconds"):
        stream = style.time(totals["back_to_back_seconds"])
        others.append(f"  {'program':<8} {stream} if launched back to back in one stream, at most one every {style.time(interval)}")
    others += _timeline(document["timeline"], style)
    for row in totals.get("others", ()):  # the totals by further models
        change = f" ({difference(row['cycles'], totals['cycles'])})" if totals["cycles"] else ""
        others.append(f"  {row['model']:<8} {thousands(row['cycles'])} cycles{change}, {style.time(row['seconds'])}")
    return "\n".join([head, "", *table, "", summary, *others, *notes])


_BAR, _MOST_STREAMS, _MOST_FUNCTIONS, _MOST_RANGES = 48, 16, 8, 16


def _timeline(timeline: dict[str, Any], style: Style) -> list[str]:
    """How long the streams were occupied, and a bar for each where there is more than one kernel or copy."""
    if not timeline or sum(len(row["spans"]) for row in timeline["streams"]) < 2:
        return []
    total = timeline["seconds"]
    parts = [f"{name} {percent(timeline[key] / total)}" for name, key in (
        ("kernels", "kernel_seconds"), ("copies", "copy_seconds"), ("neither", "idle_seconds")) if timeline[key] > 0]  # fmt: skip
    lines = [f"  {'streams':<8} {style.time(total)} from the first to the last: {', '.join(parts)}"]
    for row in timeline["streams"][:_MOST_STREAMS]:
        kernels = sum(span["what"] == "kernel" for span in row["spans"])
        copied = sum(span.get("bytes", 0) for span in row["spans"])  # fills are copies too
        copies = counted(len(row["spans"]) - kernels, "copy")
        what = [counted(kernels, "kernel")] * (kernels > 0) + [f"{copies} of {copied:,} bytes"] * (kernels < len(row["spans"]))
        lines.append(f"  {row['stream']:>8} |{_bar(row['spans'], total)}| {', '.join(what + _marks(row, style))}")
    if len(timeline["streams"]) > _MOST_STREAMS:
        lines.append(f"  {'':<8} and {counted(len(timeline['streams']) - _MOST_STREAMS, 'stream')} more")
    if waits := [wait for wait in timeline["host"] if wait["to"] > wait["from"]]:
        waited = style.time(sum(wait["to"] - wait["from"] for wait in waits))
        lines.append(f"  {'host':>8} |{_bar(waits, total, '.')}| {counted(len(waits), 'wait')}, {waited}")
    if timeline["graphs"]:
        lines.append(f"  {'':<8} {counted(len(timeline['graphs']), 'graph launch')}")
    return lines + _calls(timeline, style) + _ranges(timeline, style)


def _calls(timeline: dict[str, Any], style: Style) -> list[str]:
    """The functions of CUDA's interface that were called, with the time of those that have one."""
    functions = timeline["functions"]
    shown = [f"{each['calls']:,} {each['name']}" + (f" ({style.time(each['seconds'])})" if each["seconds"] else "")
             for each in functions[:_MOST_FUNCTIONS]]  # fmt: skip
    if more := len(functions) - len(shown):
        shown.append(f"and {counted(more, 'function')} more")
    return textwrap.wrap(", ".join(shown), 120, initial_indent=f"  {'calls':<8} ", subsequent_indent=" " * 11) if shown else []


def _ranges(timeline: dict[str, Any], style: Style) -> list[str]:
    """A line for each name of a range of NVTX: the host's time in it, and that of the GPU for what was issued in it."""
    lines, by_name = list[str](), ranges_by_name(timeline)
    for (domain, name, _), ranges in list(by_name.items())[:_MOST_RANGES]:
        gpu = [each for each in ranges if "gpu_to" in each]
        on_gpu = style.time(sum(each["gpu_to"] - each["gpu_from"] for each in gpu)) + " on the GPU" if gpu else "nothing on the GPU"
        kernels = style.time(sum(each["kernel_seconds"] for each in ranges))
        host = style.time(sum(each["to"] - each["from"] for each in ranges))
        times = f"{counted(len(ranges), 'time')}, {host} of the host, {on_gpu}, kernels {kernels}"
        lines.append(f"  {'' if lines else 'ranges':<8} {range_name(domain, name)}: {times}")
    if more := len(by_name) - len(lines):
        lines.append(f"  {'':<8} and {counted(more, 'range')} more")
    return lines


def _marks(row: dict[str, Any], style: Style) -> list[str]:
    """What else was on a stream: whole-grid barriers, events, waits for events, and functions of the host."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for mark in row["marks"]:
        kinds.setdefault(mark["what"], []).append(mark)
    grids = sum(span.get("grid_barriers", False) for span in row["spans"])
    found = [f"{grids} with barriers of the grid"] * (grids > 0)
    if recorded := kinds.get("event recorded"):
        found.append(f"{counted(len(recorded), 'event')} recorded")
    if waits := kinds.get("wait for event"):
        waited = style.time(sum(wait["to"] - wait["from"] for wait in waits))
        found.append(f"{counted(len(waits), 'wait')} for events, {waited}")
    if called := kinds.get("host function"):
        found.append(counted(len(called), "host function"))
    return found


def _bar(spans: Sequence[dict[str, Any]], total: float, other: str = "=") -> str:
    """Equal parts of the time, each with what was there the longest: # a kernel, the `other` sign anything else, or nothing."""
    part = total / _BAR
    there = [[0.0, 0.0] for _ in range(_BAR)]
    for span in spans:
        first, last = max(int(span["from"] / part), 0), min(int(span["to"] / part), _BAR - 1)
        for k in range(first, last + 1):
            length = min(span["to"], (k + 1) * part) - max(span["from"], k * part)
            there[min(k, _BAR - 1)][span["what"] != "kernel"] += max(length, 0.0)
    return "".join(" " if sum(each) < part / 2 else f"#{other}"[each[1] > each[0]] for each in there)


def _ended(document: dict[str, Any]) -> str:
    if document["ended_by"]:
        return f"; the program was {document['ended_by']}"
    return f"; exit code {document['exit_code']}" if document["exit_code"] else ""


def _name(kernel: str) -> str:
    """Where a name is too long, its namespaces give way first: the end of CUB's and CUTLASS's names tells kernels apart."""
    text = kernel if len(kernel) <= _NAME_WIDTH else unscoped_name(kernel)
    return f"{shortened(text, _NAME_WIDTH):<{_NAME_WIDTH}}"


def _launches(document: dict[str, Any], style: Style) -> list[str]:
    """One line per launch."""
    lines = [f"{'#':>5}  {_name('kernel')} {'grid':>14} {'block':>12} {'warp instr.':>13} {'cycles':>12} {'time':>10}  bound by"]
    for row in document["launches"]:
        if "error" in row:
            lines.append(f"{row['number']:>5}  {_name(row['kernel'])} {style.hot('failed')}")
            continue
        mark = "~" if row["time"] == "scaled" else ""
        cycles = mark + thousands(row["cycles"]) if row["cycles"] is not None else "-"
        time = mark + style.time(row["seconds"]) if row["seconds"] is not None else "-"
        launch = f"{_name(row['kernel'])} {dimensions(row['grid']):>14} {dimensions(row['block']):>12}"
        count = thousands(row["warp_instructions"])
        lines.append(f"{row['number']:>5}  {launch} {count:>13} {cycles:>12} {time:>10}  {row['bound_by']}")
    return lines


def _kernels(document: dict[str, Any], style: Style) -> list[str]:
    """One line per kernel, for all its launches."""
    lines = [f"  {_name('kernel')} {'launches':>9} {'warp instr.':>15} {'cycles':>14} {'time':>11} {'share':>7}  bound by"]
    total = document["totals"]["seconds"]
    for row in document["kernels"]:
        mark = "~" if row["scaled"] else ""
        share = percent(row["seconds"] / total) if total else "-"
        lines.append(
            f"  {_name(row['kernel'])} {row['launches']:>9,} {thousands(row['warp_instructions']):>15} "
            f"{mark + thousands(row['cycles']):>14} {mark + style.time(row['seconds']):>11} {share:>7}  "
            f"{style.strong(row['bound_by'])}"
        )
    return lines


# -- MWP-CWP from parameters as terminal text: one line per intermediate result, with its equation.

def parameters_text(document: dict[str, Any], results: Sequence[tuple[str, str, str]], style: Style = PLAIN) -> str:
    """The results in order; `results` are (name, unit, equation)."""
    lines = [f"{document['tool']}   {document['parameters_file']}   model {document['model']}", ""]
    lines.append(f" {'intermediate':<22}{'value':>16}  {'':<7} equation")
    for name, unit, equation in results:
        if name == "Case":
            lines.append(f" {'case':<22}{'':>16}  {'':<7} ({document['results'][name]}) holds")
            continue
        value = document["results"][name]
        text = "no limit" if value is None else _parameter_number(value)
        lines.append(f" {name:<22}{text:>16}  {unit:<7} {equation}".rstrip())
    lines += ["", f"  predicted    {_parameter_number(document['cycles'])} cycles   {style.time(document['seconds'])}"]
    return "\n".join([*lines, *(f" note: {note}" for note in document["notes"])])


def _parameter_number(value: float) -> str:
    """Whole numbers in full, others with six significant digits."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else significant(value, 6)
