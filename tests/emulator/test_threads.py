"""Do several threads give what one gives: results, trace and faults?"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, launch, whole

import warpsight
from warpsight.addressing.coalescing import SECTOR_BYTES
from warpsight.base.errors import LaunchFault, LimitError
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.run import parallel
from warpsight.emulator.run.launch import execute, prepare_kernel
from warpsight.emulator.run.memory import DeviceMemory, ResidentMemory, Written
from warpsight.emulator.run.parallel import READ, WRITTEN, conflict, why_in_order
from warpsight.isa.ptx.parser import parse_module
from warpsight.kernels.launch import Launch
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture, parse_architecture
from warpsight.programs.wire import TABLE_BYTES, SharedMemory
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void own(float* out, const float* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < (i % 37); ++k) sum += in[(i + 13 * k) % n];
    if (i < n) out[i] = sum;
}
extern "C" __global__ void chain(int* out)
{
    // Each block goes on from what the block before left: only the order of the blocks gives these numbers.
    int before = blockIdx.x ? out[(blockIdx.x - 1) * 32] : 1;
    __syncthreads();
    out[blockIdx.x * 32] = before + (blockIdx.x & 3);
}
extern "C" __global__ void late(int* out, int from)
{
    // As `own`, but from block `from` on all blocks write one word.
    int i = blockIdx.x < from ? blockIdx.x * 32 + threadIdx.x % 32 : 0;
    out[i] = blockIdx.x;
}
extern "C" __global__ void astray(int* out, int n)
{
    int block = blockIdx.x;
    out[block % 2 == 1 && block > 40 ? n + block : block * 32] = 1;
}
extern "C" __global__ void surface(cudaSurfaceObject_t image)
{
    int x = threadIdx.x, y = blockIdx.x;
    asm volatile("sust.b.2d.b32.trap [%0, {%1, %2}], {%3};" :: "l"(image), "r"(x * 4), "r"(y), "r"(x + 9) : "memory");
}
extern "C" __global__ void stores(unsigned* out)
{
    // Every way to store that may run on threads. Each block has 16 sectors of its own, and 16 for a matrix.
    __shared__ __align__(128) unsigned tile[32];
    int lane = threadIdx.x;
    unsigned* own = out + blockIdx.x * 128;
    if (lane % 3 == 0) own[lane] = lane + 1;
    else if (lane < 20) ((unsigned char*)(own + 32))[lane] = lane;
    if (lane < 2) ((uint4*)(own + 48))[lane] = make_uint4(lane, 5, 6, 7);
    tile[lane] = lane * 3 + 1;
    __syncthreads();
    unsigned from = (unsigned)__cvta_generic_to_shared(tile);
    if (lane == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" :: "l"(own + 64), "r"(from) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
    unsigned fragment = 0x3c003c00;  // f16 ones
    asm volatile("wmma.store.d.sync.aligned.row.m8n32k16.global.f16 [%0], {%1, %1, %1, %1}, 32;"
                 :: "l"(out + gridDim.x * 128 + blockIdx.x * 128), "r"(fragment) : "memory");
}
extern "C" __global__ void tail(float* out, const float* data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = data[i] + (blockIdx.x > 280 ? out[i - 64] : 0);
}
extern "C" __global__ void forever(volatile int* out) { while (true) out[0] = 1; }
extern "C" __global__ void endless(int* out) { int k = 0; while (k >= 0) { k = k ^ (threadIdx.x & 1); if (k < 0) out[0] = k; } }
"""


@pytest.fixture(autouse=True)
def any_work_is_worth_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "MIN_SECONDS", 0.0)


def run(kernel: str, threads: int, blocks: int, *args: Any, **options: Any) -> KernelTrace:
    source = load_source(SOURCE, name="threads.cu")
    return launch(source, kernel, (blocks, 1, 1), (64, 1, 1), list(args), threads=threads, **options)


def assert_same_trace(one: KernelTrace, other: KernelTrace) -> None:
    for name in ("path", "event_offset", "events", "sector_offset", "sectors"):
        np.testing.assert_array_equal(getattr(whole(one), name), getattr(whole(other), name), err_msg=name)
    for name in ("offset", "block", "lanes", "repeat"):
        np.testing.assert_array_equal(getattr(one.paths, name), getattr(other.paths, name), err_msg=name)
    assert one.header.warp_instructions == other.header.warp_instructions


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_independent_blocks_on_threads_give_the_same_results_and_trace(threads: int) -> None:
    data = np.random.default_rng(1).random(64 * 300, np.float32)
    found = [np.zeros_like(data) for _ in range(2)]
    traces = [run("own", n, 300, out, data, np.int32(len(data))) for n, out in zip((1, threads), found, strict=True)]
    np.testing.assert_array_equal(found[1], found[0])
    assert found[0].any()
    assert_same_trace(*traces)


