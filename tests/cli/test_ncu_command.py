"""Is a prediction printed as Nsight Compute prints a measurement: its counts, its columns, its refusals, and its own reports?"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import LAUNCH, assert_one_error, run

import warpsight
from warpsight.analysis.nsight.absent import UNKNOWN_STALLS
from warpsight.analysis.nsight.documents import LaunchFilter, kernel_documents
from warpsight.analysis.nsight.metrics import METRICS, SECTIONS, chosen_metrics
from warpsight.analysis.nsight.quantities import STALLS
from warpsight.base.errors import UnsupportedError
from warpsight.gpu.loader import load_gpu
from warpsight.hardware.measurements.ncu_report import is_report, read_report
from warpsight.hardware.references import measurements_of
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.reports.nsight import BASE, Shown, details_csv, details_text, raw_csv
from warpsight.traces.store import save_trace

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]
WHOLE = Shown(tuple(SECTIONS))
KERNEL = """\
__global__ void reversed(const float* x, float* y, float* sum, int n) {
  __shared__ float tile[32 * 32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[lane * 32 + warp] = x[i];
  __syncthreads();
  if (i < n) y[i] = tile[threadIdx.x];
  atomicAdd(sum, 1.0f);
}
"""
BLOCKS, WARPS = 8, 8 * 4


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A launch of 8 blocks of 128 threads: loads, stores to shared memory with conflicts, half of the stores, a sum."""
    path = tmp_path_factory.mktemp("ncu") / "reversed.cu"
    path.write_text(KERNEL)
    args = ("f32[1024]:uniform", "f32[1024]:zeros", "f32[1]:zeros", "512")
    request = KernelRequest(str(path), grid=BLOCKS, block=128, args=args, level="ptx")
    (found,) = kernel_documents(request, load_gpu("mdm-pascal"), "warpsight", Method(caches_before="cold"))
    return found


@pytest.fixture(scope="module")
def values(document: dict[str, Any]) -> dict[str, Any]:
    """The value of each metric."""
    return {name: metric["value"] for name, metric in document["metrics"].items()}


ARITHMETIC = """\
__global__ void some(float a, const float* x, float* y, double* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = a * x[i] + y[i];
  z[i] = z[i] * z[i] + 3.0;
}
__global__ void guarded(float a, const float* x, float* y) {
  float t = x[threadIdx.x];
  if (t > 0.5f) t += a;
  y[threadIdx.x] = t;
}
"""


def test_operations_of_a_roofline_are_counted_by_threads_unless_a_predicate_guards_them(tmp_path: Path) -> None:
    path = tmp_path / "some.cu"
    path.write_text(ARITHMETIC)

    def counted(kernel: str, *args: str) -> dict[str, Any]:
        request = KernelRequest(str(path), kernel=kernel, grid=2, block=64, args=args)
        (found,) = kernel_documents(request, load_gpu("a100"), "warpsight", Method())
        return {name: metric["value"] for name, metric in found["metrics"].items()}

    # 80 of 128 threads: two warps and a half, which is active after the early return
    some = counted("some", "2.0", "f32[128]:uniform", "f32[128]:uniform", "f64[128]:uniform", "80")
    operations = {op: some[f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum"] for op in ("ffma", "fadd", "dfma", "dmul", "hmul")}
    assert operations == {"ffma": 80, "fadd": 0, "dfma": 80, "dmul": 0, "hmul": 0}
    assert some["sm__inst_executed_pipe_fp64.sum"] == 3 and some["sm__inst_executed_pipe_tensor.sum"] == 0
    # x, y twice: 4 bytes a thread; z twice: 8
    assert some["l1tex__t_bytes.sum"] == 80 * (3 * 4 + 2 * 8) and some["smsp__inst_executed_op_global_ld.sum"] == 3 * 3
    guarded = counted("guarded", "2.0", "f32[64]:uniform", "f32[64]:uniform")
    assert guarded["sm__sass_thread_inst_executed_op_fadd_pred_on.sum"] is None
    assert guarded["sm__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 0


def test_counts_are_those_of_the_kernel(values: dict[str, Any]) -> None:
    lsu = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
    counted = {op: (values[lsu.format("requests", op)], values[lsu.format("sectors", op)]) for op in ("ld", "st", "red", "atom")}
    # in PTX the sum is an `atom` whose result nobody reads; the assembler makes it a `red`
    assert counted == {"ld": (WARPS, 4 * WARPS), "st": (WARPS / 2, 2 * WARPS), "red": (0, 0), "atom": (WARPS, WARPS)}
    assert values["l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"] == 4
    assert values["dram__bytes_read.sum"] >= 32 * 4 * WARPS  # cold caches
    # 32 lanes store to one bank; a row that is read has no conflict
    assert values["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"] == 32 * WARPS
    assert values["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"] == 31 * WARPS
    assert values["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 0
    assert (values["launch__grid_size"], values["launch__block_size"], values["launch__thread_count"]) == (8, 128, 1024)
    assert values["launch__shared_mem_per_block_static"] == 4096
    assert values["lts__t_sectors_op_read.sum"] == 4 * WARPS
    assert values["lts__t_sectors_op_write.sum"] == 2 * WARPS
    assert values["lts__t_sector_op_write_hit_rate.pct"] == 100  # whole sectors: nothing is fetched
    assert (values["lts__t_sectors_op_write_lookup_hit.sum"], values["lts__t_sectors_op_write_lookup_miss.sum"]) == (2 * WARPS, 0)
    passes = ("memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal", "derived__memory_l1_wavefronts_shared_excessive")
    # of each warp a store in 32 passes, and the loads of rows, in one each
    loads = values["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"]
    assert [values[name] - loads for name in passes[:2]] == [32 * WARPS, WARPS]
    assert values[passes[2]] == 31 * WARPS
    assert (values["sm__warps_launched.sum"], values["sm__ctas_launched.sum"]) == (8 * 4, 8)
    assert values["launch__shared_mem_per_block"] == 4096 + values["launch__shared_mem_per_block_driver"]
    assert values["smsp__cycles_elapsed.sum"] % values["sm__cycles_elapsed.sum"] == 0
    bytes_of = [values[f"dram__bytes{part}.sum.pct_of_peak_sustained_elapsed"] for part in ("", "_read", "_write")]
    assert bytes_of[1] + bytes_of[2] == pytest.approx(bytes_of[0])


def test_warps_are_somewhere_at_any_time(values: dict[str, Any]) -> None:
    states = {name: values[f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"] for name in STALLS}
    latency = values["smsp__average_warp_latency_per_inst_issued.ratio"]
    assert sum(states.values()) == pytest.approx(latency)
    assert states["selected"] == 1
    shares = {name: values[f"smsp__warp_issue_stalled_{name}_per_warp_active.pct"] for name in STALLS}
    assert shares == {name: pytest.approx(100 * cycles / latency) for name, cycles in states.items()}
    assert min(states.values()) >= 0
    issued, active = values["smsp__issue_active.avg.per_cycle_active"], values["smsp__warps_active.avg.per_cycle_active"]
    assert issued * latency == pytest.approx(active)
    eligible = values["smsp__warps_eligible.avg.per_cycle_active"]
    assert eligible == pytest.approx(issued * (1 + states["not_selected"]))
    both = ("smsp__issue_active.avg.pct_of_peak_sustained_active", "smsp__issue_inst0.avg.pct_of_peak_sustained_active")
    assert sum(values[name] for name in both) == pytest.approx(100)
    assert values["sm__warps_active.avg.per_cycle_active"] <= values["sm__maximum_warps_avg_per_active_cycle"]
    assert values["sm__cycles_active.avg"] <= values["gpc__cycles_elapsed.max"]


def test_the_wait_for_the_texture_unit_is_a_reason_of_its_own(tmp_path: Path) -> None:
    def stalls(load: str, source: object, argument: str) -> tuple[float, float]:
        kernel = f"__global__ void k({argument} in, float* out) {{ out[blockIdx.x * blockDim.x + threadIdx.x] = {load}; }}"
        trace = warpsight.trace(kernel, grid=64, block=256, args=[source, np.zeros(64 * 256, np.float32)], level="ptx")
        save_trace(trace, tmp_path / argument[:5])
        request = KernelRequest(str(tmp_path / argument[:5]))
        (found,) = kernel_documents(request, load_gpu("mdm-pascal"), "warpsight", Method(caches_before="cold"))
        name = "smsp__average_warps_issue_stalled_{}_throttle_per_issue_active.ratio"
        return found["metrics"][name.format("tex")]["value"], found["metrics"][name.format("lg")]["value"]

    image = np.zeros((256, 256), np.float32)
    fetched = stalls("tex2D<float>(in, threadIdx.x, threadIdx.x)", warpsight.Texture(image), "cudaTextureObject_t")
    loaded = stalls("in[threadIdx.x * 2049 % 65536]", image, "const float*")
    assert fetched[0] == pytest.approx(32 * fetched[1])  # a line for each lane; a store of a warp is one
    assert fetched[1] > 0
    assert loaded[0] == 0 < loaded[1]


@pytest.mark.parametrize("reason", ["branch_resolving", "no_instruction", "imc_miss", "dispatch_stall", "membar", "gmma"])
def test_a_reason_that_no_component_has_is_refused_with_the_cause(reason: str) -> None:
    why = next(why for pattern, why in UNKNOWN_STALLS.items() if re.fullmatch(pattern, reason))
    for before, after in (("average_warps", "issue_active.ratio"), ("warp", "warp_active.pct")):
        with pytest.raises(UnsupportedError, match=re.escape(why)):
            chosen_metrics([f"smsp__{before}_issue_stalled_{reason}_per_{after}"])


def test_our_own_reader_reads_both_pages(document: dict[str, Any], values: dict[str, Any]) -> None:
    for text, near in ((raw_csv([document], WHOLE), 0.01), (details_csv([document], WHOLE), 0.02)):
        found = measurements_of(text, "predicted.csv")
        assert found is not None
        (launch,) = found.launches
        assert (launch.kernel, launch.grid, launch.block) == ("reversed", (8, 1, 1), (128, 1, 1))
        assert launch.value("cycles") == pytest.approx(values["gpc__cycles_elapsed.max"], rel=near)
        assert launch.value("seconds") == pytest.approx(values["gpu__time_duration.sum"] * 1e-9, rel=near)
        assert launch.value("warp_instructions") == values["smsp__inst_executed.sum"]
        occupancy = values["sm__warps_active.avg.pct_of_peak_sustained_active"] / 100
        assert launch.value("occupancy") == pytest.approx(occupancy, rel=near)


def test_csv_has_the_columns_of_ncu(document: dict[str, Any]) -> None:
    fixed = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
             "Device", "CC"]  # fmt: skip
    metrics = [METRICS["dram__bytes_read.sum"], METRICS["gpu__time_duration.sum"]]
    wanted = Shown(metrics=tuple(metrics), units=BASE)
    long, wide = (list(csv.reader(io.StringIO(make([document], wanted)))) for make in (details_csv, raw_csv))
    assert long[0] == [*fixed, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    assert [row[11:14] for row in long[1:]] == [["Command line profiler metrics", each.name, each.unit] for each in metrics]
    assert long[1][:11] == ["0", "1", "reversed.cu", "127.0.0.1", "reversed", "1", "7", "(128, 1, 1)", "(8, 1, 1)", "0", "n/a"]
    assert wide[0] == [*fixed, *(each.name for each in metrics)]
    assert wide[1] == ["" for _ in fixed] + ["byte", "ns"]
    assert details_csv([document], WHOLE).splitlines()[0].endswith('"Metric Value","Rule Name","Rule Type","Rule Description",'
                                                                   '"Estimated Speedup Type","Estimated Speedup"')  # fmt: skip


def test_text_has_the_sections_of_ncu_with_units_that_fit(document: dict[str, Any]) -> None:
    text = details_text([document], WHOLE)
    assert [line.removeprefix("    Section: ") for line in text.splitlines() if "Section: " in line] == list(SECTIONS.values())
    rows = [line.split() for line in text.splitlines()]
    assert ["SM", "Frequency", "Ghz", "1.40"] in rows
    assert ["Static", "Shared", "Memory", "Per", "Block", "Kbyte/block", "4.10"] in rows
    assert ["Block", "Size", "128"] in rows


@pytest.mark.parametrize(("name", "why"), [
    ("idc__requests.sum", "constants always hit"), ("lts__t_requests.sum", "sectors of the SMs"),
    ("launch__context_id", "no context"),
    ("l1tex__lsuin_requests.avg.pct_of_peak_sustained_active", "one resource"), ("gr__cycles_active.sum", "no such unit"),
    ("sm__inst_executed_pipe_cbu.sum", "op classes"), ("sm__sass_data_bytes_mem_global_op_ld.sum", "sectors of accesses"),
])  # fmt: skip
def test_a_metric_of_a_unit_that_no_model_has_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{re.escape(name)} is not predicted: .*{why}"):
        chosen_metrics([name])


def test_each_metric_of_nsight_compute_s_sections_has_a_value_or_a_reason() -> None:
    names = [name for name in Path(__file__).with_name("nsight_metrics.txt").read_text().splitlines() if not name.startswith("#")]
    predicted = []
    for name in names:
        try:
            predicted += chosen_metrics([name])
        except UnsupportedError as error:
            assert re.fullmatch(rf"{re.escape(name)} is not predicted: .{{20,}}", error.what)
    assert len(names) > 400 and len(predicted) > 150


def test_what_cannot_be_shown_is_refused_with_a_way_out(saxpy: Path, capsys: Capture) -> None:
    def refused(code: int, *words: object, told: tuple[str, ...]) -> None:
        assert_one_error(run(capsys, "ncu", *words), code, *told)

    kernel = (saxpy, *LAUNCH)
    refused(2, *kernel, "--metrics", "dram__byte_read.sum", told=('did you mean "dram__bytes_read.sum"?', "--query-metrics"))
    refused(3, *kernel, "--metrics", "dram__cycles_elapsed.avg.per_second", told=("is not predicted", "not the clock"))
    refused(3, *kernel, "--metrics", "smsp__thread_inst_executed_pred_on.sum", told=("without predicates",))
    refused(2, *kernel, "--section", "SpedOfLight", told=('did you mean "SpeedOfLight"?',))
    refused(2, *kernel, "-c", "3", told=("--launch-count", "program"))
    refused(2, *kernel, "-k", "regex:s.*", told=("--kernel-name", "name the kernel"))
    refused(2, told=("KERNEL: is missing",))
    refused(2, "--import", saxpy.parent / "none.ncu-rep", told=("does not exist",))
    refused(2, "--grid", "4", "--", "./program", told=("--grid", "a program makes its launches itself"))
    refused(2, saxpy, "--", "./program", told=("unexpected argument", "come before --"))


def test_the_command_shows_what_was_asked_for(saxpy: Path, capsys: Capture) -> None:
    named = "launch__grid_size,smsp__thread_inst_executed"
    outcome = run(capsys, "ncu", saxpy, *LAUNCH[2:], "-k", "saxpy", "--csv", "--page", "raw", "--metrics", named)
    assert outcome.code == 0, outcome.err
    header = next(csv.reader(io.StringIO(outcome.out)))
    assert header[11:] == ["launch__grid_size", "smsp__thread_inst_executed.sum"]
    listed = run(capsys, "ncu", "--query-metrics").out
    assert all(name in listed for name in METRICS)


def test_launches_of_a_program_are_chosen_by_name_and_number() -> None:
    assert LaunchFilter("gemm").expression == "^gemm(?:[<(].*)?$"
    assert LaunchFilter("regex:gemm|reduce").expression == "gemm|reduce"
    assert list(LaunchFilter("", 1, 2).chosen([0, 1, 2, 3])) == [1, 2]
    assert list(LaunchFilter("", 3).chosen([0, 1, 2, 3, 4])) == [3, 4]


# -- Reports of Nsight Compute. NVIDIA's package reads them; here a module with its interface has one kernel.

class _Action:
    NameBase_DEMANGLED = 2

    def __init__(self, metrics: dict[str, tuple[float | str, str]]) -> None:
        self._metrics = metrics

    def name(self, base: int = 0) -> str:
        return "add(float *)" if base == self.NameBase_DEMANGLED else "add"

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self._metrics)

    def metric_by_name(self, name: str) -> Any:
        value, unit = self._metrics[name]
        return SimpleNamespace(value=lambda: value, unit=lambda: unit)


def test_a_report_of_nsight_compute_is_read_with_nvidias_package(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {f"launch__{what}_dim_{axis}": (float(size if axis == "x" else 1), "") for what, size in (("grid", 63), ("block", 256))
             for axis in "xyz"}  # fmt: skip
    action = _Action({
        **sizes, "device__attribute_compute_capability_major": (7, ""), "device__attribute_compute_capability_minor": (5, ""),
        "gpu__time_duration.sum": (52576.0, "ns"), "gpc__cycles_elapsed.max": (30730.0, "cycle"),
        "smsp__inst_executed.sum": (632520.0, "inst"), "launch__func_cache_config": ("CachePreferNone", ""),
    })  # fmt: skip
    kernels = SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda number: action)
    report = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda number: kernels)
    monkeypatch.setitem(sys.modules, "ncu_report", SimpleNamespace(load_report=lambda path: report))
    path = tmp_path / "t4.ncu-rep"
    path.write_bytes(b"NVR\0\2")
    assert is_report(path.read_bytes())
    (launch,) = read_report(str(path)).launches
    assert (launch.kernel, launch.grid, launch.value("cycles")) == ("add(float *)", (63, 1, 1), 30730)
    assert launch.value("seconds") == pytest.approx(52.576e-6)
    shown = run(capsys, "ncu", "--import", path, "--metrics", "gpu__time_duration.sum,gpu__dram_throughput")
    assert shown.code == 0
    assert "add(float *) (63, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 7.5" in shown.out
    rows = {line.split()[0]: line.split()[1:] for line in shown.out.splitlines() if "__" in line and "next:" not in line}
    assert rows["gpu__time_duration.sum"] == ["us", "52.58"]
    assert rows["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"] == ["n/a"]
    whole = json.loads(run(capsys, "ncu", "--import", path, "--json").out)
    assert whole["metrics"]["launch__func_cache_config"]["value"] == "CachePreferNone"
    assert "add(float *)" in run(capsys, "ncu", "--import", path, "-k", "add", "-c", "1", "--set", "basic").out
    assert_one_error(run(capsys, "ncu", "--import", path, "-k", "sub"), 2, "--kernel-name", "no launch of", "add(float *)")
    assert_one_error(run(capsys, "ncu", "--import", path, "--gpu", "a100"), 2, "--gpu", "has been measured")
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    assert_one_error(run(capsys, "ncu", "--import", path), 2, "ncu-report", "pip install")
