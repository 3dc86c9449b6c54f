"""GPU descriptions as terminal text and as documentation pages: listed, checked, imported, and fitted to measurements."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from warpsight.base.units import significant, thousands, three_digits
from warpsight.gpu.describe import KeyRow, describe
from warpsight.gpu.operations import peak_flops
from warpsight.gpu.spec import KEYS, GpuSpec
from warpsight.reports.terminal import PLAIN, WIDTH, Column, Style, aligned, counted, fits, wrapped


def gpu_list_text(documents: list[dict[str, Any]]) -> str:
    """One line per GPU: name and description."""
    width = max(map(len, (document["name"] for document in documents)), default=0) + 3
    return "\n".join(_filled(f" {document['name']:<{width}}", document["description"]) for document in documents)


def _filled(head: str, text: str) -> str:
    """`text` after `head`, its further lines indented as far."""
    return textwrap.fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


def default_gpu_text(document: dict[str, Any]) -> str:
    """The GPU of commands that name none, what makes it so, and a choice that does not hold because of it."""
    why = f"set by {document['from']}" if document["from"] else "the built-in default; no other GPU is set"
    text = [f" default GPU: {document['gpu']}, {document['description']}", f" {why}"]
    if document["kept"] is not None:
        text.append(f" {document['kept']} is kept in {document['file']}, for when {document['from']} is not set")
    return "\n".join(line for each in text for line in wrapped(each))


def gpu_comparison_text(document: dict[str, Any], style: Style = PLAIN) -> str:
    """Figures of GPUs side by side, then the keys in which they differ, with ratios to the first GPU."""
    names = [gpu["name"] for gpu in document["gpus"]]
    width = max(map(len, names)) + 3
    head = [_filled(f" {gpu['name']:<{width}}", gpu["description"]) for gpu in document["gpus"]]
    figures = [
        (row["figure"] + f" ({row['unit']})" * bool(row["unit"]), [_number(value) for value in row["values"]], row["ratios"])
        for row in document["figures"]
    ]
    keys = [(row["key"], [value or "-" for value in row["values"]], row["ratios"]) for row in document["keys"]]
    tables = [
        table for title, rows in (("figure", figures), ("key that differs", keys)) if rows
        for table in _side_by_side(title, names, rows, range(1, len(names)), style)
    ]  # fmt: skip
    return "\n\n".join("\n".join(lines) for lines in [head, *tables])


_Row = tuple[str, list[str], list[float | None]]


def _side_by_side(title: str, names: Sequence[str], rows: Sequence[_Row], others: range, style: Style) -> list[list[str]]:
    """A table with a column of values of the first GPU and of each of the `others`, and their ratios; two where it is too wide."""
    columns = [Column(title, [row[0] for row in rows], left=True), Column(names[0], [row[1][0] for row in rows])]
    for number in others:
        ratios = [row[2][number] for row in rows]
        columns.append(Column(names[number], [row[1][number] for row in rows]))
        columns.append(Column("x", ["" if ratio is None else three_digits(ratio) for ratio in ratios]))
    if fits(columns, cut=False) or len(others) == 1:
        return [aligned(columns, style)]
    middle = others.start + len(others) // 2
    halves = range(others.start, middle), range(middle, others.stop)
    return [table for half in halves for table in _side_by_side(title, names, rows, half, style)]


def _number(value: float | None) -> str:
    return "-" if value is None else thousands(value) if isinstance(value, int) or value >= 1000 else three_digits(value)


def problems_text(place: str, problems: list[str]) -> str:
    """All errors of a description, each with its remedy."""
    return "\n".join([*(f"error: {problem}" for problem in problems), f"{place}: {counted(len(problems), 'problem')}"])


def made_text(document: dict[str, Any]) -> str:
    """A new description: every key with value and source, then what it does not cover."""
    rows = document["values"].items()
    key_width = max((len(key) for key, _ in rows), default=0) + 2
    value_width = max((len(row["value"]) for _, row in rows), default=0) + 2
    return "\n".join([
        f" {document['output']}: {document['name']}, {document['description']}", "",
        *(_filled(f" {key:<{key_width}}{row['value']:<{value_width}}", row["source"] or "-") for key, row in rows),
        "", f" not carried over, or changed ({len(document['notes'])}):",
        *(_filled(" - ", note) for note in document["notes"]),
    ])  # fmt: skip


# -- GPUs of the catalogue as pages of the documentation.

_SECTIONS = {
    "": "The whole GPU", "sm": "SM", "latency": "Latency, from issue to dependent issue",
    "initiation": "Initiation interval, between warp instructions of a scheduler", "l1": "L1, of an SM", "noc": "Network",
    "l2": "L2", "dram": "DRAM", "dispatch": "Launch and dispatch",
    "power": "Power",
}  # fmt: skip

def gpu_page(gpu: GpuSpec, command: str) -> str:
    """The page of one GPU: its peak rates, every key with its value and source, and which values are estimates."""
    rows = [row for row in describe(gpu) if row.key in KEYS]
    estimated = [f"`{row.key}`" for row in rows if row.source.startswith("estimated")]
    lines = [f"<!-- written by {command} -->", f"# {gpu.name}", "", f"{gpu.description}.", "", _peaks(gpu), ""]
    if estimated:
        lines += [f"Estimated, so calibrate or vary these first: {', '.join(estimated)}.", ""]
    for section, title in _SECTIONS.items():
        keys = [_row(row) for row in rows if row.key.rpartition(".")[0] == section]
        lines += [f"## {title}", "", "| key | value | source |", "|---|---|---|", *keys, ""]
    return "\n".join([*lines, f"`warpsight gpus show {gpu.name}` prints all of it as YAML. [All GPUs](README.md)", ""])


def index_page(gpus: Sequence[GpuSpec], command: str) -> str:
    """The page that lists the catalogue."""
    lines = [
        f"<!-- written by {command} -->", "# GPUs of the catalogue", "",
        "A value comes from a white paper, a data sheet, CUDA's guide, a published micro-benchmark or a simulator's validated",
        "configuration, or is marked as estimated, with the reason. [Meaning of the keys](../reference/gpu-description.md).", "",
        "| GPU | description | SMs | clock | fp32 | L2 | DRAM |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for gpu in gpus:
        peak = f"{three_digits(peak_flops(gpu, 'fp32') / 1e12)} TFLOPS"
        values = {row.key: row.value for row in describe(gpu)}
        # a description cannot leave the L2 out: a line in each slice stands for none
        l2 = "none" if gpu.l2.size_bytes == gpu.l2.slices * gpu.l2.line_bytes else values["l2.size"]
        cells = (f"[{gpu.name}]({gpu.name}.md)", gpu.description, values["sm_count"], values["core_clock"], peak, l2,
                 values["dram.bandwidth"])  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _peaks(gpu: GpuSpec) -> str:
    """The peak rates of the GPU by its description."""
    rates = [f"{op} {three_digits(peak_flops(gpu, op) / 1e12)} TFLOPS" for op in ("fp32", "fp64")]
    network, memory = gpu.noc.bandwidth_bytes_per_s, gpu.dram.bandwidth_bytes_per_s
    balance = peak_flops(gpu, "fp32") / memory
    return (
        f"Peak: {', '.join(rates)} (a multiply-add is two operations), L2 to SMs {three_digits(network / 1e9)} GB/s, DRAM "
        f"{three_digits(memory / 1e9)} GB/s, {three_digits(balance)} fp32 operations per byte of DRAM."
    )


def _row(row: KeyRow) -> str:
    source = f"*{row.source}*" if row.source.startswith("default") else row.source or "-"
    return f"| `{row.key}` | {row.value} | {source.replace('|', '/')} |"


# -- A calibration of MWP-CWP as terminal text: the fitted values, then every timing with its residual.

def calibration_text(document: dict[str, Any]) -> str:
    """The parameters, the errors and the notes."""
    lines = [f"{document['tool']}   {document['timings']}   {document['gpu']}   model mwp-cwp", "",
             f" {'parameter':<22}{'fit':>10}{'cycles':>9}  key"]  # fmt: skip
    for row in document["parameters"]:
        fit = significant(row["value"], 4) if row["fitted"] else "not fitted"
        lines.append(f" {row['name']:<22}{fit:>10}{row['cycles']:>9,}  {row['key']}")
    lines += ["", f" {'timing':<24}{'measured':>14}{'predicted':>14}{'error':>10}"]
    for row in document["residuals"]:
        error = f"{100 * row['relative_error']:+.2f} %"
        lines.append(f" {row['name']:<24}{thousands(row['cycles']):>14}{thousands(row['predicted']):>14}{error:>10}")
    lines += ["", f"  mean absolute error {100 * document['mean_absolute_error']:.2f} %, with parameters rounded to whole cycles"]
    return "\n".join([*lines, *(f" note: {note}" for note in document["notes"])])


# -- A GPU fitted to micro-benchmarks as terminal text: the fitted keys with their quality, and why others are not determined.

def microbenchmarks_text(document: dict[str, Any]) -> str:
    """A table of the fitted keys next to the values of the GPU inherited from; then the undetermined ones."""
    device = f"   {document['device']}" if document["device"] else ""
    head = f"{document['tool']}   {document['timings']}   {document['rows']} timings   like {document['gpu']}{device}"
    lines = wrapped(head, "  ")
    fitted = document["fitted"]
    if fitted:
        lines += ["", *aligned([
            Column("key", [row["key"] for row in fitted], left=True),
            Column("fitted", [row["text"] for row in fitted]),
            Column(document["gpu"], [row["described"] for row in fitted]),
            Column("timings", [str(row["timings"]) for row in fitted]),
            Column("quality", [row["quality"] for row in fitted], left=True),
        ])]  # fmt: skip
    for row in document["refused"]:
        lines += ["", *wrapped(f" {row['key']} is not determined: {row['reason']}")]
    return "\n".join(lines)
