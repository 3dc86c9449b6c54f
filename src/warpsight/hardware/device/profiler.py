"""The same launches under Nsight Compute: cycles, hit rates and DRAM traffic, by `ncu --csv --page raw`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import FormatError, WarpsightError
from warpsight.hardware.device.suite import WORKER, worker_environment
from warpsight.hardware.launch_matching import base_name
from warpsight.hardware.measurements.launch import Measurements
from warpsight.hardware.measurements.ncu import is_ncu, read_ncu

_LOAD, _STORE = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld", "l1tex__t_sectors_pipe_lsu_mem_global_op_st"
METRICS = (
    "gpc__cycles_elapsed.max", "sm__cycles_elapsed.max", "gpu__time_duration.sum", "smsp__cycles_elapsed.avg.per_second",
    "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum", "sm__inst_executed.avg.per_cycle_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active", f"{_LOAD}.sum", f"{_STORE}.sum", f"{_LOAD}_lookup_hit.sum",
    "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum",
    "dram__bytes_read.sum", "dram__bytes_write.sum", "regex:smsp__average_warps_issue_stalled_.*_per_issue_active[.]ratio",
)  # fmt: skip
# clocks not controlled and caches flushed: as without the profiler
_OPTIONS = (
    "--target-processes", "all", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
    "--cache-control", "all",
)  # fmt: skip
_PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
LIMIT_SECONDS = 240
_PERMISSION = "ERR_NVGPUCTRPERM"


@dataclass(frozen=True)
class Profiled:
    """ncu's output as `text` (for `read_ncu`) and as `measurements`, or (None) the reason `why_not`. `version` is ncu's."""

    version: str
    text: str
    measurements: Measurements | None
    why_not: str


def find_ncu() -> str | None:
    """The program: on PATH, or in the folders of CUDA and Nsight Compute."""
    places = [Path(_PLACES[0]) / "ncu", *sorted(Path(_PLACES[1]).glob("*/ncu"), reverse=True)]
    return shutil.which("ncu") or next((str(path) for path in places if os.access(path, os.X_OK)), None)


def profile_cases(paths: Sequence[Path], kernels: Sequence[str], *, device: int = 0, limit: float = LIMIT_SECONDS) -> Profiled:
    """Launch each case once under ncu, in one process; the launches are in the order of `paths`, of the kernels `kernels`.

    Collects the metrics that `measurements.launch` uses; if ncu refuses that list, its full set.
    """
    program = find_ncu()
    if program is None:
        return Profiled("", "", None, "ncu is neither on PATH nor in CUDA's folders")
    version, why = _version(program), ""
    for collected in (("--metrics", ",".join(METRICS)), ("--set", "full")):
        command = [program, *_OPTIONS, *collected, sys.executable, "-m", WORKER, "--once", str(device), *map(str, paths)]
        try:
            process = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False, env=worker_environment(), errors="replace"
            )
        except (subprocess.TimeoutExpired, OSError) as error:
            why = f"ncu did not finish within {limit:.0f} seconds" if isinstance(error, subprocess.TimeoutExpired) else str(error)
            break
        try:
            measurements = _checked(process.stdout, kernels)
        except WarpsightError as error:
            why = _reason(process.stdout + process.stderr) or f"ncu's output cannot be parsed: {error}"
            if _PERMISSION in why:
                break
            continue
        return Profiled(version, process.stdout, measurements, "")
    return Profiled(version, "", None, why)


def _version(program: str) -> str:
    """The version that `ncu --version` prints."""
    try:
        text = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"Version\s+(\S+)", text)
    return match[1] if match else ""


def _checked(text: str, kernels: Sequence[str]) -> Measurements:
    """ncu's output, if it has the expected launches. Raises FormatError otherwise."""
    if not is_ncu(text):
        raise FormatError("its output has no table", place="ncu", remedy="profile again")
    measurements = read_ncu(text, "ncu")
    names = [base_name(launch.kernel) for launch in measurements.launches]
    if names != [base_name(kernel) for kernel in kernels]:
        message = f"has {len(names)} launches instead of {len(kernels)}, or other kernels"
        raise FormatError(message, place=measurements.origin, remedy="profile again")
    if any(launch.value("cycles") is None for launch in measurements.launches):
        raise FormatError("has launches without cycles", place=measurements.origin, remedy="profile again")
    return measurements


def _reason(text: str) -> str:
    """ncu's error message, empty if it has none."""
    if _PERMISSION in text:
        return f"{_PERMISSION}: this user may not read the GPU's counters (NVIDIA's page on it explains how to allow it)"
    lines = [line.removeprefix("==ERROR== ") for line in text.splitlines() if line.startswith(("==ERROR==", "error:"))]
    return "; ".join(dict.fromkeys(lines[:3]))
