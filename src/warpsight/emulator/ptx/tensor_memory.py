"""`tcgen05`: products of Blackwell's tensor cores with operands in tensor memory (sm_100a and its kin).

Operations are carried out at once, by `tensor_memory_requests.py`, when they are issued. A correct program cannot see the
difference: between the issue of an operation and the wait for it PTX forbids access to what it reads and writes, which racecheck
looks for. So waits and fences do nothing, and a commit arrives at once. Allocation does not wait: a block that asks for columns
while others of its own hold them is stopped, as it would wait on a GPU until they are freed.

Collectors, which keep a matrix for the next product, are hints. Refused: of sparse products those with scales, with 64 rows, or
with a selector other than 0; masks of zero columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from warpsight.base.findings import RACECHECK
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import HelperFrame, call_helper
from warpsight.emulator.codegen.lanes import (
    F32,
    I32,
    I64,
    PTR,
    Value,
    at,
    call_same,
    load_as,
    scatter,
    splat,
    splat_constant,
    vector,
)
from warpsight.emulator.codegen.watching import tell
from warpsight.emulator.ptx import tensor_memory_engine as engine
from warpsight.emulator.ptx.atomics import shared_place
from warpsight.emulator.ptx.common import canonical, elements_of, operands
from warpsight.emulator.ptx.matrix_shapes import need_whole_warp
from warpsight.emulator.ptx.mbarriers import arrive, arrive_in_blocks, shared_offsets
from warpsight.emulator.ptx.memory import SHARED_SPACES
from warpsight.emulator.ptx.tensor_memory_requests import (
    MOST_REGISTERS,
    Move,
    by_warp,
    copy,
    multiply,
    note_commit,
    operate,
    shift,
)
from warpsight.isa.matrix_products import NEVER_EXECUTED, tensor_memory_kind
from warpsight.isa.ptx.program import Address, Function, Instruction, Vector


def tcgen05(emitter: Emitter, instruction: Instruction) -> None:
    """`tcgen05` in its forms; `_FORMS` lists them."""
    name, *rest = instruction.modifiers or ("",)
    emit = _FORMS.get(name)
    if emit is None:
        raise emitter.unsupported("it is not modelled")
    emit(emitter, instruction, _Modifiers(emitter, rest))


class _Modifiers:
    """The modifiers behind the first one; those that a form does not take are refused."""

    def __init__(self, emitter: Emitter, names: list[str]) -> None:
        self._emitter, self._names = emitter, names

    def take(self, *known: str, needed: bool = True) -> str:
        """Remove the one of `known` that is there, "" if there is none."""
        found = next((name for name in self._names if name in known), "")
        if found:
            self._names.remove(found)
        elif needed:
            raise self._emitter.unsupported(f"it has none of {', '.join(f'.{name}' for name in known)}")
        return found

    def end(self) -> None:
        """All have been taken."""
        if self._names:
            raise self._emitter.unsupported(f"modifier .{self._names[0]} is not modelled")

    def blocks(self) -> int:
        """`.cta_group`, and nothing else that is left: how many blocks there are."""
        pair = self.take("cta_group::1", "cta_group::2") == "cta_group::2"
        if pair and not self._emitter.clustered:
            raise self._emitter.unsupported("pairs of blocks need a launch in clusters (`cluster`)")
        self.end()
        return 2 if pair else 1


def _tensor_address(emitter: Emitter, operand: Any, *, bare: bool = False) -> Value:
    """An address in tensor memory as <32 x i64>: `[taddr + offset]`, or a register alone."""
    builder = emitter.builder
    if not isinstance(operand, Address):
        if not bare:
            raise emitter.unsupported("its address in tensor memory is not in brackets")
        return builder.zext(emitter.read(operand, "u32"), vector(I64))
    base = builder.add(emitter.read(operand.base, "u32"), splat_constant(I32, operand.offset & 0xFFFFFFFF))
    return builder.zext(base, vector(I64))


def _same(emitter: Emitter, lanes: Value) -> Value:
    """The number that is the same in all lanes."""
    return emitter.builder.extract_element(lanes, I32(0))


# -- Allocation.


def _allocate(emitter: Emitter, instruction: Instruction, form: _Modifiers) -> None:
    """`alloc.cta_group.sync.aligned{.shared::cta}.b32 [where], columns`: the address goes to shared memory."""
    form.take("sync"), form.take("aligned"), form.take("b32"), form.take(*SHARED_SPACES, needed=False)
    form.blocks()
    where, count = operands(emitter, instruction, 2)
    columns = emitter.builder.zext(emitter.read(count, "u32"), vector(I64))

    def body(helper: HelperFrame) -> list[Value]:
        need_whole_warp(helper)
        builder, (offsets, wide) = helper.builder, helper.arguments
        request = helper.buffer("tensor memory request", ir.ArrayType(I64, engine.REQUEST_WORDS))
        with builder.if_then(builder.icmp_signed("!=", helper.active_mask, I32(0))):
            first = builder.extract_element(wide, I32(0))
            operate(helper, {engine.WHAT: I64(engine.ALLOCATE), engine.COLUMNS: first}, I32(0))
        helper.narrow(1)
        host = shared_place(helper, offsets, 4, sharing=False, reads=False)
        made = load_as(builder, at(builder, request, 8 * engine.TARGET), I64, 8)
        given = splat(builder, builder.trunc(made, I32))
        scatter(builder, given, builder.inttoptr(host, vector(PTR)), helper.active)
        return []

    arguments = [shared_offsets(emitter, instruction, where), columns]
    call_helper(emitter, "tcgen05_alloc", emitter.kernel.next_site(), arguments, [], body)


def _free(emitter: Emitter, instruction: Instruction, form: _Modifiers) -> None:
    """`dealloc.cta_group.sync.aligned.b32 address, columns`."""
    form.take("sync"), form.take("aligned"), form.take("b32")
    form.blocks()
    place, count = operands(emitter, instruction, 2)
    address = _same(emitter, _tensor_address(emitter, place, bare=True))
    columns = _same(emitter, emitter.builder.zext(emitter.read(count, "u32"), vector(I64)))
    by_warp(emitter, "dealloc", [address, columns], lambda helper: {
        engine.WHAT: I64(engine.FREE), engine.TARGET: helper.arguments[0], engine.COLUMNS: helper.arguments[1],
    })  # fmt: skip


def _nothing(emitter: Emitter, instruction: Instruction, form: _Modifiers) -> None:
    """Waits and fences; and `relinquish_alloc_permit`, after which a correct program does not allocate."""
    while form.take("sync", "aligned", "cta_group::1", "cta_group::2", needed=False):
        pass
    form.end()
    operands(emitter, instruction, 0, 0)
    waits = {"wait::ld": watcher.LOADED, "wait::st": watcher.STORED}.get(instruction.modifiers[0])
    if waits is not None and RACECHECK in emitter.checks:
        tell(emitter, waits, I64(0))


# -- Loads and stores.


def _move(emitter: Emitter, instruction: Instruction, form: _Modifiers) -> None:
    """`ld.sync.aligned.shape.num{.pack::16b}.b32 r, [address]{, split}`, and `st` with the operands the other way round.

    `ld.red....min{.abs}{.NaN}.type r, smallest, [address]{, split}` also reduces what each lane has loaded.
    """
    loads = instruction.modifiers[0] == "ld"
    reduces = loads and bool(form.take("red", needed=False))
    form.take("sync"), form.take("aligned")
    kind = form.take("f32", "u32", "s32") if reduces else form.take("b32")
    extremes = form.take("min", "max") if reduces else ""
    while kind == "f32" and form.take("abs", "NaN", needed=False):
        pass
    shape = form.take(*engine.SHAPES)
    number = int(form.take(*(f"x{1 << k}" for k in range(8)))[1:])
    packed = not reduces and form.take("pack::16b" if loads else "unpack::16b", needed=False)
    form.end()
    if reduces and (shape not in ("32x32b", "16x32bx2") or number == 1):
        raise emitter.unsupported("PTX has .red of .32x32b and .16x32bx2 only, and of more than one column")
    count = number * {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    split = shape == "16x32bx2"
    given = list(operands(emitter, instruction, 2 + split + reduces))
    values = given.pop(0) if loads else given.pop()
    reduced = given.pop(0) if reduces else None
    address = _tensor_address(emitter, given[0])
    move = Move(shape, count, emitter.immediate_value(given[1]) if split else 0, bool(packed))
    registers = elements_of(values)
    if len(registers) != count or count > MOST_REGISTERS or (not isinstance(values, Vector) and count > 1):
        raise emitter.unsupported(f"{len(registers)} registers; {count} expected")
    if not loads:
        move.store(emitter, address, [emitter.read(register, "b32") for register in registers])
        return
    columns = move.load(emitter, address)
    for register, value in zip(registers, columns, strict=True):
        emitter.write(register, value, "b32")
    if reduced is not None:
        emitter.write(reduced, _extreme(emitter, instruction.modifiers, columns, kind, extremes), "b32")


def _extreme(emitter: Emitter, modifiers: Sequence[str], columns: list[Value], kind: str, name: str) -> Value:
    """The least or the greatest of what each lane holds (<32 x i32> patterns), as `min` and `max` have it."""
    builder = emitter.builder
    if kind != "f32":
        compare = builder.icmp_signed if kind == "s32" else builder.icmp_unsigned
        first, *others = columns
        for other in others:
            first = builder.select(compare("<" if name == "min" else ">", other, first), other, first)
        return first
    values = [builder.bitcast(column, vector(F32)) for column in columns]
    first, *others = [call_same(builder, "fabs", value) for value in values] if "abs" in modifiers else values
    for other in others:
        first = call_same(builder, f"{name}imum{'' if 'NaN' in modifiers else 'num'}", first, other)
    return builder.bitcast(canonical(emitter, first), vector(I32))


_PACKED = {"b6x16_p32": 6, "b4x16_p64": 4}  # the bits of an element in shared memory, that becomes a byte


def _copy(emitter: Emitter, instruction: Instruction, form: _Modifiers) -> None:
    """`cp.cta_group.shape{.multicast}{.b8x16.packed} [address], descriptor`."""
    multicasts = {name.partition(".")[2] for name in engine.COPIES} - {""}
    shape = form.take(*(name.partition(".")[0] for name in engine.COPIES))
    to = form.take(*multicasts, needed=False)
    bits = _PACKED[form.take(*_PACKED)] if form.take("b8x16", needed=False) else 0
    blocks = form.blocks()
    name = f"{shape}.{to}" if to else shape
    if name not in engine.COPIES:
        raise emitter.unsupported(f"a copy of shape .{name} is not modelled")
    place, descriptor = operands(emitter, instruction, 2)
    copy(emitter, name, _tensor_address(emitter, place), emitter.read(descriptor, "b64"), blocks, bits)


def _commit(emitter: Emitter, instruction: Instruction, form: _Modifiers) -> None:
    """`commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [mbarrier]{, blocks}`."""
    form.take("mbarrier::arrive::one"), form.take("b64"), form.take("shared::cluster", needed=False)
    many = bool(form.take("multicast::cluster", needed=False))
    form.blocks()
    barrier, *blocks = operands(emitter, instruction, 1 + many)
    offsets = shared_offsets(emitter, instruction, barrier)
    note_commit(emitter, offsets)
    if many:
        blocks_of_mask = emitter.builder.zext(emitter.read(blocks[0], "b16"), vector(I32))
        arrive_in_blocks(emitter, emitter.kernel.next_site(), offsets, blocks_of_mask)
    else:
        arrive(emitter, offsets)


# -- Products.

_SCALES = {"mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1}, "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
           "mxf4nvf4": {"scale_vec::2X": 2, "scale_vec::4X": 4, "block32": 2, "block16": 4}}  # fmt: skip
_SIZES = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
_COLLECTORS = {  # hints: what to keep of A, or of B
    stationary: tuple(f"collector::{which}::{use}" for which in buffers for use in ("fill", "use", "lastuse", "discard"))
    for stationary, buffers in ((False, ("a",)), (True, ("b0", "b1", "b2", "b3")))
}


def _multiply(emitter: Emitter, instruction: Instruction, form: _Modifiers) -> None:
    """`mma{.ws}{.sp}.cta_group.kind::k{.block_scale{.scale_vec}}{.collector} [d], a, b{, [metadata]}, form{, [scales of a], [of b]}
    {, disabled}, adds{, scale}`: a is a descriptor or `[address]`; of each row of 32 lanes of D, `disabled` has a register of lanes
    that stay.
    """
    stationary, sparse = bool(form.take("ws", needed=False)), bool(form.take("sp", needed=False))
    kind = form.take(*(f"kind::{kind}" for kind in engine.KINDS)).removeprefix("kind::")
    scaled = kind in _SCALES
    parts = 0
    if scaled:
        form.take("block_scale")
        parts = _SCALES[kind].get(form.take(*_SIZES, needed=False), 0)
        if not parts:
            raise emitter.unsupported("PTX has no such .scale_vec here")
    shifts = bool(form.take("ashift", needed=False))
    collector = form.take(*_COLLECTORS[stationary], needed=False)
    if shifts and (stationary or collector.endswith(("fill", "::use"))):
        raise emitter.unsupported("PTX has .ashift neither with .ws nor with a collector that is filled or used again")
    if scaled and (sparse or stationary):
        raise emitter.unsupported("with scales it is not modelled" if sparse else "PTX has no scales with .ws")
    blocks = form.blocks()
    d, a, b, *rest = operands(emitter, instruction, 5 + 2 * scaled + sparse, 7 + sparse)
    metadata = [rest.pop(0)] if sparse else []
    shape = rest.pop(0)
    builder = emitter.builder
    inside = isinstance(a, Address)
    words = [engine.TARGET, engine.LEFT, engine.RIGHT, engine.FORM]
    values = [
        _tensor_address(emitter, d), _tensor_address(emitter, a) if inside else emitter.read(a, "b64"), emitter.read(b, "b64"),
        builder.zext(emitter.read(shape, "u32"), vector(I64)),
    ]  # fmt: skip
    if scaled:
        words += [engine.SCALES_A, engine.SCALES_B]
        values += [_tensor_address(emitter, place) for place in (rest.pop(0), rest.pop(0))]
    if metadata:
        words.append(engine.METADATA)
        values.append(_tensor_address(emitter, metadata[0]))
    if stationary and (blocks == 2 or len(rest) != 1):
        raise emitter.unsupported("PTX has .ws of one block" if blocks == 2 else "a mask of zero columns is not modelled")
    if rest and isinstance(rest[0], Vector):
        disabled = elements_of(rest.pop(0))
        if len(disabled) != 4 * blocks or scaled:
            raise emitter.unsupported("disabled lanes are 4 registers for each block, of products without scales")
        words += [engine.DISABLED + k for k in range(4 * blocks)]
        values += [builder.zext(emitter.read(register, "b32"), vector(I64)) for register in disabled]
    else:
        words += [engine.DISABLED + k for k in range(4 * blocks)]
        values += [splat_constant(I64, 0)] * 4 * blocks
    if not rest or len(rest) > (1 if scaled or kind not in ("f16", "tf32") else 2):
        raise emitter.unsupported("its operands are not those of this form")
    words.append(engine.ADDS)
    values.append(builder.zext(emitter.read(rest[0], "pred"), vector(I64)))
    halvings = emitter.immediate_value(rest[1]) if len(rest) > 1 else 0
    if not 0 <= halvings <= 15:
        raise emitter.unsupported(f"a scale of D of {halvings} is not from 0 to 15")
    constants = {
        engine.KIND: engine.KINDS.index(kind), engine.LEFT_INSIDE: int(inside), engine.HALVINGS: halvings, engine.PARTS: parts,
        engine.STATIONARY: int(stationary), engine.SHIFTS: int(shifts),
    }  # fmt: skip
    multiply(emitter, dict(zip(words, values, strict=True)), constants, blocks)


def product_shapes(function: Function, seen: Sequence[npt.NDArray[np.int64]]) -> dict[int, str]:
    """By pc, what follows the opcode of each product with tensor memory: its shape, if it has always had the same one. `seen` is
    what each worker's `Slot.PRODUCT_PTR` points to.
    """
    shapes = {}
    for instruction in function.instructions:
        if instruction.opcode != "tcgen05" or instruction.modifiers[:1] != ("mma",):
            continue
        forms = {int(products[instruction.index]) for products in seen} - {0}
        if not forms:
            shapes[instruction.index] = f".{NEVER_EXECUTED}"
        elif len(forms) == 1 and min(forms) > 0:
            shapes[instruction.index] = _shape(instruction, forms.pop() - 1)
    return shapes


def _shape(instruction: Instruction, form: int) -> str:
    """What follows the opcode of a product; that of machine code names neither TF32 nor a sparse A."""
    if instruction.native is None:
        kind = next(m for m in instruction.modifiers if m.startswith("kind::")).removeprefix("kind::")
        return "." + engine.shape_of(kind, form)
    kind = tensor_memory_kind(instruction.native.base, form >> 7 & 7 == engine.TF32_FORMAT)
    words = (".TF32" if kind == "tf32" else "") + (".SP" if form & engine.SPARSE else "")
    return f"{words}.{engine.shape_of(kind, form)}"


def _shift(emitter: Emitter, instruction: Instruction, form: _Modifiers) -> None:
    """`shift.cta_group.down [address]`: rows of one quarter of the lanes."""
    form.take("down")
    blocks = form.blocks()
    (place,) = operands(emitter, instruction, 1)
    shift(emitter, _tensor_address(emitter, place), blocks)


_FORMS: dict[str, Callable[[Emitter, Instruction, _Modifiers], None]] = {
    "alloc": _allocate, "dealloc": _free, "relinquish_alloc_permit": _nothing, "wait::ld": _nothing, "wait::st": _nothing,
    "fence::before_thread_sync": _nothing, "fence::after_thread_sync": _nothing, "ld": _move, "st": _move, "cp": _copy,
    "commit": _commit, "mma": _multiply, "shift": _shift,
}  # fmt: skip
