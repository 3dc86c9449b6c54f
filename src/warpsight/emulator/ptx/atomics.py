"""`atom` and `red`: lanes one after the other, lowest first, so that the outcome is the same every time.

Float additions round to nearest even. NaN results are the canonical NaN. `add.f32` on device memory flushes denormals of its
operands and its result to zero of the same sign, on shared memory it does not; halves and doubles never flush.
"""

from __future__ import annotations

from llvmlite import ir

from warpsight.emulator.codegen.access import append_sectors, check_global, in_parts, shared_host
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.codegen.helpers import conflict_degree, most_sharing
from warpsight.emulator.codegen.lanes import (
    F16,
    F32,
    F64,
    I1,
    I16,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    bits_of,
    is_signed,
    load_as,
    splat,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import SHARED_WINDOW, Slot
from warpsight.emulator.codegen.orders import each_lane
from warpsight.emulator.codegen.recording import emit_event_byte
from warpsight.emulator.codegen.watching import note_access
from warpsight.emulator.ptx.memory import (
    CACHE_WORDS,
    SHARED_SPACES,
    VECTORS,
    allow_words,
    shared_address,
    space_of,
    vector_parts,
    window_mask,
    window_offset,
    without_policy,
)
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.ptx.rules import reads, register_names, value_type

HALVES = ("f16", "bf16")
PACKED = {"f16x2": "f16", "bf16x2": "bf16"}
FLOATS = ("f32", "f64", *HALVES, *PACKED)
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}


def new_value(builder: Builder, operation: str, kind: str, old: Value, b: Value, c: Value | None, flush: Value) -> Value:
    """The pattern to be stored. `kind` is the PTX type, `c` the third operand of `cas`, `flush` (i1) says whether f32 flushes."""
    if operation == "exch":
        return b
    if operation == "cas":
        return builder.select(builder.icmp_signed("==", old, b), c, old)
    if kind in PACKED:
        return _packed(builder, operation, kind, old, b, flush)
    if kind in FLOATS:
        return _float(builder, operation, kind, old, b, flush)
    compare = builder.icmp_signed if is_signed(kind) else builder.icmp_unsigned
    if operation in ("min", "max"):
        return builder.select(compare("<" if operation == "min" else ">", old, b), old, b)
    simple = {"and": builder.and_, "or": builder.or_, "xor": builder.xor, "add": builder.add}
    if operation in simple:
        return simple[operation](old, b)
    one, zero = old.type(1), old.type(0)
    if operation == "inc":
        return builder.select(builder.icmp_unsigned(">=", old, b), zero, builder.add(old, one))
    wraps = builder.or_(builder.icmp_signed("==", old, zero), builder.icmp_unsigned(">", old, b))
    return builder.select(wraps, b, builder.sub(old, one))


def _packed(builder: Builder, operation: str, kind: str, old: Value, b: Value, flush: Value) -> Value:
    """Two halves, each for itself."""
    parts = []
    for shift in (0, 16):
        x, y = (builder.trunc(builder.lshr(v, I32(shift)), I16) for v in (old, b))
        parts.append(builder.zext(_float(builder, operation, PACKED[kind], x, y, flush), I32))
    return builder.or_(parts[0], builder.shl(parts[1], I32(16)))


def _float(builder: Builder, operation: str, kind: str, old: Value, b: Value, flush: Value) -> Value:
    x, y = _widened(builder, kind, old), _widened(builder, kind, b)
    if operation == "add":
        result = _flushed(builder, kind, builder.fadd(_flushed(builder, kind, x, flush), _flushed(builder, kind, y, flush)), flush)
        pattern = _narrowed(builder, kind, result)
    else:  # of halves only: the number wins over a NaN, and -0 is less than +0
        less = builder.fcmp_ordered("<" if operation == "min" else ">", x, y)
        negative = builder.icmp_signed("<" if operation == "min" else ">=", old, old.type(0))
        tie = builder.and_(builder.fcmp_ordered("==", x, y), negative)
        first = builder.or_(builder.or_(less, tie), builder.fcmp_unordered("uno", y, y))
        pattern = builder.select(first, old, b)
        result = builder.select(first, x, y)
    return builder.select(builder.fcmp_unordered("uno", result, result), pattern.type(_NAN[kind]), pattern)


def _widened(builder: Builder, kind: str, pattern: Value) -> Value:
    """A pattern as a float or double; halves as floats. A sum of floats rounds as the exact sum does (24 >= 2*11 + 2)."""
    if kind == "f16":
        return builder.fpext(builder.bitcast(pattern, F16), F32)
    if kind == "bf16":
        return builder.bitcast(builder.shl(builder.zext(pattern, I32), I32(16)), F32)
    return builder.bitcast(pattern, {"f32": F32, "f64": F64}[kind])


