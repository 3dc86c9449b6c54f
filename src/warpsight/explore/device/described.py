"""The description of a GPU that was measured: the catalogue's of its name, else what its driver told, at the clock that it had."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from warpsight.explore.device.suite import device_of
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec

# names as the driver gives them -> the catalogue
_NAMES = (
    (r"NVIDIA H200", "h200"), (r"NVIDIA H100 80GB HBM3", "h100-sxm"), (r"NVIDIA H100 PCIe", "h100-pcie"), (r"NVIDIA L4", "l4"),
    (r"(NVIDIA )?A100-(SXM4|PCIE)-40GB", "a100"), (r"(NVIDIA )?GeForce RTX 4090", "rtx4090"),
    (r"(NVIDIA )?GeForce RTX 3070", "rtx3070"), (r"(NVIDIA )?GeForce RTX 2060", "rtx2060"),
    (r"(NVIDIA )?GeForce GTX 1080", "gtx1080"), (r"(Tesla )?V100-SXM2-(16|32)GB", "v100"), (r"(NVIDIA )?TITAN V", "titan-v"),
    (r"Quadro GV100", "gv100"),
)  # fmt: skip


def catalogue_name(device: str) -> str:
    """The description of the catalogue that is of the GPU with that name, empty where there is none."""
    return next((name for pattern, name in _NAMES if re.fullmatch(pattern, device.strip())), "")


def gpu_of(document: Mapping[str, Any], clock_hz: float | None = None) -> tuple[GpuSpec, str]:
    """The description of the device of `device_document`, at that clock, and a line on where it is from.

    Raises what `describe` raises where the driver's figures cannot be a GPU.
    """
    from warpsight.gpu.importers.device import describe
    from warpsight.gpu.importers.yaml_text import made_yaml

    overrides = [f"core_clock={clock_hz / 1e6:.1f} MHz"] if clock_hz else []
    device = device_of(document)
    at = f", at the measured {clock_hz / 1e6:,.0f} MHz" if clock_hz else ""
    name = catalogue_name(device.name)
    if name:
        return load_gpu(name, overrides), f"`{name}` of the catalogue{at}"
    made = describe(device)
    with TemporaryDirectory() as place:
        path = Path(place) / f"{made.name}.yaml"
        path.write_text(made_yaml(made), "utf-8")
        return load_gpu(path, overrides), f"as `warpsight gpus from-device` describes it (not in the catalogue){at}"
