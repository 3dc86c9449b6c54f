"""Does the page on tensor cores keep what is claimed of it, and does its script read the tables of others as it says?"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from marked_page import get
from program_times import COMMAND as OF_PROGRAMS
from program_times import attention
from published_times import tau
from tensor_times import (
    COMMAND,
    FORMATS,
    LADDER,
    LARGE,
    PAGE,
    PARTS,
    SLOWER,
    SMALL,
    STEPS,
    TABLES,
    WORKSTATION,
    peak,
    rows,
)

pytestmark = pytest.mark.oracle


OF_TRITON = "python validation/triton_times.py --tutorials FOLDER --write"  # whose script needs Triton


def published(name: str, command: str = COMMAND) -> list[list[str]]:
    """The cells of a table of the page, without its head."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in get(PAGE, command, name).splitlines()[2:]]


def test_rows_have_the_kernel_of_their_name_and_the_part_of_their_line(tmp_path: Path) -> None:
    results = tmp_path / LADDER / "results"
    results.mkdir(parents=True)
    for table in TABLES:
        (results / table).write_text("M,kernel,tflops\n")
    text = "M,kernel,tflops\n512,wmma,1\n2048,wmma,2\n2048,mma_base,3\n4096,mma_pipe,4\n8192,mma_pipe@s3,5\n2048,naive,6\n"
    (results / "mma_stage_sweep.csv").write_text(text)
    small, large, deep = rows(tmp_path)
    assert (small.line, small.part, small.step, small.tflops) == (2, "development", SMALL, 1.0)
    assert (large.line, large.part, large.step, large.sliced) == (3, "held out", LARGE, False)
    assert (deep.line, deep.part, deep.step, deep.sliced) == (6, "development", STEPS["mma_pipe@s3"], True)


def test_rows_of_8_and_4_bits_are_sliced_at_8192_and_predicted_for_the_clock_of_their_session_too(tmp_path: Path) -> None:
    results = tmp_path / LADDER / "results"
    results.mkdir(parents=True)
    for table in TABLES:
        (results / table).write_text("M,kernel,tflops\n")
    text = "M,kernel,tflops\n1024,mma_fp8,1\n4096,mma_fp8,2\n8192,mma_mxfp4,3\n8192,mma_warptile,4\n"
    (results / "bench_phase3_session.csv").write_text(text)
    whole, *deep = rows(tmp_path)
    assert (whole.gpu, whole.sliced, whole.step.shared_bytes) == (WORKSTATION, False, 3 * 256 * 64)
    assert [(row.gpu, row.line, row.sliced, row.slice[2]) for row in deep] == [
        (gpu, 4, True, 4096) for gpu in (WORKSTATION, SLOWER)
    ]


def test_operands_are_stored_as_the_formats_are_specified() -> None:
    """E4M3: 1 is 0111.000 with the sign before; E2M1: 01.0; MXFP4 has the first of two in the low bits."""
    values = np.array([[1, -1, 0, 1]], np.int8)
    assert FORMATS["FP8"].encoded(values).tolist() == [[0b0_0111_000, 0b1_0111_000, 0, 0b0_0111_000]]
    assert FORMATS["FP4"].encoded(values).tolist() == [[0b00_0010_00, 0b00_1010_00, 0, 0b00_0010_00]]
    assert FORMATS["MXFP4"].encoded(values).tolist() == [[0b1010_0010, 0b0010_0000]]
    assert FORMATS["FP8"].encoded(values.T).flags.c_contiguous


@pytest.mark.parametrize(("stored", "tflops"), [("FP8", 855), ("FP4", 855), ("MXFP4", 1710)])
def test_peaks_of_8_and_4_bits_are_two_and_four_times_that_of_16(stored: str, tflops: float) -> None:
    assert peak(WORKSTATION, FORMATS[stored]) == pytest.approx(tflops, rel=0.001)


def test_operations_of_attention_are_those_of_its_two_products() -> None:
    """4 x 32 heads of 128 at 1024: 68.7 billion; FlashAttention's benchmark counts one half with a causal mask."""
    row = attention("s", 2, "A100", "fa2_hdim128_fp16", 1.0, 1024, 4, 1024, 32, 1)
    assert row.operations == 4 * 128 * 1024 * 1024 * 128 / 2 and row.part == "development"
    assert attention("s", 3, "A100", "fa2_hdim64_fp16", 1.0, 8192, 1, 2048, 33, 0, 1024).operations == 4 * 33 * 1024 * 2048 * 64