def _narrowed(builder: Builder, kind: str, value: Value) -> Value:
    if kind == "f16":
        return builder.bitcast(builder.fptrunc(value, F16), I16)
    if kind == "bf16":
        bits = builder.bitcast(value, I32)
        odd = builder.and_(builder.lshr(bits, I32(16)), I32(1))
        return builder.trunc(builder.lshr(builder.add(bits, builder.add(odd, I32(0x7FFF))), I32(16)), I16)
    return builder.bitcast(value, ir.IntType(32 if kind == "f32" else 64))


def _flushed(builder: Builder, kind: str, value: Value, flush: Value) -> Value:
    """Denormals of f32 become zero of the same sign where `flush` (i1) holds."""
    if kind != "f32":
        return value
    bits = builder.bitcast(value, I32)
    tiny = builder.icmp_signed("==", builder.and_(bits, I32(0x7F800000)), I32(0))
    zeroed = builder.select(builder.and_(tiny, flush), builder.and_(bits, I32(0x80000000)), bits)
    return builder.bitcast(zeroed, F32)


# -- The instructions.
#
# Each shape (space, operation, type, elements) is one out-of-line function of the kernel. The elements of a vector are operated on
# in order; a lane's are done before the next lane's.

_BITS, _INTEGERS = ("b32", "b64"), ("u32", "s32", "u64", "s64")
_TYPES = {
    "and": _BITS, "or": _BITS, "xor": _BITS,
    "cas": ("b16", "b32", "b64", "b128", *_INTEGERS), "exch": ("b32", "b64", "b128", *_INTEGERS, "f32", "f64"),
    "add": (*_INTEGERS, *FLOATS), "inc": ("u32",), "dec": ("u32",),
    "min": (*_INTEGERS, *HALVES, *PACKED), "max": (*_INTEGERS, *HALVES, *PACKED),
}  # fmt: skip


def operation_of(emitter: Emitter, instruction: Instruction) -> tuple[str, str]:
    """The operation and the type; refuses pairs that PTX does not have."""
    operation = next((m for m in instruction.modifiers if m in _TYPES), "")
    kind = value_type(instruction)
    if kind not in _TYPES.get(operation, ()):
        raise emitter.unsupported(f"atomic {operation or '?'} of .{kind or '?'} is not modelled")
    return operation, kind


def atomic(emitter: Emitter, instruction: Instruction) -> None:
    """`atom` and `red` in every state space that has them, with vectors of floats in device memory."""
    allow_words(emitter, instruction, *_TYPES, "global", *SHARED_SPACES, *VECTORS, "noftz", *CACHE_WORDS)
    operation, kind = operation_of(emitter, instruction)
    returns, count = instruction.opcode == "atom", 2 if operation == "cas" else 1
    values = without_policy(emitter, instruction, 1 + int(returns) + count)
    destination, address, *sources = values if returns else (None, *values)
    parts = [vector_parts(emitter, instruction, source) for source in sources]
    space, bits, count = space_of(instruction), bits_of(kind), len(parts[0])
    if (count > 1 and (space == "shared" or kind not in FLOATS)) or count * bits > 128:
        raise emitter.unsupported("an atomic operation on such a vector is not modelled")
    if count == 1 and operation in ("min", "max") and kind in FLOATS:
        raise emitter.unsupported(f"atomic {operation} of a single .{kind} is not modelled")
    lanes = [emitter.read(p, f"b{bits}") for part in parts for p in part]
    if space == "shared":
        where = shared_address(emitter, address, "cluster" if "shared::cluster" in instruction.modifiers else space)
    else:
        where = emitter.effective_address(address)
    old = set(register_names([destination]))
    overwrites = operation == "exch" and not any(old & set(reads(other)) for other in emitter.kernel.function.instructions)
    results = Shape(space, operation, kind, count, overwrites=overwrites).call(emitter, where, lanes)
    if destination is None:
        return
    for part, value in zip(vector_parts(emitter, instruction, destination), results, strict=True):
        emitter.write(part, value, kind if kind not in FLOATS else f"b{bits}")


