"""A part of the active lanes: code that is the same for fewer lanes of the instruction being emitted."""

from __future__ import annotations

from typing import Any

from warpsight.emulator.frame import Frame
from warpsight.emulator.lanes import Value, mask_to_lanes


class PartFrame(Frame):
    """`whole`, with only the lanes of an i32 mask active."""

    def __init__(self, whole: Frame, mask: Value) -> None:
        self._whole, self._mask = whole, mask
        self.builder, self.context, self.fault_block = whole.builder, whole.context, whole.fault_block
        self._lanes = mask_to_lanes(self.builder, mask)

    @property
    def active_mask(self) -> Value:
        """The part."""
        return self._mask

    @property
    def active(self) -> Value:
        """The same as <32 x i1>."""
        return self._lanes

    @property
    def pc(self) -> Value:
        """The instruction of the whole."""
        return self._whole.pc

    def buffer(self, name: str, kind: Any) -> Value:
        """A stack slot of the same function."""
        return self._whole.buffer(name, kind)
