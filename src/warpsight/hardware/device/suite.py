"""A whole suite on a GPU: cases created in parallel, then measured one after the other, each in a separate process.

Also the description of the measured GPU: from the catalogue by its name, else from its driver.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.base.errors import WarpsightError
from warpsight.base.temporary import TemporaryFolder
from warpsight.gpu.describe import made_yaml
from warpsight.gpu.importers.device import Device, describe, read_device
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.hardware.device.case import Case, load_case
from warpsight.hardware.device.gpu import Gpu
from warpsight.hardware.device.measure import SWEPT_L2S, Settings, nvml_state
from warpsight.kernels.launch import ArrayArgument
from warpsight.pipeline.kernel_input import prepare
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.suite_check import check_run
from warpsight.pipeline.suites import SuiteKernel

SCHEMA = 1
WORKER = "warpsight.hardware.device.measure"
LIMIT_SECONDS = 120
Log = Callable[[str], None]


def device_document(number: int) -> dict[str, Any]:
    """The GPU of that number: the values of `gpus from-device`, its memory, and its idle state by NVML.

    Raises UnsupportedError (exit code 3) without a driver or a GPU, UsageError for an unknown number.
    """
    device = read_device(number)
    with Gpu(number) as gpu:
        memory, bus = gpu.total_memory(), gpu.bus_id()
    return {**device.__dict__, "memory_bytes": memory, "idle": nvml_state(bus)}


def measure_cases(
    kernels: Iterable[SuiteKernel], folder: Path, settings: Settings, *, device: int = 0, log: Log | None = None
) -> dict[str, Any]:
    """Measure the cases NAME.npz in `folder`, one process each; the whole document.

    Keys: `schema`, `tool`, `date`, `device` (`device_document`), `settings`, `swept_l2s`, `kernels`: a row each with `name`, the
    case's `kernel`, `grid`, `block`, `shared`, `registers`, `target`, `program` and `may_differ`, and `measured` (`measure`,
    with `right`, see `_verdict`) or `failed`, the reason.
    """
    measured_device = device_document(device)
    rows = []
    for kernel in kernels:
        path = folder / f"{kernel.name}.npz"
        if not path.exists():
            rows.append({"name": kernel.name, "failed": "it has no case"})
            continue
        row = _row(kernel, path, settings, device)
        if log is not None:
            log(f"{kernel.name}: {_summary(row)}")
        rows.append(row)
    return {
        "schema": SCHEMA, "tool": TOOL, "date": datetime.now(UTC).date().isoformat(), "device": measured_device,
        "settings": settings.to_json(), "swept_l2s": SWEPT_L2S if settings.cold else 0, "kernels": rows,
    }  # fmt: skip


def _summary(row: Mapping[str, Any]) -> str:
    if "failed" in row:
        return str(row["failed"]).splitlines()[0]
    measured = row["measured"]
    bits = "same bits" if measured["equal"] else "different bits"
    return f"{measured['kernel']['median']:.2f} us, an empty kernel {measured['empty']['median']:.2f} us, {bits}"


def _row(kernel: SuiteKernel, path: Path, settings: Settings, device: int) -> dict[str, Any]:
    """One kernel: its case, and the result of its process."""
    try:
        case = load_case(path)
    except WarpsightError as error:
        return {"name": kernel.name, "failed": str(error)}
    row: dict[str, Any] = {
        "name": kernel.name, "kernel": case.kernel, "grid": list(case.grid), "block": list(case.block), "shared": case.shared,
        "registers": case.registers, "target": case.target, "program": case.program, "may_differ": case.may_differ,
    }  # fmt: skip
    with TemporaryFolder() as folder:
        result = folder / "result.json"
        reason = run_worker([str(path), str(result), json.dumps(settings.to_json()), str(device)])
        if not result.exists():
            return {**row, "failed": reason or "the process ended without a result"}
        document = json.loads(result.read_text("utf-8"))
        if "measured" in document:
            document["measured"]["right"] = _verdict(kernel, case, document["measured"]["equal"], result.with_suffix(".npz"))
        return {**row, **document}


def run_worker(arguments: Sequence[str], limit: float = LIMIT_SECONDS) -> str:
    """Run the worker's process; returns the reason of failure, or ""."""
    command, environment = [sys.executable, "-m", WORKER, *arguments], worker_environment()
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return f"it did not finish within {limit:.0f} seconds"
    if process.returncode == 0:
        return ""
    lines = process.stderr.strip().splitlines()
    return f"the process ended with exit code {process.returncode}: {lines[-1] if lines else 'no message'}"