class Shape:
    """An atomic access: `count` elements of PTX type `kind` at each lane's address.

    With `overwrites` it replaces values that nothing reads.
    """

    def __init__(self, space: str, operation: str, kind: str, count: int, *, overwrites: bool = False) -> None:
        self.space, self.operation, self.kind, self.count = space, operation, kind, count
        self.bytes = bits_of(kind) // 8
        self.element = ir.IntType(bits_of(kind))
        self.overwrites = overwrites
        self.name = f"atomic_{space}_{operation}_{kind}_{count}{'_overwrites' * overwrites}"

    def call(self, emitter: Emitter, addresses: Value, sources: list[Value]) -> list[Value]:
        """Do the access; gives the old values. `sources` hold the elements of the first operand, then those of the second."""
        results = [vector(self.element)] * self.count
        return call_helper(emitter, self.name, emitter.kernel.next_site(), [addresses, *sources], results, self.body)

    def body(self, helper: HelperFrame) -> list[Value]:
        """Check and record the access, then the read-modify-write of each active lane in turn; gives the old values."""
        addresses, *sources = helper.arguments
        compared = (sources[0],) if self.operation == "cas" else ()
        size = self.bytes * self.count
        host, in_device = locate(helper, self.space, addresses, size, unwritten=not self.overwrites, compared=compared)
        if not helper.moves:
            return [ir.Constant(vector(self.element), None)] * self.count
        builder = helper.builder
        places = helper.spill(host, "places")
        results = [helper.spill(ir.Constant(vector(self.element), None), f"result{k}") for k in range(self.count)]
        held = [helper.spill(value, f"source{k}") for k, value in enumerate(sources)]

        def element(inner: Builder, pointer: Value, lane: Value) -> Value:
            return at(inner, pointer, inner.mul(inner.zext(lane, I64), I64(self.bytes)))

        def of_lane(inner: Builder, lane: Value) -> None:
            generic = self.space == "generic"
            flush = inner.trunc(inner.lshr(in_device, lane), I1) if generic else I1(int(self.space == "global"))
            place = at(inner, places, inner.mul(inner.zext(lane, I64), I64(8)))
            pointer = inner.inttoptr(load_as(inner, place, I64, 8), PTR)
            for k in range(self.count):
                target = at(inner, pointer, k * self.bytes)
                old = load_as(inner, target, self.element, 1)
                own = [load_as(inner, element(inner, p, lane), self.element, self.bytes) for p in held[k :: self.count]]
                new = new_value(inner, self.operation, self.kind, old, own[0], own[1] if len(own) > 1 else None, flush)
                store_as(inner, new, target, 1)
                store_as(inner, old, element(inner, results[k], lane), self.bytes)

        each_lane(helper, of_lane)
        return [load_as(builder, p, vector(self.element), 64) for p in results]


def locate(
    helper: HelperFrame, space: str, addresses: Value, size: int, *, unwritten: bool = True, compared: tuple[Value, ...] = ()
) -> tuple[Value, Value]:
    """Check and record an atomic access of `size` bytes; <32 x i64> host addresses and an i32 mask: lanes in device memory.

    With `unwritten` false it may meet memory that was never written; `compared` is what `cas` compares with.
    """
    builder, none = helper.builder, ir.Constant(vector(I64), None)
    if space == "shared":
        return shared_place(helper, addresses, size, unwritten=unwritten), I32(0)

    def device() -> list[Value]:
        places = check_global(helper, addresses, size, True, helper.site, replaces=True)
        host = builder.add(places, splat(builder, helper.slot(Slot.ARENA_DELTA)))
        note_access(helper, "global", host, places, size, 1, reads=True, writes=True, unwritten=unwritten, values=compared)
        return [host, addresses, append_sectors(helper, addresses), I32(0), helper.active_mask]

    def shared() -> list[Value]:
        offsets = window_offset(helper, addresses, SHARED_WINDOW)
        host, wide = _noted_host(helper, offsets, size, reads=True, unwritten=unwritten)
        return [host, wide, I32(0), conflict_degree(helper, offsets, size), helper.active_mask]

    if space == "global":
        host, places, sectors, *_ = device()
        emit_event_byte(helper, sectors)
        record_sharing(helper, places)
        return host, I32(-1)
    in_shared = window_mask(helper, addresses, SHARED_WINDOW)
    elsewhere = builder.and_(helper.active_mask, builder.not_(in_shared))  # local memory and parameters have no atomics
    parts = [(elsewhere, device), (in_shared, shared)]
    host, places, sectors, degree, left = in_parts(helper, [none, none, I32(0), I32(0), I32(0)], parts)
    helper.keep_lanes(left)
    emit_event_byte(helper, sectors)
    emit_event_byte(helper, degree)
    record_sharing(helper, places)
    return host, elsewhere


def shared_place(
    frame: Frame, offsets: Value, size: int, *, sharing: bool = True, reads: bool = True, unwritten: bool = True
) -> Value:
    """Check an access at <32 x i32> shared offsets, record its degree and, if asked, sharing; <32 x i64> host addresses.

    It writes and, unless told otherwise, `reads`; with `unwritten` false it may meet memory that was never written.
    """
    host, wide = _noted_host(frame, offsets, size, reads=reads, unwritten=unwritten)
    emit_event_byte(frame, conflict_degree(frame, offsets, size))
    if sharing:
        record_sharing(frame, wide)
    return host


def _noted_host(frame: Frame, offsets: Value, size: int, *, reads: bool, unwritten: bool) -> tuple[Value, Value]:
    """`shared_place` without a record; also the offsets as <32 x i64>."""
    host, wide = shared_host(frame, offsets, size, drops=True), frame.builder.zext(offsets, vector(I64))
    note_access(frame, "shared", host, wide, size, 1, reads=reads, writes=True, unwritten=unwritten)
    return host, wide


def record_sharing(frame: Frame, addresses: Value) -> None:
    """Append how many active lanes share one of the <32 x i64> addresses, as an event byte."""
    count = frame.builder.call(most_sharing(frame.builder.module), [addresses, frame.active_mask])
    emit_event_byte(frame, count)
