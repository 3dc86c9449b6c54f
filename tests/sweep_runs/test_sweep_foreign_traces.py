"""Traces of other tools in studies: a member for each launch, read once, with the rows that `predict` gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from warpsight.base.errors import UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.jobs.executor import make_executor
from warpsight.jobs.store import ResultStore
from warpsight.pipeline.predict import predict_launches
from warpsight.pipeline.request import KernelRequest
from warpsight.sweeps.plan import plan_sweep
from warpsight.sweeps.run import run_sweep
from warpsight.sweeps.study import StudyKernel
from warpsight.sweeps.study_arguments import study_of_options
from warpsight.sweeps.study_document import study_document, study_from_document
from warpsight.sweeps.study_file import default_name, read_study
from warpsight.sweeps.tables import result_tables

BLOCK = """#BEGIN_TB
thread block = 0,0,0
warp = 0
insts = {count}
{lines}#END_TB
"""
HEADER = """-kernel name = _Z{length}{name}Pf
-kernel id = 1
-grid dim = (1,1,1)
-block dim = (32,1,1)
-shmem = 0
-nregs = 16
-binary version = 80
-nvbit version = 1.7
-accelsim tracer version = 5
#traces format = whatever
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two launches: ten and a hundred loads."""
    place = tmp_path / "app"
    place.mkdir()
    for number, (name, loads) in enumerate((("first", 10), ("second", 100)), 1):
        lines = "".join(f"{16 * k:04x} ffffffff 1 R4 LDG.E 1 R2 4 1 {0x7F0000000000 + 4096 * k:#x} 4 0\n" for k in range(loads))
        lines += f"{16 * loads:04x} ffffffff 0 EXIT 0 0 0\n"
        text = HEADER.format(length=len(name), name=name) + BLOCK.format(count=loads + 1, lines=lines)
        (place / f"kernel-{number}.traceg").write_text(text)
    (place / "kernelslist.g").write_text("kernel-1.traceg\nkernel-2.traceg\n")
    return place


def test_rows_of_each_launch_are_what_predict_says_and_its_file_is_read_once(folder: Path, tmp_path: Path) -> None:
    study = study_of_options([KernelRequest(path=str(folder))], settings=["sm_count=7,28"], models=["mdm", "gpumech"])
    assert [kernel.name for kernel in study.kernels] == ["app.1", "app.2"]
    outcome = run_sweep(study, make_executor("inline"), results=tmp_path / "results")
    rows = [row for table in result_tables(outcome.plan) for row in table.to_pylist()]
    assert len(rows) == 8
    wanted = {}
    for design, count in enumerate((7, 28)):
        gpu = load_gpu("mdm-pascal", [f"sm_count={count}"])
        for answer in predict_launches(KernelRequest(path=str(folder)), gpu, ["mdm", "gpumech"]):
            wanted[f"app.{answer.provenance['varied']['launch']}", design, answer.model] = answer.cycles
    for row in rows:
        assert row["cycles"] == pytest.approx(wanted[row["kernel"], row["design"], row["model"]], rel=1e-12)
    again = plan_sweep(study, ResultStore(tmp_path / "results"))
    assert not again.trace_tasks()
    assert not again.row_tasks()
    (folder / "kernel-2.traceg").write_text((folder / "kernel-2.traceg").read_text().replace("R4 LDG", "R5 LDG"))
    changed = plan_sweep(study, ResultStore(tmp_path / "results"))
    assert [task.request.path for task in changed.trace_tasks()] == [str(folder / "kernel-2.traceg")]


def test_launches_are_chosen_on_the_command_line_and_in_a_study_file(folder: Path, tmp_path: Path) -> None:
    (member,) = study_of_options([KernelRequest(path=str(folder), launches="2")]).kernels
    assert (member.name, Path(member.request.path).name) == ("app", "kernel-2.traceg")
    file = tmp_path / "study.yaml"
    file.write_text("kernels: [{path: app, name: a, launches: 1}, {path: app, name: b, kernels: second}, app/kernel-1.traceg]\n")
    members = read_study(file).kernels
    assert [(each.name, Path(each.request.path).name) for each in members] == [
        ("a", "kernel-1.traceg"), ("b", "kernel-2.traceg"), ("kernel-1", "kernel-1.traceg"),
    ]  # fmt: skip


def test_file_of_opcodes_is_part_of_a_trace_and_of_the_studys_document(folder: Path, tmp_path: Path) -> None:
    opcodes = tmp_path / "isa.yaml"
    opcodes.write_text("LDG: {class: memory, space: global, access: load}\n")
    store = ResultStore(tmp_path / "results")
    study = study_of_options([KernelRequest(path=str(folder), launches="1", isa_file=str(opcodes))])
    again = study_from_document(study_document(study), "study.json")
    assert again.kernels == study.kernels
    keys = {plan_sweep(each, store).launches[0].key for each in (study, again)}
    opcodes.write_text("LDG: {class: sfu}\n")
    keys |= {plan_sweep(study, store).launches[0].key}
    keys |= {plan_sweep(study_of_options([KernelRequest(path=str(folder), launches="1")]), store).launches[0].key}
    assert len(keys) == 3


def test_options_of_imported_traces_are_refused_for_a_kernel(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("__global__ void k() {}")
    with pytest.raises(UsageError, match="is not one"):
        study_of_options([StudyKernel("k", KernelRequest(path=str(source), launches="1"))])


def test_damaged_trace_fails_its_own_rows_alone(folder: Path, tmp_path: Path) -> None:
    text = (folder / "kernel-1.traceg").read_text()
    (folder / "kernel-1.traceg").write_text(text.replace("insts = 11", "insts = 12"))
    study = study_of_options([KernelRequest(path=str(folder))])
    outcome = run_sweep(study, make_executor("inline"), results=tmp_path / "results")
    rows = {row["kernel"]: row["failed"] for table in result_tables(outcome.plan) for row in table.to_pylist()}
    assert not rows["app.2"]
    assert "kernel-1.traceg:" in rows["app.1"]
    assert "insts = says 12" in rows["app.1"]


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/kernel-1-ctx_0x55.traceg.xz", "kernel-1-ctx_0x55"), ("kernel-3.trace", "kernel-3"), ("a/saxpy.cu", "saxpy")],
)
def test_file_of_a_trace_is_called_without_its_endings(path: str, name: str) -> None:
    assert default_name(KernelRequest(path=path)) == name


@pytest.mark.parametrize("name", ["rowsum.ppt", "rowsum.mdm"])
def test_text_traces_of_other_tools_are_members_too_and_each_file_counts(name: str, tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent / "importers"))
    try:
        from rowsum_example import make
    finally:
        sys.path.pop(0)
    make(tmp_path)
    request = KernelRequest(path=str(tmp_path / name))
    study = study_of_options([request], settings=["sm_count=7,28"], models=["mdm"])
    store = tmp_path / "results"
    outcome = run_sweep(study, make_executor("inline"), results=store)
    rows = [row for table in result_tables(outcome.plan) for row in table.to_pylist()]
    for row, count in zip(sorted(rows, key=lambda row: row["design"]), (7, 28), strict=True):
        (answer, _) = predict_launches(request, load_gpu("mdm-pascal", [f"sm_count={count}"]), ["mdm"])
        assert row["cycles"] == pytest.approx(answer.cycles, rel=1e-12)
    memory = next(path for path in sorted((tmp_path / name).rglob("*")) if path.name.startswith(("mem_trace", "kernel_1_block_3")))
    memory.write_text(memory.read_text() + "changed")
    (launch,) = plan_sweep(study, ResultStore(store)).launches
    assert launch.key != outcome.plan.launches[0].key
