"""Runs one case on a GPU: is what it writes what the emulator wrote, and how long does it take?

A measured run is, in one stream and not waited for in between: arrays put back as they were; a kernel of ours that reads the clock
for a while, so that the host is done with enqueuing; caches emptied; an event; the kernel; an event. Time is between the events. An
empty kernel with the same grid and block is measured in the same way: what it takes is the launch, not the kernel.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError
from warpsight.explore.device.case import Case, Parameter
from warpsight.explore.device.clocks import nvml_state
from warpsight.explore.device.equality import difference
from warpsight.explore.device.gpu import Function, Gpu, PackedLaunch, refuse_old
from warpsight.gpu.importers.driver import ATTRIBUTES

Array = npt.NDArray[Any]
SWEPT_L2S = 4  # how often the L2's bytes are read to empty it
_SWEEP_THREADS, _SWEEP_BLOCKS_PER_SM, _PIECE = 256, 8, 16
_MOST_RUNS = 10_000
_SETTLED, _SETTLING_NANOSECONDS, _MOST_READINGS = 0.005, 20_000_000, 50


@dataclass(frozen=True)
class Settings:
    """How is measured: so many runs after `warm_up` ones, with caches that hold nothing (`cold`) or what the last run left.

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
                what = f"{name.replace('_', ' ')} of {value} cannot be"
                raise UsageError(what, place=f"--{name.replace('_', '-')}", remedy=f"give {least} to {_MOST_RUNS:,}")

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return asdict(self)


class Loaded:
    """A case on the GPU: arrays uploaded, a copy of each beside, the launch packed."""

    def __init__(self, gpu: Gpu, case: Case) -> None:
        """Raises DeviceError where it is not taken, UnsupportedError where the kernel is for a newer GPU."""
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
        """Put every array back as it was before the launch, in the stream."""
        for address, kept, parameter in self.arrays:
            assert parameter.before is not None
            self.gpu.copy(address, kept, parameter.before.nbytes)

    def run_once(self) -> list[Array]:
        """One launch from the beginning, waited for: each array after it. Raises DeviceError for its fault."""
        self.restore()
        self.launch.launch()
        self.gpu.synchronise(f"running {self.case.name}")
        return self.written()

    def written(self) -> list[Array]:
        """Each array as it is on the GPU."""
        found = []
        for address, _, parameter in self.arrays:
            array = np.empty_like(np.ascontiguousarray(parameter.expected))
            self.gpu.download(address, array)
            found.append(array)
        return found


class Stopwatch:
    """Measures launches: two events, a kernel that reads the clock, and one that empties the caches."""

    def __init__(self, gpu: Gpu, helpers: str, settings: Settings) -> None:
        self.gpu, self.settings = gpu, settings
        self.empty, clock, sweep = gpu.load(helpers, ["warpsight_empty", "warpsight_clock", "warpsight_sweep"], "its own kernels")
        self._first, self._second = gpu.event(), gpu.event()
        self._clocks = gpu.allocate(16)
        self.hold = self._reader(clock, 1000 * settings.hold_microseconds)
        self._sweep = self._sweeper(sweep)
        self._settle(self._reader(clock, _SETTLING_NANOSECONDS))

    def _reader(self, clock: Function, nanoseconds: int) -> PackedLaunch:
        values = [number.to_bytes(8, "little") for number in (self._clocks, nanoseconds)]
        return PackedLaunch(self.gpu, clock, (1, 1, 1), (1, 1, 1), values)

    def _read(self) -> float:
        """What the clock was when it was read last, in Hz."""
        told = np.empty(2, np.uint64)
        self.gpu.download(self._clocks, told)
        return 1e9 * float(told[0]) / float(told[1])

    def _settle(self, reader: PackedLaunch) -> None:
        """An idle GPU's clock rises over tens of milliseconds: read it until three readings agree, or for a second."""
        readings: list[float] = []
        while len(readings) < _MOST_READINGS:
            reader.launch()
            readings.append(self._read())
            last = readings[-3:]
            if len(last) == 3 and max(last) - min(last) <= _SETTLED * max(last):
                return

    def _sweeper(self, sweep: Function) -> PackedLaunch:
        gpu = self.gpu
        size = SWEPT_L2S * gpu.attribute(ATTRIBUTES["l2_bytes"])
        data, out = gpu.allocate(size), gpu.allocate(4)
        gpu.fill(data, size)
        blocks = _SWEEP_BLOCKS_PER_SM * gpu.attribute(ATTRIBUTES["sm_count"])
        values = [number.to_bytes(8, "little") for number in (data, size // _PIECE, out)]
        return PackedLaunch(gpu, sweep, (blocks, 1, 1), (_SWEEP_THREADS, 1, 1), values)

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
            "median": statistics.median(times),
            "spread": quartiles[2] - quartiles[0],
            "microseconds": times,
            "clock_hz": statistics.median(clock for _, clock in runs),
        }


def measure(gpu: Gpu, case: Case, settings: Settings) -> tuple[dict[str, Any], dict[int, Array]]:
    """The document of a case, and the arrays that are not as the emulator left them, by the parameter's number.

    Keys: `registers`, `static_shared`, `local_bytes` (as assembled here), `buffers` (`equality.difference` of each compared array,
    with its `parameter`), `equal` (all of them, bit for bit), `repeatable` (the last run wrote what the first did), `kernel` and
    `empty` (`Stopwatch.series`), `state` (`nvml_state` after the runs).
    Raises DeviceError for a launch that the GPU refuses or stops, UnsupportedError for a kernel of a newer GPU.
    """
    loaded = Loaded(gpu, case)
    found = loaded.run_once()
    numbers = [number for number, parameter in enumerate(case.parameters) if parameter.before is not None]
    buffers, differing = [], {}
    for number, array in zip(numbers, found, strict=True):
        parameter = case.parameters[number]
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
    document = {
        "registers": loaded.function.registers,
        "static_shared": loaded.function.static_shared,
        "local_bytes": loaded.function.local_bytes,
        "buffers": buffers,
        "equal": not differing,
        "repeatable": all(a.tobytes() == b.tobytes() for a, b in zip(found, again, strict=True)),
        "kernel": timed,
        "empty": empty,
        "state": state,
    }
    return document, differing
