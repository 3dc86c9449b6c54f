"""Do the texts say what the documents hold, in units, within 120 columns?"""

from __future__ import annotations

import re

import pytest
from study_tables import chosen, grid_of, results, term
from sweep_documents import clocks, documents

from warpsight.reports.formats import json_text, plain
from warpsight.reports.sweep_answers import answer_text, energy_text, key_text
from warpsight.sweeps.answers.best import best, pareto
from warpsight.sweeps.answers.maps import design_map
from warpsight.sweeps.answers.selection import select
from warpsight.sweeps.answers.sensitivity import sensitivity

pytestmark = pytest.mark.unit

DOCUMENTS = documents()


def _rows(text: str, first: str) -> list[list[str]]:
    """The cells of the lines from the heading that begins with `first` to the next empty one."""
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.split()[:1] == [first])
    end = next((n for n in range(start, len(lines)) if not lines[n]), len(lines))
    return [re.split(r"\s{2,}", line.strip()) for line in lines[start:end]]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_text_of_every_answer_keeps_within_the_width_and_names_what_was_left_out(name: str) -> None:
    text = answer_text(DOCUMENTS[name])
    assert max(map(len, text.splitlines())) <= 120
    assert "24 designs, 1 left out (1 failed, 0 without a row); 23 considered" in text
    assert "failed on design 7: no block fits" in text
    assert "over design 8: sm_count=28, dram.bandwidth=480 GB/s, sm.policy=lrr" in text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_of_every_answer_is_plain_json(name: str) -> None:
    assert plain(DOCUMENTS[name]) == DOCUMENTS[name]
    assert '"tool"' in json_text(DOCUMENTS[name])


def test_best_designs_are_shown_with_keys_in_units_and_what_binds_each_kernel() -> None:
    text = answer_text(DOCUMENTS["best"])
    rows = _rows(text, "design")
    assert rows[0] == ["design", "performance", "time", "sm_count", "dram.bandwidth", "sm.policy"]
    # softmax 2 ms at the baseline, 0.35 + 0.457 ms here; gemm 80/28 as fast
    assert rows[1] == ["22", "2.66", "1.857 ms", "80", "1.05 TB/s", "lrr"]
    assert [row[0] for row in rows[1:4]] == ["22", "23", "20"]
    assert _rows(text, "kernel") == [["kernel", "22", "23", "20"], ["gemm", "2.86 dram", "2.86 dram", "2.86 dram"],
                                     ["softmax", "2.48 dram", "2.48 dram", "1.48 dram"]]  # fmt: skip
    assert "1 more tie with the last" in text


def test_front_is_shown_by_ascending_cost_with_equal_designs_counted() -> None:
    rows = _rows(answer_text(DOCUMENTS["pareto"]), "design")
    costs = [float(row[2]) for row in rows[1:-1]]
    assert costs == sorted(costs)
    # gemm 15/28 as fast, softmax 2 / (28/15 + 2)
    assert rows[1][:4] == ["0", "0.526", "39.0", "+1"]
    assert rows[-1] == [f"{DOCUMENTS['pareto']['bettered']} designs are dominated: no better in any objective, worse in at "
                        "least one"]  # fmt: skip


def test_sensitivity_names_its_estimator_and_lists_axes_by_their_share() -> None:
    text = answer_text(DOCUMENTS["sensitivity"])
    assert "correlation ratio" in text
    assert "treated as a sample: 1 combinations of the 24 have no design" in text
    rows = _rows(text, "axis")
    shares = [float(row[1].removesuffix(" %")) for row in rows[1:]]
    assert [row[0] for row in rows[1:]] == ["sm_count", "dram.bandwidth", "sm.policy"]
    assert shares == sorted(shares, reverse=True)
    assert "first-order index by kernel" in text
    whole = answer_text(documents(failed=False)["sensitivity"])
    assert "analysis of variance of the full grid" in " ".join(whole.split())
    assert _rows(whole, "kernel")[1] == ["gemm", "100 %", "0.0 %", "0.0 %"]
    assert re.search(r"interactions of axes explain [\d.]+ %: sm_count with dram.bandwidth", whole)


def test_kernel_that_no_axis_changes_is_told() -> None:
    assert "no axis changes the performance" in answer_text(sensitivity(chosen({"a": [1.0, 2.0]}, [1.0, 1.0])))


def test_map_has_the_greatest_value_of_y_on_top_and_a_dash_where_no_design_is() -> None:
    rows = _rows(answer_text(DOCUMENTS["map"]), "dram.bandwidth")
    assert rows[0] == ["dram.bandwidth", "15", "28", "40", "80"]
    assert [row[0] for row in rows[1:]] == ["1.05 TB/s", "480 GB/s", "240 GB/s"]
    assert rows[2][2] == "1.00"
    assert rows[3][2] == "-"  # design 7
    empty = answer_text(design_map(chosen({"x": [1.0, 2.0], "y": [1.0, 2.0]}, [1.0, 1.0]), "x", "y"))
    assert _rows(empty, "y") == [["y", "1", "2"], ["2", "-", "1.00"], ["1", "1.00", "-"]]


