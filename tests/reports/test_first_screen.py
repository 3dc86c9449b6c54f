"""Does the first screen say how long, why, what to do and how sure, in the width and the lines that there are?"""

from __future__ import annotations

import re
from typing import Any

import pytest
from documents import document

from warpsight.gpu.loader import OVERRIDE_SOURCE
from warpsight.reports.first_screen import first_screen
from warpsight.reports.terminal import Style

pytestmark = pytest.mark.unit

FILE = "/home/me/flash.cu"
LAUNCH = {"source": "flash.cu", "grid": [1, 48, 1], "block": [32, 1, 1], "level": "sass", "target": "sm_80"}


def _line(line: int, share: float, file: str = FILE) -> dict[str, Any]:
    return {"place": f"{file.rpartition('/')[2]}:{line}", "file": file, "line": line, "share": share}


def _cause(component: str, share: float, text: str, *lines: Any, loads: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"component": component, "share": share, "text": text, "lines": list(lines), "loads": list(loads)}


SUMMARY: dict[str, Any] = {
    "place": {"file": FILE, "line": 41},
    "view": "source",
    "why": [
        _cause("idle", 0.556, "60 of 108 SMs have no block"),
        _cause("com_struct", 0.28, "shared memory: 32-way bank conflicts", _line(70, 0.2), _line(46, 0.08)),
        _cause("mem_data", 0.09, "waiting for loads", _line(50, 0.06), _line(7, 0.03, "part.cuh"), loads=(_line(49, 0.0),)),
    ],
    "hottest": _line(70, 0.3),
    "advice": [
        {"rule": "fusion", "title": "fuse the kernel with the one before or after it", "speedup": 3.1},
        {"rule": "balance", "title": "the same work in 108 blocks instead of 48, equally many per SM", "speedup": 2.2},
        {"rule": "bank_conflicts", "title": "shared memory of lines 46 and 70 without bank conflicts", "speedup": 1.6},
    ],
    "not_tried": [{"title": "loads of line 49 coalesced", "place": "flash.cu:49", "share": 0.06}],
    "violated": [{"assumption": "All warps execute about the same number of instructions.",
                  "detail": "100 to 400 instructions, on average 250"}],
    "others": [{"model": "mdm", "cycles": 200000.0, "difference": -0.49}],
    "simulator": None,
}  # fmt: skip


def _document(**changes: Any) -> dict[str, Any]:
    made = document(summary=SUMMARY | changes)
    made["provenance"] |= {"launch": LAUNCH, "method": {"caches_before": "warm"}}
    made["provenance"]["gpu"]["core_clock"] = "1.41 GHz"
    return made


SCREEN = """\
flash.cu:41 spmv_csr   grid (1,48) block 32   mdm-pascal 1.41 GHz
  sass sm_80, warm L2
  280.9 us   (393,216 cycles)   mdm
WHY  56 %  60 of 108 SMs have no block
     28 %  shared memory: 32-way bank conflicts, lines 46 and 70
      9 %  waiting for loads of line 49, needed in line 50, part.cuh:7
DO  2.20x  the same work in 108 blocks instead of 48, equally many per SM
    1.60x  shared memory of lines 46 and 70 without bank conflicts
        ?  loads of line 49 coalesced (`advise` evaluates it)
! mdm assumes that all warps execute about the same number of instructions;
  here: 100 to 400 instructions, on average 250"""


def test_screen_of_80_columns_and_24_lines_is_the_drawing() -> None:
    assert first_screen(_document(), width=80, lines=20) == SCREEN


def test_changes_that_were_not_evaluated_are_all_named_as_none_is_known_to_help() -> None:
    more = [*SUMMARY["not_tried"], {"title": "stores of line 7 coalesced", "place": "flash.cu:7", "share": 0.07}]
    text = " ".join(first_screen(_document(not_tried=more), width=80).split())
    assert "? stores of line 7 coalesced, loads of line 49 coalesced (`advise` evaluates them)" in text


def test_bound_is_named_after_what_is_evaluated_and_what_may_be() -> None:
    bound = {"rule": "tensor_cores", "title": "tensor cores", "speedup": 9.0, "at_most": True}
    text = first_screen(_document(advice=[bound, SUMMARY["advice"][1]]), width=80)
    wanted = ["2.20x  the same work in 108 blocks", "?  loads of line 49 coalesced", "<9.00x  tensor cores"]
    assert sorted(map(text.index, wanted)) == [text.index(each) for each in wanted]
    many = first_screen(_document(advice=[bound, *SUMMARY["advice"][1:]]), width=80)
    assert "lines 46" in many and "tensor cores" not in many


