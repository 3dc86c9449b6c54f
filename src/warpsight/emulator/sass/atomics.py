"""Atomic operations of machine code: `ATOM`, `ATOMG`, `ATOMS`, `RED`, `REDG`. The bodies are those of `ptx/atomics.py`.

`CAST` is a compare-and-swap that says whether it took place, 1 or 0 in place of the old value, or from sm_100 on in a predicate
alone. Devices do some operations on generic addresses only where these lie in device memory, and say so in a predicate before the
result; here all are done wherever they lie.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I1, I32, I64, Value, is_float, splat_constant, vector
from warpsight.emulator.ptx.atomics import PACKED, Shape
from warpsight.emulator.ptx.memory import join_halves, split_halves
from warpsight.emulator.sass import mbarriers
from warpsight.emulator.sass.addresses import CACHE_WORDS, address_operand, shared_offsets, wide_address
from warpsight.emulator.sass.common import allow, halves, join, native_of, raw, set_predicate, set_words
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import NativeAddress, NativeInstruction, is_predicate

_NAMES = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS")
_OPERATIONS = {name: name.lower() for name in _NAMES} | {"CAST": "cas"}
# PTX's type of an element, and how many there are. Without any it is a word.
_TYPES = {
    "S32": ("s32", 1), "U32": ("u32", 1), "64": ("u64", 1), "U64": ("u64", 1), "S64": ("s64", 1), "128": ("b128", 1),
    "F32": ("f32", 1), "F32x2": ("f32", 2), "F32x4": ("f32", 4), "F64": ("f64", 1),
    "F16x2": ("f16x2", 1), "F16x4": ("f16x2", 2), "F16x8": ("f16x2", 4),
    "BF16x2": ("bf16x2", 1), "BF16_V2": ("bf16x2", 1), "BF16x4": ("bf16x2", 2), "BF16x8": ("bf16x2", 4),
}  # fmt: skip
_WORDS = {"u64": 2, "s64": 2, "f64": 2, "b128": 4}  # of an element, else 1


def elements(emitter: Emitter, words: Sequence[Value], size: int) -> list[Value]:
    """Integer lanes of `size` (1, 2 or 4) words each, from words with the lowest first."""
    if size == 1:
        return list(words)
    pairs = [join(emitter, low, high) for low, high in zip(words[::2], words[1::2], strict=True)]
    return pairs if size == 2 else [join_halves(emitter, low, high) for low, high in zip(pairs[::2], pairs[1::2], strict=True)]


def words_of(emitter: Emitter, value: Value) -> list[Value]:
    """The 32-bit words of integer lanes of 32, 64 or 128 bits."""
    if value.type.element == I32:
        return [value]
    if value.type.element == I64:
        return list(halves(emitter, value))
    return [word for half in split_halves(emitter, value) for word in halves(emitter, half)]


def shape_of(emitter: Emitter, native: NativeInstruction, *others: str) -> Shape:
    """What the modifiers say: the operation and its type; refuses modifiers that are in neither table nor `others`."""
    allow(emitter, native, *_OPERATIONS, *_TYPES, *CACHE_WORDS, "FTZ", "RN", "SPIN", *others)
    operations = [_OPERATIONS[m] for m in native.modifiers if m in _OPERATIONS]
    types = [_TYPES[m] for m in native.modifiers if m in _TYPES]
    if len(operations) != 1 or len(types) > 1:
        raise emitter.unsupported("its operation or type is not recognized")
    kind, count = types[0] if types else ("u32", 1)
    operation = operations[0]
    single, packed = is_float(kind), kind in PACKED
    if (single and operation not in ("add", "exch")) or (packed and operation not in ("add", "min", "max")):
        raise emitter.unsupported(f"an atomic {operation} of {kind} is not modelled")
    if kind == "f32" and operation == "add" and "FTZ" not in native.modifiers:
        raise emitter.unsupported("an atomic addition of f32 without .FTZ is not modelled")
    return Shape(native.space, operation, kind, count, overwrites=operation == "exch" and not native.writes)


def _located(emitter: Emitter, native: NativeInstruction, address: NativeAddress) -> Value:
    """Where it accesses: offsets in shared memory, else 64-bit addresses."""
    if native.space == "shared":
        return shared_offsets(emitter, address)
    if "E" not in native.modifiers:
        raise emitter.unsupported("a 32-bit address of device memory is not modelled")
    return wide_address(emitter, address)


def atom(emitter: Emitter, instruction: Instruction) -> None:
    """All atomics: `{predicate,} {old value,} [address], operand {, new value}`."""
    native, builder = native_of(instruction), emitter.builder
    if native.base == "ATOMS" and "ARRIVE" in native.modifiers:
        mbarriers.arrive_short(emitter, native)
        return
    if native.base == "ATOMS" and "POPC" in native.modifiers:
        _count(emitter, native)
        return
    shape = shape_of(emitter, native)
    size = _WORDS.get(shape.kind, 1)
    place = next(k for k, operand in enumerate(native.operands) if isinstance(operand, NativeAddress))
    sources = native.operands[place + 1 :]
    if len(sources) != (2 if shape.operation == "cas" else 1):
        raise emitter.unsupported(f"it has {len(sources)} operands behind its address")
    address = address_operand(emitter, native)
    words = [raw(emitter, source, k) for source in sources for k in range(size * shape.count)]
    values = elements(emitter, words, size)
    old = shape.call(emitter, _located(emitter, native, address), values)
    results = [word for value in old for word in words_of(emitter, value)]
    holds = splat_constant(I1, 1)
    if "CAST" in native.modifiers:
        same = builder.icmp_signed("==", old[0], values[0])
        results = [builder.zext(same, vector(I32)), *[splat_constant(I32, 0)] * (size - 1)]
        holds = same if place == 1 else holds
    for target in native.operands[:place]:
        if is_predicate(target):
            set_predicate(emitter, target, holds)
        else:
            set_words(emitter, target, results)


atomg = atoms = red = redg = atom


def _count(emitter: Emitter, native: NativeInstruction) -> None:
    """`ATOMS.POPC.INC.32 RZ, [address]`: each lane adds one."""
    allow(emitter, native, "POPC", "INC", "32")
    target, address = native.operands
    if target.name != "RZ":  # type: ignore[union-attr]
        raise emitter.unsupported("its result is not modelled")
    assert isinstance(address, NativeAddress)
    Shape("shared", "add", "u32", 1).call(emitter, shared_offsets(emitter, address), [splat_constant(I32, 1)])
