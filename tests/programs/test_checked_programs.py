"""Does `warpsight check` find the mistakes of whole programs, each with its line, and nothing in programs without one?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from programs_build import PTX, SOURCES, build, command_line, needs_nvcc, run

import warpsight
from warpsight.base.errors import UsageError
from warpsight.base.findings import Finding
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline import checking
from warpsight.programs import checked
from warpsight.reports.findings import findings_sarif

pytestmark = [pytest.mark.property, needs_nvcc]

EXAMPLE = Path(__file__).parents[2] / "examples" / "checks" / "program.cu"
LINES = (PTX, "-g", "-lineinfo")


def line_of(path: Path, words: str) -> int:
    (number,) = (k for k, line in enumerate(path.read_text().splitlines(), 1) if re.search(rf"//.*\b{words}", line))
    return number


def findings(program: Path, *arguments: str) -> list[tuple[str, str, int]]:
    """Check, kind and line of each."""
    found = warpsight.check(program=[str(program), *arguments])
    return [(each.tool, each.kind, each.site.line if each.site else 0) for each in found]


def test_mistakes_of_a_program_are_found_with_their_lines() -> None:
    source = SOURCES / "checked.cu"
    found = warpsight.check(program=[str(build("checked.cu", options=LINES)), "bad"])
    lines = {
        ("initcheck", "uninitialised"): "kernel reads unwritten", ("initcheck", "unwritten-copy"): "copy of unwritten",
        ("memcheck", "trap"): "ends the kernel", ("memcheck", "api-error"): "learns of the trap",
    }  # fmt: skip
    leaks = [each for each in found if each.kind == "leak"]
    assert [(each.site.line if each.site else 0, each.bytes) for each in leaks] == [
        (line_of(source, "also lost"), 256), (line_of(source, "lost at reset"), 4096), (line_of(source, "lost at the end"), 8),
    ]  # fmt: skip
    others = {(each.tool, each.kind): each for each in found if each.kind != "leak"}
    assert {key: each.site.line for key, each in others.items() if each.site} == {
        key: line_of(source, words) for key, words in lines.items()
    }
    reads = others["initcheck", "uninitialised"]
    assert (reads.count, reads.launch, reads.bytes) == (12, 1, 4)
    assert all(each.site and each.site.function == "bad" for each in leaks)
    assert [caller.function for caller in others["memcheck", "api-error"].site.callers] == ["main"]  # type: ignore[union-attr]


def test_program_without_a_mistake_has_no_finding() -> None:
    assert warpsight.check(program=[str(build("checked.cu", options=LINES))]) == []


def test_memory_of_every_kind_that_copies_and_the_host_write_is_known_to_be_written() -> None:
    kinds = {(tool, kind) for tool, kind, _ in findings(build("memory.cu"))}
    assert kinds == {("memcheck", "leak")}, "it frees nothing, and does nothing else wrong"


def test_calls_that_fail_are_found_also_without_line_information() -> None:
    expected = {"cudaLaunchKernel", "cudaMemcpy", "cudaFree", "cudaMalloc", "cudaSetDevice"}
    found = warpsight.check(program=[str(build("errors.cu"))], tools="memcheck")
    calls = {each.message.rpartition(" ")[2]: each for each in found if each.kind == "api-error"}
    assert expected <= set(calls)
    sites = [calls[name].site for name in expected]
    assert all(site is not None and (site.function, site.line) == ("main", 0) for site in sites)


def test_example_program_is_reported_as_json_and_sarif() -> None:
    program = build(str(EXAMPLE), options=LINES)
    code, output, errors = command_line("check", "--format", "json", "--", str(program))
    assert (code, errors) == (5, "0\n"), "the program's own output is apart from the document"
    document = json.loads(output)
    assert (document["schema"], document["launches"], document["exit_code"], document["level"]) == (1, 2, 0, "ptx")
    assert document["totals"] == {
        "errors": 2, "warnings": 2, "by_check": {"memcheck": 3, "racecheck": 0, "initcheck": 1, "synccheck": 0}, "leaks": 1,
        "leaked_bytes": 4096,
    }  # fmt: skip
    wrong, call, copy, leak = document["findings"]
    assert (wrong["kind"], wrong["count"], wrong["launches"], wrong["distance"]) == ("out-of-bounds", 2, 2, 1)
    assert [caller["line"] for caller in wrong["site"]["callers"]] == [22]
    assert [row["site"]["line"] for row in (call, copy, leak)] == [14, 16, 11]
    results = findings_sarif([document], str(EXAMPLE.parent))["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places] == [
        ("wrong.cu", 14), ("program.cu", 14), ("program.cu", 16), ("program.cu", 11),
    ]  # fmt: skip


def test_run_with_checks_predicts_and_reports() -> None:
    code, output, errors = run(build(str(EXAMPLE), options=LINES), options=("--check", "--gpu", "mdm-pascal"))
    assert code == 5
    assert "2 launches" in output
    assert errors.splitlines()[-1] == "========= ERROR SUMMARY: 2 errors, 2 warnings"


def test_options_of_kernels_are_refused_for_programs() -> None:
    code, output, errors = command_line("check", "--grid", "4", "--", "./program")
    assert (code, output) == (2, "") and errors.startswith("error: --grid: is for a kernel")
    with pytest.raises(UsageError, match="makes its launches itself"):
        warpsight.check("k.cu", program=["./program"])


def test_stripped_program_and_program_without_lines_are_named_by_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checked.shutil, "which", lambda name: None)
    text = f"cudaMalloc_ptsz\n{0x1234:x} {0x1000:x} {tmp_path / 'gone'}\n"
    name, site = checked.call_site(text)
    assert name == "cudaMalloc"
    assert site is not None and (site.place, site.file, site.line, site.callers) == (f"{tmp_path / 'gone'}+0x233", "", 0, ())
    assert checked.call_site("") == ("", None)



def test_program_that_is_stopped_reports_what_was_found_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(command: list[str], gpu: object, observer: checking._Checker, **options: object) -> None:
        observer.found(Finding("memcheck", "out-of-bounds", "wrong", "k", launch=1))
        raise SystemExit(143)

    monkeypatch.setattr(checking, "run_program", stopped)
    document = checking.check_program(["./program"], load_gpu("a100"), level="ptx").document
    assert (document["totals"]["errors"], document["exit_code"]) == (1, 143)
    assert "stopped by a signal" in document["notes"][0]
