"""Are packed streams the recorded ones, does the cache simulation read them so, and are footprints those of all sectors?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from warpsight.caches.exact.simulate import CacheSimulation
from warpsight.caches.exact.waves import footprint
from warpsight.caches.miss_profile import COUNTS
from warpsight.emulator.run.sampled import SampledRun
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import launch_of, run_ready, trace_launch
from warpsight.traces.packing import Lines, Packed, Packer, unpacked
from warpsight.traces.path_store import LANES_SHIFT, PathStore
from warpsight.traces.schema import InMemory, KernelTrace, PathTable, TraceChunk, WaveSample

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void loops(int n, const float* a, const float* b, float* c, int* bins)
{
    __shared__ float tile[64];
    int thread = threadIdx.x, i = blockIdx.x * 64 + thread;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[(n - 1 - k) * 512 + i];
    #pragma unroll 1
    for (int k = 0; k < n / 4 + blockIdx.x; ++k) {
        tile[thread] = b[k * 512 + i];
        __syncthreads();
        if (thread % (k + 1) == 0) sum += tile[63 - thread];
        __syncthreads();
        atomicAdd(&bins[k * 8 + thread % 8], 1);
    }
    c[i] = sum;
}
extern "C" __global__ void jumps(int n, const float* a, const float* b, float* c, int* bins)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    float sum = 0;
    #pragma unroll 1
    for (int k = 0; k < n; ++k) sum += a[(k * k * 977 + i) % 32768];
    c[i] = sum;
}
"""
BLOCKS, TURNS = 8, 64
ARGS = (f"i32:{TURNS}", "f32[32768]:uniform", "f32[32768]:uniform", "f32[512]:zeros", "i32[1024]:zeros")
GPU = load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.max_blocks=2"])


class Recorded:
    """A sink that keeps chunks as they are recorded."""

    def __init__(self) -> None:
        self.chunks: list[TraceChunk] = []

    def add(self, chunk: TraceChunk) -> None:
        self.chunks.append(chunk)

    def restart(self) -> None:
        self.chunks = []

    def finish(self, header: Any, instructions: Any, block_start: Any, paths: Any) -> KernelTrace:
        return KernelTrace(header, instructions, block_start, paths, InMemory(self.chunks))


def launch(kernel: str) -> Any:
    """The launch of a kernel and its code."""
    return launch_of(KernelRequest(SOURCE, kernel=kernel, grid=BLOCKS, block=64, args=ARGS, threads=1), GPU)


def traces(kernel: str) -> tuple[KernelTrace, KernelTrace]:
    """What all blocks record, and the same as packed by a run of samples, in two ranges."""
    ready, prepared = launch(kernel)
    with SampledRun(prepared, ready.launch, registers=ready.registers, max_instructions=10**9) as run:
        run.execute([(0, 3), (3, BLOCKS)])
        return run_ready(ready, sink=Recorded()), run.trace()


@pytest.fixture(scope="module")
def regular() -> tuple[KernelTrace, KernelTrace]:
    return traces("loops")


def streams(chunks: list[TraceChunk]) -> list[tuple[bytes, bytes]]:
    """The events and the sectors of each warp."""
    return [
        (each.events[each.event_offset[k] : each.event_offset[k + 1]].tobytes(),
         each.sectors[each.sector_offset[k] : each.sector_offset[k + 1]].tobytes())
        for each in chunks for k in range(len(each.path))
    ]  # fmt: skip


def store_of(paths: PathTable) -> PathStore:
    """A store of the same paths."""
    store, keys = PathStore(), (paths.lanes.astype(np.uint32) << np.uint32(LANES_SHIFT)) | paths.block.astype(np.uint32)
    store.number(np.column_stack([keys, paths.repeat.astype(np.uint32)]), paths.offset)
    return store


def size(chunks: list[TraceChunk]) -> int:
    return sum(each.events.nbytes + each.sectors.nbytes for each in chunks)