@pytest.mark.parametrize(("gpu", "tflops"), [("A100", 312), ("RTX PRO 6000 Max-Q", 427), ("H100 SXM", 1071)])
def test_peaks_are_those_of_the_tensor_cores_at_the_clock_of_the_description(gpu: str, tflops: float) -> None:
    """Multiply-adds of an SM in a clock: 1,024 on an A100, 512 in a GB202, 2,048 on an H100, at 1.98 GHz."""
    assert peak(gpu) == pytest.approx(tflops, rel=0.02)


def test_kernels_of_a_size_are_in_the_order_measured() -> None:
    taus = {(row[0].strip("`"), row[1]): float(row[3]) for row in published("tau")}
    assert taus.pop(("bench_mma_session.csv", "512")) > 0  # four of these six differ by less than 12 %
    assert taus.pop(("bench_phase3_session.csv", "512")) > 0  # FP8 and FP4 by 6 %
    assert taus.pop(("bench_mma_session.csv", "2048")) > 0.6  # two of these four by 4 %
    assert len(taus) == 5 and min(taus.values()) >= 0.8
    assert tau([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0]) == pytest.approx(4 / 6)


def test_no_predicted_rate_exceeds_the_peak_and_errors_are_those_of_the_rates() -> None:
    for _, _, gpu, kernel, _, measured, model, error, _, _ in published("ladder"):
        step = STEPS.get(kernel.strip("`"))
        assert 0 < float(model) <= peak(gpu, step.format if step else None)
        rounded = 0.5 + 100 * 0.05 * (float(model) + float(measured)) / float(measured) ** 2
        assert abs(100 * (float(model) / float(measured) - 1) - float(error.removesuffix(" %"))) <= rounded


def test_products_of_the_repository_are_within_a_mean_error_of_12_percent_as_the_readme_says() -> None:
    means = {row[0]: float(row[2].removesuffix(" %")) for row in published("means")}
    assert max(means.values()) <= 12
    readme = " ".join((PAGE.parents[2] / "README.md").read_text().split())
    said = "on 19 held-out rows of a public repository's kernels in FP16, FP8 and FP4 the mean error is"
    assert f"{said} {means['held out']:.0f} %" in readme
    assert [row[1] for row in published("means")] == ["19", "19"]


def test_published_programs_are_predicted_below_the_peak_and_flash_attention_within_10_percent() -> None:
    rows = published("programs", OF_PROGRAMS)
    for source, part, gpu, problem, _, measured, model, error, _, _ in rows:
        assert part == PARTS[int(source.rpartition(" ")[2]) % 2]
        assert 0 < float(model) <= peak(gpu) * (2 if "FP8" in problem else 1)
        assert abs(100 * (float(model) / float(measured) - 1) - float(error.removesuffix(" %"))) < 0.6
    errors = [abs(float(row[7].removesuffix(" %"))) for row in rows if row[3].startswith("fa")]
    assert len(errors) == 6 and max(errors) <= 10
    assert [row[2:5] for row in published("program cycles", OF_PROGRAMS)] == [["1.43 GHz", "2,743,159", "2,867,100"]]


def test_triton_s_kernels_are_predicted_below_the_peak_and_within_the_errors_stated() -> None:
    """Held out and development rows alike: products that do not overlap copies and multiplies, and those of tutorial 03."""
    rows = published("tutorials", OF_TRITON)
    assert len(rows) == 24 and all(0 < float(row[6]) <= (819 if "PCIe" in row[2] else peak("H100 SXM")) for row in rows)
    for row in rows:
        assert row[1] == PARTS[int(row[0].rpartition(" ")[2]) % 2]
        assert abs(100 * (float(row[6]) / float(row[5]) - 1) - float(row[7].removesuffix(" %"))) < 0.6
    errors = [abs(float(row[7].removesuffix(" %"))) for row in rows if row[3].startswith("03") or row[3].endswith("one buffer")]
    assert len(errors) == 8 and mean(errors) <= 12
