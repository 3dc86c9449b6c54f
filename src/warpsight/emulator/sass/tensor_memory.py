"""Tensor memory and products in machine code: `UTCHMMA` and its kin, `UTCCP`, `UTCSHIFT`, `UTCBAR`, `UTCATOMSWS`, `LDTM`, `STTM`.

The bodies are those of `ptx/tensor_memory_requests.py`, also for pairs of blocks (`.2CTA`). All operands but the data of `LDTM` and
`STTM` are uniform, so one lane issues what is not an operation of the whole warp.

The assembler makes code of `tcgen05.alloc` that marks the columns in words of the reserved shared memory (see `system.py`) and
asks the hardware for them, by `UTCATOMSWS`, until it gets some.
"""

from __future__ import annotations

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I1, I32, I64, Value, population, splat, splat_constant, trailing_zeros, vector
from warpsight.emulator.codegen.layout import WARP, Fault
from warpsight.emulator.ptx import tensor_memory_engine as engine
from warpsight.emulator.ptx.tensor_memory_requests import Move, allocate, copy, free, multiply, note_commit, shift
from warpsight.emulator.sass.addresses import address_operand, shared_offsets
from warpsight.emulator.sass.common import allow, join, keeps, native_of, predicate, raw, set_predicate, set_word, set_words
from warpsight.emulator.sass.mbarriers import arrive_once, one_lane
from warpsight.isa.ptx.program import Instruction
from warpsight.isa.sass.native import (
    NativeDescriptors,
    NativeImmediate,
    NativeInstruction,
    NativeOperand,
    NativeRegister,
    NativeTensorMemory,
    is_predicate,
)
from warpsight.isa.sass.registers import tensor_memory_words

_GRANULE_BITS, _GRANULES = 5, 16  # `UTCATOMSWS` counts columns by 32


def _blocks(emitter: Emitter, native: NativeInstruction) -> int:
    """How many blocks take part. Outside of a cluster a pair lacks the block with rank 1: programs compile code for both."""
    if "2CTA" not in native.modifiers:
        return 1
    if not emitter.clustered:
        someone = emitter.builder.icmp_signed("!=", emitter.active_mask, I32(0))
        emitter.stop_if(someone, Fault.CLUSTER_RANK, lambda: (I32(0), I64(1)))
        return 1
    return 2


def _place(emitter: Emitter, operand: NativeOperand) -> Value:
    """An address in tensor memory (<32 x i64>)."""
    if not isinstance(operand, NativeTensorMemory):
        raise emitter.unsupported(f"operand {operand!r} is not an address in tensor memory")
    base = raw(emitter, NativeRegister(operand.name))
    place = emitter.builder.add(base, splat_constant(I32, operand.offset & 0xFFFFFFFF))
    return emitter.builder.zext(place, vector(I64))


def _descriptor(emitter: Emitter, operand: NativeOperand) -> Value:
    """The descriptor of a matrix in shared memory (<32 x i64>)."""
    if not isinstance(operand, NativeDescriptors):
        raise emitter.unsupported(f"operand {operand!r} is not a matrix descriptor")
    register = NativeRegister(operand.name)
    return join(emitter, raw(emitter, register), raw(emitter, register, 1))


def _wide(emitter: Emitter, operand: NativeOperand, word: int = 0) -> Value:
    return emitter.builder.zext(raw(emitter, operand, word), vector(I64))


# -- Allocation.


def utcatomsws(emitter: Emitter, instruction: Instruction) -> None:
    """`UTCATOMSWS{.2CTA}.FIND_AND_SET.ALIGN P, first, count`: takes columns; P says whether there were enough.
    `UTCATOMSWS.AND old, mask`: gives back those whose bit is zero.
    """
    native, builder = native_of(instruction), emitter.builder
    allow(emitter, native, "2CTA", "FIND_AND_SET", "ALIGN", "AND")
    if "AND" in native.modifiers:
        target, kept = native.operands
        if keeps(target) or "2CTA" in native.modifiers:
            raise emitter.unsupported("its result is not modelled")
        lane = builder.and_(trailing_zeros(builder, emitter.active_mask), I32(WARP - 1))
        given = builder.and_(builder.not_(builder.extract_element(raw(emitter, kept), lane)), I32((1 << _GRANULES) - 1))
        numbers = trailing_zeros(builder, given), population(builder, given)
        free(one_lane(emitter), *(_columns(emitter, splat(builder, number)) for number in numbers))
        return
    found, target, count = native.operands
    address = allocate(one_lane(emitter), _columns(emitter, raw(emitter, count)), _blocks(emitter, native))
    first = builder.lshr(builder.trunc(address, I32), I32(_GRANULE_BITS))
    set_word(emitter, target, splat(builder, first))
    set_predicate(emitter, found, splat_constant(I1, 1))


