"""The power of a board while a launch repeats, and the highest clock at which it stays below its limit.

    P(f) = fixed + V(f)^2 [(clocked + active SMs x sm) f / f0 + sum of events of the chip / t(f)] + DRAM bytes x energy / t(f)

f0 is `power.clock`, at which the voltage V is 1 and the powers and energies hold; t(f) is the time of the launch at the clock f.
The form is that of AccelWattch (Kandiah et al., MICRO 2021): constant power, static power of the SMs that are active, and events by
their energies, in proportion to V^2. Leakage is a part of `fixed`. `[D]` are design points.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsight.base.errors import SpecError
from warpsight.base.units import POWER, format_quantity
from warpsight.gpu.design import Design
from warpsight.intervals.interval_profile import Activity, Floats, ResourceDemands

# What draws power, in the order in which it is reported, and the words for it.
CONSUMERS = {
    "fixed": "board, memory and leakage", "clocked": "clocks of the chip", "sm": "SMs with warps", "arithmetic": "arithmetic",
    "tensor": "tensor cores", "shared": "shared memory and L1", "l2": "L2 and network", "dram": "DRAM",
}  # fmt: skip
_PICO = 1e-12


def voltage(design: Design, clock_hz: Floats) -> Floats:
    """Voltage of the chip at `clock_hz` [D], relative to that at `power.clock`: a straight line, flat below `power.floor`."""
    floor, lowest = design.power_floor_hz, design.power_floor_voltage
    above = np.maximum(clock_hz - floor, 0.0) / np.maximum(design.power_clock_hz - floor, 1.0)
    return np.asarray(lowest + (1.0 - lowest) * above)


def board_power(
    activity: Activity, demands: ResourceDemands, warps: float, design: Design, seconds: Floats, active: Floats
) -> dict[str, Floats]:
    """The power of a launch of `warps` that takes `seconds` [D] at the core clock of `design`, in W [D] by consumer.

    `active` [D] is the mean part of the SMs that have warps (0 to 1).
    """
    squared = voltage(design, design.core_clock_hz) ** 2
    ticking = squared * design.core_clock_hz / np.maximum(design.power_clock_hz, 1.0)
    rate = warps / seconds * _PICO  # warps a second, and pJ to J

    def of_chip(energy: Floats) -> Floats:
        return np.asarray(squared * energy * rate)

    moved = demands.fetched_bytes + demands.sent_bytes + demands.multicast_bytes
    return {
        "fixed": design.power_fixed_w + np.zeros(len(design)),
        "clocked": ticking * design.power_clocked_w,
        "sm": ticking * design.power_sm_w * design.sm_count * active,
        "arithmetic": of_chip(activity.lanes * design.power_lane_pj),
        "tensor": of_chip(activity.products * design.power_product_pj),
        "shared": of_chip(activity.shared_bytes * design.power_shared_pj + activity.l1_bytes * design.power_l1_pj),
        "l2": of_chip(moved * design.power_l2_pj),
        "dram": np.asarray(demands.dram_bytes * design.power_dram_pj * rate),
    }


# -- The clock under the limit.

_LOWEST = 0.1  # of the core clock: nvidia-smi offers no clock below a tenth of the highest
_CLOSE, _ROUNDS = 1e-4, 40  # a clock step of 15 MHz is 1 % of a clock


def sustained_clock(power_at: Callable[[Floats], Floats], limit: Floats, highest: Floats) -> Floats:
    """The highest clock up to `highest` [D] at which `power_at` it is at most `limit`, by false position (the Illinois method).

    Within 0.01 % of the power, from below. Power grows with the clock. Raises SpecError where a tenth of `highest` is too much.
    """
    low, high = _LOWEST * highest, highest.copy()
    below, above = power_at(low) - limit, power_at(high) - limit
    if (below > 0).any():
        least = format_quantity(round(float((below + limit).max()), 1), POWER)
        what = f"is {format_quantity(float(limit[below > 0][0]), POWER)}, and the board draws {least} at a tenth of its clock"
        raise SpecError(what, place="power.limit", remedy="set a higher limit, or 0 W for none")
    side = np.zeros(len(limit), dtype=np.int8)
    weight_low, weight_high = below.copy(), above.copy()
    for _ in range(_ROUNDS):
        if (((above <= 0) | (below > -_CLOSE * limit)) | (high - low < _CLOSE * 1e-2 * high)).all():
            break
        middle = high - weight_high * (high - low) / np.where(weight_high != weight_low, weight_high - weight_low, 1.0)
        middle = np.clip(middle, low, high)
        value = power_at(middle) - limit
        over = value > 0
        weight_low = np.where(over, np.where(side == 1, weight_low / 2, weight_low), value)
        weight_high = np.where(over, value, np.where(side == -1, weight_high / 2, weight_high))
        low, high = np.where(over, low, middle), np.where(over, middle, high)
        below, above = np.where(over, below, value), np.where(over, value, above)
        side = np.where(over, 1, -1).astype(np.int8)
    return np.asarray(np.where(above <= 0, high, low))

