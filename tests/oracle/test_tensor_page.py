"""Does the page on tensor cores keep what is claimed of it, and does its script read the tables of others as it says?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tensor_times import COMMAND, LADDER, LARGE, PAGE, SMALL, STEPS, TABLES, kendall, peak, rows
from marked_page import get

pytestmark = pytest.mark.oracle


def published(name: str) -> list[list[str]]:
    """The cells of a table of the page, without its head."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in get(PAGE, COMMAND, name).splitlines()[2:]]


def test_rows_have_the_kernel_of_their_name_and_the_part_of_their_line(tmp_path: Path) -> None:
    results = tmp_path / LADDER / "results"
    results.mkdir(parents=True)
    for table in TABLES:
        (results / table).write_text("M,kernel,tflops\n")
    text = "M,kernel,tflops\n512,wmma,1\n2048,wmma,2\n2048,mma_base,3\n4096,mma_pipe,4\n8192,mma_pipe@s3,5\n2048,naive,6\n"
    (results / "mma_stage_sweep.csv").write_text(text)
    found = [(row.line, row.part, row.step, row.sliced, row.tflops) for row in rows(tmp_path)]
    assert found == [
        (2, "development", SMALL, False, 1.0), (3, "held out", LARGE, False, 2.0), (6, "development", STEPS["mma_pipe@s3"], True, 5.0),
    ]  # fmt: skip


@pytest.mark.parametrize(("gpu", "tflops"), [("A100", 312), ("RTX PRO 6000 Max-Q", 427), ("H100 SXM", 660)])
def test_peaks_are_those_of_products_of_a_warp(gpu: str, tflops: float) -> None:
    """128 x 128 x 8 = 8,192 / 4 products a clock and SM on an A100, half of it in a GB202; of a warp, two thirds of the H100's 989."""
    assert peak(gpu) == pytest.approx(tflops, rel=0.02)


def test_kernels_of_a_size_are_in_the_order_measured() -> None:
    taus = {(row[0].strip("`"), row[1]): float(row[3]) for row in published("tau")}
    assert taus["mma_stage_sweep.csv", "8192"] >= 0.8 and min(taus.values()) >= 0.6
    assert kendall([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0]) == pytest.approx(4 / 6)


def test_no_predicted_rate_exceeds_the_peak_and_errors_are_those_of_the_rates() -> None:
    for _, _, gpu, *_, measured, model, error, _, _ in published("ladder"):
        assert 0 < float(model) <= peak(gpu)
        assert 100 * (float(model) / float(measured) - 1) == pytest.approx(float(error.removesuffix(" %")), abs=0.51 + 6 / float(measured))
