"""`warpsight check` of kernels, `--check` of other commands, `warpsight.check`: what is found, how it is said, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_one_error, run

import warpsight
from warpsight.base.errors import CheckFault, UsageError

pytestmark = pytest.mark.unit
Capture = pytest.CaptureFixture[str]

WRONG = Path(__file__).parents[2] / "examples" / "checks" / "wrong.cu"
LAUNCHES = {
    "race": ("--grid", 2, "--arg", "f32[256]:uniform", "--arg", "f32[256]:zeros"),
    "past_the_end": ("--grid", 8, "--arg", "f32[1000]:zeros", "--arg", "i32:1000"),
    "unwritten": ("--grid", 1, "--arg", "f32[512]:uniform", "--arg", "f32[128]:zeros"),
    "divergent_barrier": ("--grid", 1, "--arg", "f32[128]:zeros", "--arg", "f32[128]:zeros", "--arg", "i32:100"),
    "last_one_wins": ("--grid", 16, "--arg", "i32[1]:zeros"),
}  # fmt: skip
FOUND = {
    "race": {("initcheck", 9), ("racecheck", 7), ("racecheck", 9)}, "past_the_end": {("memcheck", 14)},
    "unwritten": {("initcheck", 30)}, "last_one_wins": {("racecheck", 53), ("order", 0)},
}  # fmt: skip


def words(kernel: str, *more: object) -> tuple[object, ...]:
    return ("check", WRONG, "--kernel", kernel, "--block", 128, *LAUNCHES[kernel], *more)


@pytest.mark.parametrize("kernel", LAUNCHES)
def test_mistake_of_each_example_is_found_with_its_line(kernel: str, capsys: Capture) -> None:
    more = ("--order", 2) if kernel == "last_one_wins" else ()
    outcome = run(capsys, *words(kernel, "--json", *more))
    assert (outcome.code, outcome.err) == (5, "")
    document = json.loads(outcome.out)
    rows = document["findings"]
    found = {(row["tool"], row["site"]["line"] if row["site"] else 0) for row in rows}
    if kernel == "divergent_barrier":
        sites = [site for row in rows for site in (row["site"], row["other"]) if site]
        assert ({row["tool"] for row in rows}, min(site["line"] for site in sites)) == ({"synccheck"}, 41)
    else:
        assert found == FOUND[kernel]
    assert document["totals"]["errors"] == len(rows)
    assert (document["level"], document["kernel"], document["source"]) == ("ptx", kernel, str(WRONG))


def test_machine_code_is_checked_too(capsys: Capture) -> None:
    outcome = run(capsys, *words("past_the_end", "--json", "--level", "sass"))
    document = json.loads(outcome.out)
    (row,) = document["findings"]
    assert (outcome.code, document["level"], document["target"]) == (5, "sass", "sm_75")
    assert (row["kind"], row["site"]["line"], row["site"]["callers"][0]["line"]) == ("out-of-bounds", 14, 22)


def test_report_names_files_from_here_and_ends_with_the_number_of_errors(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(WRONG.parent)
    outcome = run(capsys, "check", "wrong.cu", *words("past_the_end")[2:])
    lines = outcome.out.splitlines()
    assert lines[0].endswith("memcheck, racecheck, initcheck, synccheck of past_the_end in wrong.cu (PTX)")
    assert "=========     called from past_the_end in wrong.cu:22" in lines
    assert lines[-1] == "========= ERROR SUMMARY: 1 error"
    report = tmp_path / "report.sarif"
    outcome = run(capsys, "check", "wrong.cu", *words("past_the_end", "--format", "sarif", "-o", report)[2:])
    assert (outcome.code, outcome.out) == (5, "")
    (result,) = json.loads(report.read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "wrong.cu"


def test_only_the_chosen_checks_watch(capsys: Capture) -> None:
    outcome = run(capsys, *words("race", "--tool", "memcheck,synccheck"))
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "========= ERROR SUMMARY: 0 errors"
    outcome = run(capsys, *words("race", "--tool", "initcheck", "--json"))
    assert {row["tool"] for row in json.loads(outcome.out)["findings"]} == {"initcheck"}


def test_kernel_without_a_mistake_has_no_finding(capsys: Capture, launch_file: Path) -> None:
    outcome = run(capsys, "check", launch_file)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == "========= ERROR SUMMARY: 0 errors"


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        (("--tool", "memchek"), ("--tool", '"memchek" is not a check', "memcheck")),
        (("--tool", "order"), ("--tool", "--order")),
        (("--format", "html"), ("--format", "html")),
    ],
)
def test_wrong_use_is_one_error(capsys: Capture, more: tuple[str, ...], parts: tuple[str, ...]) -> None:
    assert_one_error(run(capsys, *words("race", *more)), 2, *parts)


def test_program_without_dashes_is_told_how(capsys: Capture) -> None:
    assert_one_error(run(capsys, "check", "/bin/ls", "stray"), 2, "stray", "warpsight check -- ")
    assert_one_error(run(capsys, "check", "/bin/ls"), 2, "/bin/ls", "warpsight check -- /bin/ls")


def test_program_is_missing_or_no_program(capsys: Capture) -> None:
    assert_one_error(run(capsys, "check", "--tool", "all", "--"), 2, "KERNEL")
    assert_one_error(run(capsys, "check", "--", "no-such-program"), 2, "no-such-program")


def test_launch_that_never_ends_is_an_error_of_its_own(capsys: Capture, saxpy: Path) -> None:
    spin = ("--kernel", "spin", "--grid", 1, "--block", 1, "--arg", "i32[1]:zeros", "--max-instructions", 10_000)
    assert_one_error(run(capsys, "check", saxpy, *spin), 4, "passed 10,000 warp instructions")


def test_trace_with_checks_reports_and_keeps_nothing(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    outcome = run(capsys, "trace", *words("past_the_end", "--check", "-o", folder)[1:])
    assert (outcome.code, outcome.out) == (5, "")
    lines = outcome.err.splitlines()
    assert lines[0] == "========= Invalid __global__ write of size 4 bytes"
    assert lines[-2].startswith("error: ") and "wrong.cu:14" in lines[-2]
    assert not folder.exists()
    assert run(capsys, "predict", *words("past_the_end", "--check")[1:], "--gpu", "mdm-pascal").code == 5


def test_python_gives_findings_and_leaves_arrays_as_they_are() -> None:
    out = np.zeros(1000, np.float32)
    (finding,) = warpsight.check(WRONG, "past_the_end", grid=8, block=128, args=[out, 1000], tools=["memcheck"])
    assert isinstance(finding, warpsight.Finding)
    assert (finding.tool, finding.kind, finding.kernel, finding.count) == ("memcheck", "out-of-bounds", "past_the_end", 1)
    assert finding.site is not None and (finding.site.block, finding.site.thread) == ((7, 0, 0), (104, 0, 0))
    assert not out.any()
    with pytest.raises(CheckFault) as caught:
        warpsight.trace(WRONG, "past_the_end", grid=8, block=128, args=[out, 1000], check=True)
    assert [each.kind for each in caught.value.findings] == ["out-of-bounds"]
    assert caught.value.details is not None and caught.value.details.line == 14
    assert not out.any(), "arrays of a launch that is wrong stay as they are"
    with pytest.raises(UsageError, match='did you mean "heap_bytes"'):
        warpsight.check(WRONG, "past_the_end", grid=8, block=128, args=[out, 1000], heap_byte=3)


def test_warnings_alone_are_no_error_unless_asked_for(capsys: Capture, tmp_path: Path) -> None:
    sums = tmp_path / "sums.cu"
    sums.write_text("__global__ void sums(const float *in, float *out)\n"
                    "{ atomicAdd(out, in[blockIdx.x * blockDim.x + threadIdx.x]); }\n")
    launch = ("--grid", 64, "--block", 64, "--arg", "f32[4096]:uniform", "--arg", "f32[1]:zeros", "--order", 3)
    outcome = run(capsys, "check", sums, *launch)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "========= ERROR SUMMARY: 0 errors, 1 warning"
    assert run(capsys, "check", sums, *launch, "--strict").code == 5

