"""A GPU of this machine as a description: what the NVIDIA driver reports, the rest from the catalogue.

The driver is called through ctypes on libcuda.so.1, and NVML is used where nvidia-ml-py is installed. Nothing runs on the GPU,
and no context is created: `cuInit` and the queries of device attributes are enough.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.gpu.describe import Imported
from warpsight.gpu.document import Value, check_bounds, check_sizes
from warpsight.gpu.keys import key_of
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import CAPABILITIES, KEYS, Content, GpuSpec

LIBRARY = "libcuda.so.1"
_SUCCESS, _NO_DEVICE = 0, 100
_REMEDY = "run it on a machine with an NVIDIA GPU, or use one of `warpsight gpus list`"

# CUdevice_attribute (CUDA driver API, cuda.h)
ATTRIBUTES = {
    "clock_khz": 13, "sm_count": 16, "memory_clock_khz": 36, "bus_bits": 37, "l2_bytes": 38, "threads_per_sm": 39,
    "major": 75, "minor": 76, "shared_bytes": 81, "registers": 82, "shared_bytes_of_block": 97, "blocks_per_sm": 106,
    "reserved_bytes": 111, "warp_size": 10, "threads_of_block": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """What the driver reports of a GPU: `attributes` by the names of `ATTRIBUTES`, 0 for one that it does not know.

    `nvml_clock_hz` and `nvml_memory_clock_hz` are the highest clocks by NVML, 0 without NVML.
    """

    name: str
    driver: str
    attributes: dict[str, int]
    nvml_clock_hz: float = 0.0
    nvml_memory_clock_hz: float = 0.0


def read_device(number: int) -> Device:
    """The GPU of that number. Raises UnsupportedError (exit code 3) without a driver or GPU, UsageError for a number too large."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        message = f"this machine has no NVIDIA driver ({LIBRARY} cannot be loaded), so there is no GPU to describe"
        raise UnsupportedError(message, remedy=_REMEDY) from None
    count, version = ctypes.c_int(), ctypes.c_int()
    _call(library, "cuInit", 0)
    _call(library, "cuDeviceGetCount", ctypes.byref(count))
    if count.value < 1:
        raise UnsupportedError("the NVIDIA driver of this machine finds no GPU", remedy=_REMEDY)
    if number >= count.value:
        message = f"there is no GPU {number}: the driver finds {count.value}, numbered from 0"
        raise UsageError(message, place="device", remedy="choose a smaller number")
    _call(library, "cuDriverGetVersion", ctypes.byref(version))
    handle, name, bus = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    _call(library, "cuDeviceGet", ctypes.byref(handle), number)
    _call(library, "cuDeviceGetName", name, len(name), handle)
    _call(library, "cuDeviceGetPCIBusId", bus, len(bus), handle)
    attributes = {key: _attribute(library, code, handle) for key, code in ATTRIBUTES.items()}
    driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return Device(name.value.decode("utf-8", "replace"), driver, attributes, *_nvml_clocks(bus.value))


def _call(library: Any, function: str, *arguments: Any) -> None:
    """Call a function of the driver. Raises UnsupportedError with its name and result if it fails."""
    try:
        result = int(getattr(library, function)(*arguments))
    except AttributeError:
        raise UnsupportedError(f"the NVIDIA driver of this machine has no {function}: it is too old", remedy=_REMEDY) from None
    if result == _NO_DEVICE:
        raise UnsupportedError("the NVIDIA driver of this machine finds no GPU", remedy=_REMEDY)
    if result != _SUCCESS:
        raise UnsupportedError(f"the NVIDIA driver refuses {function} with error {result}", remedy=_REMEDY)


def _attribute(library: Any, code: int, handle: ctypes.c_int) -> int:
    """An attribute of a device, 0 if the driver does not know it."""
    value = ctypes.c_int()
    result = library.cuDeviceGetAttribute(ctypes.byref(value), code, handle)
    return value.value if int(result) == _SUCCESS else 0


def _nvml_clocks(bus: bytes) -> tuple[float, float]:
    """The highest clocks of SMs and memory in Hz, of the GPU at that PCI address; zeros if NVML is not available."""
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


