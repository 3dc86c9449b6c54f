"""Are the labels of public suites complete, and findings sorted by them into found, missed and false alarms?"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from check_suites import KINDS, PLAN, Case, Outcome, cases, graph, judge, label, summary
from warpsight.base.findings import INITCHECK, MEMCHECK, RACECHECK, Finding, Site

pytestmark = pytest.mark.unit


def _case(*expect: str, may: tuple[str, ...] = ()) -> Case:
    return Case("suite", "kernel", (), tuple(label(text) for text in expect), frozenset(may))


def _finding(tool: str, kind: str, line: int, other: int = 0) -> dict[str, Any]:
    other_site = Site("k.cu", line=other) if other else None
    return Finding(tool, kind, f"a {kind}", site=Site("k.cu", line=line), other=other_site).to_json()


def test_a_bug_is_found_at_either_line_of_a_hazard() -> None:
    outcome = Outcome(_case("race@7,9", "oob@12", "uninit"))
    judge(outcome, [_finding(RACECHECK, "write-after-read", 3, other=9), _finding(MEMCHECK, "out-of-bounds", 13)])
    assert [wanted.kind for wanted in outcome.found] == ["race"]
    assert [wanted.kind for wanted in outcome.elsewhere] == ["oob"]
    assert [wanted.kind for wanted in outcome.missed] == ["uninit"]
    assert outcome.false == []


def test_a_finding_of_another_kind_is_a_false_alarm_unless_it_may_be() -> None:
    findings = [_finding(INITCHECK, "uninitialised", 4), _finding(MEMCHECK, "leak", 0)]
    outcome = Outcome(_case(may=("leak",)))
    judge(outcome, findings)
    assert outcome.false == ["uninit: a uninitialised"]
    assert summary("suite", [outcome]).split("|")[-4:-1] == [" 1 ", " 1 ", " 0 "]  # right runs, with a false alarm, not run


def test_the_labels_are_complete(tmp_path: Path) -> None:
    plan = YAML(typ="safe").load(PLAN)
    for suite, rules in plan.items():
        assert {"source", "labels"} <= rules.keys(), suite
        words = [*rules.get("programs", {}).values(), *rules.get("words", {}).values()]
        assert all(label(text).kind in KINDS for row in words for text in [*row.get("expect", []), *row.get("may", [])]), suite
    folders = {suite: tmp_path for suite, rules in plan.items() if "kernels" in rules}
    runs = list(cases(folders, "", tmp_path))
    assert len(runs) > 150
    assert {wanted.kind for run in runs for wanted in run.expect} <= set(KINDS)
    for run in runs:
        assert run.command[2:5:2] == ("--grid", "--block"), run.name
        name = run.name.split()[0]
        assert f'\n#include "{tmp_path / name}"\n' in run.wrapper, run.name


def test_programs_are_labelled_by_the_words_of_their_names(tmp_path: Path) -> None:
    for name in ("push_persistent_atomicBug", "push_boundsBug"):
        (tmp_path / name).touch(mode=0o755)
    bounds, atomic = cases({"indigo": tmp_path}, "", tmp_path)
    assert bounds.expect == (label("oob"),)
    assert bounds.may == {"race", "uninit", "hang", "api", "leak"}
    assert bounds.command[4:] == (str(tmp_path / "graph.egr"), "64", "101")
    assert atomic.expect == (label("race"),)
    assert atomic.command[4:] == (str(tmp_path / "graph.egr"), "64", "3")


def test_programs_of_other_suites_are_right_but_for_what_is_known_of_them(tmp_path: Path) -> None:
    for name in ("GEMVER", "MVT"):
        (tmp_path / name).touch(mode=0o755)
    right, racy = cases({"polybench": tmp_path}, "", tmp_path)
    assert (right.expect, right.may) == ((), {"leak"})
    assert racy.expect == (label("race@115"), label("race@130"))
    (tmp_path / "nbody").touch(mode=0o755)
    (slow,) = cases({"hecbench": tmp_path}, "/nbody", tmp_path)
    assert slow.command == ("--tool", "memcheck,initcheck,synccheck", "--", str(tmp_path / "nbody"))


def test_the_graph_of_indigo_is_well_formed(tmp_path: Path) -> None:
    data = graph(tmp_path).read_bytes()
    numbers = struct.unpack(f"<{len(data) // 4}i", data)
    vertices, edges = numbers[:2]
    starts, neighbours = numbers[2 : 3 + vertices], numbers[3 + vertices :]
    assert len(neighbours) == edges == starts[-1]
    assert list(starts) == sorted(starts)
    assert starts[-2] == starts[-1]  # the last vertex has none, so that its first neighbour is past the end
    assert set(neighbours) <= set(range(vertices))
