"""Is only computed what is new, is nothing lost that was finished, and does one failure stay one failure?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sweep_cases import KERNELS, kernel, study

from warpsight.jobs.executor import make_executor
from warpsight.jobs.store import NotKept
from warpsight.pipeline import evaluate
from warpsight.pipeline.request import KernelRequest
from warpsight.sweeps.folder import StudyFolder, make_folder, open_folder
from warpsight.sweeps.plan import plan_sweep, steps_of
from warpsight.sweeps.run import SweepRun, open_store, run_sweep, write_results
from warpsight.sweeps.study import SimulatorRuns, Study, StudyKernel
from warpsight.sweeps.study_arguments import study_of_options

pytestmark = pytest.mark.unit
AXES = ("sm_count=7,28", "noc.bandwidth=500GB/s,1TB/s", "l2.latency=120cycles,200cycles")


def run(case: Study, results: Path) -> SweepRun:
    return run_sweep(case, make_executor("inline"), results=results)


def table(case: Study, outcome: SweepRun, folder: Path) -> bytes:
    found = make_folder(folder, case, str(outcome.plan.store.folder))
    write_results(outcome.plan, found)
    return found.table.read_bytes()


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "results.parquet").to_pylist()
    return found


def wanted_and_known(case: Study, results: Path) -> dict[str, tuple[int, int]]:
    return {step["what"]: (step["wanted"], step["known"]) for step in steps_of(plan_sweep(case, open_store(results)))}


def test_plan_says_what_is_shared_and_what_is_known(tmp_path: Path) -> None:
    """Two kernels on 2 SM counts, 2 bandwidths, 2 latencies: caches by SM count, profiles by SM count and latency."""
    case = study(*AXES, models=("mdm",))
    assert wanted_and_known(case, tmp_path) == {
        "traces": (2, 0), "cache simulations": (4, 0), "interval profiles": (8, 0), "rows": (16, 0), "simulator runs": (0, 0),
    }  # fmt: skip
    run(case, tmp_path)
    assert all(wanted == known for wanted, known in wanted_and_known(case, tmp_path).values())


def test_study_again_computes_nothing_and_gives_the_same_bytes(tmp_path: Path) -> None:
    case = study(*AXES)
    first, again = run(case, tmp_path / "kept"), run(case, tmp_path / "kept")
    assert first.computed["traces"] == 2
    assert sum(again.computed.values()) == 0
    assert table(case, first, tmp_path / "one") == table(case, again, tmp_path / "two")


def test_extended_study_simulates_only_the_new_geometry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(study("sm_count=7,28", "noc.bandwidth=500GB/s,1TB/s"), tmp_path)
    simulated: list[int] = []
    real = evaluate.miss_profile

    def counted(trace: Any, gpu: Any, *others: Any, **named: Any) -> Any:
        simulated.append(gpu.sm_count)
        return real(trace, gpu, *others, **named)

    monkeypatch.setattr(evaluate, "miss_profile", counted)
    outcome = run(study("sm_count=7,14,28", "noc.bandwidth=500GB/s,1TB/s,2TB/s"), tmp_path)
    assert simulated == [14, 14]
    assert (outcome.computed["traces"], outcome.known["traces"]) == (0, 2)


def test_design_that_cannot_be_is_a_row_with_its_reason(tmp_path: Path) -> None:
    case = study("l1.size=48KiB,50KiB", kernels=("gather",), models=("mdm",))
    outcome = run(case, tmp_path / "kept")
    table(case, outcome, tmp_path / "out")
    good, bad = rows(tmp_path / "out")
    assert good["failed"] == ""
    assert good["cycles"] > 0
    assert bad["cycles"] is None
    assert "66.6667 sets" in bad["failed"]


def test_kernel_that_cannot_run_takes_no_other_with_it(tmp_path: Path) -> None:
    (tmp_path / "loop.cu").write_text('extern "C" __global__ void bad(float *a) { a[1 << 28] = 1.0f; }')
    request = KernelRequest(path=str(tmp_path / "loop.cu"), grid=1, block=32, args=("f32[32]:zeros",))
    case = study_of_options([kernel("gather"), StudyKernel("bad", request)], settings=["sm_count=7,28"], models=("mdm",))
    outcome = run(case, tmp_path / "kept")
    table(case, outcome, tmp_path / "out")
    found = {(row["kernel"], row["design"]): row["failed"] for row in rows(tmp_path / "out")}
    assert found["gather", 0] == found["gather", 1] == ""
    assert "loop.cu" in found["bad", 0]
    assert found["bad", 0] == found["bad", 1]


def test_kernel_file_that_is_not_there_is_told_in_its_rows(tmp_path: Path) -> None:
    missing = StudyKernel("missing", KernelRequest(path=str(tmp_path / "no.yaml")))
    outcome = run(study_of_options([kernel("rounds"), missing], settings=["sm_count=7,28"], models=("mdm",)), tmp_path)
    assert [each.kernel for each in outcome.plan.launches if each.refused] == ["missing"]


def test_simulator_runs_on_the_designs_that_were_chosen(tmp_path: Path) -> None:
    from warpsight.gpu.loader import load_gpu
    from warpsight.pipeline.simulation import simulate_trace
    from warpsight.pipeline.tracing import trace_kernel
    from warpsight.sweeps.expressions import parse_expression

    where = parse_expression("sm_count == 7", "simulator.where")
    case = study("sm_count=7,28", kernels=("rounds",), models=("mdm",), simulator=SimulatorRuns(where=where))
    table(case, run(case, tmp_path / "kept"), tmp_path / "out")
    (found,) = [row for row in rows(tmp_path / "out") if row["model"] == "simulator"]
    trace = trace_kernel(KernelRequest(path=str(KERNELS / "rounds.yaml")))
    assert found["design"] == 0
    assert found["cycles"] == simulate_trace(trace, load_gpu("mdm-pascal", ["sm_count=7"])).prediction.cycles


def test_store_that_is_full_ends_the_run_and_keeps_what_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, kept = study(*AXES), tmp_path / "kept"
    run(study("sm_count=80,81"), kept)  # the traces
    real, left = os.replace, [6]

    def replaced(*paths: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(*paths)

    monkeypatch.setattr(os, "replace", replaced)
    with pytest.raises(NotKept, match="disk is full"):
        run(case, kept)
    monkeypatch.undo()
    assert 0 < wanted_and_known(case, kept)["interval profiles"][1] < 8
    outcome = run(case, kept)
    whole = run(case, tmp_path / "other")
    assert table(case, outcome, tmp_path / "one") == table(case, whole, tmp_path / "two")


def test_damaged_part_is_computed_again(tmp_path: Path) -> None:
    case = study(*AXES, kernels=("gather",))
    outcome = run(case, tmp_path)
    (part,) = (tmp_path / "rows").rglob("*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    again = run(case, tmp_path)
    assert (outcome.computed["tasks"], again.computed["tasks"]) == (1, 1)


def test_run_that_was_killed_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    axes = ["--set", "sm_count=5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20", "--set", "l2.latency=120cycles,200cycles"]
    files = [str(KERNELS / "gather.yaml"), str(KERNELS / "rounds.yaml")]
    command = [sys.executable, "-m", "warpsight", "sweep", *files, *axes, "--model", "mdm,warpsight", "--jobs", "1"]
    kept = ["--results", str(tmp_path / "kept"), "--out", str(tmp_path / "out")]
    process = subprocess.Popen([*command, *kept], stdout=subprocess.DEVNULL, start_new_session=True)
    limit = time.monotonic() + 300
    while not list(tmp_path.glob("kept/misses/*/*")) and time.monotonic() < limit and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out" / "results.parquet").exists()
    subprocess.run([sys.executable, "-m", "warpsight", "sweep", "resume", str(tmp_path / "out"), "--jobs", "1"], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    whole = ["--results", str(tmp_path / "kept2"), "--out", str(tmp_path / "out2")]
    subprocess.run([*command, *whole], check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "out" / "results.parquet").read_bytes() == (tmp_path / "out2" / "results.parquet").read_bytes()


def test_collected_table_says_which_rows_are_still_missing(tmp_path: Path) -> None:
    case = study(*AXES, kernels=("gather",), models=("mdm",))
    folder = make_folder(tmp_path / "out", case, str(tmp_path / "kept"))
    plan = plan_sweep(open_folder(folder.path).study, open_store(folder.results))
    write_results(plan, StudyFolder(folder.path, case, folder.results))
    assert {row["failed"] for row in rows(folder.path)} == {"not computed yet; `warpsight sweep resume` continues"}


def test_folder_of_something_else_is_not_taken(tmp_path: Path) -> None:
    from warpsight.base.errors import UsageError

    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not the folder of a study"):
        make_folder(tmp_path, study(*AXES), str(tmp_path / "kept"))


def test_table_that_loses_results_keeps_the_one_before(tmp_path: Path) -> None:
    for name in ("gather.cu", "gather.yaml"):
        (tmp_path / name).write_bytes((KERNELS / name).read_bytes())
    copied = StudyKernel("gather", KernelRequest(path=str(tmp_path / "gather.yaml")))
    case = study_of_options([copied], settings=["sm_count=7,28"], models=("mdm",))
    good = table(case, run(case, tmp_path / "kept"), tmp_path / "out")
    (tmp_path / "gather.yaml").unlink()
    table(case, run(case, tmp_path / "kept"), tmp_path / "out")
    assert all(row["failed"] for row in rows(tmp_path / "out"))
    assert (tmp_path / "out" / "results.before.parquet").read_bytes() == good
    (tmp_path / "gather.yaml").write_bytes((KERNELS / "gather.yaml").read_bytes())
    assert table(case, run(case, tmp_path / "kept"), tmp_path / "out") == good
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["designs.parquet", "results.parquet", "study.json"]