# compute capability -> the GPU of the catalogue with that SM
OF_CAPABILITY = {
    (6, 1): "gtx1080", (7, 0): "v100", (7, 5): "rtx2060", (8, 0): "a100", (8, 6): "rtx3070", (8, 9): "rtx4090", (9, 0): "h100-sxm",
}  # fmt: skip
# bits of the memory interface of those GPUs, from the sources in their files
_BUS_BITS = {"gtx1080": 256, "v100": 4096, "rtx2060": 192, "a100": 5120, "rtx3070": 256, "rtx4090": 384, "h100-sxm": 5120}
_CALIBRATE = "must be calibrated"
_WARP = 32


def describe_device(number: int = 0, *, name: str = "") -> Imported:
    """The description of GPU `number`. `name` is by default the driver's name in lower case.

    Raises UnsupportedError (exit code 3) without a driver or a GPU, or for a GPU older than the catalogue's, UsageError for a
    number that no GPU has, SpecError if the driver's values are inconsistent.
    """
    return describe(read_device(number), name=name)


def describe(device: Device, *, name: str = "") -> Imported:
    """The description of a GPU from what its driver reported, on this machine or another. Raises as `describe_device`."""
    capability = (device.attributes["major"], device.attributes["minor"])
    base_name = _base(device.name, capability)
    base = load_gpu(base_name)
    values: dict[str, Value] = {}
    for key, content in base.by_key.items():
        source = base.sources.get(key, "")
        if not source or source != key_of(key).reason:  # defaults stay defaults
            marked = f"{_CALIBRATE}: as on {base_name} ({source})" if key_of(key).numeric else ""
            values[key] = Value(content, f"the catalogue's {base_name}", marked)
    stated = f"{capability[0]}.{capability[1]}"
    if stated in CAPABILITIES:
        values["compute_capability"] = Value(stated, device.name, f"the driver of {device.name}, cuDeviceGetAttribute")
    _put_device(values, device)
    channels, fits = _put_l2(values, device, base, base_name)
    # the network has as many bytes per clock and slice as on the base
    slices, clock = int(values["l2.slices"].content), float(values["core_clock"].content)
    each = base.noc.bandwidth_bytes_per_s / base.core_clock_hz / base.l2.slices
    how = f"{_CALIBRATE}: {slices} slices x {each:.4g} B per clock as on {base_name} x the core clock"
    _put(values, "noc.bandwidth", each * clock * slices, "the network", how)
    check_sizes(values)
    notes = _notes(values, capability, base_name, device)
    if not fits:
        notes.append(f"the L2's size does not divide among {channels} channels as on {base_name}, whose channels are used")
    ordered = {key: values[key] for key in KEYS if key in values}
    title = f"{device.name}, as its driver (CUDA {device.driver}) reports, the rest as {base_name}"
    short = re.sub(r"[^a-z0-9.]+", "-", device.name.lower()).strip("-")
    return Imported(name or short or "device", title, (), ordered, tuple(notes))


def _base(name: str, capability: tuple[int, int]) -> str:
    """The GPU of the catalogue with that compute capability, or the nearest one below."""
    below = [known for known in OF_CAPABILITY if known <= capability]
    if not below:
        message = f"{name} has compute capability {capability[0]}.{capability[1]}, and the catalogue begins at 6.1"
        raise UnsupportedError(message, remedy="write its description by hand, `like:` a GPU of `warpsight gpus list`")
    return OF_CAPABILITY[max(below)]


def _put(values: dict[str, Value], key: str, content: Content, place: str, source: str) -> None:
    """Set a value that the driver reported."""
    check_bounds(KEYS[key], float(content), place)
    values[key] = Value(content, place, source)


