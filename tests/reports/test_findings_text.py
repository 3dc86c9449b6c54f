"""Are findings shown as users of compute-sanitizer know them, and as SARIF that code scanning accepts?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from warpsight.base.findings import Caller, Finding, Site, fold
from warpsight.pipeline.checking import findings_document
from warpsight.reports.findings import findings_sarif, findings_text

pytestmark = pytest.mark.unit

ROOT = "/home/me/project"


def site(line: int, what: str, lane: int = 3, **others: Any) -> Site:
    file = f"{ROOT}/src/k.cu"
    known = {"file": file, "line": line, "ptx_line": 10 * line, "text": "st.global.u32", "place": f"{file}:{line}"}
    return Site(**{**known, "what": what, "block": (1, 0, 0), "thread": (lane, 0, 0), "warp": 0, "lane": lane, **others})


CALLERS = (Caller("twice", f"{ROOT}/src/k.cu", 20), Caller("k", f"{ROOT}/src/k.cu", 30))
WRITE = Finding(
    "memcheck", "out-of-bounds", "kernel k: access out of bounds", "k", site(2, "write", function="put", callers=CALLERS),
    space="global", bytes=4, address=0x100000404, allocation='array of parameter 1 (1,024 bytes)', distance=5, count=12,
    remedy="check the index against the array's size", launch=2,
)  # fmt: skip
RACE = Finding(
    "racecheck", "write-after-read", "kernel k: ...", "k", site(10, "write"), site(12, "read", 31), space="shared", bytes=4,
    address=64, count=30, remedy="add a barrier",
)  # fmt: skip
UNWRITTEN = Finding(
    "initcheck", "uninitialised", "kernel k: read of memory that was never written", "k", site(7, "read"), space="shared", bytes=8,
    address=16, allocation='.shared variable "_ZZ4racePKfPfE4tile"', distance=0,
)  # fmt: skip
BARRIER = Finding("synccheck", "divergent-barrier", f"barrier in divergent code, see {ROOT}/src/k.cu:9", "k", site(9, ""))
HOST = Site(f"{ROOT}/main.cu:65", file=f"{ROOT}/main.cu", line=65, function="main")
LEAK = Finding("memcheck", "leak", "Leaked 1,024 bytes at 0x140000000", site=HOST, severity="warning", bytes=1024)
CALL = Finding("memcheck", "api-error", "Program hit cudaErrorInvalidValue (error 1) on CUDA API call to cudaFree")
ALL = (WRITE, RACE, UNWRITTEN, BARRIER, LEAK, CALL)


def document(*findings: Finding, **others: Any) -> dict[str, Any]:
    known = {"checks": ["memcheck", "racecheck"], "level": "ptx", "command": ["./program", "1"], "launches": 3}
    return findings_document(fold(findings), **{**known, **others})


def blocks(*findings: Finding) -> list[list[str]]:
    """The lines of each finding, without the prefix."""
    text = findings_text(document(*findings), root=ROOT)
    assert all(line.startswith("=========") for line in text.splitlines())
    parts = re.split(r"\n=========\n", text.partition("\n")[2])
    return [[line[10:] for line in part.splitlines()] for part in parts]


def test_wrong_access_is_shown_with_its_callers_thread_address_and_count() -> None:
    assert blocks(WRITE)[0] == [
        "Invalid __global__ write of size 4 bytes",
        "    at put in src/k.cu:2 (PTX line 20, st.global.u32)",
        "    called from twice in src/k.cu:20",
        "    called from k in src/k.cu:30",
        "    by thread (3,0,0) in block (1,0,0), warp 0, lane 3",
        "    Access at 0x100000404 is out of bounds",
        "    and is 5 bytes after the nearest allocation, array of parameter 1 (1,024 bytes)",
        "    12 times; first in launch 2",
        "    -> check the index against the array's size",
    ]


def test_race_is_shown_with_both_accesses_and_threads() -> None:
    assert blocks(RACE)[0] == [
        "Error: Race reported between Write access at k in src/k.cu:10 (PTX line 100, st.global.u32)",
        "    and Read access at k in src/k.cu:12 (PTX line 120, st.global.u32) [30 hazards]",
        "    write-after-read hazard on __shared__ memory at 0x40",
        "    between thread (3,0,0) in block (1,0,0), warp 0, lane 3 and thread (31,0,0) in block (1,0,0), warp 0, lane 31",
        "    -> add a barrier",
    ]


def test_headlines_of_the_other_checks() -> None:
    heads = [block[0] for block in blocks(UNWRITTEN, BARRIER, LEAK, CALL)]
    assert heads == [
        "Uninitialized __shared__ memory read of size 8 bytes",
        "Barrier error detected. Barrier in divergent code, see src/k.cu:9.",
        "Leaked 1,024 bytes at 0x140000000",
        "Program hit cudaErrorInvalidValue (error 1) on CUDA API call to cudaFree",
        "LEAK SUMMARY: 1,024 bytes leaked in 1 allocation",
    ]
    assert '    and is inside .shared variable "tile"' in blocks(UNWRITTEN)[0]


@pytest.mark.parametrize(
    ("findings", "words"),
    [((), "0 errors"), ((WRITE,), "1 error"), ((LEAK,), "0 errors, 1 warning"), (ALL, "5 errors, 1 warning")],
)
def test_last_line_counts_errors_and_warnings(findings: tuple[Finding, ...], words: str) -> None:
    assert findings_text(document(*findings)).splitlines()[-1] == f"========= ERROR SUMMARY: {words}"


def test_same_line_in_several_launches_and_unrolled_copies_is_one_finding() -> None:
    copies = [
        Finding("initcheck", "uninitialised", "m", "k", site(7, "read", ptx_line=ptx_line), count=2, launch=launch)
        for launch in (1, 1, 4) for ptx_line in (70, 75)
    ]  # fmt: skip
    (folded,) = fold([*copies])
    assert (folded.finding.count, folded.launches, folded.finding.launch) == (12, 2, 1)
    other_line = Finding("initcheck", "uninitialised", "m", "k", site(8, "read"))
    other_call = Finding("initcheck", "uninitialised", "m", "k", site(7, "read", callers=CALLERS))
    assert len(fold([*copies, other_line, other_call, CALL, LEAK])) == 5


# -- SARIF 2.1.0: what its schema requires of the parts that are used, and what GitHub's code scanning asks beyond it.

def check_location(location: dict[str, Any]) -> None:
    physical = location["physicalLocation"]
    assert set(location) <= {"id", "physicalLocation", "message"}
    assert set(physical) == {"artifactLocation", "region"}
    artifact = physical["artifactLocation"]
    assert physical["region"]["startLine"] >= 1
    if "uriBaseId" in artifact:
        assert re.fullmatch(r"(?!/)[\w./%-]+", artifact["uri"])
    else:
        assert artifact["uri"].startswith("file:///")


def check_sarif(log: dict[str, Any]) -> dict[str, Any]:
    assert log == json.loads(json.dumps(log))
    assert log["version"] == "2.1.0" and "sarif" in log["$schema"]
    (run,) = log["runs"]
    assert set(run) <= {"tool", "invocations", "columnKind", "originalUriBaseIds", "results"}
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    assert all(base["uri"].startswith("file:///") and base["uri"].endswith("/") for base in run["originalUriBaseIds"].values())
    assert all(isinstance(each["executionSuccessful"], bool) for each in run["invocations"])
    driver = run["tool"]["driver"]
    assert driver["name"] == "warpsight" and driver["version"]
    identifiers = [rule["id"] for rule in driver["rules"]]
    assert len(set(identifiers)) == len(identifiers)
    for rule in driver["rules"]:
        assert re.fullmatch(r"[A-Z]\w+", rule["name"])
        assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note", "none")
    for result in run["results"]:
        assert identifiers[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
        assert len(result["locations"]) == 1
        assert re.fullmatch(r"[0-9a-f]+:\d+", result["partialFingerprints"]["primaryLocationLineHash"])
        for location in (*result["locations"], *result.get("relatedLocations", ())):
            check_location(location)
        for stack in result.get("stacks", ()):
            for frame in stack["frames"]:
                check_location(frame["location"])
    return dict(run)


def test_sarif_has_the_structure_that_the_standard_and_code_scanning_ask_for() -> None:
    run = check_sarif(findings_sarif([document(*ALL)], ROOT))
    places = [each["locations"][0]["physicalLocation"] for each in run["results"]]
    program = Path("program").absolute().as_uri()
    assert [place["artifactLocation"]["uri"] for place in places] == ["src/k.cu"] * 4 + ["main.cu", program]
    assert [place["region"]["startLine"] for place in places] == [2, 10, 7, 9, 65, 1]
    assert [each["level"] for each in run["results"]] == ["error"] * 4 + ["warning", "error"]
    (related,) = run["results"][1]["relatedLocations"]
    assert related["physicalLocation"]["region"]["startLine"] == 12
    frames = run["results"][0]["stacks"][0]["frames"]
    assert [frame["location"]["physicalLocation"]["region"]["startLine"] for frame in frames] == [2, 20, 30]
    assert len({each["partialFingerprints"]["primaryLocationLineHash"] for each in run["results"]}) == len(ALL)


def test_sarif_names_the_line_in_the_repository_that_calls_a_header() -> None:
    header = site(110, "atomic", file="/usr/local/cuda/include/atomics.hpp", function="atomicAdd", callers=CALLERS[:1])
    run = check_sarif(findings_sarif([document(Finding("memcheck", "out-of-bounds", "m", "k", header))], ROOT))
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "src/k.cu"
    assert location["physicalLocation"]["region"]["startLine"] == 20


def test_sarif_of_nothing_found_has_no_results() -> None:
    assert check_sarif(findings_sarif([document()], ROOT))["results"] == []


def test_checks_of_several_kernels_are_one_run_as_code_scanning_needs() -> None:
    one, other = document(*ALL), document(ALL[0])
    (run,) = (log := findings_sarif([one, other], ROOT))["runs"]
    check_sarif(log)
    assert [each["exitCode"] for each in run["invocations"]] == [one["exit_code"], other["exit_code"]]
    assert len(run["results"]) == len(ALL) + 1 and run["results"][-1] == run["results"][0]
    assert len({rule["id"] for rule in run["tool"]["driver"]["rules"]}) == len(run["tool"]["driver"]["rules"])
