"""Does what designs share stay right when the designs differ in what is shared, and does one refusal stay one?"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sweep_cases import KERNELS, kernel, study

from warpsight.base.errors import FormatError, UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.jobs.executor import make_executor
from warpsight.pipeline.evaluate import profile_trace
from warpsight.pipeline.predict import predict_kernel
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.pipeline.tracing import trace_kernel
from warpsight.sweeps.folder import StudyFolder, make_folder, open_folder
from warpsight.sweeps.plan import plan_document, plan_sweep
from warpsight.sweeps.result import Sweep
from warpsight.sweeps.run import SweepRun, open_store, run_sweep, write_results
from warpsight.sweeps.study import SimulatorRuns, Study, StudyKernel
from warpsight.sweeps.study_arguments import study_of_options
from warpsight.sweeps.tables import result_tables

pytestmark = pytest.mark.unit


def run(case: Study, results: Path) -> SweepRun:
    return run_sweep(case, make_executor("inline"), results=results)


def rows(case: Study, results: Path) -> list[dict[str, object]]:
    return [row for table in result_tables(run(case, results).plan) for row in table.to_pylist()]


def written(case: Study, folder: Path, results: Path) -> StudyFolder:
    outcome = run(case, results)
    found = make_folder(folder, case, str(outcome.plan.store.folder))
    write_results(outcome.plan, found)
    return found


@pytest.mark.parametrize(
    ("first", "then"), [("sm.max_blocks=32", "sm.max_blocks=64"), ("l1.allocation=on-fill", "l1.allocation=on-miss")]
)
def test_kept_misses_of_another_design_give_the_same_stack_as_new_ones(first: str, then: str, tmp_path: Path) -> None:
    """Residency is the same with 32 and 64 slots for blocks, so that the second study takes the misses of the first."""
    rows(study(first, kernels=("gather",), models=("warpsight",)), tmp_path)
    (row,) = rows(study(then, kernels=("gather",), models=("warpsight",)), tmp_path)
    request = KernelRequest(path=str(KERNELS / "gather.yaml"))
    (answer,) = predict_kernel(request, load_gpu("mdm-pascal", [then]), ["warpsight"])
    assert row["cpi_stack.mshr"] == pytest.approx(answer.cpi_stack["mshr"], rel=1e-12)
    assert row["cpi_stack.noc"] == pytest.approx(answer.cpi_stack["noc"], rel=1e-12)


def test_misses_as_a_document_lose_nothing() -> None:
    from warpsight.caches.miss_profile import MissProfile

    found = profile_trace(trace_kernel(KernelRequest(path=str(KERNELS / "gather.yaml"))), load_gpu("mdm-pascal")).misses
    assert found.way_wait > 0
    assert MissProfile.of_document(json.loads(json.dumps(found.document()))).document() == found.document()


@pytest.mark.parametrize(
    "axis", ["core_clock=0.7GHz,2.8GHz", "l1.mshrs=2,128", "noc.bandwidth=40GB/s,1TB/s", "dram.bandwidth=20GB/s,480GB/s"]
)
def test_key_of_the_timing_is_seen_by_the_caches_when_accesses_are_ordered_by_it(axis: str, tmp_path: Path) -> None:
    key, _, values = axis.partition("=")
    found = rows(study("method.order=own", axis, kernels=("gather",), models=("mdm",)), tmp_path)
    request = KernelRequest(path=str(KERNELS / "gather.yaml"))
    for row, value in zip(found, values.split(","), strict=True):
        (answer,) = predict_kernel(request, load_gpu("mdm-pascal", [f"{key}={value}"]), ["mdm"], Method(order="own"))
        assert row["cycles"] == pytest.approx(answer.cycles, rel=1e-12)


def test_design_that_a_model_refuses_takes_no_other_with_it(tmp_path: Path) -> None:
    """CRISP predicts for clocks below the described one alone."""
    case = study("core_clock=1GHz,2GHz", "crisp.target_clock=0Hz,1.5GHz,3GHz", kernels=("rounds",), models=("crisp",))
    failed = [str(row["failed"]).partition("\n")[0].partition(", and ")[2] for row in rows(case, tmp_path)]
    above = ["1.5 GHz is above the nominal 1 GHz", "3 GHz is above the nominal 1 GHz", "3 GHz is above the nominal 2 GHz"]
    assert failed == ["", above[0], above[1], "", "", above[2]]


def test_simulator_row_of_a_kernel_that_cannot_run_says_why(tmp_path: Path) -> None:
    missing = StudyKernel("missing", KernelRequest(path=str(tmp_path / "no.yaml")))
    case = study_of_options([missing], settings=["sm_count=7,28"], models=("mdm",), simulator=SimulatorRuns())
    written(case, tmp_path / "out", tmp_path / "kept")
    found = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    assert len(found) == 4
    assert all("no such launch file" in row["failed"] for row in found)


def test_kernel_that_cannot_run_is_neither_known_nor_computed(tmp_path: Path) -> None:
    missing = StudyKernel("missing", KernelRequest(path=str(tmp_path / "no.yaml")))
    outcome = run(study_of_options([kernel("rounds"), missing], settings=["sm_count=7,28"], models=("mdm",)), tmp_path)
    assert (outcome.computed["tasks"], outcome.known["tasks"]) == (1, 0)


@pytest.mark.parametrize("kept", ["designs.parquet", "results.parquet"])
def test_tables_of_two_studies_in_one_folder_are_not_taken_for_one(kept: str, tmp_path: Path) -> None:
    """A run that ends between its two tables leaves one of the study before, whose designs have other numbers."""
    folder = written(study("sm_count=7,28", kernels=("rounds",), models=("mdm",)), tmp_path / "out", tmp_path / "kept")
    before = (folder.path / kept).read_bytes()
    written(study("sm_count=7,14,28", kernels=("rounds",), models=("mdm",)), tmp_path / "out", tmp_path / "kept")
    Sweep.open(folder.path)
    (folder.path / kept).write_bytes(before)
    with pytest.raises(FormatError, match="another run"):
        Sweep.open(folder.path)


def test_description_that_was_replaced_before_its_results_is_not_answered_from_the_old_ones(tmp_path: Path) -> None:
    case = study("sm_count=7,28", kernels=("rounds",), models=("mdm",))
    folder = written(case, tmp_path / "out", tmp_path / "kept")
    make_folder(folder.path, study("sm_count=7,14,28", kernels=("rounds",), models=("mdm",)), folder.results)
    with pytest.raises(FormatError, match=r"(?s)another run.*sweep resume"):
        Sweep.open(folder.path)


def test_answers_need_no_gpu_file_and_read_the_gpu_that_was_swept(tmp_path: Path) -> None:
    from warpsight.gpu.describe import dump_yaml
    from warpsight.sweeps.result import Question

    gpu = tmp_path / "mine.yaml"
    gpu.write_text(dump_yaml(load_gpu("mdm-pascal", ["l1.mshrs=77"])), "utf-8")
    folder = written(study("sm_count=7,28", kernels=("rounds",), models=("mdm",), gpu=str(gpu)), tmp_path / "o", tmp_path / "kept")
    gpu.unlink()
    assert Sweep.open(folder.path).best(about=Question(where=("l1.mshrs == 77",)))["chosen"] == 2


@pytest.mark.parametrize("text", ["[" * 100_000, "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), '{"schema": 1'])
def test_damaged_description_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match="is damaged"):
        open_folder(tmp_path)


def test_argument_is_called_by_its_number_or_its_name(tmp_path: Path) -> None:
    by_number = rows(study("launch.arg.2=3,6", kernels=("rounds",), models=("mdm",)), tmp_path)
    by_name = rows(study("launch.arg.rounds_param_1=3,6", kernels=("rounds",), models=("mdm",)), tmp_path)
    assert [row["cycles"] for row in by_name] == [row["cycles"] for row in by_number]
    assert by_number[0]["cycles"] != by_number[1]["cycles"]
    wrong = plan_document(plan_sweep(study("launch.arg.n=3,6", kernels=("rounds",), models=("mdm",)), open_store(tmp_path)))
    assert "it has rounds_param_0, rounds_param_1" in wrong["refused_kernels"]["rounds launch.arg.n=3"]


@pytest.mark.parametrize("name", ["", " ", "two\nlines"])
def test_kernel_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name"):
        study_of_options([StudyKernel(name, KernelRequest(path="x.yaml"))])


@pytest.mark.parametrize("name", ["../elsewhere", "a/b", ".."])
def test_study_name_that_would_be_a_folder_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    from warpsight.sweeps.study_file import read_study

    (tmp_path / "s.yaml").write_text(f"name: {name}\nkernels: [{KERNELS}/rounds.yaml]\n", "utf-8")
    with pytest.raises(UsageError, match="cannot be the name of a folder"):
        read_study(tmp_path / "s.yaml")


@pytest.mark.parametrize("text", ["kernels: [a.yaml\naxes: {}\n", "", "kernels: [a]\nkernels: [b]\n", "[]", "\0"])
def test_file_that_is_no_yaml_is_no_kernel_of_a_study(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be a study of one kernel that fails, in place of the study that was meant."""
    from warpsight.cli.main import main

    (tmp_path / "s.yaml").write_text(text, "utf-8")
    assert main(["sweep", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert main(["sweep", str(tmp_path / "nothing.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert "s.yaml" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_folder_in_which_a_killed_run_had_only_begun_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    case = study("sm_count=7,28", kernels=("rounds",), models=("mdm",))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(UsageError, match="No space left"):
            make_folder(tmp_path / "out", case, str(tmp_path / "kept"))
    assert not list((tmp_path / "out").iterdir())
    (tmp_path / "out" / ".study.json.0a1b2c3d.new").write_text("{")
    assert make_folder(tmp_path / "out", case, str(tmp_path / "kept")).study == case


def test_collected_table_says_why_a_kernel_failed(tmp_path: Path) -> None:
    from warpsight.sweeps.run import with_known_failures

    (tmp_path / "bad.cu").write_text('extern "C" __global__ void bad(float *a) { a[1 << 28] = 1.0f; }')
    request = KernelRequest(path=str(tmp_path / "bad.cu"), grid=1, block=32, args=("f32[32]:zeros",))
    case = study_of_options([StudyKernel("bad", request)], settings=["sm_count=7,28"], models=("mdm",), simulator=SimulatorRuns())
    folder = written(case, tmp_path / "out", tmp_path / "kept")
    before = folder.table.read_bytes()
    write_results(with_known_failures(plan_sweep(case, open_store(tmp_path / "kept"))), folder)
    assert folder.table.read_bytes() == before
    assert all("out of bounds" in row["failed"] for row in pq.read_table(folder.table).to_pylist())


def test_standard_input_is_no_kernel_of_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from warpsight.cli.main import main

    (row,) = rows(study_of_options([KernelRequest(path="-")]), tmp_path)
    assert "read once" in str(row["failed"])
    assert main(["sweep", "-", "--out", str(tmp_path / "out")]) == 2
    assert "read once" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", [{"gpu": "gpumech"}, {"models": ["gpumech"]}, {"caches": "reuse-distance"}, {"simulator": 0}, {"seed": 3}]
)
def test_study_file_with_what_it_says_itself_is_refused(given: dict[str, object], tmp_path: Path) -> None:
    import warpsight

    (tmp_path / "s.yaml").write_text(f"kernels: [{KERNELS}/rounds.yaml]\n", "utf-8")
    with pytest.raises(UsageError, match="is also given"):
        warpsight.sweep(str(tmp_path / "s.yaml"), results=tmp_path / "kept", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"axes": {"sm_count": [1.5, 2.5]}}, "1.5 is not a whole number"),
        ({"axes": {"sm_count": [float("nan")]}}, "nan is not a value"),
        ({"axes": {"sm_count": [object()]}}, "is not a value of sm_count"),
        ({"axes": {"sm_count": 7}}, "is not a key with values"),
        ({"axes": {3: [7]}}, "is not a key with values"),
        ({"axes": [("sm_count", [7])]}, "a list is not a mapping"),
        ({"models": "mdm"}, "'mdm' is not valid"),
        ({"constraints": "sm_count > 3"}, "is not valid"),
        ({"derived": {"l1.ways": 3}}, "is not valid"),
        ({"designs": 1.5, "sampling": "random"}, "1.5 is not a whole number"),
        ({"seed": -1, "designs": 1, "sampling": "random"}, "-1 is not a whole number"),
        ({"simulator": -1}, "-1 is not a whole number"),
        ({"simulator": "x"}, "'x' is not a whole number"),
        ({"caches": "none"}, '"none" is not known'),
        ({"representative": "all"}, '"all" is not known'),
        ({"gpu": 3}, "a int is not a GPU"),
    ],
)
def test_python_argument_of_the_wrong_kind_is_refused(given: dict[str, object], said: str, tmp_path: Path) -> None:
    import warpsight

    arguments: dict[str, object] = {"axes": {"sm_count": [7, 28]}, **given}
    with pytest.raises(warpsight.WarpsightError) as found:
        warpsight.sweep(str(KERNELS / "rounds.yaml"), results=tmp_path / "kept", **arguments)  # type: ignore[arg-type]
    assert said in str(found.value)


@pytest.mark.parametrize("name", ["header.json", "instructions.parquet", "warps.parquet"])
@pytest.mark.parametrize("cut", [True, False])
def test_kept_trace_that_is_damaged_is_recorded_again_and_is_no_result(name: str, cut: bool, tmp_path: Path) -> None:
    from warpsight.sweeps.tasks import loaded, opened

    axes = {"kernels": ("rounds",), "models": ("mdm",)}
    run(study("sm_count=7", **axes), tmp_path)
    (place,) = (tmp_path / "traces").rglob(name)
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 0xFF
    place.write_bytes(data[:40] if cut else data)
    opened.cache_clear()
    loaded.cache_clear()
    broken = rows(study("sm_count=14", **axes), tmp_path)
    assert ["resume` records it again" in str(row["failed"]) for row in broken] == [True]
    assert [row["failed"] for row in rows(study("sm_count=14", **axes), tmp_path)] == [""]
