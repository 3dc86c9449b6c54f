"""Runs the micro-benchmarks on a GPU of this machine, through its driver, and writes what `sources/microbenchmarks.cu` writes.

NVRTC compiles the kernels; no toolkit is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files

import numpy as np

from warpsight.explore.device.gpu import Function, Gpu, PackedLaunch, refuse_old
from warpsight.explore.microbenchmarks.plan import (
    ALIGN,
    LINE,
    MISS_RUNS,
    MOST_MISSES,
    RUNS,
    Machine,
    chases,
    residents,
    streams,
)
from warpsight.explore.microbenchmarks.timings import HEADER
from warpsight.gpu.importers.driver import ATTRIBUTES, read_device

Progress = Callable[[int, int], None]
TARGET = "75"  # PTX for the oldest that the compiler has; the driver assembles it for its GPU
_OUT_BYTES, _PIECE = 8192, 16


def run_microbenchmarks(number: int = 0, *, progress: Progress | None = None) -> str:
    """The CSV of timings (`timings.HEADER`), with a comment that names the GPU. `progress(done, runs)` is called now and then.

    Raises UnsupportedError (exit code 3) without a driver or a GPU, or for one older than `TARGET`; DeviceError for what the
    driver refuses; MissingLibraryError without NVRTC.
    """
    device = read_device(number)
    told = device.attributes
    refuse_old(told["major"], told["minor"], f"sm_{TARGET}")
    named = f"{device.name}, compute capability {told['major']}.{told['minor']}, {told['sm_count']} SMs"
    lines = [f"# device: {named}, up to {told['clock_khz']} kHz, L2 {told['l2_bytes']} bytes", ",".join(HEADER)]
    with Gpu(number) as gpu:
        bench = Bench(gpu)
        total = bench.total()
        for done, row in enumerate(bench.rows(), 1):
            lines.append(row)
            if progress is not None and (done % 64 == 0 or done == total):
                progress(done, total)
    return "\n".join(lines) + "\n"


class Bench:
    """The kernels and their memory on a GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.machine = Machine(gpu.attribute(ATTRIBUTES["sm_count"]), gpu.attribute(ATTRIBUTES["l2_bytes"]))
        self._chase, self._misses, self._stream, self._resident = gpu.load(_ptx(), ["chase", "misses", "stream", "resident"])
        self._room, self._other = gpu.allocate(self.machine.room), gpu.allocate(self.machine.flushed)
        self._out, self._sums = gpu.allocate(_OUT_BYTES), gpu.allocate(4 * 2048 * self.machine.sms)
        self._first, self._second = gpu.event(), gpu.event()
        gpu.fill(self._room, self.machine.room)
        gpu.synchronise("filling memory")

    def total(self) -> int:
        """How many rows there will be."""
        machine = self.machine
        configurations = sum(1 for part in (chases(machine), streams(machine), residents(machine)) for _ in part)
        return RUNS * configurations + MISS_RUNS * MOST_MISSES

    def rows(self) -> Iterator[str]:
        """The rows of the CSV, each as it is measured. The first also bring the clocks up."""
        machine = self.machine
        for threads, size, passes in residents(machine):
            values = (_long(self._room), _long(size // _PIECE), _int(passes), _long(self._sums))
            launch = self._packed(self._resident, machine.sms, threads, *values)
            for _ in range(RUNS):
                nanoseconds = self._timed(launch)
                yield f"resident,{size * passes * machine.sms},16,{passes},{machine.sms},{threads},,{nanoseconds:.1f}"
        for blocks, threads, size in streams(machine):
            launch = self._packed(self._stream, blocks, threads, _long(self._room), _long(size // _PIECE), _long(self._sums))
            for _ in range(RUNS):
                self._flush()
                yield f"stream,{size},16,1,{blocks},{threads},,{self._timed(launch):.1f}"
        for count in range(1, MOST_MISSES + 1):
            room = (_long(self._room), _long(ALIGN), _long(LINE))
            launch = self._packed(self._misses, 1, 32, *room, _int(count), _long(self._out))
            for _ in range(MISS_RUNS):
                self._flush()
                yield f"misses,{count * LINE},{LINE},{count},1,32,{self._counted(launch)},"
        for ring in chases(machine):
            places = (_long(self._room), _long(ALIGN), _long(ring.stride), _int(ring.lines))
            launch = self._packed(self._chase, 1, 32, *places, _int(ring.warm), _int(ring.steps), _long(self._out))
            for _ in range(RUNS):
                yield f"chase,{ring.lines * ring.stride},{ring.stride},{ring.steps},1,32,{self._counted(launch)},"

    def _packed(self, function: Function, blocks: int, threads: int, *values: bytes) -> PackedLaunch:
        return PackedLaunch(self.gpu, function, (blocks, 1, 1), (threads, 1, 1), values)

    def _flush(self) -> None:
        """Write four times what the L2 holds, so that it has nothing of the room; the L1s are emptied where a kernel begins."""
        self.gpu.fill(self._other, self.machine.flushed, 1)
        self.gpu.synchronise("filling memory")

    def _timed(self, launch: PackedLaunch) -> float:
        """Nanoseconds between events."""
        self.gpu.record(self._first)
        launch.launch()
        self.gpu.record(self._second)
        return 1e9 * self.gpu.seconds_between(self._first, self._second)

    def _counted(self, launch: PackedLaunch) -> int:
        """Cycles that the kernel counted."""
        launch.launch()
        told = np.empty(1, np.uint64)
        self.gpu.download(self._out, told)
        return int(told[0])


def _ptx() -> str:
    from warpsight.explore.microbenchmarks.sources import KERNELS
    from warpsight.workload.architecture import parse_architecture
    from warpsight.workload.nvrtc import CompileOptions, compile_cuda

    text = files("warpsight.explore.microbenchmarks.sources").joinpath(KERNELS).read_text("utf-8")
    return compile_cuda(text, KERNELS, CompileOptions(parse_architecture(TARGET))).ptx


def _long(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _int(number: int) -> bytes:
    return number.to_bytes(4, "little")
