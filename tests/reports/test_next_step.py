"""Does the last line name the command that helps most?"""

from __future__ import annotations

import shlex

import pytest
from documents import document

from warpsight.reports.next_step import after_prediction, followed_by

pytestmark = pytest.mark.unit

COMMAND = ["predict", "k.cu", "--arg", "f32[4]:randint(0, 3)"]


def _next(doc: dict[str, object], command: list[str] = COMMAND) -> list[str]:
    return shlex.split(after_prediction(doc, command).removeprefix("next: "), comments=True)


SUMMARY: dict[str, object] = {
    "view": "source", "hottest": {"place": "k.cu:7", "share": 0.4}, "advice": [], "not_tried": [], "violated": [],
    "simulator": None,
}  # fmt: skip
CHANGE = {"title": "loads of line 7 coalesced", "place": "k.cu:7", "share": 0.3}
COLD = {"place": "k.cu:7", "share": 0.01}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"advice": [{"rule": "bank_conflicts", "title": "padding"}]}, ["advise", *COMMAND[1:]]),
        ({"advice": [{"rule": "fusion", "title": "fuse"}]}, ["explain", *COMMAND[1:], "--by", "source"]),
        ({"not_tried": [CHANGE]}, ["advise", *COMMAND[1:]]),
        ({"not_tried": [CHANGE | {"share": 0.02}]}, ["explain", *COMMAND[1:], "--by", "source"]),
        ({"violated": [{"key": "alike-warps"}]}, ["explain", *COMMAND[1:], "--by", "source"]),
        ({"hottest": COLD, "violated": [{"key": "alike-warps"}]}, ["simulate", *COMMAND[1:]]),
        ({"hottest": COLD, "violated": [{"key": "alike-warps"}], "simulator": {"cycles": 1.0}}, None),
        ({"hottest": None}, None),
    ],
)
def test_next_step_is_advice_then_the_hottest_line_then_the_assumption_then_a_report(
    changes: dict[str, object], words: list[str] | None
) -> None:
    expected = words or ["report", *COMMAND[1:], "-o", "report.html"]
    assert _next(document(summary=SUMMARY | changes)) == ["warpsight", *expected]


def test_next_step_names_what_was_not_tried() -> None:
    answer = after_prediction(document(summary=SUMMARY | {"not_tried": [CHANGE]}), COMMAND)
    assert answer.endswith("# also loads of line 7 coalesced")
    two = [CHANGE, CHANGE | {"title": "other", "share": 0.2}]
    answer = after_prediction(document(summary=SUMMARY | {"not_tried": two}), COMMAND)
    assert answer.endswith("# also loads of line 7 coalesced and 1 more")


def test_next_step_of_several_models_is_about_the_first_and_leaves_out_what_only_predict_has() -> None:
    command = [*COMMAND, "--cpi-stack", "--model", "mdm,gpumech", "--simulator"]
    assert _next(document(summary=SUMMARY), command) == ["warpsight", "explain", *COMMAND[1:], "--by", "source", "--model", "mdm"]


def test_next_step_of_the_simulator_has_no_options_of_profiles() -> None:
    summary = SUMMARY | {"hottest": COLD, "violated": [{"key": "alike-warps"}]}
    command = ["predict", "k.trace", "--model", "mdm", "--order", "own", "--caches-before", "cold"]
    assert _next(document(summary=summary), command) == ["warpsight", "simulate", "k.trace", "--caches-before", "cold"]


def test_next_step_of_a_table_of_launches_explains_the_longest() -> None:
    row = document()
    row["provenance"]["varied"] = {"launch": 3, "kernel": "k"}
    command = ["predict", "app", "--launches", "1-5"]
    assert _next(row, command) == ["warpsight", "explain", "app", "--launches", "3", "--model", "mdm"]


@pytest.mark.parametrize("words", [["--warps", "1:8"], ["--representative", "all"], ["--repeat", "4"]])
def test_next_step_of_one_launch_in_several_ways_explains_it(words: list[str]) -> None:
    row = document()
    row["provenance"]["varied"] = {words[0][2:]: words[1]}
    assert _next(row, ["predict", "k.trace", *words]) == ["warpsight", "explain", "k.trace", "--model", "mdm"]


def test_next_step_without_a_trace_is_the_model() -> None:
    assert _next(document()) == ["warpsight", "models", "show", "mdm"]


def test_next_step_of_source_on_stdin_does_not_read_it_again() -> None:
    assert _next(document(summary=SUMMARY), ["predict", "-"]) == ["warpsight", "models", "show", "mdm"]


def test_line_of_another_command_keeps_kernel_and_gpu_and_drops_its_own_options() -> None:
    command = ["explain", "k.yaml", "--by", "block", "--gpu", "gpumech", "--by=line", "--set", "sm_count=2"]
    found = followed_by("advise", command, "mdm", "why", without=("--by",), added=("--top", "3"))
    assert found == "next: warpsight advise k.yaml --gpu gpumech --set sm_count=2 --top 3   # why"


def test_line_of_another_command_does_not_read_stdin_again() -> None:
    assert followed_by("advise", ["explain", "-"], "mdm", "why") == "next: warpsight models show mdm   # the model's assumptions"
