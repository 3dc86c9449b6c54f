"""Is what was computed kept whole, found again, and never taken for something else?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_kernels import write_tiny_suite

from warpsight.jobs import fingerprint
from warpsight.jobs.fingerprint import PROFILE, SIMULATOR
from warpsight.papers import study
from warpsight.papers import study as compute
from warpsight.papers.results import Cast, Point, Variant, cast_of
from warpsight.papers.study import run_study
from warpsight.papers.validate import chosen_figures, validate
from warpsight.pipeline.suites import load_suite
from warpsight.reports.paper_figures import document_text, figure_page, figure_svg

pytestmark = pytest.mark.unit

BASE = Variant("mdm-pascal")


def _count(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """The points that are computed from now on."""
    seen: list[Point] = []
    inner = compute.run_point

    def counted(task: compute.PointTask) -> str:
        seen.append(task.point)
        return inner(task)

    monkeypatch.setattr(study, "run_point", counted)
    return seen


def test_second_run_computes_nothing_and_another_gpu_or_code_everything(
    tiny_cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = _count(monkeypatch)
    points = [Point(what, "streamed", BASE) for what in (SIMULATOR, PROFILE)]
    first = run_study(tiny_cast, points, results=tmp_path)
    assert seen == points
    seen.clear()
    again = run_study(tiny_cast, points, results=tmp_path)
    assert seen == []
    assert again.documents == first.documents
    other = Variant("mdm-pascal", ("dram.bandwidth=100GB/s",))
    slower = run_study(tiny_cast, [Point(SIMULATOR, "streamed", other)], results=tmp_path)
    assert len(seen) == 1
    slow, fast = slower.simulator("streamed", other), first.simulator("streamed", BASE)
    assert slow is not None
    assert fast is not None
    assert slow["cycles"] > fast["cycles"]
    seen.clear()
    # a description that says the same in other words is the same GPU
    run_study(tiny_cast, [Point(SIMULATOR, "streamed", Variant("mdm-pascal", ("sm_count=28",)))], results=tmp_path)
    assert seen == []
    monkeypatch.setattr(compute, "fingerprint", lambda kind: fingerprint.fingerprint(kind) + ("new" if kind == SIMULATOR else ""))
    run_study(tiny_cast, points, results=tmp_path)
    assert seen == points[:1]


def test_trace_is_made_again_when_the_kernel_changes_and_not_when_its_check_does(tiny: Path) -> None:
    manifest = str(tiny / "streamed" / "manifest.yaml")
    before = compute.trace_key(manifest)
    check = tiny / "streamed" / "check.py"
    check.write_text(check.read_text() + "# more\n")
    assert compute.trace_key(manifest) == before
    source = tiny / "streamed" / "kernel.cu"
    text = source.read_text()
    source.write_text(text + "// more\n")
    assert compute.trace_key(manifest) != before
    source.write_text(text)
    assert compute.trace_key(manifest) == before


def test_point_that_fails_is_a_row_with_its_reason_and_is_kept_as_one(
    tiny_cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Variant("mdm-pascal", ("sm.max_warps=1",), "1 warp")
    points = [Point(SIMULATOR, "streamed", small), Point(PROFILE, "streamed", BASE)]
    seen = _count(monkeypatch)
    for expected in (points, []):
        seen.clear()
        found = run_study(tiny_cast, points, results=tmp_path)
        assert seen == expected
        assert found.simulator("streamed", small) is None
        assert found.prediction("streamed", BASE, "mdm") is not None
        row = found.failures(points)[0]
        assert (row["kernel"], row["design"], row["what"]) == ("streamed", "1 warp", "simulator")
        assert "does not fit" in row["reason"]


def test_kernel_that_cannot_be_compiled_fails_alone(tmp_path: Path) -> None:
    suite = write_tiny_suite(tmp_path)
    (suite / "streamed" / "kernel.cu").write_text("__global__ void broken( {")
    cast = cast_of(load_suite(suite))
    document = validate(cast, chosen_figures(["mdm-3"]), results=tmp_path / "kept", jobs=1)[0]
    assert {row["kernel"] for row in document["failed"]} == {"streamed"}
    assert "expected" in document["failed"][0]["reason"]
    assert [row["kernel"] for row in document["rows"]] == ["scattered"]


def test_figures_of_kernels_that_all_fail_say_so_and_nothing_else(tmp_path: Path) -> None:
    suite = write_tiny_suite(tmp_path)
    for name in ("streamed", "scattered"):
        (suite / name / "kernel.cu").write_text("__global__ void broken( {")
    documents = validate(cast_of(load_suite(suite)), chosen_figures(["all"]), results=tmp_path / "kept", jobs=1)
    for document in documents:
        assert document["rows"] == []
        assert {row["kernel"] for row in document["failed"]} == set(document["kernels"])
        assert all(claim["holds"] is None for claim in document["claims"]), document["figure"]
        assert all(number["ours"] is None for number in document["numbers"])
        assert "## Points that failed" in figure_page(document)
        assert figure_svg(document).startswith("<svg ")


def _command(tiny: Path, folder: Path, out: Path, *more: str) -> list[str]:
    words = ["validate", "--suite", str(tiny), "--figure", "mdm-6,gpumech-14", "--results", str(folder), "--out", str(out), *more]
    return [sys.executable, "-c", f"import sys; from warpsight.cli.main import main; sys.exit(main({words!r}))"]


def _kept(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for kind in (SIMULATOR, PROFILE) for path in folder.glob(f"{kind}/*/*.json")}


def _started(command: list[str], folder: Path, least: int) -> subprocess.Popen[str]:
    """The command, when it has kept some results and not all."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + 300
    while len(_kept(folder)) < least and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    return process


def test_run_killed_in_the_middle_goes_on_with_the_same_bytes(
    tiny: Path, tmp_path: Path, documents: dict[str, dict[str, Any]]
) -> None:
    folder, out = tmp_path / "results", tmp_path / "out"
    process = _started(_command(tiny, folder, out, "--jobs", "2"), folder, 4)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = _kept(folder)
    assert before
    assert not list(out.glob("*.json")), "the run was over before it was killed"
    done = subprocess.run(_command(tiny, folder, out, "--jobs", "1"), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    after = _kept(folder)
    assert len(after) > len(before)
    assert {path: after[path] for path in before} == before
    for name in ("mdm-6", "gpumech-14"):
        assert (out / f"{name}.json").read_text("utf-8") == document_text(documents[name])


def test_interrupted_run_ends_at_once_and_says_how_to_go_on(tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    process = _started(_command(tiny, folder, tmp_path / "out", "--jobs", "2"), folder, 1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.splitlines() == ["the results so far are kept; run the same command again to continue", "interrupted"]
    with pytest.raises(ProcessLookupError):  # nobody is left of its session
        for _ in range(200):
            os.killpg(process.pid, 0)
            time.sleep(0.05)
