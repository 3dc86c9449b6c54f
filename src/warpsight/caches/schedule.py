"""Which SM acts next, and which of its warps: the interleaving of the launch's memory accesses."""

from __future__ import annotations

import numba

from warpsight.caches.geometry import GTO, Machine
from warpsight.caches.state import DO_MEMORY, GAP, KIND, NEVER, SmState, State


@numba.njit(cache=True, nogil=True, error_model="numpy")
def set_key(state: SmState, issuer: int, key: float) -> None:
    """Tell the tournament when `issuer` acts next; `winner[1]` is the issuer that acts first, the lower number in a tie."""
    state.key[issuer] = key
    node = (len(state.key) + issuer) >> 1
    while node >= 1:
        left, right = state.winner[2 * node], state.winner[2 * node + 1]
        state.winner[node] = left if state.key[left] <= state.key[right] else right
        node >>= 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _greedy_then_oldest(machine: Machine, state: State, sm: int, scheduler: int, horizon: float) -> int:
    """The last warp while it can go on, else the oldest that can, else the one that can first (the older in a tie); -1 if none."""
    eligible = state.warp.eligible
    base = sm * machine.slots
    last = state.sm.last[sm * machine.schedulers + scheduler]
    if last >= 0 and eligible[base + last] <= horizon:
        return last
    best, earliest = -1, NEVER
    for age in range(state.sm.resident[sm]):
        first = state.sm.order[sm, age] * machine.warps_per_block
        # Warp slots belong to the schedulers in turn.
        start = first + (scheduler - first) % machine.schedulers
        for place in range(start, first + machine.warps_per_block, machine.schedulers):
            if eligible[base + place] < earliest:
                best, earliest = place, eligible[base + place]
                if earliest <= horizon:
                    return best
    return best


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _round_robin(machine: Machine, state: State, sm: int, scheduler: int, horizon: float) -> int:
    """The next warp in turn that can go on, else the one that can first (the earlier in turn in a tie); -1 if none."""
    eligible = state.warp.eligible
    base = sm * machine.slots
    place = state.sm.last[sm * machine.schedulers + scheduler]
    if place < 0:
        place = scheduler - machine.schedulers
    best, earliest = -1, NEVER
    for _ in range((machine.slots - scheduler + machine.schedulers - 1) // machine.schedulers):
        place += machine.schedulers
        if place >= machine.slots:
            place = scheduler
        if eligible[base + place] < earliest:
            best, earliest = place, eligible[base + place]
            if earliest <= horizon:
                return best
    return best


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pick(machine: Machine, state: State, issuer: int) -> None:
    """Choose the warp that `issuer` runs next, and when."""
    sms = state.sm
    sm = issuer // machine.schedulers
    scheduler = issuer - sm * machine.schedulers
    clock = sms.clock[issuer]
    # While the load-store unit is taken no access can start, so the choice falls when it is free.
    horizon = max(clock, sms.lsu_free[sm])
    if machine.policy == GTO:
        place = _greedy_then_oldest(machine, state, sm, scheduler, horizon)
    else:
        place = _round_robin(machine, state, sm, scheduler, horizon)
    sms.picked[issuer] = place
    key = NEVER
    if place >= 0:
        slot = sm * machine.slots + place
        key = max(clock + state.warp.row[slot, GAP] * machine.issue_cost, state.warp.arrive[slot])
        if state.warp.row[slot, KIND] == DO_MEMORY:
            key = max(key, sms.lsu_free[sm])
    set_key(sms, issuer, key)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def pick_all(machine: Machine, state: State, sm: int) -> None:
    """Choose anew for every scheduler of `sm`, after something changed that concerns them all."""
    for issuer in range(sm * machine.schedulers, (sm + 1) * machine.schedulers):
        pick(machine, state, issuer)
