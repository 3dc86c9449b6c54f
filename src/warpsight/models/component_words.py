"""How the components of a CPI stack come about, in the words of the equations that several models share (`About.by_component`).

In them W are the warps resident on an SM, and every sum is over the intervals of the representative warp and the waves of the
launch, divided by the instructions that the SM executes in them.
"""

from __future__ import annotations

# GPUMech, section VII, as `interval_model.stack_cycles` has it.
_BASE = "instructions x W / min(schedulers x issue width, W): the warps' issue slots; all of F where a warp never stalls"
_SHARE = "(F - base) x {cause} stalls / all stalls of the representative warp (GPUMech, section VII), F = {free}"
_IDLE = "all others together x (blocks of the busiest SM / mean blocks of an SM - 1): SMs with fewer blocks wait for it"
MULTITHREADED = "instructions + stalls + non-overlapped instructions (GPUMech eqs. 8-16) / issue width, cycles without contention"

_MISS = "L2 latency + LLC miss ratio x DRAM latency"
_STICKS_OUT = "; where issue is the bound, only what sticks out of it"
_MD1 = "GPUMech eqs. 21-23: sum of min(r s / (2 (1 - r)), s x requests / 2), s = clock x {line} line / {level} bandwidth, "
_MD1_LOAD = "requests = {what} x W x SMs, r = s x requests / (instructions + stalls)" + _STICKS_OUT
GPUMECH_DRAM = (_MD1 + _MD1_LOAD).format(line="L2", level="DRAM", what="(DRAM reads + writes)")
GPUMECH_NOC = (_MD1 + _MD1_LOAD).format(line="L1", level="NoC", what="(read + write misses)")


def interval_components(free: str = MULTITHREADED, **contention: str) -> dict[str, str]:
    """The equation of each component of an interval model: `free` says its cycles without contention, `contention` the rest."""
    return {
        "base": _BASE,
        "com_data": _SHARE.format(free=free, cause="compute"),
        "mem_data": _SHARE.format(free=free, cause="memory"),
        **contention,
        "idle": _IDLE,
    }


def expected_delay(*, queued: bool) -> str:
    """GPUMech's waiting for miss registers; `queued`: a miss holds its register through the queues too."""
    held = f"M = {_MISS}" + (" + both queues" if queued else "")
    rounds = "rounds the mean of ceil(j / MSHRs) over the SM's read misses j = 1, 2, ..."
    return f"GPUMech eqs. 18-20: sum of memory instructions x M x (rounds - 1), {rounds}, {held}{_STICKS_OUT}"


def batches(equations: str) -> str:
    """MDM's waiting for miss registers; `equations` are their numbers in the paper."""
    return (
        f"{equations}: sum of (ceil(read misses x W / MSHRs) - 1) x M, M = {_MISS} + both queues; "
        f"MSHRs, or what the NoC's queue holds where that is less{_STICKS_OUT}"
    )


def mdm_queue(equations: str, level: str, condition: str) -> str:
    """MDM's queue at a level; `equations` are their numbers, `condition` says where it counts in full."""
    service = {"NoC": "clock x L1 line / NoC bandwidth", "DRAM": "LLC miss ratio x clock x L2 line / DRAM bandwidth"}[level]
    flight = "(min(read misses x W, MSHRs) + write misses x W)"
    return f"{equations}: sum of {flight} x SMs x s, s = {service}; in full {condition}, else by half{_STICKS_OUT}"


MDM_EXPOSED = "where the interval is divergent (eq. 2) and the NoC saturated (eq. 10)"


def idle_of_launch() -> str:
    """The idle cycles of every model that deals blocks to SMs evenly."""
    return _IDLE


# Checks of `explore/dossier/assumptions.py` that all interval models are strained by: what none of them knows.
INTERVAL_STRAINS = (
    "alike-warps", "mean-warp", "slowest-warp", "equal-blocks", "last-wave", "units", "l1-port", "bank-conflicts", "barriers",
    "atomics", "spread-noc", "spread-dram",
)  # fmt: skip
