"""Is what a change promises that of the kernel with the change written out, and does the advice end there?"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from trace_by_hand import Warp, build_trace

import warpsight
from warpsight.analysis.advice.redundancy_rules import Constants, Registers, loads_first
from warpsight.analysis.advice.rewriting import AccessReader
from warpsight.analysis.advice.rule import Case, Rule
from warpsight.analysis.advice.skipping import in_turn, skipping, visits_of
from warpsight.analysis.advice.work_rules import ResidentBlocks, in_few_blocks, same_in_all_blocks
from warpsight.analysis.explanation import explain_profiled
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.usage import occurrences, path_use
from warpsight.pipeline.evaluate import profile_trace
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

GPU = load_gpu("a100", overrides=["sm_count=4"])
N = 4096
KERNELS = """
__global__ void add_up(const float* a, const float* b, float* c, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = 0; j < k; j++) c[i] += a[j * n + i] * b[j * n + i];
}
__global__ void add_up_mended(const float* a, const float* b, float* c, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = c[i];
  for (int j = 0; j < k; j++) sum += a[j * n + i] * b[j * n + i];
  c[i] = sum;
}
__global__ void two_sums(const float* a, float* low, float* high, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = 0; j < k; j++) { low[i] += a[j * n + i]; high[i] += a[j * n + i] * 2.0f; }
}
__global__ void published(float* a, volatile float* b, float* c, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = 0; j < k; j++) { b[i] = a[j * n + i]; c[i] = j; __syncthreads(); }
}
__global__ void filter(const float* x, const float* w, float* y, int n, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < taps; t++) sum += w[t] * x[i + t];
  y[i] = sum;
}
__constant__ float weights[64];
__global__ void filter_mended(const float* x, const float* w, float* y, int n, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < taps; t++) sum += weights[t] * x[i + t];
  y[i] = sum;
}
__global__ void own_words(const float* x, float* w, float* y, int n, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < taps; t++) sum += w[t % 8 * 8 + threadIdx.x % 8] * x[i + t];  // a sector for all, but not a word
  y[i] = sum;
}
__global__ void written_words(const float* x, float* w, float* y, int n, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < taps; t++) sum += w[t] * x[i + t];
  if (i == 0) w[3] = sum;
  y[i] = sum;
}
__global__ void table(const float* x, const float* w, float* y, int n, int k) {
  __shared__ float s[1024];
  for (int t = threadIdx.x; t < 1024; t += blockDim.x) s[t] = w[t];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] * s[(i * 7) & 1023];
}
__global__ void table_mended(const float* x, const float* w, float* y, int n, int k) {
  __shared__ float s[1024];
  for (int t = threadIdx.x; t < 1024; t += blockDim.x) s[t] = w[t];
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * s[(i * 7) & 1023];
}
__global__ void table_of_block(const float* x, const float* w, float* y, int n, int k) {
  __shared__ float s[1024];
  for (int t = threadIdx.x; t < 1024; t += blockDim.x) s[t] = w[(t + blockIdx.x) & 1023];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] * s[(i * 7) & 1023];
}
"""


def _case(folder: Path, kernel: str, level: str, blocks: int = N // 256) -> Case:
    source = folder / "kernels.cu"
    source.write_text(KERNELS)
    inputs = [np.ones(17 * N, np.float32), np.ones(16 * N, np.float32), np.zeros(16 * N, np.float32)]
    count = 16 * N if kernel.startswith("table") else N
    trace = warpsight.trace(source, kernel=kernel, grid=blocks, block=256, args=[*inputs, count, 16], gpu=GPU, level=level)
    profiled = profile_trace(trace, GPU)
    explained = explain_profiled(profiled, GPU, "warpsight", "source")
    return Case(profiled, GPU, "warpsight", explained.prediction, explained.rows)


def _titles(rule: Rule, case: Case) -> list[str]:
    return [change.title for change in rule.propose(case)]


@pytest.mark.parametrize(("level", "within"), [("sass", 0.1), ("ptx", 0.01)])
def test_gain_of_registers_is_that_of_the_loop_with_a_local_variable(tmp_path: Path, level: str, within: float) -> None:
    case, mended = _case(tmp_path, "add_up", level), _case(tmp_path, "add_up_mended", level)
    (change,) = Registers().propose(case)
    assert change.title == "stores of line 4 once: a register holds the value meanwhile"
    assert change.place == "kernels.cu:4"
    assert "88.2 % of these accesses" in change.reason  # 15 of 16 stores, and the first load
    after = change.evaluate()
    assert after.warp_instructions == pytest.approx(mended.prediction.warp_instructions, rel=0.02)
    assert after.cycles == pytest.approx(mended.prediction.cycles, rel=within)
    assert after.cycles < 0.95 * case.prediction.cycles
    assert not _titles(Registers(), mended)


def test_loads_that_another_store_of_the_loop_keeps_from_a_register_are_advised(tmp_path: Path) -> None:
    (change,) = Registers().propose(_case(tmp_path, "two_sums", "ptx"))
    assert change.title.startswith("loads and stores of line 14 once")
    assert change.evaluate().cycles > 0


def test_values_that_other_threads_may_look_at_stay_in_memory(tmp_path: Path) -> None:
    assert not _titles(Registers(), _case(tmp_path, "published", "ptx"))


def test_skipped_executions_take_their_events_and_no_others_with_them() -> None:
    code = ["int r0\nload.global.4 r1 <- r0\nload.global.4 r2 <- r0\nint r3 <- r2"]
    accesses = [[4 * k] for k in range(6)]
    trace = build_trace(code, [Warp(((0, 1, 3),), list(accesses)), Warp(((0, 1, 1),), accesses[:2])])
    visits = visits_of(trace)
    after = skipping(trace, visits, np.array([1 * 4 + 1, 2 * 4 + 1, 2 * 4 + 2]))  # of the three visits of the first path
    read = AccessReader(after).read(next(iter(after.chunks)))
    assert read.touched.tolist() == [0, 0, 0, 0, 0]  # six words are in one sector
    assert np.bincount(read.warp).tolist() == [3, 2]
    assert occurrences(after, path_use(after)[0]).sum() == occurrences(trace, path_use(trace)[0]).sum() - 3
    assert [after.instructions[pc].opcode for pc in read.pc.tolist()] == [trace.instructions[1].opcode] * 5
    assert after.paths.repeat.tolist() == [1, 1, 1, 1]


def test_loads_first_keeps_values_and_the_order_of_accesses() -> None:
    trace = build_trace(
        ["int r0\nload.global.4 r1 <- r0\nint r2 <- r1\nint r0 <- r0\nload.global.4 r1 <- r0\nint r2 <- r1 r2\n"
         "store.global.4 <- r2"],
        [Warp(((0, 1, 1),), [[0], [4], [8]])],
    )
    code = list(trace.instructions)
    after = loads_first(code)
    assert [i.pc for i in after] == [0, 1, 3, 4, 2, 5, 6]
    first, address, second, use, last = (after[k] for k in (1, 2, 3, 4, 5))
    assert first.destinations != second.destinations, "the first value is still needed"
    assert use.sources == first.destinations
    assert set(last.sources) == {*second.destinations, *use.destinations}
    assert second.sources == address.destinations
    assert last.destinations == code[5].destinations, "what the block leaves behind is where it was"


@pytest.mark.parametrize("level", ["sass", "ptx"])
def test_gain_of_constants_is_that_of_the_kernel_with_a_constant_array(tmp_path: Path, level: str) -> None:
    case, mended = _case(tmp_path, "filter", level), _case(tmp_path, "filter_mended", level)
    (change,) = Constants().propose(case)
    assert change.title == "loads of line 23 from __constant__ memory, or a kernel parameter"
    assert "the same 64 bytes" in change.reason
    assert change.evaluate().cycles == pytest.approx(mended.prediction.cycles, rel=0.06)
    assert change.evaluate().cycles < case.prediction.cycles
    assert not _titles(Constants(), mended)


@pytest.mark.parametrize("kernel", ["own_words", "written_words"])
def test_words_that_differ_or_change_are_no_constants(tmp_path: Path, kernel: str) -> None:
    assert not _titles(Constants(), _case(tmp_path, kernel, "ptx"))


@pytest.mark.parametrize("level", ["sass", "ptx"])
def test_gain_of_one_prologue_is_that_of_the_persistent_kernel(tmp_path: Path, level: str) -> None:
    case = _case(tmp_path, "table", level, 16 * N // 256)
    resident = case.profiled.occupancy.blocks_per_sm * GPU.sm_count
    mended = _case(tmp_path, "table_mended", level, resident)
    (change,) = ResidentBlocks().propose(case)
    assert change.title == f"one prologue for several blocks: the same work in {resident} blocks instead of 256"
    assert change.evaluate().cycles == pytest.approx(mended.prediction.cycles, rel=0.1)
    assert change.evaluate().cycles < 0.9 * case.prediction.cycles
    assert not _titles(ResidentBlocks(), mended)


def test_table_that_depends_on_the_block_is_not_kept(tmp_path: Path) -> None:
    case = _case(tmp_path, "table_of_block", "ptx", 16 * N // 256)
    once = same_in_all_blocks(case.trace)
    assert not any(once[i.pc] for i in case.trace.instructions if i.space in ("global", "shared"))


def test_blocks_in_turn_access_what_they_did_one_by_one(tmp_path: Path) -> None:
    trace = _case(tmp_path, "table", "ptx", 16 * N // 256).trace
    turns, starts = in_turn(trace, 86)
    assert turns.header.blocks == 86 and turns.header.warp_instructions == trace.header.warp_instructions
    before, after = (_by_block(each) for each in (trace, turns))
    for each in after:  # 256 blocks: two or three in a row
        count = next(n for n in (3, 2) if sorted(chain(*before[:n])) == sorted(each))
        del before[:count]
    assert not before
    assert {len(each) for each in starts} == {1, 2}
    few = in_few_blocks(trace, 86, same_in_all_blocks(trace))
    line = 1 + KERNELS.splitlines().index("  for (int t = threadIdx.x; t < 1024; t += blockDim.x) s[t] = w[t];")
    loads = [pc for pc, i in enumerate(few.instructions) if i.access == "load" and i.space == "global" and i.line == line]
    read = [AccessReader(few).read(chunk).pc for chunk in few.chunks]
    assert sum(int(np.isin(pc, loads).sum()) for pc in read) == few.header.blocks * 8 * 4, "the table is loaded once by each block"


def _by_block(trace: KernelTrace) -> list[list[int]]:
    """The sectors that each block touches, warp by warp."""
    found: dict[int, list[int]] = {}
    for chunk in trace.chunks:
        accesses = AccessReader(trace).read(chunk)
        warp = (accesses.warp[accesses.own] + chunk.first_warp).tolist()
        for w, sector in zip(warp, accesses.touched.tolist(), strict=True):
            found.setdefault(w // trace.header.warps_per_block, []).append(sector)
    return [found[block] for block in sorted(found)]