def worker_environment() -> dict[str, str]:
    """An environment in which a process imports this same package."""
    package = str(Path(__file__).resolve().parents[3])
    others = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (package, others)))}


def _verdict(kernel: SuiteKernel, case: Case, equal: bool, path: Path) -> dict[str, Any]:
    """Whether the suite's check accepts what the GPU wrote: `by` and `right` (None: the check cannot run), and `why` not.

    Results with the emulator's bits are as correct as the emulator's, which the suite's tests check.
    """
    if equal:
        return {"by": "same bits", "right": True, "why": ""}
    try:
        ready = prepare(kernel.request())

        def put() -> None:
            with np.load(path, allow_pickle=False) as file:
                for number, (argument, parameter) in enumerate(zip(ready.launch.arguments, case.parameters, strict=True)):
                    if isinstance(argument, ArrayArgument):
                        argument.array[...] = file.get(f"found{number}", parameter.expected)

        _, _, differences = check_run(kernel, ready, put)
    except WarpsightError as error:
        return {"by": "check file", "right": None, "why": str(error)}
    return {"by": "check file", "right": not differences, "why": "; ".join(map(str, differences))}


# Names by the driver -> names in the catalogue. Boards of which versions with other memory have the same name are not here:
# GTX 1650, RTX 3060, 3060 Ti, 3080 and 4070.
_NAMES = (
    (r"NVIDIA H200", "h200"), (r"NVIDIA H100 80GB HBM3", "h100-sxm"), (r"NVIDIA H100 PCIe", "h100-pcie"), (r"NVIDIA L4", "l4"),
    (r"(NVIDIA )?A100-(SXM4|PCIE)-40GB", "a100"), (r"(NVIDIA )?GeForce RTX 4090", "rtx4090"),
    (r"(NVIDIA )?GeForce RTX 3070", "rtx3070"), (r"(NVIDIA )?GeForce RTX 2060", "rtx2060"),
    (r"(NVIDIA )?GeForce GTX 1080", "gtx1080"), (r"(Tesla )?V100-SXM2-(16|32)GB", "v100"), (r"(NVIDIA )?TITAN V", "titan-v"),
    (r"Quadro GV100", "gv100"), (r"NVIDIA B200", "b200"), (r"NVIDIA L40S", "l40s"), (r"NVIDIA A10", "a10"),
    (r"(NVIDIA |Tesla )T4", "t4"), (r"(NVIDIA )?RTX A6000", "a6000"), (r"(NVIDIA )?A100-SXM4-80GB", "a100-80gb"),
    (r"(NVIDIA )?GeForce RTX 2080 Ti", "rtx2080-ti"), (r"(NVIDIA )?GeForce RTX 3070 Ti", "rtx3070-ti"),
    (r"(NVIDIA )?GeForce RTX 3090", "rtx3090"), (r"(NVIDIA )?GeForce RTX 4080", "rtx4080"),
    (r"(NVIDIA )?GeForce RTX 5090", "rtx5090"),
)  # fmt: skip


def catalogue_name(device: str) -> str:
    """The name in the catalogue of the GPU with that driver name, empty if there is none."""
    return next((name for pattern, name in _NAMES if re.fullmatch(pattern, device.strip())), "")


def gpu_of(document: Mapping[str, Any], clock_hz: float | None = None) -> tuple[GpuSpec, str]:
    """The description of the device of `device_document`, at that clock, and a line about its origin.

    Raises as `describe` for invalid values of the driver.
    """
    overrides = [f"core_clock={clock_hz / 1e6:.1f} MHz"] if clock_hz else []
    device = Device(**{name: document[name] for name in Device.__dataclass_fields__})
    clock = f", at the measured {clock_hz / 1e6:,.0f} MHz" if clock_hz else ""
    if name := catalogue_name(device.name):
        return load_gpu(name, overrides), f"`{name}` of the catalogue{clock}"
    imported = describe(device)
    with TemporaryFolder() as folder:
        path = folder / f"{imported.name}.yaml"
        path.write_text(made_yaml(imported), "utf-8")
        return load_gpu(path, overrides), f"as `warpsight gpus from-device` describes it (not in the catalogue){clock}"
