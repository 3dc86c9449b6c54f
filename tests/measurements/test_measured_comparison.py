"""Is a profiler's launch found for the launch that was traced, and are models and their inputs held against it?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import LAUNCH, assert_one_error, run

from warpsight.hardware.launch_matching import bare_name, base_name

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]
Write = Callable[..., Path]

SOURCE = """\
__global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
_NAME = "saxpy(float, const float *, float *, int)"
# what each metric is in, and its value: 8 blocks of 256 threads, 64 warps that each load 2 x 128 B and store 128 B
METRICS = {
    "gpc__cycles_elapsed.max": ("cycle", "1,000"),
    "gpu__time_duration.sum": ("usecond", "2.00"),
    "smsp__inst_executed.sum": ("inst", "1,000"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("sector", "512"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("sector", "256"),
    "l1tex__t_sector_hit_rate.pct": ("%", "25.00"),
    "lts__t_sector_hit_rate.pct": ("%", "50.00"),
    "dram__bytes_read.sum": ("Kbyte", "32.768"),
}


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "saxpy.cu"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def measured(tmp_path: Path) -> Write:
    """Writes a wide table of launches (kernel, grid, block), all with `METRICS` or what is given."""

    def write(*launches: tuple[str, str, str], metrics: dict[str, tuple[str, str]] = METRICS) -> Path:
        head = ["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", *metrics]
        rows = [head, ["", "", "", "", "", *(unit for unit, _ in metrics.values())]]
        for number, (name, grid, block) in enumerate(launches):
            rows.append([str(number), "7", name, block, grid, *(value for _, value in metrics.values())])
        out = io.StringIO()
        csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
        path = tmp_path / "ncu.csv"
        path.write_text("==PROF== Connected to process 7\n" + out.getvalue())
        return path

    return write


def _words(kernel: Path, path: Path, *more: object, name: str = "") -> list[object]:
    return ["compare", f"{name}={kernel}" if name else kernel, *LAUNCH, "--model", "mdm,gpumech", "--against", path, *more]


def _launch(capsys: Capture, *words: object) -> dict[str, Any]:
    outcome = run(capsys, *words, "--json")
    assert outcome.code == 0, outcome.err
    (launch,) = json.loads(outcome.out)["launches"]
    found: dict[str, Any] = launch
    return found


def test_cycles_and_time_have_errors_of_their_own_and_clocks_that_differ_are_told(
    kernel: Path, measured: Write, capsys: Capture
) -> None:
    path = measured((_NAME, "(8, 1, 1)", "(256, 1, 1)"))
    launch = _launch(capsys, *_words(kernel, path))
    answer = launch["answers"][0]
    cycles = answer["prediction"]["cycles"]
    assert answer["error"] == pytest.approx(cycles / 1000 - 1)
    assert answer["time_error"] == pytest.approx(cycles / 1.4e9 / 2e-6 - 1)
    metric = "gpc__cycles_elapsed.max / gpu__time_duration.sum"
    clock = {"measured": pytest.approx(0.5e9), "metric": metric, "described": 1.4e9, "differs": True}
    assert launch["reference"]["clock"] == clock
    text = run(capsys, *_words(kernel, path)).out
    assert "clock: measured at 0.5000 GHz, but 1.400 GHz in the GPU description" in text
    assert "measured   1,000" in text


def test_inputs_of_the_models_are_beside_what_was_measured(kernel: Path, measured: Write, capsys: Capture) -> None:
    """x and y are read once, 2 x 8 KiB, cold; each of 64 warps loads 2 x 4 sectors and stores 4."""
    launch = _launch(capsys, *_words(kernel, measured((_NAME, "(8, 1, 1)", "(256, 1, 1)"))))
    rows = {row["name"]: row for row in launch["inputs"]}
    assert rows["warp instructions"]["predicted"] == launch["warp_instructions"]
    assert rows["warp instructions"]["error"] == pytest.approx(launch["warp_instructions"] / 1000 - 1)
    assert (rows["L1 load sectors"]["predicted"], rows["L1 load sectors"]["error"]) == (512, 0)
    assert (rows["L1 store sectors"]["predicted"], rows["L1 store sectors"]["error"]) == (256, 0)
    assert (rows["DRAM bytes read"]["predicted"], rows["DRAM bytes read"]["error"]) == (16384, -0.5)
    assert (rows["L1 hit rate"]["predicted"], rows["L1 hit rate"]["difference"]) == (0, -0.25)
    # 512 sectors are read and miss, 256 are written and hit the lines of y: a third
    assert rows["L2 hit rate"]["predicted"] == pytest.approx(1 / 3)
    assert rows["L2 hit rate"]["metric"] == "lts__t_sector_hit_rate.pct"


def test_writes_of_whole_sectors_hit_the_l2_as_nsight_compute_counts(kernel: Path, measured: Write, capsys: Capture) -> None:
    """y = x, both cold: what is read misses, and what is written needs no fetch."""
    kernel.write_text(SOURCE.replace("a * x[i] + y[i]", "x[i]"))
    launch = _launch(capsys, *_words(kernel, measured((_NAME, "(8, 1, 1)", "(256, 1, 1)"))))
    assert {row["name"]: row["predicted"] for row in launch["inputs"]}["L2 hit rate"] == 0.5


def test_sectored_caches_read_as_many_bytes_from_dram(kernel: Path, measured: Write, capsys: Capture) -> None:
    path = measured((_NAME, "(8, 1, 1)", "(256, 1, 1)"))
    launch = _launch(capsys, *_words(kernel, path, "--set", "l1.sector=32B", "--set", "l2.sector=32B"))
    assert {row["name"]: row["predicted"] for row in launch["inputs"]}["DRAM bytes read"] == 16384


def test_what_was_not_measured_is_not_compared(kernel: Path, measured: Write, capsys: Capture) -> None:
    path = measured((_NAME, "(8, 1, 1)", "(256, 1, 1)"), metrics={"gpu__time_duration.sum": ("nsecond", "1,000")})
    launch = _launch(capsys, *_words(kernel, path))
    assert launch["inputs"] == []
    assert launch["reference"]["cycles"] is None
    assert launch["answers"][0]["error"] is None
    outcome = run(capsys, *_words(kernel, path, "--gate", "mdm:1"))
    assert outcome.code == 1
    assert "errors of" in outcome.out and "time" in outcome.out


def test_gate_is_on_the_cycles_where_both_were_measured(kernel: Path, measured: Write, capsys: Capture) -> None:
    path = measured((_NAME, "(8, 1, 1)", "(256, 1, 1)"))
    error = abs(_launch(capsys, *_words(kernel, path))["answers"][0]["error"])
    assert run(capsys, *_words(kernel, path, "--gate", f"mdm:{100 * error + 0.1}")).code == 0
    assert run(capsys, *_words(kernel, path, "--gate", f"mdm:{100 * error - 0.1}")).code == 1


@pytest.mark.parametrize("name", ["saxpy", "_Z5saxpyfPKfPfi", _NAME, "saxpy(float, float const*, float*, int)"])
def test_kernel_is_found_under_any_of_its_names(name: str, kernel: Path, measured: Write, capsys: Capture) -> None:
    path = measured(("other(int)", "(8, 1, 1)", "(256, 1, 1)"), (name, "(8, 1, 1)", "(256, 1, 1)"))
    assert _launch(capsys, *_words(kernel, path))["reference"]["measured"]["number"] == "1"


def test_launches_of_one_kernel_are_told_apart_by_grid_and_by_number(kernel: Path, measured: Write, capsys: Capture) -> None:
    same = (_NAME, "(8, 1, 1)", "(256, 1, 1)")
    path = measured((_NAME, "(9, 1, 1)", "(256, 1, 1)"), same, (_NAME, "(8, 1, 1)", "(128, 1, 1)"))
    assert _launch(capsys, *_words(kernel, path))["reference"]["measured"]["number"] == "1"
    path = measured(same, same, same)
    assert_one_error(run(capsys, *_words(kernel, path)), 2, "3 launches are saxpy", "#0, #1, #2", "'saxpy#0=KERNEL'")
    launch = _launch(capsys, *_words(kernel, path, name="saxpy#2"))
    assert (launch["label"], launch["reference"]["measured"]["number"]) == ("saxpy#2", "2")
    assert_one_error(run(capsys, *_words(kernel, path, name="saxpy#7")), 2, "no launch #7")


def test_launch_that_was_not_measured_is_refused_with_what_was(kernel: Path, measured: Write, capsys: Capture) -> None:
    path = measured(("saxpi(float)", "(8, 1, 1)", "(256, 1, 1)"))
    assert_one_error(run(capsys, *_words(kernel, path)), 2, 'no launch of "saxpy"', 'did you mean "saxpi"', "NAME=KERNEL")
    assert _launch(capsys, *_words(kernel, path, name="saxpi"))["label"] == "saxpi"
    path = measured((_NAME, "(16, 1, 1)", "(128, 1, 1)"))
    assert_one_error(run(capsys, *_words(kernel, path)), 2, "ncu.csv:4", "grid 16x1x1 block 128x1x1", "grid 8x1x1 block 256x1x1")


@pytest.mark.parametrize(
    ("written", "bare", "base"),
    [
        ("void ns::k<float, (int)3, (bool)1>(T1 *, const float *)", bare_name("ns::k<float, 3, true>"), "k"),
        ("_ZN2ns1kIfLi3ELb1EEEvPT_PKf", bare_name("ns::k<float, 3, true>"), "k"),
        ("(anonymous namespace)::reduce(int *)", "reduce", "reduce"),
        ("<unnamed>::reduce(int *)", "reduce", "reduce"),
        ("void apply<void (*)(int)>(T1)", bare_name("apply<void (*)(int)>"), "apply"),
        ("triton_poi_fused_0d1d2", "triton_poi_fused_0d1d2", "triton_poi_fused_0d1d2"),
    ],
)
def test_names_as_profilers_write_them_are_the_same_name(written: str, bare: str, base: str) -> None:
    assert (bare_name(written), base_name(written)) == (bare, base)


def test_plot_has_a_point_for_each_model_and_the_csv_the_inputs(
    kernel: Path, measured: Write, tmp_path: Path, capsys: Capture
) -> None:
    path = measured((_NAME, "(8, 1, 1)", "(256, 1, 1)"))
    outcome = run(capsys, *_words(kernel, path, "--plot", tmp_path / "p.svg", "-o", tmp_path / "o.csv"))
    assert outcome.code == 0, outcome.err
    picture = (tmp_path / "p.svg").read_text()
    assert picture.count("<title>saxpy, mdm: ") == 2  # cycles and time
    assert "measured cycles" in picture and "stroke-dasharray" in picture
    rows = list(csv.DictReader(io.StringIO((tmp_path / "o.csv").read_text())))
    assert [row["model"] for row in rows] == ["mdm", "gpumech"]
    assert (float(rows[0]["reference_seconds"]), float(rows[0]["input.L1_load_sectors"])) == (2e-6, 512)
    assert_one_error(run(capsys, "compare", kernel, *LAUNCH, "--plot", tmp_path / "p.svg"), 2, "--plot", "--against")


def test_nvprof_is_compared_by_time(kernel: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "nvprof.csv"
    path.write_text(
        '==1== Profiling result:\n"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,us,,us,us,us,\n'
        '"GPU activities",100,2.0,1,2.0,2.0,2.0,"saxpy(float, float const *, float*, int)"\n'
    )
    launch = _launch(capsys, *_words(kernel, path))
    answer = launch["answers"][0]
    assert answer["time_error"] == pytest.approx(answer["prediction"]["seconds"] / 2e-6 - 1)
    assert (answer["error"], launch["reference"]["measured"]["device"]) == (None, None)
