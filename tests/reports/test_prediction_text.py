"""Is a prediction printed in the documented layout?"""

from __future__ import annotations

import re

import pytest
from documents import DRAWN_STACK, document

from warpsight.reports.prediction import prediction_text, predictions_text
from warpsight.reports.terminal import Style

pytestmark = pytest.mark.unit

# The table in the documented layout, character by character.
DRAWN_TABLE = """\
 CPI stack    CPI    share                 what it means                       Nsight calls it (nearest)
 base        0.25   16.7 %   #######       issue slots doing work              selected
 com_data    0.14    9.3 %   ####          waiting for arithmetic results      wait, short scoreboard
 mem_data    0.42   28.0 %   ###########   waiting for loads                   long scoreboard
 mshr        0.31   20.7 %   ########      no free MSHR in the L1              lg throttle
 noc         0.17   11.3 %   #####         queueing to and from L2
 dram        0.21   14.0 %   ######        queueing at DRAM
 total       1.50    100 %"""


def test_prediction_with_an_l1_miss_latency_says_where_it_goes() -> None:
    made = document()
    assert "L1 miss" not in prediction_text(made)
    parts = {"mshr": 1200.4, "noc_queue": 30.0, "l2": 120.0, "dram_queue": 0.0, "dram": 49.6}
    made["provenance"]["model"] = {"l1_miss_latency": parts}
    expected = " L1 miss latency 1,400 cycles: 1,200 waiting for an MSHR, 30 NoC queueing, 120 L2, 50 DRAM"
    assert prediction_text(made).splitlines()[-1] == expected


def test_table_of_the_drawn_figures_is_the_drawing() -> None:
    assert DRAWN_TABLE in predictions_text([document()])


def test_headline_of_the_drawn_figures_has_each_of_them() -> None:
    lines = predictions_text([document()]).splitlines()
    assert lines[0] == "warpsight 0.1.0   spmv.cu : spmv_csr   grid (128,1,1) block (256,1,1)   mdm-pascal   model mdm"
    assert lines[2] == "  predicted    393,216 cycles   280.9 us   IPC/SM 0.667 (warp)"
    assert lines[3] == "  class        memory-divergent (64.2 divergent loads per 1000 instructions)"
    assert "  bound by     MSHR and exposed memory latency" in lines


@pytest.mark.parametrize("scale", [1e-3, 1.0, 123.0, 98765.0])
@pytest.mark.parametrize("only", [None, "base", "mshr", "com_struct"])
def test_width_of_any_stack_is_at_most_120(scale: float, only: str | None) -> None:
    stack = {name: scale * value * (only is None) for name, value in DRAWN_STACK.items()}
    if only:
        stack[only] = scale
    text = predictions_text([document(stack)])
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(("cpi", "total"), [(0.0123456, "0.0123"), (0.456, "0.456"), (34.56, "34.6"), (45678.0, "45,678")])
def test_cpi_of_any_size_has_three_significant_digits(cpi: float, total: str) -> None:
    text = predictions_text([document({"base": cpi})])
    assert re.search(rf"^ total +{re.escape(total)} +100 %$", text, re.MULTILINE)


def test_component_above_zero_but_tiny_is_still_seen() -> None:
    text = predictions_text([document({"base": 1.0, "noc": 1e-6})])
    assert re.search(r"^ noc .* \. ", text, re.MULTILINE)


def test_component_of_zero_is_left_out() -> None:
    assert not re.search(r"^ (sync|idle|com_struct)\b", predictions_text([document()]), re.MULTILINE)


def test_divergence_unknown_is_not_invented() -> None:
    text = predictions_text([document(dpki=None, **{"class": "unknown"})])
    assert "divergent" not in text


def test_escape_codes_only_when_colour_is_on() -> None:
    plain, coloured = predictions_text([document()]), predictions_text([document()], Style(colour=True))
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert plain != coloured


def test_notes_of_several_predictions_are_given_once() -> None:
    noted = document()
    noted["provenance"]["notes"] = ["registers are estimated"]
    text = predictions_text([noted, {**noted, "model": "gpumech"}])
    assert text.count("registers are estimated") == 1
    assert "model gpumech" in text