def take_turns(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let no thread do all before another has begun; the threads that have worked."""
    seen, work = set[str](), parallel.Apart._work

    def note(self: parallel.Apart, *arguments: Any) -> Any:
        seen.add(threading.current_thread().name)
        time.sleep(0.002)
        return work(self, *arguments)

    monkeypatch.setattr(parallel.Apart, "_work", note)
    return seen


def test_independent_blocks_do_run_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = take_turns(monkeypatch)
    data = np.zeros(64 * 300, np.float32)
    run("own", 2, 300, data.copy(), data, np.int32(len(data)))
    assert len(seen) == 3  # two workers, and the main thread for the first chunks


def test_pieces_that_wait_are_bounded_by_their_bytes_and_their_order_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[int] = []
    take = parallel._Waiting._next

    def note(self: parallel._Waiting, pieces: Any) -> Any:
        time.sleep(0.001)  # slower than the workers
        waiting.append(sum(piece is not None for each in self._pieces for piece in each))
        return take(self, pieces)

    monkeypatch.setattr(parallel, "MOST_WAITING", 1)
    monkeypatch.setattr(parallel._Waiting, "_next", note)
    data = np.random.default_rng(1).random(64 * 300, np.float32)
    found = [np.zeros_like(data) for _ in range(2)]
    traces = [run("own", n, 300, out, data, np.int32(len(data))) for n, out in zip((1, 3), found, strict=True)]
    assert_same_trace(*traces)
    assert len(waiting) > 20
    assert max(waiting) <= 2  # one that was let in, and then one of the earliest chunk


def test_blocks_that_read_what_others_wrote_run_in_order() -> None:
    out = np.zeros(200 * 32, np.int32)
    run("chain", 2, 200, out)
    np.testing.assert_array_equal(out[::32], 1 + np.cumsum(np.arange(200) & 3))


@pytest.mark.parametrize("start", [150, 295])
def test_conflict_late_in_the_launch_gives_the_outcome_of_blocks_in_order(start: int) -> None:
    found = [np.full(300 * 32, -1, np.int32) for _ in range(2)]
    traces = [run("late", n, 300, out, np.int32(start)) for n, out in zip((1, 2), found, strict=True)]
    np.testing.assert_array_equal(found[1], found[0])
    assert found[0][0] == 299
    assert_same_trace(*traces)


def test_fault_on_threads_names_the_first_block_in_order_and_leaves_the_array() -> None:
    out = np.zeros(300 * 32, np.int32)
    with pytest.raises(LaunchFault, match=r"block \(41,0,0\)"):
        run("astray", 3, 300, out, np.int32(out.size))
    assert not out.any()


def test_limit_on_threads_is_the_limit_of_all_together() -> None:
    with pytest.raises(LimitError, match="1,000,000"):
        run("endless", 2, 64, np.zeros(1, np.int32), max_instructions=1_000_000)


@pytest.mark.parametrize(
    ("kernel", "architecture", "sectors"),
    [("stores", None, 24), ("stores", parse_architecture("sm_90"), 24), ("surface", None, 4)],
)
def test_every_store_is_among_the_sectors_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, kernel: str, architecture: Architecture | None, sectors: int
) -> None:
    """Of programs, sectors that are not would be lost: they are copied from the mapping that an attempt writes to."""
    kept: list[int] = []

    def attempt(self: DeviceMemory) -> bool:
        self.before = self._bytes.copy()  # type: ignore[attr-defined]
        return True

    def keep(self: DeviceMemory, written: Iterable[Written]) -> None:
        changed = (self._bytes != self.before).reshape(-1, SECTOR_BYTES).any(axis=1)  # type: ignore[attr-defined]
        assert changed.sum() == sum(changed[part][which].sum() for part, which in written)
        kept.append(int(changed.sum()))

    monkeypatch.setattr(DeviceMemory, "attempt", attempt)
    monkeypatch.setattr(DeviceMemory, "keep", keep)
    source = load_source(SOURCE, name="threads.cu", arch=90)
    prepared = prepare_kernel(source, kernel, architecture=architecture)
    out = np.zeros((64, 32, 1) if kernel == "surface" else 2 * 64 * 128, np.uint32)
    argument = warpsight.Surface(out) if kernel == "surface" else out
    launch(source, kernel, 64, 32, [argument], threads=2, prepared=prepared)
    assert kept == [64 * sectors]


PAGES = 4 * mmap.PAGESIZE  # 64 of the 300 blocks write them


@pytest.mark.parametrize(
    ("kernel", "undone", "much", "commits"),
    [("own", False, 1 << 30, 0), ("own", False, PAGES, 4), ("chain", True, 1 << 30, 0), ("tail", True, PAGES, 4)],
)
def test_memory_that_a_program_shares_has_the_outcome_of_blocks_in_order(
    kernel: str, undone: bool, much: int, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "MOST_WRITTEN", much)
    take_turns(monkeypatch)
    seen, commit = list[None](), SharedMemory.commit
    monkeypatch.setattr(SharedMemory, "commit", lambda self, written: seen.append(commit(self, written)))
    size, prepared, outcomes = 300 * 64 * 4, prepare_kernel(load_source(SOURCE, name="threads.cu"), kernel), []
    for threads in (1, 2):
        file = os.memfd_create("arena")
        os.ftruncate(file, TABLE_BYTES + (1 << 20))
        shared = SharedMemory(file, TABLE_BYTES + (1 << 20))
        rows = [(ARENA_BASE + k * size, ARENA_BASE + (k + 1) * size, 1) for k in range(2)]
        shared.write(rows[0][0], bytes([7]) * size)
        shared.write(rows[1][0], np.random.default_rng(1).random(size // 4, np.float32).tobytes())
        parameters = struct.pack("<QQi", *(start for start, *_ in rows), size // 4)
        memory = ResidentMemory(np.array(rows, np.int64), shared, parameters, {})
        marks = parallel.Marks(parallel.AccessTable.of(prepared.code, prepared.native.graph), memory.table.rows())
        execute(prepared, Launch(kernel, (300, 1, 1), (64, 1, 1), ()), memory, threads=threads, marks=marks)
        of_kind = {bool(row[4]): row for row in marks.rows().tolist()}  # what was read, and what was written
        if kernel != "chain":
            assert len(marks.rows()) == 2
            assert of_kind[True] == [rows[0][0], size, size, 1, 1]
            assert of_kind[False] == [rows[1][0], size, size, 1, 0]
        assert memory.undone is (undone and threads == 2)
        outcomes.append(os.pread(file, 2 * size, TABLE_BYTES))
        os.close(file)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][:size] != bytes([7]) * size
    assert len(seen) == commits


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("atom.global.add.u32 %r1, [%rd1], %r0;", "exchange"),
        ("red.add.u32 [%rd1], %r0;", "order memory"),
        ("membar.gl;", "order memory"),
        ("ld.volatile.global.u32 %r0, [%rd1];", "exchange"),
        ("mov.u32 %r0, %clock;", "counts"),
        ("atom.shared.add.u32 %r1, [%r0], 1;", ""),
        ("membar.cta;", ""),
        ("ld.global.nc.u32 %r0, [%rd1];", ""),
    ],
)
def test_kernel_that_may_exchange_data_between_blocks_is_told(line: str, reason: str) -> None:
    body = f".reg .b32 %r<2>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nmov.u32 %r0, 0;\n{line}\nret;\n"
    text = f"{PTX_HEAD}.visible .entry k(.param .u64 p)\n{{\n{body}}}\n"
    found = why_in_order(parse_module(text, "k.ptx").functions["k"])
    assert (reason in found) if reason else not found


@pytest.mark.parametrize(
    ("one", "other", "wrong"),
    [(READ, READ, False), (READ, WRITTEN, True), (WRITTEN, WRITTEN, True), (WRITTEN, 0, False), (READ | WRITTEN, READ, True)],
)
def test_conflict_is_a_sector_that_one_wrote_and_another_touched(one: int, other: int, wrong: bool) -> None:
    tables = [np.zeros(9, np.uint8) for _ in range(3)]
    tables[0][4], tables[2][4] = one, other
    tables[1][5] = WRITTEN
    assert conflict(tables, [slice(0, 3), slice(3, 9)]) is wrong
    assert not conflict(tables, [slice(0, 4)])
