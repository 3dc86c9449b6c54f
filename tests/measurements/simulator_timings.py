"""Our micro-benchmarks run on Warpsight's own cycle-level simulation, as a GPU that is known: the CSV that the host program writes.

The simulation gives the cycles of a launch and when each instruction issued. What a kernel reads from the clock is when the read
issued; what an event of the host's measures are the cycles of the launch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from warpsight.gpu.spec import GpuSpec
from warpsight.hardware.microbenchmarks.run import KERNELS
from warpsight.hardware.microbenchmarks.timings import HEADER
from warpsight.kernels.launch_check import make_launch
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.simulation import simulate_trace
from warpsight.pipeline.tracing import launch_of, trace_launch

ALIGN = 1 << 20


@cache
def _prepared(kernel: str, arrays: tuple[bool, ...]) -> Any:
    """A launch of the kernel, and its code: hundreds of launches differ in their sizes alone."""
    source = files("warpsight.hardware.microbenchmarks").joinpath(KERNELS).read_text("utf-8")
    args = tuple(np.zeros(64, np.uint64) if is_array else 1 for is_array in arrays)
    return launch_of(KernelRequest(path=source, kernel=kernel, grid=1, block=32, args=args), None)


def _trace(kernel: str, grid: int, block: int, args: list[Any]) -> Any:
    ready, code = _prepared(kernel, tuple(isinstance(each, np.ndarray) for each in args))
    return trace_launch(replace(ready, launch=make_launch(ready.source, kernel, grid, block, args)), code)


def _between_clocks(trace: Any, gpu: GpuSpec) -> int:
    """Cycles between the first warp's first two reads of the clock."""
    line = simulate_trace(trace, gpu, watch_sm=0).simulation.timeline
    assert line is not None and not line.truncated
    texts = trace.extra["ptx"]
    reads = [i.pc for i in trace.instructions if "%clock64" in texts[str(i.pc)]]
    issued = [int(when) for when, pc, warp in zip(line.issued, line.pc, line.warp, strict=True) if pc in reads and warp == 0]
    assert len(issued) == 2
    return issued[1] - issued[0]


class SimulatorTimings:
    """Rows of a CSV, measured on `gpu`."""

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu
        self.rows: list[str] = []

    def chase(self, stride: int, lines: int, steps: int | None = None) -> None:
        """Warm over all lines, then whole rounds of at least 512 timed steps, or `steps`."""
        rounds = -(-512 // lines)
        while rounds * lines % 8:
            rounds += 1
        count = steps or rounds * lines
        room = np.zeros(ALIGN + lines * stride + 64, np.uint8)
        trace = _trace("chase", 1, 32, [room, ALIGN, stride, lines, -(-lines // 8) * 8, count, np.zeros(64, np.uint64)])
        cycles = _between_clocks(trace, self.gpu)
        self.rows.append(f"chase,{lines * stride},{stride},{count},1,32,{cycles},")

    def misses(self, stride: int, count: int) -> None:
        """Cold lines behind each other, and a hit."""
        room = np.zeros(ALIGN + 520 * stride, np.uint8)
        cycles = _between_clocks(_trace("misses", 1, 32, [room, ALIGN, stride, count, np.zeros(128, np.uint64)]), self.gpu)
        self.rows.append(f"misses,{count * stride},{stride},{count},1,32,{cycles},")

    def stream(self, blocks: int, threads: int, rounds: int) -> None:
        """`rounds` times what all threads read at a time, from DRAM."""
        count = 4 * blocks * threads * rounds
        trace = _trace("stream", blocks, threads, [np.zeros(4 * count, np.uint32), count, np.zeros(blocks * threads, np.uint32)])
        self._timed("stream", 16 * count, 1, blocks, threads, trace)

    def resident(self, threads: int, footprint: int, passes: int) -> None:
        """A block an SM, each reading `footprint` bytes so many times."""
        blocks, count = self.gpu.sm_count, footprint // 16
        arguments = [np.zeros(4 * count, np.uint32), count, passes, np.zeros(blocks * threads, np.uint32)]
        trace = _trace("resident", blocks, threads, arguments)
        self._timed("resident", footprint * passes * blocks, passes, blocks, threads, trace)

    def _timed(self, name: str, moved: int, passes: int, blocks: int, threads: int, trace: Any) -> None:
        cycles = simulate_trace(trace, self.gpu).simulation.cycles
        self.rows.append(f"{name},{moved},16,{passes},{blocks},{threads},,{1e9 * cycles / self.gpu.core_clock_hz:.3f}")

    def rings(self) -> None:
        """Lines side by side around the sizes of the caches, and at strides that may meet in a set."""
        gpu, line = self.gpu, self.gpu.l1.line_bytes
        held = gpu.l1.size_bytes // line
        for lines in (held // 16, held // 8, held // 4, held // 2, held - 8, held, held + 8, 2 * held, 3 * held, 4 * held):
            self.chase(line, lines)
        for size in (2 * gpu.l2.size_bytes, 3 * gpu.l2.size_bytes):
            self.chase(line, size // line, 1024)
        for shift in range(1, 8):
            for lines in (4, 6, 7, 8, 9, 12, 16, 24, 33, 48, 64, 96):
                self.chase(line << shift, lines)
        for apart in (7, 9, 15, 17, 31, 33, 63, 65):
            for lines in (5, 6, 7, 8, 9, 17, 24, 33, 48, 96):
                self.chase(line * apart, lines)

    def everything(self) -> None:
        """What the host program does, on fewer sizes."""
        self.rings()
        registers = self.gpu.l1.mshrs
        for count in (1, *range(registers // 4, registers - 4, max(1, registers // 8)), *range(registers - 4, registers + 5)):
            self.misses(self.gpu.l1.line_bytes, count)
        for rounds in (4, 8, 12):
            self.stream(self.gpu.sm_count, 256, rounds)
            self.stream(2 * self.gpu.sm_count, 256, rounds)
        for passes in (2, 4, 6):
            self.resident(512, 4 * self.gpu.l1.size_bytes, passes)

    def csv(self) -> str:
        """The file."""
        return "\n".join([f"# device: {self.gpu.name}, simulated", ",".join(HEADER), *self.rows]) + "\n"
