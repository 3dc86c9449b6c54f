"""Special registers. `%clock` counts warp instructions; the machine's own numbers (`%smid`) are those of a single large SM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from warpsight.emulator.lanes import I32, I64, IOTA32, Value, at, load_as, splat, splat_constant, vector
from warpsight.emulator.layout import Slot

if TYPE_CHECKING:
    from warpsight.emulator.emitter import Emitter

_SCALARS = {
    "%ctaid.x": Slot.CTAID_X, "%ctaid.y": Slot.CTAID_Y, "%ctaid.z": Slot.CTAID_Z,
    "%nctaid.x": Slot.NCTAID_X, "%nctaid.y": Slot.NCTAID_Y, "%nctaid.z": Slot.NCTAID_Z,
    "%ntid.x": Slot.NTID_X, "%ntid.y": Slot.NTID_Y, "%ntid.z": Slot.NTID_Z,
    "%warpid": Slot.WARP, "%nwarpid": Slot.WARPS_PER_BLOCK, "%dynamic_smem_size": Slot.DYNAMIC_SHARED,
    "%total_smem_size": Slot.SHARED_SIZE, "%clock": Slot.INSTRUCTIONS,
}  # fmt: skip
_WIDE = {"%clock64": Slot.INSTRUCTIONS, "%globaltimer": Slot.INSTRUCTIONS}
_CONSTANTS = {"%smid": 0, "%nsmid": 1, "%gridid": 1, "WARP_SZ": 32, "%clock_hi": 0}
_LANE_MASKS = {
    "%lanemask_eq": [1 << k for k in range(32)],
    "%lanemask_lt": [(1 << k) - 1 for k in range(32)],
    "%lanemask_le": [(2 << k) - 1 for k in range(32)],
    "%lanemask_gt": [0xFFFFFFFF & ~((2 << k) - 1) for k in range(32)],
    "%lanemask_ge": [0xFFFFFFFF & ~((1 << k) - 1) for k in range(32)],
}


def emit_special(emitter: Emitter, name: str) -> Value:
    """Lanes of the special register `name`, as u32 (u64 for the 64-bit ones)."""
    builder = emitter.builder
    if name.startswith("%tid."):
        axis = "xyz".index(name[-1])
        warp = emitter.slot(Slot.WARP)
        row = builder.add(builder.mul(warp, I64(3 * 128)), I64(axis * 128))
        return load_as(builder, at(builder, emitter.slot_pointer(Slot.TID_PTR), row), vector(I32), 4)
    if name == "%laneid":
        return IOTA32
    if name in _SCALARS:
        return splat(builder, builder.trunc(emitter.slot(_SCALARS[name]), I32))
    if name in _WIDE:
        return splat(builder, emitter.slot(_WIDE[name]))
    if name in _LANE_MASKS:
        return ir.Constant(vector(I32), _LANE_MASKS[name])
    if name in _CONSTANTS:
        return splat_constant(I32, _CONSTANTS[name])
    raise emitter.unsupported(f"special register {name} is not modelled")
