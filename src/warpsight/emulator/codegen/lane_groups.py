"""The list of groups of lanes in a warp's state, as `lane_scheduler.py` uses it: entries of four words."""

from __future__ import annotations

import numpy as np

from warpsight.base.compiled import jit
from warpsight.emulator.codegen import layout as lay
from warpsight.emulator.codegen.layout import Slot

FIRST = lay.STATE_HEADER_BYTES // 4  # word of the first entry
WORDS = lay.STACK_ENTRY_WORDS
ALL = 0xFFFFFFFF

# Enumerations do not compile to plain numbers everywhere.
_KIND, _PC, _LANE, _ADDRESS = (int(s) for s in (Slot.FAULT_KIND, Slot.FAULT_PC, Slot.FAULT_LANE, Slot.FAULT_ADDRESS))


@jit()
def population(mask):  # type: ignore[no-untyped-def]
    """How many lanes a mask has."""
    count = 0
    left = np.int64(mask) & ALL
    while left:
        left &= left - 1
        count += 1
    return count


@jit()
def lowest(mask):  # type: ignore[no-untyped-def]
    """The first lane of a mask."""
    for lane in range(32):
        if (mask >> lane) & 1:
            return lane
    return 0


@jit()
def present_lanes(state):  # type: ignore[no-untyped-def]
    """Lanes that were there at the start and have not left the kernel, as an int64 without sign."""
    return np.int64(state[lay.START]) & ~np.int64(state[lay.GONE]) & ALL


@jit()
def lanes_of(state, entry):  # type: ignore[no-untyped-def]
    """Lanes of entry number `entry` that have not left the kernel, as an int64 without sign."""
    return np.int64(state[FIRST + WORDS * entry + 1]) & present_lanes(state)


@jit()
def fail(context, state, kind, mask):  # type: ignore[no-untyped-def]
    """Record a fault of the first lane of a mask, at the instruction where the warp last waited."""
    context[_KIND] = kind
    context[_PC] = state[lay.WAIT_PC]
    context[_LANE] = lowest(mask)
    context[_ADDRESS] = 0


@jit()
def remove(state, entry):  # type: ignore[no-untyped-def]
    """Take an entry off the list."""
    depth = state[lay.DEPTH]
    for k in range(FIRST + WORDS * entry, FIRST + WORDS * (depth - 1)):
        state[k] = state[k + WORDS]
    state[lay.DEPTH] = depth - 1


@jit()
def insert(state, entry, block, mask, third, fourth):  # type: ignore[no-untyped-def]
    """Put a group below entry number `entry`, or into one that stands at the same place and waits for the same."""
    depth = state[lay.DEPTH]
    for k in range(depth):
        word = FIRST + WORDS * k
        alike = state[word] == block and state[word + 2] == third
        if alike and (state[word + 3] == fourth or not block & (lay.PARKED | lay.MEETING)):
            state[word + 1] = np.int32(state[word + 1] | mask)
            return
    for k in range(FIRST + WORDS * depth - 1, FIRST + WORDS * entry - 1, -1):
        state[k + WORDS] = state[k]
    word = FIRST + WORDS * entry
    state[word], state[word + 1], state[word + 2], state[word + 3] = block, np.int32(mask), third, fourth
    state[lay.DEPTH] = depth + 1


@jit()
def strike(state, mask):  # type: ignore[no-untyped-def]
    """Nobody waits any more for the lanes of `mask`; entries without lanes go."""
    kept = 0
    for k in range(state[lay.DEPTH]):
        lanes = lanes_of(state, k) & ~np.int64(mask)
        if lanes:
            source, target = FIRST + WORDS * k, FIRST + WORDS * kept
            for word in range(WORDS):
                state[target + word] = state[source + word]
            state[target + 1] = np.int32(lanes)
            kept += 1
    state[lay.DEPTH] = kept
