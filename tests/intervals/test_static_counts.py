"""Are the counts from the program text those of the emulator, and is what the text does not say an error?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.base.errors import LimitError, UsageError, WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.interval_profile import KernelCounts
from warpsight.intervals.static import counts as iterations
from warpsight.intervals.static.counts import NEVER, first_iteration, static_counts
from warpsight.intervals.static.loops import StaticHints, parse_lines, parse_trips
from warpsight.intervals.usage import path_use, trace_counts
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import run_ready

pytestmark = pytest.mark.unit

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "kernels" / "kernels.cu"

OURS = r"""
#define TILE 16
extern "C" __global__ void tiled(const float* m, const float* n, float* p, int width) {
  __shared__ float ms[TILE][TILE];
  __shared__ float ns[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int step = 0; step < width / TILE; ++step) {
    ms[threadIdx.y][threadIdx.x] = m[row * width + step * TILE + threadIdx.x];
    ns[threadIdx.y][threadIdx.x] = n[(step * TILE + threadIdx.y) * width + column];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += ms[threadIdx.y][k] * ns[k][threadIdx.x];
    __syncthreads();
  }
  p[row * width + column] = sum;
}
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void stencil(const float* in, float* out, int n, int radius) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < radius || i >= n - radius) return;
  float sum = 0.0f;
  for (int d = -radius; d <= radius; d++) sum += in[i + d];
  out[i] = sum;
}
extern "C" __global__ void reduce(const float* in, float* out) {
  __shared__ float part[128];
  float sum = 0.0f;
  for (int k = 0; k < 20; k++) sum += in[(blockIdx.x * 20 + k) * 128 + threadIdx.x];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 64; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x * 32] = part[0];
}
extern "C" __global__ void strided_loop(const double* in, double* out, int n) {
  double sum = 0.0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void triangle(const float* in, float* out, int n) {
  int i = threadIdx.x;
  float sum = 0.0f;
  #pragma unroll 1
  for (int j = 0; j < i; j++) {
    #pragma unroll 1
    for (int k = 0; k <= j % 4; k++) sum += in[j * n + k * 32 + i];
  }
  out[i] = sum;
}
extern "C" __global__ void lower(const float* in, float* out, int n) {
  float sum = 0.0f;
  #pragma unroll 1
  for (int j = 0; j < n; j++) {
    #pragma unroll 1
    for (int k = 0; k < j; k++) sum += in[j * 64 + k * 33 + threadIdx.x];
    if (j & 1) out[threadIdx.x + j] = sum;
  }
}
extern "C" __global__ void found(const float* in, float* out, int n, int stop) {
  #pragma unroll 1
  for (int j = 0; j < n; j++) {
    if (j == stop + (int)threadIdx.x % 3) { out[threadIdx.x] = 1.0f; break; }
    out[threadIdx.x + 32 * j] = in[j];
  }
}
extern "C" __global__ void bytes(const unsigned char* in, unsigned char* out, const short2* pair, float4* wide, int w) {
  int x = threadIdx.x, y = threadIdx.y + blockIdx.y * blockDim.y;
  wide[y * w + x] = make_float4(in[y * w + x], pair[y * w + x].x, 0, 0);
  out[(y * w + x) / 3] = 1;
  if (x % 2) atomicAdd((int*)wide + (x >> 2) * 64, 1);
}
"""
Z = "f32[65536]:zeros"
CASES: list[tuple[str, Any, Any, list[Any]]] = [
    ("tiled", (4, 4), (16, 16), [Z, Z, Z, 64]),
    ("tiled", (2, 2), (16, 16), [Z, Z, Z, 32]),
    ("saxpy", (9,), (256,), [2.0, Z, Z, 2048]),
    ("saxpy", (8,), (96,), [2.0, Z, Z, 768]),
    ("stencil", (8,), (128,), [Z, Z, 1000, 3]),
    ("reduce", (6,), (128,), [Z, Z]),
    ("strided_loop", (4,), (64,), ["f64[5000]:zeros", "f64[5000]:zeros", 5000]),
    ("triangle", (1,), (64,), [Z, Z, 128]),
    ("lower", (1,), (64,), [Z, Z, 13]),
    ("lower", (1,), (64,), [Z, Z, 0]),
    ("found", (1,), (64,), [Z, Z, 40, 7]),
    ("found", (1,), (64,), [Z, Z, 5, 7]),
    ("bytes", (1, 4), (24, 4), ["u8[65536]:zeros", "u8[65536]:zeros", "i32[65536]:zeros", "f32[65536]:zeros", 100]),
]
THEIRS: list[tuple[str, Any, Any, list[Any]]] = [
    ("vector_add", (64,), (256,), [Z, Z, Z, 16000]),
    ("grid_stride", (8,), (256,), [Z, Z, 16, 30]),
    ("transpose_naive", (8, 8), (32, 8), [Z, Z, 250, 60]),
    ("matmul_naive", (4, 8), (16, 8), [Z, Z, Z, 64]),
    ("matmul_tiled", (4, 4), (16, 16), [Z, Z, Z, 64]),
    ("stencil5", (8, 8), (32, 8), [Z, Z, 250, 60]),
    ("block_sum", (16,), (256,), [Z, Z, 4000]),
    ("row_sum", (8,), (128,), [Z, Z, 1000, 37]),
    ("fma_chain", (8,), (128,), [Z, 50]),
    ("histogram", (8,), (256,), ["u32[8000]:zeros", "u32[256]:zeros", 8000]),
]
# compute capability 1.0 with some lanes off: a trace cannot say which, see `addressing.coalescing`
PARTIAL = {"stencil", "reduce", "found", "bytes", "transpose_naive", "stencil5", "block_sum", "saxpy", "strided_loop", "triangle"}


def _ready(source: Any, name: str, grid: Any, block: Any, arguments: list[Any]) -> ReadyLaunch:
    return prepare(KernelRequest(path=source, kernel=name, grid=grid, block=block, args=tuple(arguments)))


def _numbers(counts: KernelCounts) -> list[float]:
    return [float(value) for value in counts.__dict__.values() if not isinstance(value, str)]


def _compare(ready: ReadyLaunch, name: str) -> None:
    trace = run_ready(ready)
    for gpu in map(load_gpu, ("gtx280", "mdm-pascal", "fx5600")):
        executed = trace_counts(trace, gpu, path_use(trace)[0], 3)
        counted = static_counts(ready.source, ready.launch, gpu, 3)
        if gpu.name != "fx5600" or name not in PARTIAL:
            assert _numbers(counted) == pytest.approx(_numbers(executed), rel=1e-12), gpu.name
        assert counted.instructions == pytest.approx(executed.instructions, rel=1e-12)
        assert counted.memory_instructions == pytest.approx(executed.memory_instructions, rel=1e-12)
        assert counted.synchronizations == executed.synchronizations


@pytest.mark.parametrize(("name", "grid", "block", "arguments"), CASES)
def test_counts_of_the_text_are_those_of_the_emulator(name: str, grid: Any, block: Any, arguments: list[Any]) -> None:
    _compare(_ready(OURS, name, grid, block, arguments), name)


@pytest.mark.oracle
@pytest.mark.shared
@pytest.mark.parametrize(("name", "grid", "block", "arguments"), THEIRS)
def test_counts_of_reference_kernels_are_those_of_the_emulator(name: str, grid: Any, block: Any, arguments: list[Any]) -> None:
    _compare(_ready(str(REFERENCE), name, grid, block, arguments), name)


def test_tiled_matrix_multiplication_has_the_counts_that_its_source_shows() -> None:
    ready = _ready(OURS, "tiled", (4, 4), (16, 16), [Z, Z, Z, 64])
    counts = static_counts(ready.source, ready.launch, load_gpu("fx5600"), 3)
    # two loads and two barriers a step, 64 / 16 steps, one store; rows of 16 words are half-warps in order
    assert (counts.coalesced_instructions, counts.uncoalesced_instructions, counts.synchronizations) == (9, 0, 8)
    assert counts.load_bytes == 128


DATA = r"""
extern "C" __global__ void rows(const int* row, const int* column, const float* value, float* out, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  #pragma unroll 1
  for (int k = 0; k < row[r]; k++) sum += value[k * 32 + threadIdx.x];
  out[r] = sum + value[column[r]];
}
extern "C" __global__ void chosen(const int* flag, float* out) {
  if (flag[threadIdx.x]) out[threadIdx.x] = 1.0f; else out[32 * threadIdx.x] = 2.0f;
}
extern "C" __global__ void endless(float* out, int n) {
  #pragma unroll 1
  for (int k = 0; k != n; k += 2) out[k] = 1.0f;
}
extern "C" __global__ void chain(float* out, unsigned n) {
  #pragma unroll 1
  for (unsigned k = 1; k < n; k = k * 3 / 2 + 1) out[k] = 1.0f;
}
"""


def _told(name: str, arguments: list[Any], hints: StaticHints) -> KernelCounts:
    ready = _ready(DATA, name, (2,), (64,), arguments)
    return static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3, hints)


ROWS = ["i32[128]:zeros", "i32[128]:zeros", Z, Z, 4]


def _label() -> str:
    with pytest.raises(UsageError) as caught:
        _told("rows", ROWS, StaticHints(trips={"none": 1}, uncoalesced=frozenset({-1}), both_paths=True))
    return caught.value.remedy.rpartition(" ")[2]


def test_trip_count_that_depends_on_data_names_the_loop_and_the_remedy() -> None:
    with pytest.raises(UsageError, match=r"how often the loop \$L__BB0_\d+ runs depends on a value loaded from memory") as caught:
        _told("rows", ROWS, StaticHints(uncoalesced=frozenset({-1}), both_paths=True))
    assert "PTX line" in caught.value.place
    assert f"`trips` '{_label()}=N'" in caught.value.remedy


def test_address_that_depends_on_data_names_the_line_and_the_remedy() -> None:
    with pytest.raises(UsageError, match=r'the address of "ld\.global\.f32" depends on a value loaded from memory') as caught:
        _told("rows", ROWS, StaticHints(trips={_label(): 5}, both_paths=True))
    line = caught.value.place.partition("PTX line ")[2].split()[0]
    assert f"`uncoalesced` {line}" in caught.value.remedy
    five, seven = (_told("rows", ROWS, StaticHints({_label(): n}, frozenset(), frozenset({int(line)}), True)) for n in (5, 7))
    # a value in each iteration (the row is loaded once, before the loop)
    assert seven.memory_instructions - five.memory_instructions == 2
    assert (five.uncoalesced_instructions, five.transactions) == (1, 32)


def test_branch_that_depends_on_data_is_refused_or_counted_on_both_sides() -> None:
    with pytest.raises(UsageError, match="which threads go where is not known") as caught:
        _told("chosen", ["i32[64]:zeros", Z], StaticHints())
    assert "`both_paths`" in caught.value.remedy
    counts = _told("chosen", ["i32[64]:zeros", Z], StaticHints(both_paths=True))
    assert counts.memory_instructions == 3


def test_loop_that_never_meets_its_end_is_not_guessed() -> None:
    with pytest.raises(WarpsightError, match="how often the loop"):
        _told("endless", [Z, 7], StaticHints())
    assert _told("endless", [Z, 8], StaticHints()).memory_instructions == 4


def test_loop_without_closed_form_is_walked_one_by_one_up_to_a_limit() -> None:
    counts = _told("chain", [Z, 1000], StaticHints())
    values, k = 0, 1
    while k < 1000:
        k, values = k * 3 // 2 + 1, values + 1
    assert counts.memory_instructions == values


def test_told_trips_that_contradict_the_text_are_refused() -> None:
    ready = _ready(OURS, "tiled", (1, 1), (16, 16), [Z, Z, Z, 64])
    with pytest.raises(UsageError, match="is not the label of a loop") as caught:
        static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3, StaticHints(trips={"$L": 3}))
    label = caught.value.remedy.rpartition(" ")[2]
    with pytest.raises(UsageError, match="is 3 iterations, but the program text has 4"):
        static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3, StaticHints(trips={label: 3}))
    static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3, StaticHints(trips={label: 4}))


def test_line_that_was_told_for_nothing_is_refused() -> None:
    ready = _ready(OURS, "saxpy", (1,), (32,), [2.0, Z, Z, 32])
    with pytest.raises(UsageError, match="is in PTX line 3"):
        static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3, StaticHints(uncoalesced=frozenset({3})))


def test_large_loop_is_one_pass_and_not_an_execution() -> None:
    ready = _ready(OURS, "reduce", (1,), (128,), [Z, Z])
    small = static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3)
    source = OURS.replace("k < 20", "k < 20000000").replace("blockIdx.x * 20 ", "blockIdx.x * 20000000 ")
    many = _ready(source, "reduce", (1,), (128,), [Z, Z])
    large = static_counts(many.source, many.launch, load_gpu("gtx280"), 3)
    assert large.memory_instructions - small.memory_instructions == 20000000 - 20


@pytest.mark.parametrize("text", ["x", "=3", "a=0", "a=-1", "a=b"])
def test_trips_that_are_no_label_and_number_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not LABEL=n"):
        parse_trips([text])


def test_options_are_read() -> None:
    assert parse_trips(["$L__BB0_2=16", "b = 3"]) == {"$L__BB0_2": 16, "b": 3}
    assert parse_lines(["12,13", "all"], "--uncoalesced") == {12, 13, -1}
    with pytest.raises(UsageError, match="is not a line of the PTX"):
        parse_lines(["x"], "--uncoalesced")
    with pytest.raises(UsageError, match="given twice"):
        parse_trips(["a=1", "a=2"])


@pytest.mark.property
@given(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), st.integers(-50, 50), st.integers(-7, 7))
def test_first_iteration_equals_counting(relation: str, start: int, step: int) -> None:
    holds = {"lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__, "eq": int.__eq__, "ne": int.__ne__}[relation]
    counted = next((k for k in range(200) if holds(start + step * k, 0)), NEVER)
    assert first_iteration(relation, start, step, 2).tolist() == [counted, counted]


def test_loop_of_too_many_iterations_without_closed_form_ends_in_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iterations, "_MOST_ITERATIONS", 100)
    source = """extern "C" __global__ void slow(float* out, unsigned n) {
      unsigned x = 1;
      #pragma unroll 1
      for (unsigned k = n; k != 0; k = k & 1 ? k - 1 : k ^ 1) { x = x * 3 + 1; out[x & 63] = 1.0f; }
    }"""
    ready = _ready(source, "slow", (1,), (32,), [Z, 200_000])
    with pytest.raises(LimitError, match="more than 100 iterations, and no closed form"):
        static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3)