def _columns(emitter: Emitter, granules: Value) -> Value:
    return emitter.builder.shl(emitter.builder.zext(granules, vector(I64)), splat_constant(I64, _GRANULE_BITS))


# -- Loads, stores and copies.

_SHAPES = {
    "16dp64bit": "16x64b", "16dp128bit": "16x128b", "16dp256bit": "16x256b", "16dp32bit_t0_t15": "16x32bx2",
    "16dp32bit_t16_t31": "16x32bx2",
}  # fmt: skip
_HALVES = {"16dp32bit_t0_t15": range(16), "16dp32bit_t16_t31": range(16, 32)}  # two instructions for the halves of the lanes


def ldtm(emitter: Emitter, instruction: Instruction) -> None:
    """`LDTM{.shape}{.x4}{.PACK16BIT} R, tmem[UR]`, `STTM{.shape}{.x4}{.EXPAND16BIT} tmem[UR], R`."""
    native, builder = native_of(instruction), emitter.builder
    times = [f"x{1 << k}" for k in range(8)]
    loads = native.base == "LDTM"
    packed = "PACK16BIT" if loads else "EXPAND16BIT"
    allow(emitter, native, *_SHAPES, *times, packed)
    shape = next((m for m in native.modifiers if m in _SHAPES), "")
    move = Move(_SHAPES.get(shape, "32x32b"), tensor_memory_words(native.mnemonic), packed=packed in native.modifiers, waits=True)
    data, place = native.operands if loads else native.operands[::-1]
    address, half = _place(emitter, place), _HALVES.get(shape)
    if loads:
        values = move.load(emitter, address)
        if half is not None:
            own = vector(I1)([int(lane in half) for lane in range(WARP)])
            values = [builder.select(own, value, raw(emitter, data, k)) for k, value in enumerate(values)]
        set_words(emitter, data, values)
    else:
        values = [raw(emitter, data, k) for k in range(move.count)]
        if half is not None:  # the lanes of both halves write the same
            order = vector(I32)([half[lane % len(half)] for lane in range(WARP)])
            values = [builder.shuffle_vector(value, value, order) for value in values]
        move.store(emitter, address, values)


sttm = ldtm

_UNPACKED = {"U6x16P32": 6, "U4x16P64": 4}  # the bits of an element in shared memory, that becomes a byte
_COPIES = {
    "": "128x256b", "4dp256bit": "4x256b", "128dp128bit": "128x128b", "2x64dp128bit_lw02_lw13": "64x128b.warpx2::02_13",
    "2x64dp128bit_lw01_lw23": "64x128b.warpx2::01_23", "4x32dp128bit": "32x128b.warpx4",
}  # fmt: skip


def utccp(emitter: Emitter, instruction: Instruction) -> None:
    """`UTCCP.T.S{.2CTA}{.shape}{.U6x16P32} tmem[UR], gdesc[UR]`: from shared memory to tensor memory."""
    native = native_of(instruction)
    allow(emitter, native, "T", "S", "2CTA", *_COPIES, *_UNPACKED)
    if native.modifiers[:2] != ("T", "S"):
        raise emitter.unsupported("a copy from tensor memory is not modelled")
    name = _COPIES[next((m for m in native.modifiers if m in _COPIES), "")]
    bits = next((_UNPACKED[m] for m in native.modifiers if m in _UNPACKED), 0)
    place, source = native.operands
    copy(one_lane(emitter), name, _place(emitter, place), _descriptor(emitter, source), _blocks(emitter, native), bits)


def utcshift(emitter: Emitter, instruction: Instruction) -> None:
    """`UTCSHIFT{.2CTA}.DOWN tmem[UR]`: rows of one quarter of the lanes."""
    native = native_of(instruction)
    allow(emitter, native, "2CTA", "DOWN")
    shift(one_lane(emitter), _place(emitter, native.operands[0]), _blocks(emitter, native))


def utcbar(emitter: Emitter, instruction: Instruction) -> None:
    """`UTCBAR{.2CTA}{.MULTICAST} [mbarrier], URZ{, blocks}`: arrives when the products before it are done, which they are."""
    native = native_of(instruction)
    allow(emitter, native, "2CTA", "MULTICAST")
    _blocks(emitter, native)
    _, count, *blocks = native.operands
    if not isinstance(count, NativeRegister) or keeps(count) or len(blocks) != ("MULTICAST" in native.modifiers):
        raise emitter.unsupported("its operands are not recognized")
    offsets = shared_offsets(emitter, address_operand(emitter, native), others=True)
    note_commit(one_lane(emitter), offsets)
    arrive_once(emitter, offsets, raw(emitter, blocks[0]) if blocks else None)


# -- Products.

_HINTS = {"A_KEEP", "A_REUSE", "B_KEEP", "B_REUSE", "BUFFER1", "BUFFER2", "BUFFER3"}  # what to keep of A, or of B


