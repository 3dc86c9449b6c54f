"""Do we get the worked example of Hong and Kim (ISCA 2009), section 3.6 and Table 2, row by row?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight.equations import mwp_cwp as eq
from warpsight.equations.mwp_cwp import Parameters, solve
from warpsight.gpu.design import Design
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.interval_profile import KernelCounts
from warpsight.models.mwp_cwp import parameters
from warpsight.pipeline.mwp_parameters import evaluate_parameters

pytestmark = pytest.mark.paper

FILE = Path(__file__).parents[2] / "examples" / "mwp-cwp" / "hong-kim-table2.yaml"

# Table 2: row, value as printed, half of the last digit printed (and what the table's own rounding of 2.28 and 0.175 adds to it)
TABLE_2 = [
    ("Active_warps_per_SM", 20, 0),
    ("Departure_delay", 320, 0),
    ("Mem_L", 730, 0),
    ("MWP_Without_BW_full", 2.28, 0.005),
    ("BW_per_warp", 0.175e9, 0.0005e9),
    ("MWP_peak_BW", 28.57, 0.06),
    ("MWP", 2.28, 1e-12),
    ("Comp_cycles", 132, 0),
    ("Mem_cycles", 4380, 0),
    ("CWP_full", 34.18, 0.005),
    ("CWP", 20, 0),
    ("Rep", 1, 0),
    ("Exec_cycles_app", 38450, 1),
    ("Synch_cost", 12288, 1e-6),
    ("Final_cycles", 50738, 1),
]


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    return evaluate_parameters(str(FILE))


@pytest.mark.parametrize(("row", "printed", "within"), TABLE_2)
def test_table_2_has_every_row_from_its_own_parameters(answer: dict[str, Any], row: str, printed: float, within: float) -> None:
    assert abs(answer["results"][row] - printed) <= within


def test_table_2_takes_equation_23_since_cwp_is_above_mwp(answer: dict[str, Any]) -> None:
    assert answer["results"]["Case"] == eq.MEMORY_BOUND


def test_table_2_parameters_are_those_that_the_table_prints(answer: dict[str, Any]) -> None:
    printed = {
        "Mem_LD": 420, "Departure_del_uncoal": 10, "Threads_per_block": 128, "Blocks": 80, "Active_blocks_per_SM": 5,
        "Active_SMs": 16, "Comp_insts": 27, "Uncoal_Mem_insts": 6, "Coal_Mem_insts": 0, "Synch_insts": 6, "Uncoal_per_mw": 32,
        "Load_bytes_per_warp": 128, "Freq": 1e9, "Mem_Bandwidth": 80e9,
    }  # fmt: skip
    assert {name: answer["parameters"][name] for name in printed} == printed


def test_table_2_without_its_rounding_is_ten_cycles_less() -> None:
    found = solve(Parameters(1e9, 80e9, 420, 10, 4, 4, 4, 80, 5, 16, 27, 6, 0, 6, 32, 128))
    assert float(found["Final_cycles"]) == pytest.approx(4380 * 20 / 2.28125 + 22 * 1.28125 + 320 * 1.28125 * 30)
    assert float(found["CPI"]) == pytest.approx(float(found["Final_cycles"]) / (33 * 4 * 80 / 16))


def test_fx5600_and_the_counts_of_figure_13_are_the_parameters_of_table_2() -> None:
    counts = KernelCounts(27, 0, 6, 32, 6, 128, 80, 4, 5, "cc1.0")
    given = parameters(counts, Design.of(load_gpu("fx5600", ["core_clock=1 GHz", "dram.bandwidth=80 GB/s"])))
    found = {name: value.item() for name, value in solve(given).items()}
    assert (found["Mem_L"], found["Departure_delay"], found["CWP"]) == (730, 320, 20)
    assert found["Final_cycles"] == pytest.approx(50728.19, abs=0.01)


# Section 3.2, Figures 5 to 8: one computation period is a third of a memory period where it is not said otherwise.
def test_figure_5_two_memory_warps_of_eight_take_two_computations_and_four_memory_periods() -> None:
    assert eq.cycles_memory_bound(3.0, 8, 2, 1.0) == 4 * 3 + 1  # one period less than in the figure
    assert eq.cwp_full(3.0, 1.0) == 4


def test_figure_6_eight_computations_and_one_memory_period_where_mwp_is_above_cwp() -> None:
    assert eq.cycles_computation_bound(3.0, 1.0, 8) == 8 + 3
    assert eq.case(8, 4, 9, 3.0, 1.0) == eq.COMPUTATION_BOUND


def test_figure_8_one_warp_is_serial_and_two_share_a_memory_period() -> None:
    assert eq.cycles_few_warps(3.0, 1.0, 1.0, 1) == 4
    assert eq.cycles_few_warps(3.0, 1.0, 1.0, 2) == 5
    assert eq.case(2, 2, 2, 3.0, 1.0) == eq.FEW_WARPS


def test_many_parameters_at_once_equal_one_at_a_time() -> None:
    mwp = np.array([4.0, 10.0, 40.0])
    together = solve(Parameters(1e9, 80e9, 420, mwp, 4, 4, 4, 80, 5, 16, 27, 6, 2, 6, 32, 128))
    for row, delay in enumerate(mwp):
        alone = solve(Parameters(1e9, 80e9, 420, delay, 4, 4, 4, 80, 5, 16, 27, 6, 2, 6, 32, 128))
        for name, value in alone.items():
            assert np.broadcast_to(together[name], (3,))[row] == pytest.approx(float(value), rel=1e-12), name


def test_kernel_without_memory_instructions_takes_its_computation_alone() -> None:
    found = solve(Parameters(1e9, 80e9, 420, 10, 4, 4, 4, 80, 5, 16, 30, 0, 0, 6, 1, 0))
    assert float(found["Final_cycles"]) == 30 * 4 * 20
    assert found["Mem_L"] == found["Synch_cost"] == 0
