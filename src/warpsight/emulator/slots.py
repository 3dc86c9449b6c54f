"""Where the registers of a kernel live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warpsight.emulator.lanes import Value


@dataclass(frozen=True)
class RegisterSlot:
    """Where a register lives between blocks: a stack slot here, and `offset` in the save area while its warp waits at a barrier."""

    pointer: Value
    element: Any
    stored: Any
    is_predicate: bool
    offset: int
