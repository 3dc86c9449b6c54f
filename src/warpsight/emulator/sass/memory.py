"""Loads and stores of machine code, constant banks, matrices in shared memory, asynchronous copies, and cache control.

Data are moved as 32-bit words, lowest first; shorter ones are extended. An opcode with `.E` has 64-bit addresses. Asynchronous
copies are made at once (see `ptx/copies.py`).
"""

from __future__ import annotations

from warpsight.emulator.codegen.access import Access, check_global, global_access, local_access, shared_access
from warpsight.emulator.codegen.cluster_addresses import cluster_mask
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I8, I16, I32, I64, Value, lanes_to_mask, mask_to_lanes, splat_constant, vector
from warpsight.emulator.codegen.layout import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from warpsight.emulator.ptx.copies import copy_lanes
from warpsight.emulator.ptx.matrix_tiles import (
    load_byte_matrices,
    load_matrices,
    store_byte_matrices,
    store_matrices,
    transpose_matrix,
)
from warpsight.emulator.ptx.memory import generic_access
from warpsight.emulator.sass.addresses import CACHE_WORDS, address_operand, shared_offsets, short_address, wide_address
from warpsight.emulator.sass.common import (
    allow,
    constant_elements,
    native_of,
    predicate,
    raw,
    set_predicate,
    set_word,
    set_words,
)
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import HALVED, NativeAddress, NativeConstant, NativeInstruction, NativeOperand, kept_words

_SIGNED, _NARROW = {"S8": I8, "S16": I16}, {"U8": I8, "S8": I8, "U16": I16, "S16": I16}
_WIDE = {"64": 2, "128": 4}
_SIZES = (*_NARROW, *_WIDE, "32")


# -- What is moved.


