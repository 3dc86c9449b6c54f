"""GPUs of the catalogue as pages of the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from warpsight.base.format import three_digits
from warpsight.gpu.describe import KeyRow, describe
from warpsight.gpu.peaks import peak_flops
from warpsight.gpu.spec import GpuSpec

_SECTIONS = {
    "": "The whole GPU", "sm": "SM", "latency": "Latency, from issue to dependent issue",
    "initiation": "Initiation interval, between warp instructions of a scheduler", "l1": "L1, of an SM", "noc": "Network",
    "l2": "L2", "dram": "DRAM",
}  # fmt: skip
_LEFT_OUT = ("mwp", "dvfs", "order")
_DEFAULT = "default"
_ESTIMATED = "estimated"


def gpu_page(gpu: GpuSpec, command: str) -> str:
    """The page of one GPU: what it can do at most, every key with its value and source, and which numbers are estimates."""
    rows = [row for row in describe(gpu) if row.key.partition(".")[0] not in _LEFT_OUT]
    estimated = [row.key for row in rows if row.source.startswith(_ESTIMATED)]
    lines = [f"<!-- written by {command} -->", f"# {gpu.name}", "", f"{gpu.description}.", "", *_peaks(gpu), ""]
    if estimated:
        lines += [f"Estimated, and so the first to calibrate or to vary with `--set`: {_listed(estimated)}.", ""]
    for section, title in _SECTIONS.items():
        lines += [f"## {title}", "", "| key | value | source |", "|---|---|---|"]
        lines += [_row(row) for row in rows if row.key.rpartition(".")[0] == section]
        lines.append("")
    return "\n".join([*lines, f"`warpsight gpus show {gpu.name}` prints all of it as YAML. [All GPUs](README.md)", ""])


def index_page(gpus: Sequence[GpuSpec], command: str) -> str:
    """The page that lists the catalogue."""
    lines = [
        f"<!-- written by {command} -->", "# GPUs of the catalogue", "",
        "A number comes from a white paper, a data sheet, CUDA's guide, a published micro-benchmark or a simulator's correlated",
        "configuration, or is called estimated with the reason. [What the keys mean](../reference/gpu-description.md).", "",
        "| GPU | is | SMs | clock | fp32 | L2 | DRAM |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for gpu in gpus:
        peak = f"{three_digits(peak_flops(gpu, 'fp32') / 1e12)} TFLOPS"
        shown = {row.key: row.value for row in describe(gpu)}
        cells = (f"[{gpu.name}]({gpu.name}.md)", gpu.description, shown["sm_count"], shown["core_clock"], peak, shown["l2.size"],
                 shown["dram.bandwidth"])  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _peaks(gpu: GpuSpec) -> list[str]:
    """What the description makes of the GPU at most."""
    rates = [f"{op} {three_digits(peak_flops(gpu, op) / 1e12)} TFLOPS" for op in ("fp32", "fp64")]
    network, memory = gpu.noc.bandwidth_bytes_per_s, gpu.dram.bandwidth_bytes_per_s
    balance = peak_flops(gpu, "fp32") / memory
    return [
        f"At most: {', '.join(rates)} (a multiply-add is two operations), L2 to SMs {three_digits(network / 1e9)} GB/s, DRAM "
        f"{three_digits(memory / 1e9)} GB/s, {three_digits(balance)} fp32 operations for each byte of DRAM.",
    ]


def _row(row: KeyRow) -> str:
    source = row.source or "-"
    if source.startswith(_DEFAULT):
        source = f"*{source}*"
    return f"| `{row.key}` | {row.value} | {source.replace('|', '/')} |"


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)
