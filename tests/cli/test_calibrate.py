"""Does `warpsight calibrate` find the parameters that timings were made with, and tell what is wrong with a table?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_one_error, run

from warpsight.equations.mwp_cwp import Parameters, solve
from warpsight.gpu.loader import load_gpu

pytestmark = pytest.mark.unit

HEADER = "name,Threads_per_block,Blocks,Active_blocks_per_SM,Comp_insts,Coal_Mem_insts,Uncoal_Mem_insts,cycles"
# Table 4 of Hong and Kim: memory and computation instructions of a loop's iteration; 1000 iterations. The last is ours: in the
# others coalesced loads hide behind computation, so that their departure delay does not show.
MICRO = [(0, 23), (1, 17), (1, 29), (2, 27), (2, 35), (4, 47), (6, 59), (6, 12)]


def _table(latency: float, uncoalesced: float, coalesced: float, noise: float, kinds: str = "CU", bandwidth: float = 141.7) -> str:
    """Timings of the paper's micro-benchmarks on a GTX 280 with those parameters, each off by up to `noise`."""
    generator = np.random.default_rng(1)
    lines = [HEADER]
    for kind in kinds:
        for number, (memory, computation) in enumerate(MICRO, 1):
            for threads, active in ((32, 1), (64, 4), (128, 8), (256, 4)):
                coal, uncoal = (1000 * memory, 0) if kind == "C" else (0, 1000 * memory)
                found = solve(
                    Parameters(1.3e9, 1e9 * bandwidth, latency, uncoalesced, coalesced, 4, threads / 32, 240, active, 30,
                               1000 * computation, uncoal, coal, 0, 32, 128)
                )  # fmt: skip
                cycles = float(found["Final_cycles"]) * (1 + noise * generator.uniform(-1, 1))
                counts = f"{threads},240,{active},{1000 * computation},{coal},{uncoal}"
                lines.append(f"Mb{number}_{kind} {threads}x{active},{counts},{cycles}")
    return "\n".join(lines) + "\n"


def _fitted(document: dict[str, object]) -> dict[str, float]:
    return {row["name"]: row["value"] for row in document["parameters"]}  # type: ignore[index, attr-defined]


# with the GPU's own bandwidth it is that, and not the departure delay, that limits coalesced warps
@pytest.mark.parametrize(("truth", "bandwidth"), [((450, 40, 4), 141.7), ((420, 10, 30), 1000), ((600, 25, 40), 1000)])
def test_timings_with_noise_give_back_the_parameters_that_made_them(
    truth: tuple[int, int, int], bandwidth: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(_table(*truth, noise=0.01, bandwidth=bandwidth))
    outcome = run(capsys, "calibrate", tmp_path / "t.csv", "--gpu", "gtx280", "--json", "--set",
                  f"dram.bandwidth={bandwidth} GB/s")  # fmt: skip
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    found = _fitted(document)
    assert found["Mem_LD"] == pytest.approx(truth[0], rel=0.03)
    assert found["Departure_del_uncoal"] == pytest.approx(truth[1], rel=0.03)
    assert found["Departure_del_coal"] == pytest.approx(truth[2], rel=0.05)
    assert document["mean_absolute_error"] < 0.02
    assert len(document["residuals"]) == 64


def test_exact_timings_give_exact_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text(_table(450, 40, 4, noise=0))
    document = json.loads(run(capsys, "calibrate", tmp_path / "t.csv", "--gpu", "gtx280", "--json").out)
    assert [row["cycles"] for row in document["parameters"]] == [450, 40, 4]
    assert max(abs(row["relative_error"]) for row in document["residuals"]) < 1e-9


def test_parameter_that_no_timing_depends_on_is_kept_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text(_table(500, 30, 4, noise=0, kinds="U"))
    outcome = run(capsys, "calibrate", tmp_path / "t.csv", "--gpu", "gtx280")
    assert "not fitted" in outcome.out
    assert "no timing depends on Departure_del_coal; it keeps the value of gtx280" in outcome.out


def test_description_that_is_written_inherits_and_names_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text(_table(500, 30, 8, noise=0))
    outcome = run(capsys, "calibrate", tmp_path / "t.csv", "--gpu", "gtx280", "-o", tmp_path / "mine.yaml")
    assert outcome.code == 0
    gpu = load_gpu(tmp_path / "mine.yaml")
    assert (gpu.name, gpu.sm_count) == ("mine", 30)
    stated = [gpu.parameters[f"mwp-cwp.{name}"] for name in ("memory_latency", "departure_uncoalesced", "departure_coalesced")]
    assert stated == [500, 30, 4]
    assert "Table 6" in gpu.sources["mwp-cwp.departure_coalesced"]  # not determined, so inherited
    assert "fitted by warpsight calibrate to 64 timings of t.csv" in gpu.sources["mwp-cwp.memory_latency"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Comp_insts", "Comp_inst", ("t.csv:1", 'did you mean "Comp_insts"')),
        (",cycles", "", ("t.csv:1", "has no column cycles")),
        (",Blocks,", ",Blocks,Blocks,", ("t.csv:1", "has two columns Blocks")),
        ("Mb1_C 64x4,64,", "Mb1_C 64x4,many,", ("t.csv:3", 'Threads_per_block is "many"')),
        ("Mb1_C 64x4,64,240,", "Mb1_C 64x4,64,-1,", ("t.csv:3", 'Blocks is "-1"')),
        ("Mb1_C 64x4,64,240,", "Mb1_C 64x4,64,", ("t.csv:3", "has 7 cells, but the header has 8")),
        ("Mb1_C 64x4,64,240,4,23000,", "Mb1_C 64x4,64,240,4,0,", ("t.csv:3", "has no instructions")),
    ],
)
def test_wrong_table_is_told_with_line_and_remedy(
    old: str, new: str, told: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _table(450, 40, 4, noise=0)
    assert old in text
    (tmp_path / "t.csv").write_text(text.replace(old, new, 1))
    assert_one_error(run(capsys, "calibrate", tmp_path / "t.csv", "--gpu", "gtx280"), 2, *told)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "is empty"),
        ([HEADER], "has no timings"),
        ([HEADER, "a,32,30.5,1,100,0,10,400"], 'Blocks is "30.5", not a whole number'),
        ([HEADER, "a,32,30,1,100,0,10,1e300"], "below 1e+18"),
        ([HEADER, "a,32,30,1,100,0,0,400"], "no timing depends on"),
        ([HEADER, "a,32,30,1,100,0,10,9000"], "1 timing does not determine 2 parameters"),
    ],
)
def test_too_few_timings_are_told(lines: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert_one_error(run(capsys, "calibrate", tmp_path / "t.csv", "--gpu", "gtx280"), 2, told, "t.csv")


def test_missing_table_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert_one_error(run(capsys, "calibrate", "none.csv", "--gpu", "gtx280"), 2, "none.csv", "cannot be read")
