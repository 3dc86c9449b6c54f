"""The micro-benchmarks: their CUDA sources, their sizes for a GPU's number of SMs and L2 size, and the run on a GPU.

The run has the same output as the program `microbenchmarks.cu`. NVRTC compiles the kernels; no toolkit is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import count
from pathlib import Path

import numpy as np

from warpsight.gpu.importers.device import ATTRIBUTES, read_device
from warpsight.hardware.device.gpu import Function, Gpu, PackedLaunch, refuse_old
from warpsight.hardware.microbenchmarks.timings import HEADER
from warpsight.kernels.cuda import CompileOptions, compile_cuda
from warpsight.kernels.toolkit import parse_architecture
from warpsight.pipeline.files import save_package_files

KERNELS, PROGRAM = "kernels.cuh", "microbenchmarks.cu"


def save(folder: str | Path) -> list[Path]:
    """Write the sources into `folder` and return their paths. Raises `UsageError` instead of replacing a different file."""
    return save_package_files(__package__, (PROGRAM, KERNELS), folder, "exists with other content")


# -- The configurations for a GPU: the loops of `microbenchmarks.cu` as data.

ALIGN, LINE, RUNS, MISS_RUNS, MOST_MISSES = 1 << 20, 128, 5, 3, 512
THREADS = (256, 512, 1024)
_SLOTS = 2048  # resident threads per SM


@dataclass(frozen=True)
class Machine:
    """The GPU's values that sizes depend on: SMs, and bytes of the L2."""

    sms: int
    l2: int

    @property
    def room(self) -> int:
        """Bytes that the kernels read."""
        return 8 * self.l2 + (256 << 20)

    @property
    def flushed(self) -> int:
        """Bytes that are written to flush the L2."""
        return 4 * self.l2


@dataclass(frozen=True)
class Chase:
    """A ring of `lines` addresses `stride` bytes apart, followed for `warm` steps and then, timed, for `steps`."""

    stride: int
    lines: int

    @property
    def warm(self) -> int:
        """A multiple of 8, at least one round."""
        return -(-self.lines // 8) * 8

    @property
    def steps(self) -> int:
        """Whole rounds, a multiple of 8, enough to make start and end negligible; for a long ring only a part of it."""
        if self.lines > 1 << 16:
            return 1 << 14
        return next(steps for steps in count(-(-2048 // self.lines) * self.lines, self.lines) if steps % 8 == 0)


def chases(machine: Machine) -> Iterator[Chase]:
    """Adjacent lines, in small steps around L1 sizes and in steps of a quarter up to four L2s; then lines that may share a set."""
    sizes = [*range(2048, 8193, 2048), *range(12 << 10, (320 << 10) + 1, 4 << 10)]
    size = 384 << 10
    while size <= 4 * machine.l2:
        sizes.append(size)
        size += size // 4 // LINE * LINE
    rings = [Chase(LINE, size // LINE) for size in sizes]
    for apart in (2, 4, 8, 16, 32, 64, 128):
        for stride in ((apart - 1) * LINE, apart * LINE, (apart + 1) * LINE):
            if stride == LINE or (stride == 3 * LINE and apart == 2):
                continue
            lines = 1
            while lines * stride <= ALIGN and lines <= 1024:
                rings.append(Chase(stride, lines))
                lines += 1 if lines < 32 else lines // 16
    return (chase for chase in rings if ALIGN + chase.lines * chase.stride <= machine.room)


def streams(machine: Machine) -> Iterator[tuple[int, int, int]]:
    """Blocks, threads per block, and the bytes that they read together, once."""
    for threads in THREADS:
        blocks = machine.sms
        while blocks <= 8 * machine.sms and blocks * threads <= machine.sms * _SLOTS:
            piece = 64 * blocks * threads  # of one round of all threads
            for part in (1, 2, 3, 4):
                if rounds := machine.room * part // 4 // piece:
                    yield blocks, threads, rounds * piece
            blocks *= 2


def residents(machine: Machine) -> Iterator[tuple[int, int, int]]:
    """Threads per block, bytes that each block reads, and how often; one block per SM."""
    footprint = min(machine.l2 // 4, 1 << 20)
    for threads in THREADS:
        for passes in (8, 16, 24, 32):
            yield threads, footprint // (64 * threads) * (64 * threads), passes


Progress = Callable[[int, int], None]
TARGET = "75"  # PTX for the oldest architecture of the compiler; the driver assembles it for its GPU
_OUT_BYTES, _PIECE = 8192, 16


def run_microbenchmarks(number: int = 0, *, progress: Progress | None = None) -> str:
    """The CSV of timings (`timings.HEADER`), with a comment that names the GPU. Calls `progress(done, runs)` from time to time.

    Raises UnsupportedError (exit code 3) without a driver or a GPU, or for one older than `TARGET`; DeviceError if the
    driver refuses a call; MissingLibraryError without NVRTC.
    """
    device = read_device(number)
    attributes = device.attributes
    refuse_old(attributes["major"], attributes["minor"], f"sm_{TARGET}")
    named = f"{device.name}, compute capability {attributes['major']}.{attributes['minor']}, {attributes['sm_count']} SMs"
    lines = [f"# device: {named}, up to {attributes['clock_khz']} kHz, L2 {attributes['l2_bytes']} bytes", ",".join(HEADER)]
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
        """The number of rows."""
        machine = self.machine
        configurations = sum(1 for part in (chases(machine), streams(machine), residents(machine)) for _ in part)
        return RUNS * configurations + MISS_RUNS * MOST_MISSES

    def rows(self) -> Iterator[str]:
        """The rows of the CSV as they are measured. The first ones also raise the clocks."""
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
        for misses in range(1, MOST_MISSES + 1):
            room = (_long(self._room), _long(ALIGN), _long(LINE))
            launch = self._packed(self._misses, 1, 32, *room, _int(misses), _long(self._out))
            for _ in range(MISS_RUNS):
                self._flush()
                yield f"misses,{misses * LINE},{LINE},{misses},1,32,{self._counted(launch)},"
        for ring in chases(machine):
            places = (_long(self._room), _long(ALIGN), _long(ring.stride), _int(ring.lines))
            launch = self._packed(self._chase, 1, 32, *places, _int(ring.warm), _int(ring.steps), _long(self._out))
            for _ in range(RUNS):
                yield f"chase,{ring.lines * ring.stride},{ring.stride},{ring.steps},1,32,{self._counted(launch)},"

    def _packed(self, function: Function, blocks: int, threads: int, *values: bytes) -> PackedLaunch:
        return PackedLaunch(self.gpu, function, (blocks, 1, 1), (threads, 1, 1), values)

    def _flush(self) -> None:
        """Write four times the L2's size to flush it; the L1s are flushed when a kernel starts."""
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
        cycles = np.empty(1, np.uint64)
        self.gpu.download(self._out, cycles)
        return int(cycles[0])


def _ptx() -> str:
    text = files(__package__).joinpath(KERNELS).read_text("utf-8")
    return compile_cuda(text, KERNELS, CompileOptions(parse_architecture(TARGET))).ptx


def _long(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _int(number: int) -> bytes:
    return number.to_bytes(4, "little")
