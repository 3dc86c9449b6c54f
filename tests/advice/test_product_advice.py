"""Advice for products of matrices: is a rewritten trace that of the kernel written out, and is the advice kept to such kernels?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.analysis.advice.memory_rules import Coalescing
from warpsight.analysis.advice.product_rules import Pipelining, TensorCores, WarpTiles
from warpsight.analysis.advice.reuse_rules import Tiling, WideLoads, adjacent, staged, widened
from warpsight.analysis.advice.rewriting import AccessReader, differing_axes
from warpsight.analysis.advice.rule import Case, Rule, WhatIf
from warpsight.analysis.advice.work_rules import WorkPerThread, merged, merging
from warpsight.analysis.explanation import explain_profiled
from warpsight.caches.exact.simulate import simulate_caches
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import profile_trace
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

N = 64
GPU = load_gpu("a100", overrides=["sm_count=2", "sm.schedulers=2"])

KERNELS = """
#define OWN(r) (threadIdx.y + (r) * (16 / RESULTS))
template <int RESULTS> __device__ void tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[16][16], sb[16][16];
  int column = blockIdx.x * 16 + threadIdx.x;
  float sum[RESULTS] = {};
  #pragma unroll 1
  for (int t = 0; t < n; t += 16) {
    for (int r = 0; r < RESULTS; r++) {
      sa[OWN(r)][threadIdx.x] = a[(blockIdx.y * 16 + OWN(r)) * n + t + threadIdx.x];
      sb[OWN(r)][threadIdx.x] = b[(t + OWN(r)) * n + column];
    }
    __syncthreads();
    for (int k = 0; k < 16; k++)
      for (int r = 0; r < RESULTS; r++) sum[r] += sa[OWN(r)][k] * sb[k][threadIdx.x];
    __syncthreads();
  }
  for (int r = 0; r < RESULTS; r++) c[(blockIdx.y * 16 + OWN(r)) * n + column] = sum[r];
}
__global__ void tiled_1(const float* a, const float* b, float* c, int n) { tiled<1>(a, b, c, n); }
__global__ void tiled_4(const float* a, const float* b, float* c, int n) { tiled<4>(a, b, c, n); }

__global__ void product(const float* a, const float* b, float* c, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0.0f;
  #pragma unroll 2
  for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}
__global__ void columns(const float* a, const float* x, float* y, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  #pragma unroll 1
  for (int k = 0; k < n; k++) sum += a[k * n + column] * x[k];
  y[column] = sum;
}
__global__ void smooth(const float* x, const float* weights, float* y, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  #pragma unroll 1
  for (int k = 0; k < taps; k++) sum += x[i + k] * weights[k];
  y[i] = sum;
}

