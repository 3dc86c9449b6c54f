"""What the handlers of texture and surface instructions share. Functions that Numba compiled do the work."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsight.emulator.emitter import Emitter
from warpsight.emulator.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.lanes import I32, I64, PTR, Value, at, intrinsic, load_as, splat_constant, store_as, vector
from warpsight.emulator.layout import Fault, Slot
from warpsight.emulator.recording import emit_event_byte
from warpsight.isa.program import Address, Instruction, Operand, Vector

# PTX's geometries, by their number in `descriptors.Kind`, with the coordinates that each takes (a fourth pads a vector of three).
GEOMETRIES = {"1d": (0, 1), "2d": (1, 2), "3d": (2, 3), "a1d": (3, 2), "a2d": (4, 3), "cube": (5, 3), "acube": (6, 4)}
LAYERED = ("a1d", "a2d", "acube")
_FAILURES = (
    Fault.OUT_OF_BOUNDS, Fault.READ_ONLY, Fault.MISALIGNED, Fault.BAD_IMAGE, Fault.IMAGE_KIND, Fault.SURFACE_BOUNDS,
)  # fmt: skip
_SLOTS = (Slot.ARENA_DELTA, Slot.ALLOC_PTR, Slot.ALLOC_COUNT, Slot.IMAGE_PTR, Slot.IMAGE_COUNT)


def geometry_of(emitter: Emitter, instruction: Instruction) -> str:
    """The geometry that an instruction names."""
    for modifier in instruction.modifiers:
        if modifier in GEOMETRIES:
            return modifier
    raise emitter.unsupported("it names no geometry that is modelled")


def handle(emitter: Emitter, operand: Any) -> Value:
    """The object's handle in each lane; a name gives the address of its variable, which native code follows."""
    if isinstance(operand, Address):
        return emitter.effective_address(operand)
    return emitter.read(operand, "u64")


def elements(operand: Any) -> list[Operand | None]:
    """The registers of a vector, or the one."""
    return list(operand.elements) if isinstance(operand, Vector) else [operand]


def coordinates(emitter: Emitter, operand: Any, geometry: str, kind: str) -> list[Value]:
    """Four vectors of 32-bit patterns; the first of a layered geometry is the layer. `kind` is s32 or f32."""
    given, count = elements(operand), GEOMETRIES[geometry][1]
    if len(given) != count and not (count == 3 and len(given) == 4):
        raise emitter.unsupported(f"it has {len(given)} coordinates, and .{geometry} takes {count}")
    values = []
    for place, element in enumerate(given[:count]):
        value = emitter.read(element, "u32" if place == 0 and geometry in LAYERED else kind)
        values.append(emitter.builder.bitcast(value, vector(I32)))
    return values + [splat_constant(I32, 0)] * (4 - count)


def call_native(
    emitter: Emitter, name: str, access: str, what: int, handles: list[Value], place: list[Value], values: list[Value]
) -> list[Value]:
    """Do an access in one out-of-line function per native function: `handles` of object and sampler, `place` four coordinates.

    `access` is load, store, atomic, or empty for a query, which leaves no event. `values` (up to four <32 x i64>) are what a store
    or atomic takes; the others give four <32 x i64>.
    """
    stored = [*values, *([splat_constant(I64, 0)] * (4 - len(values)))] if values else []

    def body(helper: HelperFrame) -> list[Value]:
        what_, *given = helper.arguments
        request, held = _call(helper, name, what_, given)
        if access:
            _record(helper, request, access == "atomic")
        return [] if values else [load_as(helper.builder, at(helper.builder, held, 256 * k), vector(I64), 64) for k in range(4)]

    results = [] if values else [vector(I64)] * 4
    site = emitter.kernel.next_site()
    return call_helper(emitter, f"{name}_{access}", site, [I64(what), *handles, *place, *stored], results, body)


def _call(helper: HelperFrame, name: str, what: Value, given: list[Value]) -> tuple[Value, Value]:
    """Fill a request, call, and stop on a failure; returns the request and where its values lie."""
    from warpsight.emulator import texels

    builder = helper.builder
    held = _side_by_side(helper, "values", vector(I64), given[6:] or [splat_constant(I64, 0)] * 4)
    words: dict[int, Value] = {
        texels.MASK: builder.zext(helper.active_mask, I64),
        texels.WHAT: what,
        texels.HANDLES: helper.spill(given[0], "handles"),
        texels.SAMPLERS: helper.spill(given[1], "samplers"),
        texels.COORDINATES: _side_by_side(helper, "coordinates", vector(I32), given[2:6]),
        texels.VALUES: held,
        texels.SITE: at(builder, helper.slot_pointer(Slot.SITE_PTR), builder.mul(helper.site, I64(16))),
        texels.SECTORS: helper.slot_pointer(Slot.SECTOR_CURSOR),
        **{texels.DELTA + k: helper.slot(slot) for k, slot in enumerate(_SLOTS)},
    }
    request = helper.buffer("request", ir.ArrayType(I64, texels.REQUEST_WORDS))
    for word, value in words.items():
        store_as(builder, value, at(builder, request, 8 * word), 8)
    builder.call(intrinsic(builder.module, name, ir.VoidType(), [PTR]), [request])

    def details() -> tuple[Value, Value]:
        return builder.trunc(_answer(helper, request, texels.LANE), I32), _answer(helper, request, texels.ADDRESS)

    failure = _answer(helper, request, texels.FAILURE)
    for number, kind in enumerate(_FAILURES, 1):
        helper.stop_if(builder.icmp_signed("==", failure, I64(number)), kind, details)
    return request, held


def _record(helper: HelperFrame, request: Value, shares: bool) -> None:
    """The event: how many sectors were appended, and for an atomic how many lanes share an address."""
    from warpsight.emulator import texels

    builder = helper.builder
    count = _answer(helper, request, texels.COUNT)
    cursor = at(builder, helper.slot_pointer(Slot.SECTOR_CURSOR), builder.shl(count, I64(2)))
    store_as(builder, cursor, at(builder, helper.context, 8 * Slot.SECTOR_CURSOR), 8)
    emit_event_byte(helper, builder.trunc(count, I32))
    if shares:
        emit_event_byte(helper, builder.trunc(_answer(helper, request, texels.SHARING), I32))


def _answer(helper: HelperFrame, request: Value, word: int) -> Value:
    return load_as(helper.builder, at(helper.builder, request, 8 * word), I64, 8)


def _side_by_side(frame: Frame, name: str, kind: Any, values: list[Value]) -> Value:
    """Four vectors in one stack slot, one after the other."""
    size = 32 * kind.element.width // 8
    pointer = frame.buffer(name, ir.ArrayType(kind, 4))
    for k, value in enumerate(values):
        store_as(frame.builder, value, at(frame.builder, pointer, size * k), 64)
    return pointer