def _put_device(values: dict[str, Value], device: Device) -> None:
    """Set what the driver reports. What it does not report (0) stays as on the base, marked."""
    attributes = device.attributes
    source = f"the driver of {device.name}, cuDeviceGetAttribute"
    for key, attribute, divisor in (
        ("sm_count", "sm_count", 1), ("sm.max_warps", "threads_per_sm", _WARP), ("sm.max_blocks", "blocks_per_sm", 1),
        ("sm.registers", "registers", 1), ("sm.shared_memory", "shared_bytes", 1),
        ("sm.max_shared_memory_per_block", "shared_bytes_of_block", 1), ("sm.max_threads_per_block", "threads_of_block", 1),
    ):  # fmt: skip
        if attributes[attribute]:
            _put(values, key, attributes[attribute] // divisor, f"{device.name}: {attribute}", f"{source}: {attribute}")
    reserved = attributes["reserved_bytes"]  # of which 0 is a value
    _put(values, "sm.shared_memory_reserved", reserved, f"{device.name}: reserved_bytes", f"{source}: reserved_bytes")
    clock = device.nvml_clock_hz or attributes["clock_khz"] * 1e3
    if clock:
        by = "NVML's highest SM clock" if device.nvml_clock_hz else f"{source}: clock rate, the highest"
        _put(values, "core_clock", clock, f"{device.name}: clock", f"{by}; under load it may be lower, so set it to that of a run")
    memory = device.nvml_memory_clock_hz or attributes["memory_clock_khz"] * 1e3
    if memory and attributes["bus_bits"]:
        by = "NVML's highest memory clock" if device.nvml_memory_clock_hz else f"{source}: memory clock"
        how = f"{by} {memory / 1e6:g} MHz x 2 (double data rate) x {attributes['bus_bits']} bits / 8, the peak"
        _put(values, "dram.bandwidth", memory * 2 * attributes["bus_bits"] / 8, f"{device.name}: memory", how)


def _put_l2(values: dict[str, Value], device: Device, base: GpuSpec, base_name: str) -> tuple[int, bool]:
    """Set size, channels and slices so that each slice has whole sets. Returns the channels of the bus and whether they fit."""
    attributes = device.attributes
    width = _BUS_BITS[base_name] // base.dram.channels
    of_bus = max(1, attributes["bus_bits"] // width) if attributes["bus_bits"] else base.dram.channels
    size = attributes["l2_bytes"] or base.l2.size_bytes
    if attributes["l2_bytes"]:
        _put(values, "l2.size", size, f"{device.name}: l2_bytes", f"the driver of {device.name}, cuDeviceGetAttribute: l2_bytes")
    per = base.l2.slices // base.dram.channels
    for channels in dict.fromkeys((of_bus, base.dram.channels)):
        for each in sorted(range(1, 17), key=lambda each: abs(each - per)):
            sets, rest = divmod(size, channels * each * base.l2.line_bytes * base.l2.ways)
            if rest or not sets:
                continue
            hashed = base.l2.index if sets & (sets - 1) == 0 else "modulo"
            how = f"{_CALIBRATE}: {attributes['bus_bits']} bits at {width} per channel as on {base_name}"
            if channels != of_bus:
                how = f"{_CALIBRATE}: as on {base_name}, since the L2 does not divide among {of_bus}"
            _put(values, "dram.channels", channels, f"{device.name}: bus", how)
            near = f"{_CALIBRATE}: {each} per channel ({per} on {base_name}), so that a slice has whole sets"
            _put(values, "l2.slices", channels * each, f"{device.name}: L2", near)
            values["l2.index"] = Value(hashed, f"{device.name}: L2", "")
            return of_bus, channels == of_bus
    message = f"{device.name} has an L2 of {size:,} B, which does not divide into slices as on {base_name}"
    raise UnsupportedError(message, remedy=f"write its description by hand, `like: {base_name}`")


def _notes(values: dict[str, Value], capability: tuple[int, int], base_name: str, device: Device) -> list[str]:
    """What must be calibrated, and what else to know."""
    marked = [key for key in KEYS if key in values and values[key].source.startswith(_CALIBRATE)]
    notes = [f"{_CALIBRATE}, since no driver reports them: {', '.join(marked)}"]
    if capability not in OF_CAPABILITY:
        stated = f"{capability[0]}.{capability[1]}"
        notes.append(f"no GPU of compute capability {stated} is in the catalogue: {base_name} is the nearest below")
        if stated not in CAPABILITIES:
            executed = values["compute_capability"].content
            notes.append(f"the assembler has no machine code for {stated}: that of {executed} is executed")
    if not device.nvml_clock_hz:
        notes.append("NVML is not available (it needs nvidia-ml-py, extra `device`): clocks are those of the driver")
    return notes