def test_what_helps_any_short_launch_is_the_last_change() -> None:
    changes = [line for line in first_screen(_document(not_tried=[]), width=80).splitlines() if "0x  " in line]
    assert ["108 blocks" in changes[0], "lines 46" in changes[1], "fuse" in changes[2]] == [True] * 3


def test_first_line_names_the_values_that_were_set_and_the_clock_once() -> None:
    made = _document()
    gpu = made["provenance"]["gpu"]
    gpu |= {"sm_count": 56, "l1": {"mshrs": 64, "ways": 4}}
    gpu["sources"] = {"l1.ways": "a paper", **dict.fromkeys(("core_clock", "sm_count", "l1.mshrs"), OVERRIDE_SOURCE)}
    head = " ".join(first_screen(made, width=80).splitlines()[:2])
    assert "1.41 GHz with sm_count=56, l1.mshrs=64 " in head
    assert "core_clock" not in head and "ways" not in head


def test_colours_say_what_is_lost_what_is_uncertain_and_what_helps() -> None:
    text = first_screen(_document(), Style(colour=True), width=80)
    hot, warning, good = ("\x1b[31m", "\x1b[33m", "\x1b[32m")
    assert f"{hot} 56 %" in text  # most cycles are lost
    assert f"{warning}  9 %" in text
    assert f"{good}2.20x" in text
    assert f"{warning}!" in text
    assert "\x1b[3" not in first_screen(_document(), width=80)


def test_times_are_in_the_unit_that_was_chosen() -> None:
    assert "  0.2809 ms   (393,216 cycles)" in first_screen(_document(), Style(time_unit="ms"), width=80)


def test_stack_follows_where_it_fits_and_where_it_is_asked_for() -> None:
    for text in (first_screen(_document(), width=80), first_screen(_document(), width=80, lines=20, stack=True)):
        assert text.startswith(SCREEN)
        assert re.search(r"^ mem_data +0\.42 +28\.0 % +#+ +waiting for loads$", text, re.MULTILINE)
        assert " papers' models: mdm 200,000 (-49 %)" in text
    rows = len(first_screen(_document(), width=80).splitlines())
    assert "CPI stack" in first_screen(_document(), width=80, lines=rows)
    assert "CPI stack" not in first_screen(_document(), width=80, lines=rows - 1)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_colour_changes_no_text(width: int) -> None:
    made = _document()
    made["kernel"] = "a_kernel_with_a_name_of_templates<" + "float, " * 30 + "int>"
    made["provenance"]["notes"] = ["registers are estimated, since the trace does not say how many " + "words " * 20]
    coloured = first_screen(made, Style(colour=True), width=width)
    plain = re.sub(r"\x1b\[\d+m", "", coloured)
    assert plain == first_screen(made, width=width)
    assert max(map(len, plain.splitlines())) <= max(width, 79)
    assert max(map(len, first_screen(made, width=width, lines=1).splitlines())) <= width


def test_simulator_stands_beside_the_time_and_a_different_cause_gets_a_sentence() -> None:
    differs = {"component": "mem_data", "share": 0.28, "simulator_share": 0.61}
    simulator = {"cycles": 410000.0, "seconds": 293e-6, "difference": 0.0427, "differs": differs}
    text = first_screen(_document(simulator=simulator), width=80)
    assert "  280.9 us   (393,216 cycles)   mdm; simulator 410,000 cycles (+4 %)" in text
    assert "! mdm and simulator differ: mem_data (waiting for loads) is 28 % here and 61 %\n  there" in text
    assert "differ:" not in first_screen(_document(simulator=simulator | {"differs": None}), width=80)


def test_kernel_without_source_lines_has_the_name_of_its_file_alone() -> None:
    causes = [_cause("base", 0.9, "issue slots doing work", {"place": "SASS 0x000a0", "file": "", "line": 0, "share": 0.5})]
    text = first_screen(_document(place=None, why=causes), width=120)
    assert text.startswith("flash.cu spmv_csr   grid (1,48) block 32")
    assert "issue slots doing work, SASS 0x000a0" in text