def utchmma(emitter: Emitter, instruction: Instruction) -> None:
    """`UTCHMMA{.2CTA}{.WS}{.ASHIFT} A, B, D, metadata, form{, disabled lanes}, adds{, scale}`: halves and TF32, as `form` says.

    A is `gdesc[UR]` or `tmem[UR]`, D is `tmem[UR]`. The metadata count for a sparse A only, which `form` says, too.
    """
    form = _form(emitter, native_of(instruction))
    wide = emitter.builder.and_(emitter.builder.lshr(form, splat_constant(I64, 7)), splat_constant(I64, 7))
    is_tf32 = emitter.builder.icmp_signed("==", wide, splat_constant(I64, engine.TF32_FORMAT))
    kinds = [splat_constant(I64, kind) for kind in (engine.TF32, engine.F16)]
    _multiply(emitter, native_of(instruction), emitter.builder.select(is_tf32, *kinds))


def utcimma(emitter: Emitter, instruction: Instruction) -> None:
    """`UTCIMMA`: the same of 8-bit integers."""
    _multiply(emitter, native_of(instruction), splat_constant(I64, engine.I8))


def utcqmma(emitter: Emitter, instruction: Instruction) -> None:
    """`UTCQMMA A, B, D, metadata, form{, scales of A and B}, adds`: floats of 8, 6 or 4 bits."""
    scaled = _has_scales(native_of(instruction))
    _multiply(emitter, native_of(instruction), splat_constant(I64, engine.MXF8F6F4 if scaled else engine.F8F6F4), parts=int(scaled))


def utcomma(emitter: Emitter, instruction: Instruction) -> None:
    """`UTCOMMA{.4X}`: floats of 4 bits, with two or four scales to a row."""
    native = native_of(instruction)
    parts = 4 if "4X" in native.modifiers else 2
    _multiply(emitter, native, splat_constant(I64, engine.MXF4NVF4 if parts == 4 else engine.MXF4), parts=parts)


def _form(emitter: Emitter, native: NativeInstruction) -> Value:
    return _wide(emitter, native.operands[4])


def _has_scales(native: NativeInstruction) -> bool:
    return isinstance(native.operands[5], NativeTensorMemory)


def _multiply(emitter: Emitter, native: NativeInstruction, kind: Value, *, parts: int = 0) -> None:
    """D = A B + D, with the kind of its types (<32 x i64>) and the parts of the depth that have scales."""
    allow(emitter, native, "2CTA", "ASHIFT", *(("4X",) if parts > 1 else () if parts else ("WS",)))
    builder, blocks, stationary = emitter.builder, _blocks(emitter, native), "WS" in native.modifiers
    a, b, d, metadata, _, *rest = native.operands
    if {*_words(a), *_words(b)} - _HINTS or bool(parts) != _has_scales(native):
        raise emitter.unsupported("its operands are not recognized")
    inside, form = isinstance(a, NativeTensorMemory), _form(emitter, native)
    sparse = builder.icmp_signed("!=", builder.and_(form, splat_constant(I64, engine.SPARSE)), splat_constant(I64, 0))
    words = {
        engine.TARGET: _place(emitter, d), engine.LEFT: _place(emitter, a) if inside else _descriptor(emitter, a),
        engine.RIGHT: _descriptor(emitter, b), engine.FORM: form, engine.KIND: kind,
        engine.METADATA: builder.select(sparse, _place(emitter, metadata), splat_constant(I64, -1)),
    }  # fmt: skip
    if parts:
        scales = NativeRegister(rest.pop(0).name)  # type: ignore[union-attr]
        words |= {word: _wide(emitter, scales, k) for k, word in enumerate((engine.SCALES_A, engine.SCALES_B))}
    disabled = None if is_predicate(rest[0]) else rest.pop(0)
    if stationary and disabled is not None:
        raise emitter.unsupported("a mask of zero columns is not modelled")
    for k in range(4 * blocks):
        words[engine.DISABLED + k] = splat_constant(I64, 0) if disabled is None else _wide(emitter, disabled, k)
    words[engine.ADDS] = builder.zext(predicate(emitter, rest.pop(0)), vector(I64))
    scale = rest.pop(0) if rest else NativeImmediate(0, 0)
    if rest or not isinstance(scale, NativeImmediate):
        raise emitter.unsupported("its operands are not recognized")
    constants = {
        engine.LEFT_INSIDE: int(inside), engine.HALVINGS: scale.value, engine.PARTS: parts, engine.STATIONARY: int(stationary),
        engine.SHIFTS: int("ASHIFT" in native.modifiers),
    }  # fmt: skip
    multiply(one_lane(emitter), words, constants, blocks)


def _words(operand: NativeOperand) -> tuple[str, ...]:
    return operand.words if isinstance(operand, NativeDescriptors | NativeTensorMemory) else ()
