"""Does the last line name a command that relieves what bounds the kernel?"""

from __future__ import annotations

import shlex

import pytest
from documents import document

from warpsight.reports.next_step import after_prediction, followed_by

pytestmark = pytest.mark.unit

COMMAND = ["predict", "k.cu", "--arg", "f32[4]:randint(0, 3)"]


def _next(doc: dict[str, object], command: list[str] = COMMAND) -> list[str]:
    return shlex.split(after_prediction(doc, command).removeprefix("next: "), comments=True)


@pytest.mark.parametrize(
    ("bottleneck", "setting"),
    [
        ("mem_data", "dram.latency=110 cycles"),
        ("mshr", "l1.mshrs=256"),
        ("dram", "dram.bandwidth=960 GB/s"),
        ("base", "sm_count=56"),
    ],
)
def test_next_step_of_each_bottleneck_relieves_it_twofold(bottleneck: str, setting: str) -> None:
    assert _next(document({"base": 0.1, bottleneck: 1.0})) == ["warpsight", *COMMAND, "--set", setting]


def test_next_step_of_a_key_already_set_is_not_to_set_it_again() -> None:
    command = [*COMMAND, "--set", "l1.mshrs=256"]
    assert _next(document({"mshr": 1.0}), command) == ["warpsight", "models", "show", "mdm"]


def test_next_step_of_source_on_stdin_does_not_read_it_again() -> None:
    assert _next(document({"mshr": 1.0}), ["predict", "-"]) == ["warpsight", "models", "show", "mdm"]


def test_line_of_another_command_keeps_kernel_and_gpu_and_drops_its_own_options() -> None:
    command = ["explain", "k.yaml", "--by", "block", "--gpu", "gpumech", "--by=line", "--set", "sm_count=2"]
    found = followed_by("advise", command, "mdm", "why", without=("--by",), added=("--top", "3"))
    assert found == "next: warpsight advise k.yaml --gpu gpumech --set sm_count=2 --top 3   # why"


def test_line_of_another_command_does_not_read_stdin_again() -> None:
    assert followed_by("advise", ["explain", "-"], "mdm", "why") == "next: warpsight models show mdm   # the model's assumptions"
