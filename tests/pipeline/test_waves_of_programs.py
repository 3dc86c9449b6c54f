"""Are long launches of a program predicted from sampled waves as from all blocks, with the L2 before them and behind them?"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from warpsight.caches.exact.waves import blocks_of_l2
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.run.launch import prepare_kernel
from warpsight.emulator.run.memory import ResidentMemory
from warpsight.emulator.run.sampled import Dependent, SampledRun
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch import Launch
from warpsight.kernels.registers import register_use
from warpsight.kernels.sources import load_source
from warpsight.pipeline.caches_before import CarriedL2
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.request import CARRIED, DEFAULT_METHOD, KernelRequest
from warpsight.pipeline.sampling import trace_to_predict
from warpsight.pipeline.tracing import obtain_trace
from warpsight.programs.wire import TABLE_BYTES, SharedMemory
from warpsight.traces.schema import SECTOR_BYTES, KernelTrace
from warpsight.traces.waves import part_of

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void scale(const float* in, float* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] += 2 * in[i];
}
extern "C" __global__ void chain(const float* in, float* out)
{
    out[blockIdx.x * 32] = blockIdx.x ? out[blockIdx.x * 32 - 32] : in[0];
}
"""
BLOCKS, THREADS = 640, 64
FLOATS = f"f32[{BLOCKS * THREADS}]:zeros"
BYTES = 4 * BLOCKS * THREADS


def gpu(l2: str) -> GpuSpec:
    return load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.max_blocks=8", f"l2.size={l2}"])


# -- A sample in the memory of a program.

class Arena:
    """The memory of a program with the arrays `in` and `out`."""

    def __init__(self) -> None:
        self.file = os.memfd_create("arena")
        os.ftruncate(self.file, TABLE_BYTES + 2 * BYTES)
        self.shared = SharedMemory(self.file, TABLE_BYTES + 2 * BYTES)
        self.shared.write(ARENA_BASE, np.random.default_rng(1).random(2 * BLOCKS * THREADS, np.float32).tobytes())

    def memory(self) -> ResidentMemory:
        rows = [(ARENA_BASE + k * BYTES, ARENA_BASE + (k + 1) * BYTES, 1) for k in range(2)]
        return ResidentMemory(np.array(rows, np.int64), self.shared, struct.pack("<QQ", *(start for start, *_ in rows)), {})

    def contents(self) -> bytes:
        return os.pread(self.file, 2 * BYTES, TABLE_BYTES)


def sampled_run(arena: Arena, kernel: str) -> SampledRun:
    source = load_source(SOURCE, name="waves.cu")
    launch = Launch(kernel, (BLOCKS, 1, 1), (THREADS, 1, 1), ())
    use = register_use(source, kernel)
    return SampledRun(prepare_kernel(source, kernel), launch, registers=use, max_instructions=10**9, memory=arena.memory())


def test_sample_leaves_the_memory_of_a_program_as_it_was() -> None:
    arena = Arena()
    before = arena.contents()
    with sampled_run(arena, "scale") as run:
        run.execute([(0, 16), (304, 336)])
        trace = run.trace()
    assert arena.contents() == before
    assert trace.header.sampled_blocks == 48
    touched = np.concatenate([np.asarray(chunk.sectors) for chunk in trace.chunks])
    # warps of 32 floats read and write 4 sectors each: of `in`, and twice of `out`
    assert len(touched) == 48 * (THREADS // 32) * 4 * 3
    first = ARENA_BASE // SECTOR_BYTES
    assert set(range(first, first + 16 * THREADS * 4 // SECTOR_BYTES)) <= set(touched.tolist())


def test_blocks_of_a_program_that_depend_on_each_other_are_found_and_leave_its_memory_as_it_was() -> None:
    arena = Arena()
    before = arena.contents()
    with pytest.raises(Dependent, match="other blocks may write"), sampled_run(arena, "chain") as run:
        run.execute([(0, 16), (304, 336)])
    assert arena.contents() == before


def test_a_sample_needs_memory_that_can_be_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("flags"):
            raise OSError
        return make(self, *arguments, **options)

    make = mmap.mmap.__new__
    monkeypatch.setattr("warpsight.programs.wire.mmap.mmap", type("mmap", (mmap.mmap,), {"__new__": refuse}))
    with pytest.raises(Dependent, match="as it was before"):
        sampled_run(Arena(), "scale")


# -- The L2 before and behind sampled waves.

def request() -> KernelRequest:
    return KernelRequest(SOURCE, kernel="scale", grid=BLOCKS, block=THREADS, args=(FLOATS, FLOATS), threads=1)


@pytest.fixture(scope="module")
def whole() -> KernelTrace:
    return obtain_trace(request(), gpu=gpu("3072KiB"))


def rows_of(trace: KernelTrace) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What a launch has touched, a sector a row, all of it written."""
    sectors = np.unique(np.concatenate([np.asarray(chunk.sectors) for chunk in trace.chunks])).astype(np.int64)
    one = np.ones_like(sectors)
    return np.stack([sectors * SECTOR_BYTES, one * SECTOR_BYTES, one * SECTOR_BYTES, one, one], axis=1)


@pytest.mark.parametrize("l2", ["3072KiB", "144KiB"])  # the launch touches 320 KiB
def test_launches_before_and_behind_sampled_waves_are_those_of_the_whole_launch(whole: KernelTrace, l2: str) -> None:
    machine = gpu(l2)
    waves = trace_to_predict(request(), machine, "warpsight", DEFAULT_METHOD, least_instructions=0)
    method, times = replace(DEFAULT_METHOD, caches_before=CARRIED), []
    for middle in (whole, waves):
        carried, cycles = CarriedL2(machine), []
        for trace in (middle, middle, whole):
            cycles.append(predict_trace(trace, machine, ["warpsight"], method, carried=carried)[0].cycles)
            if trace.waves is not None:
                since = BLOCKS - blocks_of_l2(trace.waves, machine.l2)
                assert since == 0 if l2 == "3072KiB" else 0 < since < BLOCKS
                carried.touch(rows_of(part_of(whole, np.arange(BLOCKS) >= since)))
        times.append(cycles)
    assert times[1] == pytest.approx(times[0], rel=0.03)
    cold, warm, _ = times[0]
    assert (warm < 0.9 * cold) is (l2 == "3072KiB")  # what fits is found again