def test_packed_streams_are_the_recorded_ones(regular: tuple[KernelTrace, KernelTrace]) -> None:
    whole, sampled = regular
    assert streams(list(sampled.chunks)) == streams(list(whole.chunks))
    packed = list(sampled.chunks.packed())
    assert size(packed) < size(list(whole.chunks)) / 2
    assert all((each.loops[:, 4] >= TURNS // 8 - 1).all() for each in packed if each.loops is not None)


def test_launch_that_runs_whole_is_packed_too(regular: tuple[KernelTrace, KernelTrace]) -> None:
    """In memory; a folder has what was recorded."""
    recorded, _ = regular
    whole = trace_launch(*launch("loops"))
    assert streams(list(whole.chunks)) == streams(list(recorded.chunks))
    assert size(list(whole.chunks.packed())) < size(list(recorded.chunks)) / 2


def test_small_chunks_in_memory_are_one_and_their_warps_have_the_same_streams(regular: tuple[KernelTrace, KernelTrace]) -> None:
    trace, store = regular[0], store_of(regular[0].paths)
    whole = next(iter(trace.chunks))

    def part(begin: int, end: int) -> TraceChunk:
        offsets = {name: getattr(whole, name)[begin : end + 1] for name in ("event_offset", "sector_offset")}
        return replace(whole, first_warp=begin, path=whole.path[begin:end], **offsets)

    parts = [part(0, 0), part(0, 1), part(1, 2), part(2, 3)]
    packed = Packer(trace.instructions, trace.block_start).packed(parts[3], store)
    assert packed.loops is not None
    for last in (parts[3], packed):
        joined = Packed([*parts[:3], last])
        assert len(list(joined.packed())) == 1
        (one,) = joined
        assert (one.first_warp, one.path.tolist()) == (0, whole.path[:3].tolist())
        assert streams([one]) == streams([whole])[:3]


def test_large_chunks_in_memory_stay_apart(regular: tuple[KernelTrace, KernelTrace]) -> None:
    large = [replace(chunk, first_warp=first) for first, chunk in enumerate([*regular[0].chunks][:1] * 2)]
    assert size(large) > 100_000
    assert list(map(id, Packed(large).packed())) == list(map(id, large))
    assert list(Packed([])) == []


def test_paths_of_a_chunk_are_those_of_the_table(regular: tuple[KernelTrace, KernelTrace]) -> None:
    paths = regular[0].paths
    chosen = store_of(paths).table_of(np.array([5, 0, 3]))
    for number, path in enumerate((5, 0, 3)):
        for name in ("block", "lanes", "repeat"):
            own, other = (getattr(each, name)[each.offset[k] : each.offset[k + 1]] for each, k in ((chosen, number), (paths, path)))
            assert own.tolist() == other.tolist()


def test_loop_of_irregular_accesses_is_left_as_it_is() -> None:
    whole, sampled = traces("jumps")
    assert streams(list(sampled.chunks)) == streams(list(whole.chunks))
    assert size(list(sampled.chunks.packed())) == size(list(whole.chunks))


def test_streams_that_end_before_their_path_are_kept_as_they_are(regular: tuple[KernelTrace, KernelTrace]) -> None:
    """Behind the first of them lie events that would fit: what is left of the stream that it was cut from."""
    trace = regular[0]
    chunk = next(iter(trace.chunks))
    events, sectors = int(chunk.event_offset[1]), int(chunk.sector_offset[1])
    cut = TraceChunk(
        0, chunk.path[[0, 0]], np.array([0, events // 2, events]), chunk.events[:events].copy(),
        np.array([0, sectors // 2, sectors]), chunk.sectors[:sectors].copy(),
    )  # fmt: skip
    packed = Packer(trace.instructions, trace.block_start).packed(cut, store_of(trace.paths))
    assert streams([unpacked(packed)]) == streams([cut])


def test_caches_see_the_same_accesses(regular: tuple[KernelTrace, KernelTrace]) -> None:
    _, sampled = regular
    plain = replace(sampled, chunks=InMemory([unpacked(each) for each in sampled.chunks.packed()]))
    of_plain, of_packed = (CacheSimulation(each, GPU, 2).run()[0] for each in (plain, sampled))
    assert of_plain.l1_misses.sum() > 0 and of_plain.atomic_repeats.sum() > 0 and of_plain.shared_passes.sum() > 0
    for name in COUNTS:
        assert (getattr(of_plain, name) == getattr(of_packed, name)).all(), name


def test_footprint_has_the_lines_of_every_lap(regular: tuple[KernelTrace, KernelTrace]) -> None:
    whole, sampled = regular
    found = footprint(WaveSample(sampled, np.zeros(BLOCKS, np.int64), np.array([0, 3]), np.array([0, 3]), np.zeros(2)), 128)
    (first, *others), warps = list(whole.chunks), 3 * whole.header.warps_per_block
    assert not others
    apart = [np.unique(part >> np.uint32(2)) for part in np.split(first.sectors, [int(first.sector_offset[warps])])]
    both = np.intersect1d(apart[0], apart[1])
    assert (found.first == apart[0]).all()
    assert (found.every, found.some, found.single) == (len(both), 0, len(apart[0]) + len(apart[1]) - 2 * len(both))


@pytest.mark.parametrize("line_bytes", [32, 128])
@pytest.mark.parametrize("seed", range(8))
def test_marked_lines_are_those_of_the_unpacked_sectors(seed: int, line_bytes: int) -> None:
    """Warps that repeat sectors of the one before, sectors side by side, strides that are no whole lines, and negative ones."""
    rng = np.random.default_rng(seed)
    streams, loops, shared = [], [], rng.integers(1000, 1040, 6)
    for _ in range(12):
        head, count, tail, laps = (int(each) for each in rng.integers(0, 5, 4))
        base = np.where(rng.random(count) < 0.3, shared[:count], 1000 * rng.integers(2, 5, count) + 3 * rng.integers(0, 2, count))
        strides = rng.choice(rng.choice(np.array([0, 1, 3, 4, 8, 2**32 - 4, 2**32 - 1]), 2), count)
        streams.append(np.concatenate([shared[:head], base, strides, rng.integers(1000, 1040, tail)]).astype(np.uint32))
        loops.append([0, 0, head, count, laps + 1])
        if rng.random() < 0.5:  # the warp again, with one sector that differs
            streams.append(streams[-1].copy())
            loops.append(loops[-1])
            if head + count:
                streams[-1][rng.integers(0, head + count)] += 40
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in streams])]).astype(np.int64)
    none = np.zeros(len(streams) + 1, np.int64)
    chunk = TraceChunk(0, np.zeros(len(streams), np.int32), none, np.zeros(0, np.uint8), offsets, np.concatenate(streams),
                       np.array(loops, np.int64))  # fmt: skip
    lines = Lines(InMemory([chunk]), line_bytes)
    marks = np.zeros(lines.count, np.bool_)
    lines.mark(chunk, marks)
    assert lines.numbers(marks).tolist() == np.unique(unpacked(chunk).sectors // (line_bytes // 32)).tolist()
