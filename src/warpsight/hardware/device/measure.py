"""Runs one case on a GPU: compares the written data with the emulator's, and measures the time.

Runs as a separate process, because after a fault of one kernel every call fails:

    python -m warpsight.hardware.device.measure CASE.npz RESULT.json SETTINGS DEVICE
    python -m warpsight.hardware.device.measure --once DEVICE CASE.npz ...

The first measures a case. The second launches each case once and no other kernel, for a profiler.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.gpu.importers.device import ATTRIBUTES
from warpsight.hardware.device.case import Case, Parameter, load_case
from warpsight.hardware.device.gpu import Function, Gpu, PackedLaunch, refuse_old

Array = npt.NDArray[Any]
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def difference(found: Array, expected: Array) -> dict[str, Any]:
    """The elements of `found` whose bits differ from `expected` (same shape and dtype), and how far.

    Keys: `elements`, `differing`, `largest_ulp` (floats that are both numbers; None for others, or if nothing differs),
    `not_numbers` (differing elements with one or both NaN), `first` (index, found, expected; None if nothing differs).
    Elements of a dtype that is neither a number nor a boolean are compared as bytes.
    """
    if found.dtype.kind not in "biuf" or found.dtype.itemsize not in _UNSIGNED:
        found, expected = (each.reshape(-1).view(np.uint8) for each in (found, expected))
    left, right = found.reshape(-1), expected.reshape(-1)
    bits = _UNSIGNED[left.dtype.itemsize]
    places = np.flatnonzero(left.view(bits) != right.view(bits))
    document: dict[str, Any] = {
        "elements": left.size, "differing": len(places), "largest_ulp": None, "not_numbers": 0, "first": None,
    }  # fmt: skip
    if not len(places):
        return document
    index = int(places[0])
    document["first"] = {"index": index, "found": repr(left[index].item()), "expected": repr(right[index].item())}
    if left.dtype.kind == "f":
        a, b = left[places], right[places]
        numbers = ~(np.isnan(a) | np.isnan(b))
        document["not_numbers"] = int(np.count_nonzero(~numbers))
        if numbers.any():
            document["largest_ulp"] = _largest_ulp(a[numbers].view(bits), b[numbers].view(bits))
    return document


def _largest_ulp(left: Array, right: Array) -> int:
    """The maximum distance in ULP between two floats, given by their bits. +0 and -0 are one apart here."""
    ordered = (_ordered(left), _ordered(right))
    return int((np.maximum(*ordered) - np.minimum(*ordered)).max())


def _ordered(bits: Array) -> npt.NDArray[np.uint64]:
    """Unsigned integers in the order of the floats: negative ones are inverted, the others moved above them."""
    width, wide = 8 * bits.dtype.itemsize, bits.astype(np.uint64)
    sign, mask = np.uint64(1 << (width - 1)), np.uint64((1 << width) - 1)
    return np.where(wide & sign, ~wide & mask, wide | sign)


# -- The state of a GPU by NVML; empty if nvidia-ml-py is not installed or does not answer.

_REASONS = {  # bits of nvmlClocksEventReasons (NVML API reference)
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "temperature", 0x40: "hardware: temperature", 0x80: "hardware: power brake", 0x100: "display clocks",
}  # fmt: skip


def nvml_state(bus: str) -> dict[str, Any]:
    """The GPU at that PCI address: `driver`, `sm_clock_hz`, `memory_clock_hz`, `watts`, `celsius`, `ecc`, `held_by`.

    A key is absent if NVML does not report it, and the document is empty without NVML.
    """
    try:
        import pynvml  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return {}
    state: dict[str, Any] = {}
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode())
        queries: dict[str, Callable[[], Any]] = {
            "driver": lambda: _text(pynvml.nvmlSystemGetDriverVersion()),
            "sm_clock_hz": lambda: 1e6 * pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM),
            "memory_clock_hz": lambda: 1e6 * pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_MEM),
            "watts": lambda: pynvml.nvmlDeviceGetPowerUsage(device) / 1000,
            "celsius": lambda: pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU),
            "ecc": lambda: bool(pynvml.nvmlDeviceGetEccMode(device)[0]),
            "held_by": lambda: _clock_reasons(pynvml, device),
        }
        for name, query in queries.items():
            with suppress(pynvml.NVMLError, AttributeError):
                state[name] = query()
        pynvml.nvmlShutdown()
    return state


def _clock_reasons(nvml: Any, device: Any) -> list[str]:
    """The reasons that limit the clock, by NVML's function under its current or its former name."""
    current = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    bits = (current or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(device)
    return [name for bit, name in _REASONS.items() if bits & bit]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


# -- Measuring a case.
#
# A measured run is, in one stream without waiting: arrays restored; a helper kernel that reads the clock for a while, so that the
# host finishes enqueuing; caches flushed; an event; the kernel; an event. Time is between the events. An empty kernel with the same
# grid and block is measured in the same way, to know the launch overhead.

SWEPT_L2S = 4  # times the L2's size that is read to flush it
_SWEEP_THREADS, _SWEEP_BLOCKS_PER_SM, _PIECE = 256, 8, 16
_MOST_RUNS = 10_000
_SETTLED, _SETTLING_NANOSECONDS, _MOST_READINGS = 0.005, 20_000_000, 50


@dataclass(frozen=True)
class Settings:
    """The method: the number of runs after `warm_up` runs, with flushed (`cold`) or warm caches.

    `hold_microseconds` is how long the clock is read before each run.
    """

    runs: int = 15
    warm_up: int = 3
    cold: bool = True
    hold_microseconds: int = 300

    def __post_init__(self) -> None:
        for name, least in (("runs", 1), ("warm_up", 0), ("hold_microseconds", 10)):
            value = getattr(self, name)
            if not least <= value <= _MOST_RUNS:
                raise UsageError(f"{value} is out of range", place=name, remedy=f"give {least} to {_MOST_RUNS:,}")

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return asdict(self)


class Loaded:
    """A case on the GPU: uploaded arrays with a copy of each, and the prepared launch."""

    def __init__(self, gpu: Gpu, case: Case) -> None:
        """Raises DeviceError if the GPU refuses it, UnsupportedError if the kernel is for a newer GPU."""
        refuse_old(gpu.attribute(ATTRIBUTES["major"]), gpu.attribute(ATTRIBUTES["minor"]), case.target)
        self.gpu, self.case = gpu, case
        (self.function,) = gpu.load(case.ptx, [case.kernel], case.name)
        # (address, address of the copy, parameter) of each array
        self.arrays: list[tuple[int, int, Parameter]] = []
        values = []
        for parameter in case.parameters:
            if parameter.before is None:
                values.append(parameter.data or b"")
                continue
            address, kept = (gpu.allocate(parameter.before.nbytes) for _ in range(2))
            gpu.upload(kept, np.ascontiguousarray(parameter.before))
            self.arrays.append((address, kept, parameter))
            values.append(address.to_bytes(8, "little"))
        self.launch = PackedLaunch(gpu, self.function, case.grid, case.block, values, case.shared)

    def restore(self) -> None:
        """Restore every array to its state before the launch, in the stream."""
        for address, kept, parameter in self.arrays:
            assert parameter.before is not None
            self.gpu.copy(address, kept, parameter.before.nbytes)

    def run_once(self) -> list[Array]:
        """One launch with restored arrays; waits and returns each array. Raises DeviceError for a fault."""
        self.restore()
        self.launch.launch()
        self.gpu.synchronise(f"running {self.case.name}")
        return self.written()

    def written(self) -> list[Array]:
        """The current content of each array on the GPU."""
        arrays = []
        for address, _, parameter in self.arrays:
            array = np.empty_like(np.ascontiguousarray(parameter.expected))
            self.gpu.download(address, array)
            arrays.append(array)
        return arrays


class Stopwatch:
    """Measures launches with two events, a kernel that reads the clock, and one that flushes the caches."""

    def __init__(self, gpu: Gpu, helpers: str, settings: Settings) -> None:
        self.gpu, self.settings = gpu, settings
        self.empty, clock, sweep = gpu.load(helpers, ["warpsight_empty", "warpsight_clock", "warpsight_sweep"], "its own kernels")
        self._first, self._second = gpu.event(), gpu.event()
        self._clocks = gpu.allocate(16)
        self.hold = self._reader(clock, 1000 * settings.hold_microseconds)
        size = SWEPT_L2S * gpu.attribute(ATTRIBUTES["l2_bytes"])
        blocks = _SWEEP_BLOCKS_PER_SM * gpu.attribute(ATTRIBUTES["sm_count"])
        data, out = gpu.allocate(size), gpu.allocate(4)
        gpu.fill(data, size)
        values = [number.to_bytes(8, "little") for number in (data, size // _PIECE, out)]
        self._sweep = PackedLaunch(gpu, sweep, (blocks, 1, 1), (_SWEEP_THREADS, 1, 1), values)
        self._settle(self._reader(clock, _SETTLING_NANOSECONDS))

    def _reader(self, clock: Function, nanoseconds: int) -> PackedLaunch:
        values = [number.to_bytes(8, "little") for number in (self._clocks, nanoseconds)]
        return PackedLaunch(self.gpu, clock, (1, 1, 1), (1, 1, 1), values)

    def _read(self) -> float:
        """The clock of the last reading, in Hz."""
        counters = np.empty(2, np.uint64)
        self.gpu.download(self._clocks, counters)
        return 1e9 * float(counters[0]) / float(counters[1])

    def _settle(self, reader: PackedLaunch) -> None:
        """Wait for the clock: an idle GPU's rises over tens of milliseconds; reads until three readings agree, or for a second."""
        readings: list[float] = []
        while len(readings) < _MOST_READINGS:
            reader.launch()
            readings.append(self._read())
            last = readings[-3:]
            if len(last) == 3 and max(last) - min(last) <= _SETTLED * max(last):
                return

    def time(self, launch: PackedLaunch, before: Callable[[], None]) -> tuple[float, float]:
        """Seconds between the events around a launch, and the SMs' clock in Hz just before."""
        before()
        self.hold.launch()
        if self.settings.cold:
            self._sweep.launch()
        self.gpu.record(self._first)
        launch.launch()
        self.gpu.record(self._second)
        seconds = self.gpu.seconds_between(self._first, self._second)
        return seconds, self._read()

    def series(self, launch: PackedLaunch, before: Callable[[], None]) -> dict[str, Any]:
        """The runs after the warm-up: `microseconds` of each, their `median` and interquartile `spread`, `clock_hz` (median)."""
        runs = [self.time(launch, before) for _ in range(self.settings.warm_up + self.settings.runs)][self.settings.warm_up :]
        times = [1e6 * seconds for seconds, _ in runs]
        quartiles = statistics.quantiles(times, method="inclusive") if len(times) > 1 else [times[0]] * 3
        return {
            "median": statistics.median(times), "spread": quartiles[2] - quartiles[0], "microseconds": times,
            "clock_hz": statistics.median(clock for _, clock in runs),
        }


def measure(gpu: Gpu, case: Case, settings: Settings) -> tuple[dict[str, Any], dict[int, Array]]:
    """The document of a case, and the arrays that differ from the emulator's, by the parameter's number.

    Keys: `registers`, `static_shared`, `local_bytes` (as assembled here), `buffers` (`equality.difference` of each compared array,
    with its `parameter`), `equal` (all of them, bit for bit), `repeatable` (the last run wrote the same as the first), `kernel` and
    `empty` (`Stopwatch.series`), `state` (`nvml_state` after the runs).
    Raises DeviceError for a launch that the GPU refuses or stops, UnsupportedError for a kernel of a newer GPU.
    """
    loaded = Loaded(gpu, case)
    written = loaded.run_once()
    numbered = [(number, parameter) for number, parameter in enumerate(case.parameters) if parameter.before is not None]
    buffers, differing = [], {}
    for (number, parameter), array in zip(numbered, written, strict=True):
        if not parameter.compared:
            continue
        row = difference(array, np.ascontiguousarray(parameter.expected))
        buffers.append({"parameter": number, "dtype": array.dtype.str, **row})
        if row["differing"]:
            differing[number] = array
    watch = Stopwatch(gpu, case.helpers, settings)
    timed = watch.series(loaded.launch, loaded.restore)
    again = loaded.written()
    state = nvml_state(gpu.bus_id())
    empty = watch.series(PackedLaunch(gpu, watch.empty, case.grid, case.block, [], case.shared), lambda: None)
    function = loaded.function
    document = {
        "registers": function.registers, "static_shared": function.static_shared, "local_bytes": function.local_bytes,
        "buffers": buffers, "equal": not differing,
        "repeatable": all(a.tobytes() == b.tobytes() for a, b in zip(written, again, strict=True)),
        "kernel": timed, "empty": empty, "state": state,
    }
    return document, differing


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands above; 0, or 1 where a profiled launch failed."""
    if arguments[0] == "--once":
        return _once(int(arguments[1]), arguments[2:])
    path, result, settings, device = arguments
    try:
        with Gpu(int(device)) as gpu:
            document, arrays = measure(gpu, load_case(path), Settings(**json.loads(settings)))
        outcome: dict[str, Any] = {"measured": document}
        if arrays:
            np.savez(Path(result).with_suffix(".npz"), **{f"found{number}": array for number, array in arrays.items()})  # type: ignore[arg-type]
    except WarpsightError as error:
        outcome = {"failed": str(error)}
    Path(result).write_text(json.dumps(outcome), "utf-8")
    return 0


def _once(device: int, paths: Sequence[str]) -> int:
    """Launch each case once, in order."""
    try:
        with Gpu(device) as gpu:
            for path in paths:
                Loaded(gpu, load_case(path)).run_once()
    except WarpsightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