def test_map_of_words_shows_words() -> None:
    rows = _rows(answer_text(DOCUMENTS["map of words"]), "sm_count")
    assert rows[1:3] == [["80", "dram", "dram", "dram"], ["40", "dram", "dram", "dram"]]
    assert rows[4] == ["15", "base", "base", "base"]


def test_speedups_have_a_row_for_each_kernel_and_their_mean_and_a_dash_where_one_failed() -> None:
    rows = _rows(answer_text(DOCUMENTS["speedups"]), "kernel")
    assert rows == [["kernel", "0", "7", "23"], ["gemm", "0.536", "-", "2.86"], ["softmax", "0.517", "0.667", "2.48"],
                    ["geometric mean", "0.526", "-", "2.66"]]  # fmt: skip
    over = _rows(answer_text(DOCUMENTS["speedups over an axis"]), "kernel")
    assert over[0] == ["kernel", "240 GB/s", "480 GB/s", "1.05 TB/s"]
    assert over[1] == ["gemm", "1.00", "1.00", "1.00"]


def test_columns_that_do_not_fit_are_named() -> None:
    keys = grid_of(x=[float(k) for k in range(1, 41)], y=[1.0, 2.0])
    text = answer_text(design_map(chosen(keys, [1.0] * 80), "x", "y"))
    assert max(map(len, text.splitlines())) <= 120
    shown = len(_rows(text, "y")[0]) - 1
    assert f"columns that do not fit: {shown + 1}, {shown + 2}" in text
    assert f"and {40 - shown - 8} more" in text


def test_names_of_any_length_keep_within_the_width() -> None:
    long = "kernel_" * 30
    for name, document in documents(long).items():
        text = answer_text(document)
        assert max(map(len, text.splitlines())) <= 120, name
    rows = _rows(answer_text(documents(long)["speedups"]), "kernel")
    assert rows[1] == [f"{long[:38]}..", "0.536", "-", "2.86"]


def test_long_front_is_shown_evenly_from_end_to_end_and_its_length_told() -> None:
    count = 500
    front = pareto(chosen({"sm_count": list(range(1, count + 1))}, [1 / k for k in range(1, count + 1)]),
                   [term("sm_count", lambda a: a, "sm_count")])  # fmt: skip
    text = answer_text(front)
    rows = _rows(text, "design")
    assert (rows[1][0], rows[40][0]) == ("0", "499")
    assert "40 of 500 points of the front" in text


def test_designs_of_one_kernel_have_what_binds_them_beside_them() -> None:
    bound = {"bound_by": {"k": ["mshr", "noc"]}}
    text = answer_text(best(select(results({"sm_count": [1.0, 2.0]}, {"k": [2.0, 1.0]}, columns=bound))))
    assert _rows(text, "design") == [["design", "performance", "time", "bound by", "sm_count"],
                                     ["1", "2.00", "1.000 s", "noc", "2"], ["0", "1.00", "2.000 s", "mshr", "1"]]  # fmt: skip


def test_values_of_keys_are_written_in_their_units() -> None:
    assert key_text("noc.bandwidth", 1.05e12) == "1.05 TB/s"
    assert key_text("core_clock", 1.4123456789e9) == "1.412 GHz"
    assert key_text("l1.size", 98304.0) == "96 KiB"
    assert key_text("l2.latency", 120.0) == "120 cycles"
    assert key_text("l2.latency", 120.5) == "120"  # no whole number of cycles: of a mean, three digits
    assert key_text("sm_count", 28.0) == "28"
    assert key_text("area", 1234.5678) == "1,230"
    assert key_text("sm.policy", "gto") == "gto"
    assert key_text("area", -2.5) == "-2.50"


def test_energy_is_shown_by_clock_with_the_least_marked() -> None:
    text = energy_text(clocks())
    rows = _rows(text, "core_clock")
    assert rows[0][:4] == ["core_clock", "dram.bandwidth", "issuing", "power"]
    assert rows[1] == ["1 GHz", "240 GB/s", "50.0 %", "100 W", "3.000 ms", "300 mJ", "900 uJ s", "2.70 uJ s^2"]
    assert rows[2] == ["1 GHz", "480 GB/s", "50.0 %", "100 W", "2.500 ms", "250 mJ*", "625 uJ s*", "1.56 uJ s^2*"]
    assert rows[4][4:6] == ["2.000 ms*", "400 mJ"]
    assert _rows(text, "kernel")[1] == ["all kernels", "1.4 GHz, 480 GB/s", *["1 GHz, 480 GB/s"] * 3]
    assert "the power curve depends on the core clock only" in text
    assert max(map(len, text.splitlines())) <= 120
    assert "power: linear interpolation of 2 points, 1 GHz to 1.4 GHz" in text
    without = energy_text(clocks(power=False))
    assert "no power curve was given" in without
    assert _rows(without, "core_clock")[0] == ["core_clock", "dram.bandwidth", "issuing", "time"]
