"""What each instruction of a kernel is, as arrays: asked again with every design and every change that is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.isa.sass.native import operand_cycles
from warpsight.traces.schema import ATOMIC, STORE, StaticInstruction, kept_of_code

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Marks(NamedTuple):
    """All bool [instructions]. `store`, `atomic`: by its access; `sectors`: its event counts some. The others are the properties of
    `StaticInstruction` that are called alike.
    """

    store: Flags
    atomic: Flags
    sectors: Flags
    bulk: Flags
    async_copy: Flags
    async_product: Flags
    bypasses_l1: Flags
    block_barrier: Flags
    waits_at_barrier: Flags
    waits_for_part: Flags


@kept_of_code
def marks(instructions: Sequence[StaticInstruction]) -> Marks:
    """Those of a kernel's code; nobody may change them."""

    def those(mark: Callable[[StaticInstruction], bool]) -> Flags:
        return np.array([mark(each) for each in instructions], dtype=np.bool_)

    return Marks(
        store=those(lambda each: each.access == STORE),
        atomic=those(lambda each: each.access == ATOMIC),
        sectors=those(lambda each: each.has_sectors),
        bulk=those(lambda each: each.is_bulk),
        async_copy=those(lambda each: each.is_async_copy),
        async_product=those(lambda each: each.is_async_product),
        bypasses_l1=those(lambda each: each.bypasses_l1),
        block_barrier=those(lambda each: each.is_block_barrier),
        waits_at_barrier=those(lambda each: each.waits_at_barrier),
        waits_for_part=those(lambda each: each.waits_for_part),
    )


@kept_of_code
def issue_cycles(instructions: Sequence[StaticInstruction]) -> tuple[Floats, Floats]:
    """Cycles from the issue of each one to that of the next, and until its operands are read; both float64 [instructions]."""
    read = [operand_cycles(each.opcode, each.space, each.access, each.access_bytes) for each in instructions]
    return np.array([each.stall for each in instructions], dtype=np.float64), np.array(read, dtype=np.float64)
