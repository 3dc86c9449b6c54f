"""What the system around a kernel provides to machine code: special registers, the launch's words in constant bank 0, and calls of
functions of the device runtime.

Where the words lie was read off code that NVIDIA's compiler makes of PTX whose special registers are known.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from llvmlite import ir

from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    PTR,
    Value,
    at,
    intrinsic,
    lanes_to_mask,
    load_as,
    mask_to_lanes,
    splat_constant,
    store_as,
    vector,
)
from warpsight.emulator.codegen.layout import CLUSTER_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WARP, Fault
from warpsight.emulator.ptx.system import EXTERNAL_NUMBERS, MOST_EXTERNAL_ARGUMENTS, emit_special
from warpsight.emulator.sass.common import (
    address_of,
    code_address,
    halves,
    join,
    native_of,
    section_address,
    set_wide,
    set_word,
    wide_integer,
)
from warpsight.isa.ptx.linking import EXTERNALS
from warpsight.isa.ptx.program import Function, Instruction, Module
from warpsight.isa.sass.native import NativeConstant, NativeRegister, NativeSymbol, NativeWord
from warpsight.kernels.launch import Launch


@dataclass(frozen=True)
class _Words:
    """Byte offsets in constant bank 0, for a kernel whose parameters begin at `first` there or later.

    `block` and `grid` are three words each; `shared` and `local` the 64-bit addresses at which generic addresses of these begin
    (None: code has them from a special register); `workspace` that of the grid's barrier, in two words of which the upper comes
    first; `system_shared` is what the system takes of shared memory. GPUs with clusters have the most shared memory that counts
    (None: no clusters), whether the launch asks for them, the shape of a cluster with the reciprocals of its sizes, the number of
    clusters, and of the blocks in one. Where some words have a copy for each size of a cluster, code goes back from them by
    `by_size` for each block of the cluster. At `parameters` (None: no tensor maps) is the generic address of the parameters, that
    of `first`.
    """

    first: int
    block: int
    grid: int
    shared: int | None
    local: int
    stack: int
    dynamic_shared: int
    grid_number: int
    multiprocessors: int
    workspace: int
    system_shared: int
    most_shared: int | None = None
    explicit_cluster: int = 0
    cluster: int = 0
    reciprocals: int = 0
    clusters: int = 0
    cluster_blocks: int = 0
    by_size: int = 0
    parameters: int | None = None


_BEFORE_HOPPER = _Words(
    0x0, 0x0, 0xC, 0x18, 0x20, 0x28, 0x2C, 0x30, 0x10C, 0x8C, 0x114
)
_HOPPER = _Words(
    0x210, 0x0, 0xC, 0x18, 0x20, 0x28, 0x2C, 0x30, 0x10C, 0x44, 0x114, 0x13C, 0x140, 0x144, 0x150, 0x15C, 0x188, 0, 0x198
)
_BLACKWELL = _Words(
    0x380, 0x360, 0x370, None, 0x2F8, 0x37C, 0x2AC, 0x140, 0x2D0, 0x254, 0x16C, 0x2BC, 0x36C, 0x2A0, 0x2B0, 0x2C0, 0x2CC, 0xA0,
    0x348,
)


def _words(parameters: int) -> _Words:
    return next(words for words in (_BLACKWELL, _HOPPER, _BEFORE_HOPPER) if parameters >= words.first)


def fill_launch_words(memory: Any, launch: Launch, local_bytes: int, parameters: int, system_shared: int) -> None:
    """Write the launch's shape, the windows and the initial stack pointer into constant bank 0 of `memory`.

    `parameters` is the offset there at which the kernel's parameters begin; `system_shared` in bytes of a block.
    """
    bank, words = memory.parameters, _words(parameters)
    by_size = words.by_size  # SR_CgaSize always names the first copy
    struct.pack_into("<3I", bank, words.block, *launch.block)
    struct.pack_into("<3I", bank, words.grid, *launch.grid)
    if words.shared is not None:
        struct.pack_into("<Q", bank, words.shared, SHARED_WINDOW)
    struct.pack_into("<Q", bank, words.local, LOCAL_WINDOW)
    struct.pack_into("<I", bank, words.stack, local_bytes)
    struct.pack_into("<I", bank, words.dynamic_shared - by_size, launch.shared_bytes)
    struct.pack_into("<Q", bank, words.grid_number, 1)
    struct.pack_into("<I", bank, words.system_shared, system_shared)
    struct.pack_into("<I", bank, words.multiprocessors, 1)
    struct.pack_into("<2I", bank, words.workspace - by_size, memory.workspace >> 32, memory.workspace & 0xFFFFFFFF)
    if words.parameters is not None:
        struct.pack_into("<Q", bank, words.parameters, PARAM_WINDOW + words.first)
    if words.most_shared is not None:
        struct.pack_into("<I", bank, words.most_shared - by_size, 0xFFFFFFFF)
        shape = launch.cluster or (1, 1, 1)
        struct.pack_into("<I", bank, words.explicit_cluster, launch.cluster is not None)
        struct.pack_into("<3I", bank, words.cluster - by_size, *shape)
        struct.pack_into("<3f", bank, words.reciprocals - by_size, *map(_reciprocal, shape))
        struct.pack_into("<3I", bank, words.clusters - by_size, *(n // size for n, size in zip(launch.grid, shape, strict=True)))
        struct.pack_into("<I", bank, words.cluster_blocks - by_size, math.prod(shape))


# Code of `tcgen05.alloc` for a pair of blocks passes the columns on through an mbarrier object in reserved shared memory, for one
# arrival, and flips a parity behind it each time. It initialises neither. The block with the even rank waits first for the answer
# to the message before, so its parity must begin with that of the phase before the first.
_COUNT_OF_ONE = 0xFFFFF << 43 | 0xFFFFF << 1


def reserved_words(rank: int) -> bytes:
    """What a block of this rank in its cluster finds at the `pair_object` of `KernelImage` before its first instruction."""
    return struct.pack("<QI", _COUNT_OF_ONE, 1 - rank % 2)


def _reciprocal(size: int) -> float:
    """A single-precision 1 / size that is not too small: code multiplies the number of a block by it and rounds down."""
    nearest = np.float32(1) / np.float32(size)
    return float(nearest if Fraction(float(nearest)) >= Fraction(1, size) else np.nextafter(nearest, np.float32(2)))


def reads_workspace(function: Function, parameters: int) -> bool:
    """Whether the kernel asks for the workspace of its grid; `parameters` as for `fill_launch_words`."""
    first = _words(parameters).workspace
    operands = (operand for i in function.instructions if i.native is not None for operand in i.native.operands)
    return any(isinstance(o, NativeConstant) and o.bank == 0 and first - 4 <= o.offset <= first + 4 for o in operands)


def has_half_atomics(module: Module) -> bool:
    """Whether the program may have 16-bit atomics, for which machine code exchanges the whole word around the operand.

    On a GPU this is allowed, since memory is allocated in larger pieces. For a cubin the answer is yes, as its PTX is not known.
    """
    instructions = [i for function in module.functions.values() for i in function.instructions]
    atomics = (i for i in instructions if i.opcode in ("atom", "red"))
    return not instructions or any({"b16", "f16", "bf16"} & set(i.modifiers) for i in atomics)


# -- Special registers.

_SPECIALS = {
    **{f"SR_{name}.{axis.upper()}": f"%{ptx}.{axis}" for name, ptx in (("TID", "tid"), ("CTAID", "ctaid")) for axis in "xyz"},
    **{f"SR_NTID.{axis.upper()}": f"%ntid.{axis}" for axis in "xyz"},
    **{f"SR_{name}MASK": f"%lanemask_{name.lower()}" for name in ("EQ", "LT", "LE", "GT", "GE")},
    "SR_LANEID": "%laneid", "SR_CgaCtaId": "%cluster_ctarank", "SR_SMEMSZ": "%aggr_smem_size",
    "SR_VIRTUALSMID": "%smid", "SR_SMID": "%smid", "SR_NSMID": "%nsmid",
    "SR_WARPID": "%warpid", "SR_NWARPID": "%nwarpid", "SR_CLOCKLO": "%clock", "SR_CLOCKHI": "%clock_hi",
    "SR_GLOBALTIMERLO": "%globaltimer_lo", "SR_GLOBALTIMERHI": "%globaltimer_hi",
    **{f"SR_PM{k}": f"%pm{k}" for k in range(8)},
}  # fmt: skip
_IN_BYTE_1 = {"SR_VIRTID": "%warpid", "SR_VIRTCFG": "%nwarpid"}  # bits 8 to 15; those of the multiprocessor's number are 0
# Generic addresses of shared memory in the code of sm_90 and later: the rank of the block in its cluster from bit 24 on, and these
# upper bits (see `cluster_addresses.py`). A thread's stack may grow down to LMEMHIOFF.
_CONSTANTS = {"SRZ": 0, "SR_LMEMHIOFF": 0, "SR_SWINHI": CLUSTER_WINDOW >> 32, "SR_CgaSize": 1}


def special(emitter: Emitter, name: str) -> Value:
    """Lanes (i32) of a special register."""
    if name in _CONSTANTS:
        return splat_constant(I32, _CONSTANTS[name])
    if name in _SPECIALS:
        return emitter.reinterpret(emit_special(emitter, _SPECIALS[name]), I32)
    if name in _IN_BYTE_1:
        return emitter.builder.shl(emitter.reinterpret(emit_special(emitter, _IN_BYTE_1[name]), I32), splat_constant(I32, 8))
    raise emitter.unsupported(f"special register {name} is not modelled")


def s2r(emitter: Emitter, instruction: Instruction) -> None:
    """`S2R`, `S2UR`: a special register."""
    target, source = native_of(instruction).operands
    assert isinstance(source, NativeWord)
    set_word(emitter, target, special(emitter, source.text))


s2ur = s2r


def cs2r(emitter: Emitter, instruction: Instruction) -> None:
    """`CS2R`: a special register, or a pair of them."""
    native = native_of(instruction)
    target, source = native.operands
    assert isinstance(source, NativeWord)
    if "32" in native.modifiers:
        set_word(emitter, target, special(emitter, source.text))
    elif source.text == "SRZ":
        set_wide(emitter, target, splat_constant(I64, 0))
    else:
        low, high = (special(emitter, source.text.removesuffix("LO") + half) for half in ("LO", "HI"))
        set_wide(emitter, target, join(emitter, low, high))


def lepc(emitter: Emitter, instruction: Instruction) -> None:
    """`LEPC`: the address of this instruction, or of one that has a label."""
    target, *label = native_of(instruction).operands
    address = address_of(emitter, label[0]) if label and isinstance(label[0], NativeSymbol) else code_address(instruction.index)
    set_wide(emitter, target, splat_constant(I64, address))


# -- Calls of functions that the runtime provides: arguments from R4 on, 64-bit ones in even pairs, the result in R4.

_FIRST_ARGUMENT = 4


def call(emitter: Emitter, instruction: Instruction) -> None:
    """`CALL` of a function that is not in the code: `printf`, `malloc`, `free`, `assert`; by name, or through a register."""
    target = native_of(instruction).operands[0]
    if isinstance(target, NativeSymbol):
        if target.name not in EXTERNALS:
            raise emitter.unsupported(f'"{target.name}", which it calls, is not known')
        _call_external(emitter, target.name, emitter.active_mask)
        return
    if not emitter.kernel.symbols.externals:
        raise emitter.unsupported("no function is known that it may call")
    values = target_address(emitter, instruction)
    lost = call_externals(emitter, values)
    emitter.stop_lanes(lost, Fault.CALL_TARGET, lambda lane: emitter.builder.extract_element(values, lane))


def target_address(emitter: Emitter, instruction: Instruction) -> Value:
    """Where a call, return or branch through a register goes, as 64-bit lanes.

    Relative ones count from the section that is named behind the register; branches by index have the distance to its start there.
    """
    native, builder = native_of(instruction), emitter.builder
    registers = [operand for operand in native.operands if isinstance(operand, NativeRegister) and not operand.is_predicate]
    if not registers:
        raise emitter.unsupported("no register says where it goes")
    register = registers[0]
    value = wide_integer(emitter, register)
    if "ABS" in native.modifiers:
        return value
    return builder.add(value, splat_constant(I64, section_address(emitter, instruction.index)))


def call_externals(emitter: Emitter, values: Value) -> Value:
    """Call functions of the runtime in the lanes whose address in `values` is that of one; the active lanes (i32) that are left."""
    builder, left = emitter.builder, emitter.active_mask
    for name, address in emitter.kernel.symbols.externals.items():
        here = lanes_to_mask(builder, builder.icmp_signed("==", values, splat_constant(I64, address)))
        _call_external(emitter, name, builder.and_(here, emitter.active_mask))
        left = builder.and_(left, builder.not_(here))
    return left


def _call_external(emitter: Emitter, name: str, lanes: Value) -> None:
    """Call a function of the runtime in `lanes` (i32), which may be none."""
    external, builder, register = EXTERNALS[name], emitter.builder, _FIRST_ARGUMENT
    rows = emitter.buffer("external", ir.ArrayType(vector(I64), MOST_EXTERNAL_ARGUMENTS))
    for k, kind in enumerate(external.parameters):
        if kind == "b64":
            register += register % 2
            value = join(emitter, emitter.register(f"R{register}"), emitter.register(f"R{register + 1}"))
            register += 2
        else:
            value = builder.zext(emitter.register(f"R{register}"), vector(I64))
            register += 1
        store_as(builder, value, at(builder, rows, 8 * WARP * k), 64)
    function = intrinsic(builder.module, "warpsight_external", I32, [PTR, I64, I32, I64, PTR])
    arguments = [emitter.context, I64(EXTERNAL_NUMBERS[name]), lanes, emitter.pc, at(builder, rows, 0)]
    emitter.leave_if(builder.icmp_signed("==", builder.call(function, arguments), I32(0)))
    if external.result:
        low, high = halves(emitter, load_as(builder, at(builder, rows, 0), vector(I64), 64))
        called = mask_to_lanes(builder, lanes)
        emitter.set_register("R4", builder.select(called, low, emitter.register("R4")))
        if external.result == "b64":
            emitter.set_register("R5", builder.select(called, high, emitter.register("R5")))
