"""Documents of every answer, of one small study, for texts and pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from study_tables import chosen, grid_of, results, term

from warpsight.sweeps.answers.best import best, pareto
from warpsight.sweeps.answers.energy import energy, power_curve
from warpsight.sweeps.answers.maps import design_map, speedups
from warpsight.sweeps.answers.selection import select
from warpsight.sweeps.answers.sensitivity import sensitivity

NASTY = "<b>&\"'"


def documents(kernel: str = "gemm", *, failed: bool = True) -> dict[str, Any]:
    """By name. `kernel` is what one of two kernels is called; with `failed`, it has no result on design 7."""
    keys = grid_of(sm_count=[15.0, 28.0, 40.0, 80.0], dram__bandwidth=[240e9, 480e9, 1.05e12], sm__policy=["lrr", "gto"])
    sms, bandwidth = np.array(keys["sm_count"]), np.array(keys["dram.bandwidth"])
    seconds = {kernel: list(3e-3 * 28 / sms), "softmax": list(1e-3 * (28 / sms + 480e9 / bandwidth))}
    bound = {"bound_by": {name: ["dram" if each > 28 else "base" for each in sms] for name in seconds}}
    reason = {(7, kernel): "no block fits"} if failed else {}
    selection = select(results(keys, seconds, failed=reason, columns=bound), baseline=8)
    cost = term("sm_count + dram.bandwidth / 10 GB/s", lambda a, b: a + b / 1e10, "sm_count", "dram.bandwidth")
    words = term("sm_count", lambda a: a, "sm_count")
    best_of = {"kernel": kernel, "others": "best"}
    return {
        "best": best(selection, 3),
        "pareto": pareto(selection, [cost]),
        "pareto of three": pareto(selection, [cost, words]),
        "sensitivity": sensitivity(selection),
        "map": design_map(selection, "sm_count", "dram.bandwidth", fixed={"sm.policy": "gto"}),
        "map of words": design_map(selection, "dram.bandwidth", "sm_count", value="bound_by", **best_of),
        "speedups": speedups(selection, designs=[0, 7, 23]),
        "speedups over an axis": speedups(selection, axis="dram.bandwidth"),
    }


def clocks(*, power: bool = True) -> dict[str, Any]:
    """Two kernels over two core clocks and two bandwidths."""
    keys = grid_of(core_clock=[1e9, 1.4e9], dram__bandwidth=[240e9, 480e9])
    seconds = {"gemm": [2e-3, 2e-3, 1.5e-3, 1.5e-3], "copy": [1e-3, 0.5e-3, 1e-3, 0.5e-3]}
    columns = {"cpi_stack.base": dict.fromkeys(seconds, [0.25] * 4), "cpi": dict.fromkeys(seconds, [0.5] * 4)}
    curve = power_curve([(1e9, 100.0), (1.4e9, 200.0)]) if power else None
    return energy(select(results(keys, seconds, columns=columns)), memory="dram.bandwidth", power=curve)


def crowd() -> dict[str, Any]:
    """A front of one point with 5,000 off it."""
    return pareto(chosen({"sm_count": list(range(1, 5002))}, [1.0] * 5001), [term("sm_count", lambda a: a, "sm_count")])
