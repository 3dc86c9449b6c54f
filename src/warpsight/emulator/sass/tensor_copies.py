"""Copies of boxes of a tensor in machine code: `UTMALDG`, `UTMASTG`, `UTMAREDG`. The bodies are those of `ptx/tensor_copies.py`.

Their operands are uniform: from the first register on the box in shared memory, for a load the mbarrier object, and the
coordinates; in the second pair the address of the tensor map; a third has in its upper half the blocks of a multicast, and in
its lower half the offsets of `im2col`, 16, 8 or 5 bits each for 1, 2 or 3 of them, or of `im2col::w` the halo in 11 bits and the
offset in 5. An instruction makes one copy, whichever lanes are active.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I32, Value, splat_constant
from warpsight.emulator.ptx import tensor_engine as engine
from warpsight.emulator.ptx.tensor_copies import TensorCopy
from warpsight.emulator.sass.addresses import address_operand, wide_address, within_window
from warpsight.emulator.sass.common import allow, native_of, raw
from warpsight.emulator.sass.mbarriers import device_step, one_lane
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import NativeInstruction, NativeRegister

_RANKS = {f"{n}D": n for n in range(1, 6)}
_OPERATIONS = {"UTMALDG": engine.LOAD, "UTMASTG": engine.STORE, "UTMAREDG": engine.REDUCE}
_ROWS = ("GATHER4", "SCATTER4")
_MODES = {"IM2COL": engine.IM2COL, "W": engine.WIDE, "W128": engine.WIDE128, **dict.fromkeys(_ROWS, engine.ROWS)}
_OFFSET_BITS = {3: (16,), 4: (8, 8), 5: (5, 5, 5)}  # by rank
_WIDE_BITS = 11, 5


def utmaldg(emitter: Emitter, instruction: Instruction) -> None:
    """All three."""
    native, builder = native_of(instruction), emitter.builder
    reductions = [name.upper() for name in engine.REDUCTIONS]
    allow(emitter, native, *_RANKS, *_MODES, "MULTICAST", "2CTA", *reductions)
    operation, modifiers = _OPERATIONS[native.base], native.modifiers
    rank = next((_RANKS[m] for m in modifiers if m in _RANKS), 0)
    box, place = (address_operand(emitter, native, k) for k in range(2))
    if not rank or box.uniform is None or box.base is not None or box.offset or place.uniform is None or place.offset:
        raise emitter.unsupported("its operands are not recognized")
    loads = operation == engine.LOAD
    mode = next((_MODES[m] for m in modifiers if m in _MODES), engine.TILE)
    words = [raw(emitter, box.uniform, k) for k in range(1 + loads + (5 if mode == engine.ROWS else rank))]
    zero = splat_constant(I32, 0)
    blocks, offsets = zero, []
    if extra := _extra(native):
        third = raw(emitter, extra)
        blocks = builder.lshr(third, splat_constant(I32, 16))
        if mode not in (engine.TILE, engine.ROWS) and loads:
            offsets = _offsets(emitter, third, _OFFSET_BITS[rank] if mode == engine.IM2COL else _WIDE_BITS)
    reduction = next((reductions.index(m) for m in modifiers if m in reductions), 0)
    in_pairs = "2CTA" in modifiers and emitter.clustered
    copy = TensorCopy(operation, rank, mode, reduction, "MULTICAST" in modifiers, device_step, in_pairs)
    barrier = within_window(emitter, words[1]) if loads else zero
    copy.call(
        one_lane(emitter), emitter.kernel.next_site(), wide_address(emitter, place), words[1 + loads :], offsets,
        within_window(emitter, words[0]), barrier, blocks,
    )  # fmt: skip


utmastg = utmaredg = utmaldg


def _extra(native: NativeInstruction) -> NativeRegister | None:
    """The register behind both addresses."""
    behind = [o for o in native.operands[2:] if isinstance(o, NativeRegister)]
    return behind[0] if behind and not isinstance(native.operands[1], NativeRegister) else None


def _offsets(emitter: Emitter, word: Value, bits: Sequence[int]) -> list[Value]:
    """Numbers of so many bits, the first one in the lowest."""
    builder, found, shift = emitter.builder, [], 0
    for count in bits:
        mask = splat_constant(I32, (1 << count) - 1)
        found.append(builder.and_(builder.lshr(word, splat_constant(I32, shift)), mask))
        shift += count
    return found


def utmapf(emitter: Emitter, instruction: Instruction) -> None:
    """`UTMAPF`: a prefetch of a box. `UTMACCTL`: a prefetch, or the end of a copy, of a map in a cache. Both are hints here."""
    native_of(instruction)


utmacctl = utmapf