__global__ void lengths(const float* points, const float* unused, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float* p = points + 4 * i;
  out[i] = p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3];
}
__global__ void lengths_wide(const float4* points, const float* unused, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 p = points[i];
  out[i] = p.x * p.x + p.y * p.y + p.z * p.z + p.w * p.w;
}
__global__ void neighbours(const float* x, const float* unused, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float* p = x + i;
  out[i] = p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3];
}
"""

TENSOR = """
#include <cuda_fp16.h>
__device__ void copy(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
}
template <int STAGES> __device__ void staged(const __half* a, const __half* b, float* c, int n) {  // b by columns
  __shared__ __align__(16) __half sa[STAGES][16][24], sb[STAGES][64][24];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = threadIdx.x / 2, half = threadIdx.x % 2 * 8;
  float sum[4] = {};
  auto load = [&](int round) {
    int s = round % STAGES;
    if (round * 16 < n) {
      if (row < 16) copy(&sa[s][row][half], &a[(blockIdx.y * 16 + row) * n + round * 16 + half]);
      if (row < 64) copy(&sb[s][row][half], &b[(blockIdx.x * 64 + row) * n + round * 16 + half]);
    }
    asm volatile("cp.async.commit_group;");
  };
  for (int s = 0; s < STAGES - 1; s++) load(s);
  #pragma unroll 1
  for (int round = 0; round * 16 < n; round++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    load(round + STAGES - 1);
    int s = round % STAGES;
    unsigned x[4], y[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((unsigned)__cvta_generic_to_shared(&sa[s][lane % 16][lane / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(y[0]), "=r"(y[1])
                 : "r"((unsigned)__cvta_generic_to_shared(&sb[s][warp * 8 + lane % 8][lane / 8 % 2 * 8])));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  }
  float* own = &c[(blockIdx.y * 16 + lane / 4) * n + blockIdx.x * 64 + warp * 8 + lane % 4 * 2];
  for (int k = 0; k < 4; k += 2) *(float2*)&own[k / 2 * 8 * n] = {sum[k], sum[k + 1]};  // whole sectors
}
__global__ void stages_2(const __half* a, const __half* b, float* c, int n) { staged<2>(a, b, c, n); }
__global__ void stages_3(const __half* a, const __half* b, float* c, int n) { staged<3>(a, b, c, n); }
"""

Run = Any


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Traces a kernel of those above, each once."""
    folder, kept = tmp_path_factory.mktemp("products"), dict[str, KernelTrace]()
    (folder / "products.cu").write_text(KERNELS)
    (folder / "tensor.cu").write_text(TENSOR)

    def trace(kernel: str, grid: Any, block: Any, n: int = N) -> KernelTrace:
        if kernel not in kept:
            tensor = kernel.startswith("stages")
            numbers = np.ones(N * N + 64, np.float16 if tensor else np.float32)
            source = folder / ("tensor.cu" if tensor else "products.cu")
            arguments = [numbers, numbers.copy(), np.zeros(N * N, np.float32), n]
            kept[kernel] = warpsight.trace(source, kernel=kernel, grid=grid, block=block, args=arguments, gpu="a100")
        return kept[kernel]

    return trace


def _case(trace: KernelTrace) -> Case:
    profiled = profile_trace(trace, GPU)
    explained = explain_profiled(profiled, GPU, "warpsight", "source")
    return Case(profiled, GPU, "warpsight", explained.prediction, explained.rows)


def _proposed(rule: Rule, trace: KernelTrace) -> list[WhatIf]:
    return list(rule.propose(_case(trace)))


def _executions(trace: KernelTrace, *opcodes: str) -> dict[str, int]:
    """Executions and sectors of the accesses whose opcodes begin so."""
    misses = simulate_caches(trace, GPU, 2)  # a trace that contradicts itself is a FormatError
    pcs = [i.pc for i in trace.instructions if i.opcode.startswith(opcodes)]
    counts = ("executions", "sectors", "shared_executions", "shared_passes")
    return {name: int(getattr(misses, name)[pcs].sum()) for name in counts}


def test_warps_that_become_one_execute_what_a_kernel_with_more_results_in_each_thread_executes(run: Run) -> None:
    one, four = run("tiled_1", (4, 4), (16, 16)), run("tiled_4", (4, 4), (16, 4))
    after = merged(one, merging(one, 4))
    assert after.header.threads_per_block == four.header.threads_per_block
    assert _executions(after, "LDS")["shared_executions"] < _executions(one, "LDS")["shared_executions"]
    for opcodes in ("LDS", "STS", "LDG", "STG"):
        found, wanted = _executions(after, opcodes), _executions(four, opcodes)
        assert found["sectors"] == wanted["sectors"]
        # what the assembler loads four words at once from shared memory differs a little
        assert found["shared_executions"] == pytest.approx(wanted["shared_executions"], rel=0.1)
    written_out, rewritten = (warpsight.predict(trace, GPU, "warpsight").cycles for trace in (four, after))
    assert rewritten == pytest.approx(written_out, rel=0.1)
    (change,) = _proposed(WorkPerThread(), one)
    assert change.title.startswith("4 results in each thread") and change.evaluate().cycles == rewritten


def test_threads_whose_data_all_differ_are_not_advised_to_compute_more(run: Run) -> None:
    assert not _proposed(WorkPerThread(), run("lengths", 8, 128))
    assert differing_axes((16, 16, 1), 1) == {"tid.y"}
    assert differing_axes((32, 8, 1), 1) == {"tid.y"}
    assert differing_axes((128, 1, 1), 1) == {"tid.x"}
    assert differing_axes((48, 4, 1), 1) == {"tid.x", "tid.y"}


def test_staged_loads_read_each_sector_once_in_a_block(run: Run) -> None:
    trace = run("product", (2, 8), (32, 8))
    loads = [i.pc for i in trace.instructions if i.opcode.startswith("LDG")]
    after = staged(trace, loads, 48 * 1024)
    reader, before = AccessReader(after), AccessReader(trace)
    for chunk, old in zip(after.chunks, trace.chunks, strict=True):
        read, was = reader.read(chunk), before.read(old)
        mine, theirs = (np.isin(each.pc[each.own], loads) for each in (read, was))
        pairs = [(each.warp[each.own[here]] // 8 << 32 | each.touched[here].astype(np.int64)).tolist()
                 for each, here in ((read, mine), (was, theirs))]  # fmt: skip
        assert len(set(pairs[0])) == len(pairs[0]) < len(pairs[1])
        assert set(pairs[0]) == set(pairs[1])
        assert (read.degree[np.isin(read.pc, loads)] == 1).all()
    counts = _executions(after, "LDG")
    assert counts["shared_executions"] == _executions(trace, "LDG")["executions"]
    # 8 rows of a and 32 columns of b, N numbers of each, in 16 blocks
    assert counts["sectors"] == 16 * (8 + 32) * N * 4 // 32


def test_tiles_are_proposed_where_a_block_shares_data(run: Run) -> None:
    assert not _proposed(Tiling(), run("lengths", 8, 128))
    (change,) = _proposed(Tiling(), run("product", (2, 8), (32, 8)))
    assert "8.00" in change.reason and change.place.startswith("products.cu:")
    assert change.evaluate().cycles > 0


def test_widened_loads_are_those_of_a_kernel_with_a_vector_type(run: Run) -> None:
    trace, wide = run("lengths", 8, 128), run("lengths_wide", 8, 128)
    (change,) = _proposed(WideLoads(), trace)
    assert "16 bytes at once instead of 4" in change.title
    after = widened(trace, adjacent(trace))
    assert _executions(after, "LDG") == _executions(wide, "LDG")
    assert after.header.warp_instructions == trace.header.warp_instructions - 3 * 8 * 4
    assert change.evaluate().cycles == warpsight.predict(after, GPU, "warpsight").cycles
    # a thread's words begin anywhere there, not at multiples of 16 bytes
    assert adjacent(run("neighbours", 8, 128)) and not _proposed(WideLoads(), run("neighbours", 8, 128))


def test_rows_shorter_than_a_line_are_advised_in_fewer_lines(run: Run) -> None:
    rows = _proposed(Coalescing(), run("tiled_1", (4, 4), (16, 16)))  # a warp accesses two rows of 64 bytes
    assert [change.title.partition(" of ")[0] for change in rows] == ["loads", "loads", "stores"]
    for change in rows:
        assert change.title.endswith("in fewer lines")
        assert "2.00 requests and 4.00 sectors; the bytes of a full warp fit into 1.00 lines" in change.reason
        assert change.part == 0.5 and not {"mem_data", "noc", "dram"} & set(change.relieves)
    change, *_ = _proposed(Coalescing(), run("lengths", 8, 128))  # lanes 16 bytes apart load 4
    assert change.title.endswith("coalesced") and change.part == 0.75


def test_tensor_cores_are_advised_for_products_of_matrices_alone(run: Run) -> None:
    products = (run("product", (2, 8), (32, 8)), "32.0 rows and 8.00"), (run("tiled_1", (4, 4), (16, 16)), "16.0 rows and 16.0")
    for trace, shape in products:
        (change,) = _proposed(TensorCores(), trace)
        assert change.at_most and "tf32" in change.title
        assert f"of {shape} columns" in change.reason
        assert 0 < change.evaluate().cycles < _case(trace).prediction.cycles
    assert not _proposed(TensorCores(), run("columns", 1, N))  # each number of the matrix is used once
    assert not _proposed(TensorCores(), run("smooth", 16, 256, 32))  # a product with a matrix of one column
    assert not _proposed(TensorCores(), run("lengths", 8, 128))
    assert not list(TensorCores().propose(_case(run("stages_2", (1, 2), 256))))


@pytest.mark.parametrize("name", ["gtx1080", "v100"])  # without tensor cores, and without tf32
def test_gpu_whose_tensor_cores_lack_the_type_is_not_advised_to_use_them(run: Run, name: str) -> None:
    trace, gpu = run("product", (2, 8), (32, 8)), load_gpu(name)
    profiled = profile_trace(trace, gpu)
    explained = explain_profiled(profiled, gpu, "warpsight", "source")
    assert not list(TensorCores().propose(Case(profiled, gpu, "warpsight", explained.prediction, explained.rows)))


def test_one_more_stage_of_copies_is_predicted_as_the_kernel_that_has_it(run: Run) -> None:
    """With one block on an SM, so that its waits are its time."""
    two, three = run("stages_2", (1, 2), 256), run("stages_3", (1, 2), 256)
    (change,) = _proposed(Pipelining(), two)
    assert "wait_group 1 instead of 0" in change.title
    assert "a block copies 8,192 bytes in a round" in change.reason
    now, then = _case(two).prediction.cycles, _case(three).prediction.cycles
    assert then < now
    assert change.evaluate().cycles == pytest.approx(then, rel=0.05)


def test_loads_that_are_staged_through_registers_are_advised_a_tile_ahead(run: Run) -> None:
    (change,) = _proposed(Pipelining(), run("tiled_1", (4, 4), (16, 16)))
    assert change.at_most and "a tile ahead" in change.title
    assert change.evaluate().cycles < _case(run("tiled_1", (4, 4), (16, 16))).prediction.cycles
    assert not _proposed(Pipelining(), run("product", (2, 8), (32, 8)))


def test_idle_tensor_cores_behind_loads_of_their_operands_are_advised_larger_tiles(run: Run) -> None:
    trace = run("stages_2", (1, 2), 256)
    (change,) = _proposed(WarpTiles(), trace)
    # six passes of 128 bytes through the banks for a product that takes 8 cycles of one of two tensor cores
    assert "1.50 times as long" in change.reason
    assert change.evaluate().cycles <= _case(trace).prediction.cycles + 1e-6  # sums of other terms
    assert not _proposed(WarpTiles(), run("tiled_1", (4, 4), (16, 16)))
