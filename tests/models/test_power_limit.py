"""Does the power of a board follow from its events as published, and does its limit give the clock that was measured?

The measurements are those of github.com/KookiesNKareem/kiln (calibration/energy/README.md), an A100 SXM4 40 GB.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from made_up import demands, gpu, profile

from warpsight.base.errors import SpecError
from warpsight.equations.power import board_power, sustained_clock, voltage
from warpsight.gpu.design import Design
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.power import PowerSpec
from warpsight.gpu.spec import GpuSpec, changed
from warpsight.intervals.interval_profile import Activity, Floats, IntervalProfile, LaunchShape
from warpsight.models.base import evaluate, get_model, model_names
from warpsight.pipeline.provenance import merged_provenance, running

pytestmark = pytest.mark.unit

MHZ = 1e6
QUIET = Activity(0.0, 0.0, 0.0, 0.0)
NO_TRAFFIC = demands(np.zeros((8, 1)))


def a100(megahertz: float) -> Design:
    return Design.of(changed(load_gpu("a100"), {"core_clock": megahertz * MHZ}))


def one(value: float) -> Floats:
    return np.array([value])


def board(design: Design, activity: Activity = QUIET, active: float = 1.0, seconds: float = 1.0, **traffic: float) -> float:
    """The power of one warp that does `activity` in `seconds`."""
    of_warp = dataclasses.replace(NO_TRAFFIC, **traffic)
    return float(sum(board_power(activity, of_warp, 1.0, design, one(seconds), one(active)).values(), one(0.0))[0])


@pytest.mark.parametrize(("megahertz", "relative"), [(1410, 1.0), (1095, 0.743), (1050, 0.706), (600, 0.706)])
def test_voltage_is_a_line_over_the_clock_with_a_floor(megahertz: float, relative: float) -> None:
    design = a100(megahertz)
    assert voltage(design, design.core_clock_hz)[0] == pytest.approx(relative, rel=2e-3)


@pytest.mark.parametrize(("megahertz", "active", "measured"), [
    (1410, 1 / 108, 79.9), (1410, 0.5, 121.4), (1410, 1, 164.0), (1095, 1 / 108, 56.8), (1095, 0.5, 76.4), (1095, 1, 96.4),
])  # fmt: skip
def test_sms_that_only_issue_take_the_power_that_was_measured(megahertz: float, active: float, measured: float) -> None:
    assert board(a100(megahertz), active=active) == pytest.approx(measured, rel=0.04)


def test_events_add_the_energies_that_were_measured() -> None:
    """9.73e12 FMA a second of 8.47 pJ, and 1.49e12 bytes read from HBM of 79.2 pJ with the L2, beyond 164 W."""
    assert board(a100(1410), Activity(9.73e12, 0, 0, 0)) == pytest.approx(164.0 + 9.73 * 8.47, rel=0.01)
    stream = board(a100(1410), fetched_bytes=1.49e12, dram_bytes=1.49e12)
    assert stream == pytest.approx(164.0 + 1.49 * 79.2, rel=0.01)


def test_limit_of_400_w_gives_the_clock_of_a_product_that_was_measured() -> None:
    """cuBLAS in BF16, 8192, at the limit: 1,256 MHz, 134.9e12 multiply-adds a second; its bytes as Nsight Compute counts them.

    The energy of a product is from the run at 1,095 MHz, below the limit.
    """
    macs, clock = 8192.0**3, 1256 * MHZ
    work = Activity(0, macs / 2048, 34.7e9, 0)
    cycles = macs / 134.9e12 * clock

    def power_at(clock_hz: Floats) -> Floats:
        design = a100(float(clock_hz[0]) / MHZ)
        return one(board(design, work, seconds=cycles / float(clock_hz[0]), fetched_bytes=12.9e9, dram_bytes=1.48e9))

    found = sustained_clock(power_at, one(400.0), one(1410 * MHZ))
    assert found[0] == pytest.approx(clock, rel=0.03)


def test_clock_of_a_cubic_is_found_from_below_and_a_limit_below_all_clocks_is_refused() -> None:
    limits = np.array([125.0, 8.0, 64.0])
    found = sustained_clock(lambda clock: clock**3, limits, np.full(3, 10.0))
    assert found == pytest.approx([5.0, 2.0, 4.0], rel=1e-3)
    assert (found**3 <= limits).all()
    with pytest.raises(SpecError, match=r"0\.5 W, and the board draws 1 W at a tenth of its clock") as error:
        sustained_clock(lambda clock: clock**3, one(0.5), one(10.0))
    assert error.value.place == "power.limit"


# -- Predictions. The GPU draws 20 W, and 1 nJ for each of 32 lanes of an instruction at 1.4 GHz.

HUNGRY = PowerSpec(limit_w=0.0, fixed_w=20.0, clock_hz=1.4e9, floor_hz=0.7e9, floor_voltage=0.6, lane_pj=1000.0)
LAUNCH = LaunchShape(28, 8, 8)


def hungry(limit: float, **made: Any) -> GpuSpec:
    return dataclasses.replace(gpu(**made), power=dataclasses.replace(HUNGRY, limit_w=limit))


def busy(instructions: int = 1000) -> IntervalProfile:
    """28 blocks of eight warps on 28 SMs, each instruction of 32 lanes."""
    made = profile([(instructions, 0, 1, 0, 0, 0, 0, 0)], launch=LAUNCH, warps_per_sm=8,
                   total_warp_instructions=instructions * 8 * 28)  # fmt: skip
    return dataclasses.replace(made, activity=Activity(32.0 * instructions, 0.0, 0.0, 0.0))


def test_limit_lowers_the_clock_of_a_launch_that_issues_all_the_time() -> None:
    """An instruction a cycle on 28 SMs: 28 x 32 nJ x 1.4e9 = 1,254 W beyond 20. With V = 0.6 + 0.4 (f - 0.7) / 0.7 and f in GHz,
    896 f V^2 = 480 W has its root at 0.9584 GHz, where V is 0.7477."""
    free, held = (get_model("warpsight").predict(busy(), hungry(limit)) for limit in (0.0, 500.0))
    clock = held.cycles / held.seconds
    assert clock == pytest.approx(0.9584e9, rel=1e-3)
    assert free.cycles / free.seconds == pytest.approx(1.4e9)
    assert held.cycles == pytest.approx(free.cycles)
    power = held.provenance["power"]
    assert power["board_w"] == pytest.approx(500.0, rel=1e-3)
    assert power["board_w"] <= 500.0
    assert sum(power["watts"].values()) == pytest.approx(power["board_w"])
    slower = f"{clock / 1e9:.2f} GHz instead of 1.40 GHz"
    assert power["note"] == f"board power limit 500 W: {slower} while launches repeat (96 % arithmetic)"
    assert merged_provenance(held.provenance, {"notes": []})["notes"] == [power["note"]]
    assert running(hungry(500.0), held).core_clock_hz == pytest.approx(clock)
    assert "power" not in free.provenance


def test_launch_below_the_limit_stays_at_the_core_clock_and_says_its_power() -> None:
    held, free = (get_model("warpsight").predict(busy(), hungry(limit)) for limit in (2000.0, 0.0))
    assert (held.cycles, held.seconds, held.cpi_stack) == (free.cycles, free.seconds, free.cpi_stack)
    assert "note" not in held.provenance["power"]
    assert held.provenance["power"]["board_w"] == pytest.approx(20 + 28 * 32 * 1.4, rel=0.02)
    assert running(hungry(2000.0), held) == hungry(2000.0)


def test_designs_together_have_the_clocks_that_each_has_alone() -> None:
    limits = np.array([0.0, 300.0, 500.0, 900.0, 5000.0])
    together = Design.of(hungry(500.0)).varied({"power.limit": limits})
    answers = evaluate(get_model("warpsight"), busy(), together)
    alone = [get_model("warpsight").predict(busy(), hungry(limit)).seconds for limit in limits]
    assert answers["seconds"] == pytest.approx(alone, rel=1e-4)
    assert np.all(np.diff(answers["clock_hz"][1:]) > 0)


def test_locked_clock_below_the_limit_is_kept() -> None:
    held = get_model("warpsight").predict(busy(), hungry(500.0, clock=0.6e9))
    assert held.cycles / held.seconds == pytest.approx(0.6e9)


@pytest.mark.parametrize("name", model_names())
def test_profile_that_does_not_know_what_takes_energy_has_no_limit(name: str) -> None:
    unknown = dataclasses.replace(busy(), activity=None)
    model = get_model(name)
    if model.needs <= {"misses", "dram", "demands", "launch"}:
        first, second = (model.predict(unknown, hungry(limit)) for limit in (0.0, 500.0))
        assert (first.cycles, first.seconds) == (second.cycles, second.seconds)


@pytest.mark.parametrize("name", ["gpumech", "mdm", "gpumech-plus", "crisp"])
def test_models_of_papers_know_no_power_limit(name: str) -> None:
    free, held = (get_model(name).predict(busy(), hungry(limit)) for limit in (0.0, 500.0))
    assert (held.cycles, held.seconds) == (free.cycles, free.seconds) and "power" not in held.provenance


def test_limit_of_a_gpu_whose_energies_are_not_known_is_refused() -> None:
    with pytest.raises(SpecError, match=r"power\.limit is given, but what the GPU's events take is not known"):
        load_gpu("mdm-pascal", ["power.limit=200W"])


@pytest.mark.parametrize("name", ["mdm-pascal", "gpumech", "rtx3080", "titan-v", "b200"])
def test_gpus_without_published_energies_have_no_limit(name: str) -> None:
    assert load_gpu(name).power.limit_w == 0


@pytest.mark.parametrize(("name", "limit"), [("a100", 400), ("h100-pcie", 350), ("h100-sxm", 700), ("h200", 700)])
def test_limits_are_those_of_the_data_sheets(name: str, limit: float) -> None:
    assert load_gpu(name).power.limit_w == limit
