"""What the board of a GPU may draw, and what draws it: the keys from which the clock under the power limit follows.

The equations are in `equations/power.py`. A GPU whose description has no `power.limit` runs at `core_clock`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from warpsight.base.units import FREQUENCY
from warpsight.gpu.key import MODEL, Key, energy, power, share

_NO_LIMIT = "default: no power limit"
_UNKNOWN = "default: nothing, since without a power limit nothing reads it"


@dataclass(frozen=True)
class PowerSpec:
    """Power of the board, and energy of each event, at `clock_hz` and the voltage of that clock.

    Events of the chip take energy in proportion to the square of its voltage, which is a straight line over the clock, and does not
    fall below `floor_voltage` of that at `clock_hz`. Device memory has a clock and a voltage of its own.
    """

    limit_w: Annotated[float, power(
        "what the board may draw while launches repeat; 0 W: as much as it takes, the clock is core_clock", reason=_NO_LIMIT)] = 0.0
    fixed_w: Annotated[float, power(
        "board, device memory and leakage, at any clock", reason=_UNKNOWN)] = 0.0
    clock_hz: Annotated[float, Key(
        "", FREQUENCY, "clock for which the following powers and energies are given; 0 Hz: they are not known", 0, 1e11,
        reason=_UNKNOWN, step=MODEL)] = 0.0
    floor_hz: Annotated[float, Key(
        "", FREQUENCY, "clock below which the voltage does not fall", 0, 1e11, reason=_UNKNOWN, step=MODEL)] = 0.0
    floor_voltage: Annotated[float, share(
        "voltage below power.floor, relative to that at power.clock", MODEL, reason=_UNKNOWN)] = 1.0
    clocked_w: Annotated[float, power(
        "clocks of the chip, without its SMs, while a kernel runs", reason=_UNKNOWN)] = 0.0
    sm_w: Annotated[float, power(
        "an SM that has warps: its clock, and fetch and issue of instructions", reason=_UNKNOWN)] = 0.0
    lane_pj: Annotated[float, energy(
        "arithmetic of one lane with its registers: an FP32 multiply-add, and any instruction but matrix multiplies and accesses",
        reason=_UNKNOWN)] = 0.0
    product_pj: Annotated[float, energy(
        "warp matrix multiply, 16x8x16 of 16-bit numbers with its registers; of others for the same bits of operands",
        reason=_UNKNOWN)] = 0.0
    shared_pj: Annotated[float, energy("a byte from or to shared memory", reason=_UNKNOWN)] = 0.0
    l1_pj: Annotated[float, energy("a byte of an access of device memory in the L1", reason=_UNKNOWN)] = 0.0
    l2_pj: Annotated[float, energy("a byte between an SM and the L2, both included", reason=_UNKNOWN)] = 0.0
    dram_pj: Annotated[float, energy("a byte between the L2 and device memory, which is included", reason=_UNKNOWN)] = 0.0