def _moved(emitter: Emitter, native: NativeInstruction, values: NativeOperand | None) -> Access:
    """The access of a load, or with an operand for the `values` that of a store."""
    narrow = next((m for m in native.modifiers if m in _NARROW), "")
    count = next((_WIDE[m] for m in native.modifiers if m in _WIDE), 1)
    element, builder = _NARROW.get(narrow, I32), emitter.builder
    if values is None:
        return Access(element, element.width // 8, count)
    words = [raw(emitter, values, k) for k in range(count)]
    if narrow:
        words = [builder.trunc(words[0], vector(element))]
    return Access(element, element.width // 8, count, tuple(words))


def _extended(emitter: Emitter, native: NativeInstruction, values: list[Value]) -> list[Value]:
    """Loaded elements as 32-bit words."""
    if values[0].type.element == I32:
        return values
    signed = any(m in _SIGNED for m in native.modifiers)
    return [(emitter.builder.sext if signed else emitter.builder.zext)(value, vector(I32)) for value in values]


def _perform(emitter: Emitter, space: str, address: NativeAddress, access: Access) -> list[Value]:
    site = I64(emitter.kernel.next_site())
    if space == "shared":
        return shared_access(emitter, shared_offsets(emitter, address), access, site)
    if space == "local":
        return local_access(emitter, short_address(emitter, address), access, site)
    where = wide_address(emitter, address)
    return global_access(emitter, where, access, site) if space == "global" else generic_access(emitter, where, access, site)


def _load(emitter: Emitter, instruction: Instruction) -> None:
    native = native_of(instruction)
    if HALVED in native.modifiers:
        _load_halves(emitter, native)
        return
    allow(emitter, native, *CACHE_WORDS, *_SIZES, "U")
    if len(native.operands) != 2:
        raise emitter.unsupported("a load with a predicate is not modelled")
    _need_wide(emitter, native)
    values = _perform(emitter, native.space, address_operand(emitter, native), _moved(emitter, native, None))
    set_words(emitter, native.operands[0], _extended(emitter, native, values))


def _load_halves(emitter: Emitter, native: NativeInstruction) -> None:
    """`LDG.E.ENL2.256 upper, lower, [address], mask`: eight words, of which the mask says which are kept, one behind the other."""
    allow(emitter, native, *CACHE_WORDS, HALVED, "256")
    upper, lower, *_ = native.operands
    _need_wide(emitter, native)
    values = _perform(emitter, native.space, address_operand(emitter, native), Access(I32, 4, 8))
    for target, words in zip((lower, upper), kept_words(native.operands), strict=True):
        if words:
            set_words(emitter, target, [values[word] for word in words])


def _store(emitter: Emitter, instruction: Instruction) -> None:
    native = native_of(instruction)
    if HALVED in native.modifiers:  # `STG.E.ENL2.256 [address], lower, upper`: eight words
        allow(emitter, native, *CACHE_WORDS, HALVED, "256")
        _, lower, upper = native.operands
        _need_wide(emitter, native)
        words = tuple(raw(emitter, half, k) for half in (lower, upper) for k in range(4))
        _perform(emitter, native.space, address_operand(emitter, native), Access(I32, 4, 8, words))
        return
    allow(emitter, native, *CACHE_WORDS, *_SIZES)
    if len(native.operands) != 2:
        raise emitter.unsupported("a store with a predicate is not modelled")
    _need_wide(emitter, native)
    _perform(emitter, native.space, address_operand(emitter, native), _moved(emitter, native, native.operands[1]))


def _need_wide(emitter: Emitter, native: NativeInstruction) -> None:
    """Refuse 32-bit addresses of device memory, which no 64-bit program has."""
    if native.space in ("global", "generic") and "E" not in native.modifiers:
        raise emitter.unsupported("a 32-bit address of device memory is not modelled")


def ldg(emitter: Emitter, instruction: Instruction) -> None:
    """`LDG`: load from device memory."""
    _load(emitter, instruction)


def stg(emitter: Emitter, instruction: Instruction) -> None:
    """`STG`: store to device memory."""
    _store(emitter, instruction)


ld = lds = ldl = ldg  # a generic address; shared memory; local memory
st = sts = stl = stg


def ldc(emitter: Emitter, instruction: Instruction) -> None:
    """`LDC`, `ULDC`, `LDCU`: load from a constant bank, whose address may have a register."""
    native = native_of(instruction)
    allow(emitter, native, *_SIZES)
    target, source = native.operands
    if not isinstance(source, NativeConstant):
        raise emitter.unsupported("its source is not in a constant bank")
    access = _moved(emitter, native, None)
    values = constant_elements(emitter, source, access.element, access.element_bytes, access.count)
    set_words(emitter, target, _extended(emitter, native, values))


ldcu = ldc


# -- 8x8 matrices of 16-bit elements in shared memory and registers.


def _matrices(emitter: Emitter, native: NativeInstruction) -> tuple[int, bool]:
    """How many matrices, and whether they are transposed."""
    allow(emitter, native, "16", "M88", "MT88", "2", "4")
    return _matrix_count(native), "MT88" in native.modifiers


_BYTE_MATRICES = {"8": 8, "U6x16P32TO8": 6, "U4x16P64TO8": 4}  # bits of an element in memory


def _matrix_count(native: NativeInstruction) -> int:
    return next((int(m) for m in native.modifiers if m in ("2", "4")), 1)


def ldsm(emitter: Emitter, instruction: Instruction) -> None:
    """`LDSM`: `ldmatrix`."""
    native = native_of(instruction)
    offsets = shared_offsets(emitter, address_operand(emitter, native))
    if bits := next((n for word, n in _BYTE_MATRICES.items() if word in native.modifiers), 0):
        allow(emitter, native, *_BYTE_MATRICES, "MT1616", "M816", "2", "4")
        turned = "MT1616" in native.modifiers
        values = load_byte_matrices(emitter, _matrix_count(native), turned, bits, offsets)
    else:
        count, turned = _matrices(emitter, native)
        values = load_matrices(emitter, count, turned, offsets)
    set_words(emitter, native.operands[0], values)


def stsm(emitter: Emitter, instruction: Instruction) -> None:
    """`STSM`: `stmatrix`."""
    native = native_of(instruction)
    values = [raw(emitter, native.operands[1], k) for k in range(_matrix_count(native))]
    offsets = shared_offsets(emitter, address_operand(emitter, native))
    if "MT168" in native.modifiers:
        allow(emitter, native, "8", "MT168", "2", "4")
        store_byte_matrices(emitter, len(values), offsets, values)
        return
    count, turned = _matrices(emitter, native)
    store_matrices(emitter, count, turned, offsets, values)


def movm(emitter: Emitter, instruction: Instruction) -> None:
    """`MOVM`: `movmatrix`."""
    native = native_of(instruction)
    if _matrices(emitter, native) != (1, True):
        raise emitter.unsupported("only .16.MT88 is modelled")
    set_word(emitter, native.operands[0], transpose_matrix(emitter, raw(emitter, native.operands[1])))


# -- Asynchronous copies of each lane from device to shared memory.


def ldgsts(emitter: Emitter, instruction: Instruction) -> None:
    """`LDGSTS [shared], [device]{, predicate}`: where the predicate is false zeros are stored.

    With `.ZFILL` the source is aligned down, and as many bytes at the end are zeros as it lay behind that.
    """
    native = native_of(instruction)
    allow(emitter, native, *CACHE_WORDS, *_WIDE, "ZFILL")
    target = shared_offsets(emitter, address_operand(emitter, native))
    source, sizes = _copied(emitter, native)
    copy_lanes(emitter, native.access_bytes, source, target, sizes)


def _copied(emitter: Emitter, native: NativeInstruction) -> tuple[Value, Value]:
    """Where each lane of a copy reads device memory, and how many bytes."""
    builder, size = emitter.builder, native.access_bytes
    source = wide_address(emitter, address_operand(emitter, native, 1))
    sizes = splat_constant(I32, size)
    if "ZFILL" in native.modifiers:
        behind = builder.and_(source, splat_constant(I64, size - 1))
        source = builder.sub(source, behind)
        sizes = builder.sub(sizes, builder.trunc(behind, vector(I32)))
    if len(native.operands) == 3:
        sizes = builder.select(predicate(emitter, native.operands[2]), sizes, splat_constant(I32, 0))
    return source, sizes


# -- Where each lane goes.

_PLAIN = ("LD", "LDG", "LDL", "LDS", "ST", "STG", "STL", "STS", "ATOM", "ATOMG", "ATOMS", "RED", "REDG", "LDGSTS")


def lane_addresses(emitter: Emitter, instruction: Instruction) -> tuple[Value, Value] | None:
    """Address and mask of the lanes of a plain access to memory: see `InstructionSet.addresses`. Of a copy, where it reads."""
    native, builder = native_of(instruction), emitter.builder
    if native.base not in _PLAIN or "ARRIVE" in native.modifiers:
        return None
    if native.base == "LDGSTS":
        source, sizes = _copied(emitter, native)
        reads = lanes_to_mask(builder, builder.icmp_signed("!=", sizes, splat_constant(I32, 0)))
        return source, builder.and_(reads, emitter.active_mask)
    address = address_operand(emitter, native)
    if native.space == "shared":
        return builder.zext(shared_offsets(emitter, address), vector(I64)), emitter.active_mask
    if native.space == "local":
        return builder.zext(short_address(emitter, address), vector(I64)), emitter.active_mask
    return wide_address(emitter, address), emitter.active_mask


def ldgdepbar(emitter: Emitter, instruction: Instruction) -> None:
    """Waits, fences and cache control: nothing is late here, and there are no caches."""


depbar = membar = errbar = cgaerrbar = fence = utmacmdflush = cctll = ldgdepbar
_LINE = 128  # bytes that are discarded


def cctl(emitter: Emitter, instruction: Instruction) -> None:
    """`CCTL`: `discard` (`.RML2`) is checked as the write that it replaces, everything else does nothing."""
    native = native_of(instruction)
    if "RML2" in native.modifiers:
        addresses = wide_address(emitter, address_operand(emitter, native))
        check_global(emitter, addresses, _LINE, True, I64(emitter.kernel.next_site()))


# -- Which space a generic address lies in.


def qspc(emitter: Emitter, instruction: Instruction) -> None:
    """`QSPC.E.{G,S,L,D} predicate, RZ, [address]`: device, shared, local memory; shared memory of the cluster."""
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "E", "G", "S", "L", "D")
    addresses = wide_address(emitter, address_operand(emitter, native))
    if "G" in native.modifiers:
        inside = builder.icmp_unsigned(">=", addresses, splat_constant(I64, LOCAL_WINDOW + WINDOW_BYTES))
        if emitter.clustered:
            inside = builder.and_(inside, builder.not_(mask_to_lanes(builder, cluster_mask(emitter, addresses))))
    else:
        window = LOCAL_WINDOW if "L" in native.modifiers else SHARED_WINDOW
        offset = builder.sub(addresses, splat_constant(I64, window))
        inside = builder.icmp_unsigned("<", offset, splat_constant(I64, WINDOW_BYTES))
        if emitter.clustered and "D" in native.modifiers:
            inside = builder.or_(inside, mask_to_lanes(builder, cluster_mask(emitter, addresses)))
    set_predicate(emitter, native.operands[0], inside)
