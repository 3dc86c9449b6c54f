"""Is the energy of a clock its power times its time, and the best clock the one by hand?"""

from __future__ import annotations

import pytest
from study_tables import chosen, grid_of, results, term

from warpsight.base.errors import UsageError
from warpsight.sweeps.answers.energy import energy, power_curve
from warpsight.sweeps.answers.selection import select

pytestmark = pytest.mark.unit

GHZ = 1e9
CLOCKS = {"core_clock": [2 * GHZ, 1 * GHZ, 1.5 * GHZ]}
SECONDS = [1.0, 1.6, 1.2]
CURVE = power_curve([(2 * GHZ, 200.0), (1 * GHZ, 100.0)])


def test_measures_at_each_clock_equal_those_by_hand() -> None:
    entry = energy(chosen(CLOCKS, SECONDS), power=CURVE)["of"][0]
    assert [row["core"] for row in entry["clocks"]] == [1 * GHZ, 1.5 * GHZ, 2 * GHZ]
    assert [row["watts"] for row in entry["clocks"]] == pytest.approx([100, 150, 200])
    assert [row["joules"] for row in entry["clocks"]] == pytest.approx([160, 180, 200])
    assert [row["edp"] for row in entry["clocks"]] == pytest.approx([256, 216, 200])
    assert [row["ed2p"] for row in entry["clocks"]] == pytest.approx([409.6, 259.2, 200])
    assert entry["best"] == {"seconds": 0, "joules": 1, "edp": 0, "ed2p": 0}


def test_clocks_without_power_have_times_alone() -> None:
    document = energy(chosen(CLOCKS, SECONDS))
    assert document["power"] is None
    assert document["of"][0]["best"] == {"seconds": 0}
    assert {row["joules"] for row in document["of"][0]["clocks"]} == {None}


def test_expression_of_utilisation_is_evaluated_for_each_kernel_and_energies_add_up() -> None:
    base = {"cpi_stack.base": {"k": [0.5, 0.25, 0.5], "l": [1.0, 1.0, 1.0]}, "cpi": {"k": [1.0] * 3, "l": [2.0] * 3}}
    each = results(CLOCKS, {"k": [1.0, 2.0, 3.0], "l": [4.0, 4.0, 4.0]}, columns=base)
    power = term("10 * core_clock / 1 GHz + 100 * utilisation", lambda f, u: 10 * f / GHZ + 100 * u, "core_clock", "utilisation")
    document = energy(select(each), power=power)
    assert [entry["kernel"] for entry in document["of"]] == ["all kernels", "k", "l"]
    both, k, other = ({row["design"]: row for row in entry["clocks"]} for entry in document["of"])
    assert (k[1]["watts"], other[1]["watts"]) == (pytest.approx(10 + 25), pytest.approx(10 + 50))
    assert both[1]["joules"] == pytest.approx(35 * 2 + 60 * 4)
    assert both[1]["edp"] == pytest.approx((35 * 2 + 60 * 4) * 6)
    assert both[1]["utilisation"] == pytest.approx((0.25 * 2 + 0.5 * 4) / 6)


def test_memory_speed_is_a_second_clock_and_a_curve_says_that_it_does_not_know_it() -> None:
    keys = grid_of(core_clock=[1 * GHZ, 2 * GHZ], dram__bandwidth=[1e11, 2e11])
    document = energy(chosen(keys, [4.0, 3.0, 3.0, 1.0]), memory="dram.bandwidth", power=CURVE)
    assert [(row["core"], row["memory"]) for row in document["of"][0]["clocks"]] == list(zip(*keys.values(), strict=True))
    assert document["of"][0]["best"]["joules"] == 3
    assert document["notes"] == ["the power curve depends on the core clock only: it gives the same power at every dram.bandwidth"]


def test_equal_clocks_in_energy_leave_the_lower_design() -> None:
    entry = energy(chosen(CLOCKS, [1.0, 2.0, 4 / 3]), power=CURVE)["of"][0]
    assert entry["best"]["joules"] == 0


def test_clock_outside_the_curve_is_refused_and_one_at_its_end_is_not() -> None:
    short = power_curve([(1 * GHZ, 100.0), (1.5 * GHZ, 150.0)])
    with pytest.raises(UsageError, match=r"goes from 1 GHz to 1\.5 GHz, and the core clock is 2 GHz"):
        energy(chosen(CLOCKS, SECONDS), power=short)
    assert power_curve([(1 * GHZ, 7.0)]).watts(chosen({"core_clock": [GHZ]}, [1.0]).results.keys["core_clock"]) == [7.0]


@pytest.mark.parametrize(
    ("points", "told"),
    [([], "no points"), ([(1e9, 1.0), (1e9, 2.0)], "1 GHz is given twice"), ([(1e9, -1.0)], "is not a valid point"),
     ([(float("nan"), 1.0)], "is not a valid point"), ([(1e9, float("inf"))], "is not a valid point")],
)  # fmt: skip
def test_curve_that_is_none_is_refused(points: list, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        power_curve(points)


def test_designs_of_equal_clocks_and_powers_that_are_none_are_refused() -> None:
    keys = grid_of(core_clock=[1 * GHZ, 2 * GHZ], sm_count=[10.0, 20.0])
    with pytest.raises(UsageError, match="designs 0 and 1 have the same core_clock"):
        energy(chosen(keys, [1.0] * 4))
    with pytest.raises(UsageError, match="is 0 W on design 1"):
        energy(chosen(CLOCKS, SECONDS), power=term("core_clock - 1 GHz", lambda f: f - GHZ, "core_clock"))
    with pytest.raises(UsageError, match='"volts" is not a column'):
        energy(chosen(CLOCKS, SECONDS), power=term("volts", lambda v: v, "volts"))
    with pytest.raises(UsageError, match='unknown key "core_clok"'):
        energy(chosen(CLOCKS, SECONDS), core="core_clok")
