"""The NVIDIA driver of this machine: its API through ctypes on libcuda.so.1, and NVML where nvidia-ml-py is installed.

Nothing is run on the GPU, and no context is made: `cuInit` and the queries of a device's attributes are enough.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from warpsight.base.errors import UnsupportedError, UsageError

LIBRARY = "libcuda.so.1"
_SUCCESS, _NO_DEVICE = 0, 100
_REMEDY = "run it on a machine with an NVIDIA GPU, or take one of `warpsight gpus list`"

# CUdevice_attribute (CUDA driver API, cuda.h)
ATTRIBUTES = {
    "clock_khz": 13, "sm_count": 16, "memory_clock_khz": 36, "bus_bits": 37, "l2_bytes": 38, "threads_per_sm": 39,
    "major": 75, "minor": 76, "shared_bytes": 81, "registers": 82, "shared_bytes_of_block": 97, "blocks_per_sm": 106,
    "reserved_bytes": 111, "warp_size": 10, "threads_of_block": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """What the driver says of a GPU: `attributes` by the names of `ATTRIBUTES`, an attribute that it does not know is 0.

    `nvml_clock_hz` and `nvml_memory_clock_hz` are the highest clocks that NVML gives, 0: NVML was not asked.
    """

    name: str
    driver: str
    attributes: dict[str, int]
    nvml_clock_hz: float = 0.0
    nvml_memory_clock_hz: float = 0.0


def read_device(number: int) -> Device:
    """The GPU of that number. Raises UnsupportedError (exit code 3) without a driver or GPU, UsageError for a number too large."""
    library = _load()
    count, version = ctypes.c_int(), ctypes.c_int()
    _call(library, "cuInit", 0)
    _call(library, "cuDeviceGetCount", ctypes.byref(count))
    if count.value < 1:
        raise UnsupportedError("the NVIDIA driver of this machine finds no GPU", remedy=_REMEDY)
    if number >= count.value:
        what = f"there is no GPU {number}: the driver finds {count.value}, numbered from 0"
        raise UsageError(what, place="--device", remedy="write a smaller number")
    _call(library, "cuDriverGetVersion", ctypes.byref(version))
    handle, name, bus = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    _call(library, "cuDeviceGet", ctypes.byref(handle), number)
    _call(library, "cuDeviceGetName", name, len(name), handle)
    _call(library, "cuDeviceGetPCIBusId", bus, len(bus), handle)
    attributes = {key: _attribute(library, code, handle) for key, code in ATTRIBUTES.items()}
    driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return Device(name.value.decode("utf-8", "replace"), driver, attributes, *_nvml_clocks(bus.value))


def _load() -> Any:
    """The driver's library."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        what = f"this machine has no NVIDIA driver ({LIBRARY} cannot be loaded), so there is no GPU to describe"
        raise UnsupportedError(what, remedy=_REMEDY) from None


def _call(library: Any, function: str, *arguments: Any) -> None:
    """Calls a function of the driver. Raises UnsupportedError with its name and result when it fails."""
    try:
        result = int(getattr(library, function)(*arguments))
    except AttributeError:
        raise UnsupportedError(f"the NVIDIA driver of this machine has no {function}: it is too old", remedy=_REMEDY) from None
    if result == _NO_DEVICE:
        raise UnsupportedError("the NVIDIA driver of this machine finds no GPU", remedy=_REMEDY)
    if result != _SUCCESS:
        raise UnsupportedError(f"the NVIDIA driver refuses {function} with error {result}", remedy=_REMEDY)


def _attribute(library: Any, code: int, handle: ctypes.c_int) -> int:
    """An attribute of a device, 0 where the driver does not know it."""
    value = ctypes.c_int()
    result = library.cuDeviceGetAttribute(ctypes.byref(value), code, handle)
    return value.value if int(result) == _SUCCESS else 0


def _nvml_clocks(bus: bytes) -> tuple[float, float]:
    """The highest clocks of SMs and memory in Hz, of the GPU at that PCI address; zeros where NVML cannot be asked."""
    try:
        import pynvml  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return 0.0, 0.0
    try:
        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByPciBusId(bus)
        clocks = [pynvml.nvmlDeviceGetMaxClockInfo(device, kind) for kind in (pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM)]
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return 0.0, 0.0
    return clocks[0] * 1e6, clocks[1] * 1e6
