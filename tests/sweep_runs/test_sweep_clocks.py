"""Do clocks and powers of `warpsight dvfs` mean what its page says, from the study to the joules?"""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_cases import kernel

import warpsight
from warpsight.base.errors import UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.jobs.executor import make_executor
from warpsight.sweeps.dvfs import dvfs_study
from warpsight.sweeps.result import Sweep
from warpsight.sweeps.run import run_sweep

pytestmark = pytest.mark.unit
PASCAL = "mdm-pascal"  # 1.4 GHz, 28 SMs, 480 GB/s; latencies of L2 and DRAM 120 and 220 cycles


def over_clocks(folder: Path, clocks: str = "700MHz,1.4GHz", **options: object) -> Sweep:
    study = dvfs_study([kernel("gather")], load_gpu(PASCAL), PASCAL, clocks=clocks, **options)  # type: ignore[arg-type]
    with make_executor("inline") as executor:
        return Sweep.of(run_sweep(study, executor, results=folder / "kept").plan)


def test_half_the_clock_is_half_the_cycles_of_memories_with_clocks_of_their_own(tmp_path: Path) -> None:
    found = over_clocks(tmp_path)
    first = found.energy()["of"][0]["clocks"][0]
    assert found.designs.select(["core_clock", "dram.latency", "l2.latency"]).to_pylist()[0] == {
        "core_clock": 700e6, "dram.latency": 110.0, "l2.latency": 60.0,
    }  # fmt: skip
    trace = warpsight.trace(kernel("gather").request.path)
    alone = warpsight.predict(trace, PASCAL, overrides=["core_clock=700MHz", "dram.latency=110cycles", "l2.latency=60cycles"])
    assert first["seconds"] == pytest.approx(alone.seconds, rel=1e-12)


def test_l2_with_the_clock_of_the_cores_keeps_its_cycles_and_halves_its_bandwidth(tmp_path: Path) -> None:
    designs = over_clocks(tmp_path, l2_clock="core").designs.to_pylist()
    assert designs[0]["noc.bandwidth"] == pytest.approx(525e9)
    assert "l2.latency" not in designs[0]


def test_power_may_read_keys_that_the_study_does_not_vary(tmp_path: Path) -> None:
    entry = over_clocks(tmp_path).energy(power="2 * sm_count + dram.bandwidth / (20*GB/s)")["of"][0]["clocks"][1]
    assert entry["watts"] == pytest.approx(2 * 28 + 480 / 20)
    assert entry["joules"] == pytest.approx(80 * entry["seconds"])
    assert entry["edp"] == pytest.approx(80 * entry["seconds"] ** 2)


def test_power_that_reads_no_key_at_all_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sm_cuont"):
        over_clocks(tmp_path, "1.4GHz,1.5GHz").energy(power="2 * sm_cuont")
