"""Matrix products of a warp: what kind of multiply an opcode is, and how much work, as a GPU description counts it.

A kind is a key of a description's `latency` and `initiation`. Tensor cores read a certain number of bits of a row at a time, so a
key is for the product of 16 rows, 8 columns and 256 bits of depth: 16x8x16 of 16-bit numbers, 16x8x32 of 8-bit ones. That of `fp64`
is 16x8x4.
"""

from __future__ import annotations

import functools
import re

from warpsight.base.errors import UnsupportedError
from warpsight.isa.sass.registers import matrix_size

# The kind of each type of multiplicands, and the multiply-adds of the product that its key is for.
_HALF, _SUMS_32 = "tensor", "_fp32acc"
_WORK = {
    _HALF: 2048, "tensor_tf32": 1024, "tensor_fp64": 512, "tensor_int8": 4096, "tensor_int4": 8192, "tensor_b1": 32768,
    "tensor_fp8": 4096, "tensor_fp4": 8192,
}  # fmt: skip
_TYPES = {
    "f16": _HALF, "bf16": _HALF, "tf32": "tensor_tf32", "f64": "tensor_fp64", "s8": "tensor_int8", "u8": "tensor_int8",
    "s4": "tensor_int4", "u4": "tensor_int4", "b1": "tensor_b1", "e4m3": "tensor_fp8", "e5m2": "tensor_fp8",
    "e3m2": "tensor_fp8", "e2m3": "tensor_fp8", "e2m1": "tensor_fp8",
}  # fmt: skip
_OPCODES = {
    "HMMA": "f16", "IMMA": "s8", "BMMA": "b1", "DMMA": "f64", "QMMA": "e4m3", "OMMA": "e2m1",
    "HGMMA": "f16", "IGMMA": "s8", "BGMMA": "b1", "QGMMA": "e4m3",
}  # fmt: skip
_PTX_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_GROUP, _WARPS = "tensor_group", 4
# `mma.m8n8k4` of 16-bit numbers is four products at a time; machine code makes it in four steps, or in two with 16-bit sums.
_FOUR, _STEPS = 4, {True: 4, False: 2}


@functools.lru_cache(maxsize=4096)
def matrix_product(opcode: str) -> tuple[str, float]:
    """The kind of a multiply, PTX or machine code, and its work relative to the product that the key of that kind is for.

    An opcode without a shape counts as that product of 16-bit numbers. Each of the four warps of a group makes 16 of its 64 rows.
    """
    kind, multiplicands, made = _product(opcode)
    return kind, made / _WORK[multiplicands]


def multiply_adds(opcode: str) -> float:
    """Those of a multiply of one warp; of a sparse one those that are made."""
    return _product(opcode)[2]


def _product(opcode: str) -> tuple[str, str, float]:
    """The kind, that of its multiplicands (another one for warp groups), and the multiply-adds of one warp."""
    words = opcode.split(".")
    if words[0] == "tcgen05" or words[0] in _TENSOR_MEMORY_OPCODES:
        return _with_tensor_memory(opcode, words)
    return _ptx(words) if words[0] in ("mma", "wmma", "wgmma") else _machine_code(opcode, words)


_UNKNOWN = _HALF, _HALF, float(_WORK[_HALF])


def _ptx(words: list[str]) -> tuple[str, str, float]:
    """D, A, B and C follow the shape, of which `wmma` of 16-bit numbers only has D and C."""
    shape = next((match for word in words if (match := _PTX_SHAPE.fullmatch(word))), None)
    types = [word for word in words if word in _TYPES or word in ("f32", "s32")]
    if shape is None or not types:
        return _UNKNOWN
    m, n, k = (int(part) for part in shape.groups())
    multiplicand = next((word for word in types[1:] if word in _TYPES), "f16")
    kind, made = _TYPES[multiplicand], float(m * n * k)
    if any(word.startswith("sp") for word in words):
        made /= 2
    if words[0] == "wgmma":
        return _GROUP, kind, made / _WARPS
    if multiplicand == "e2m1" and k >= _BLOCK_SCALED_DEPTH:
        kind = "tensor_fp4"
    if multiplicand == "f16" and (m, n, k) == (8, 8, 4):
        made *= _FOUR
    return _with_sums(kind, types[0] == "f32"), kind, made


NEVER_EXECUTED = "unused"  # stands in a trace for the shape of such an instruction, which nothing else says
_TENSOR_MEMORY_KINDS = {"f16": "f16", "tf32": "tf32", "i8": "s8", "f8f6f4": "e4m3", "mxf8f6f4": "e4m3"}
_TENSOR_MEMORY_OPCODES = {"UTCHMMA": "f16", "UTCIMMA": "i8", "UTCQMMA": "f8f6f4", "UTCOMMA": "mxf4"}


def tensor_memory_kind(base: str, is_tf32: bool) -> str:
    """The kind of `tcgen05.mma` that an opcode of machine code makes; UTCHMMA also those of TF32, as its descriptor says."""
    return "tf32" if is_tf32 and base == "UTCHMMA" else _TENSOR_MEMORY_OPCODES[base]


def _with_tensor_memory(opcode: str, words: list[str]) -> tuple[str, str, float]:
    """One thread issues what all tensor cores of an SM do: to each of the four schedulers a quarter, as of a warp group.

    Of a pair of blocks each SM does a half; of a sparse product half of the multiplies are made.
    """
    if words[-1] == NEVER_EXECUTED:
        return _GROUP, _HALF, 0.0
    shape = _PTX_SHAPE.fullmatch(words[-1])
    if shape is None:
        what = f"{opcode} has had several shapes in one launch, so its time is not known"
        remedy = "launch it with one instruction descriptor at a time; `trace` and `check` do not need its time"
        raise UnsupportedError(what, remedy=remedy)
    m, n, k = (int(part) for part in shape.groups())
    kind = next((word.removeprefix("kind::") for word in words if word.startswith("kind::")), "")
    kind = kind or tensor_memory_kind(words[0], "TF32" in words)
    multiplicands = _TYPES[_TENSOR_MEMORY_KINDS[kind]] if kind in _TENSOR_MEMORY_KINDS else "tensor_fp4"
    halves = sum(bool(each & {*words}) for each in ({"cta_group::2", "2CTA"}, {"sp", "SP"}))
    return _GROUP, multiplicands, m * n * k / _WARPS / 2**halves


_BLOCK_SCALED_DEPTH = 64  # of 4-bit numbers with block scales, twice that of 4-bit numbers without


def _with_sums(kind: str, wide: bool) -> str:
    return kind + _SUMS_32 if wide and kind in (_HALF, "tensor_fp8") else kind


def _machine_code(opcode: str, words: list[str]) -> tuple[str, str, float]:
    """`HMMA.16816.F32.BF16`: the shape, the type of the sums, that of the multiplicands where the opcode leaves it open."""
    size, base = matrix_size(opcode), words[0]
    if size is None or base not in _OPCODES:
        return (_GROUP, _HALF, _UNKNOWN[2]) if "GMMA" in base else _UNKNOWN
    m, n, k = size[0]
    multiplicand = "tf32" if "TF32" in words else "s4" if {"S4", "U4"} & set(words) else _OPCODES[base]
    kind = "tensor_fp4" if base == "OMMA" else _TYPES[multiplicand]
    made, wide = m * n * k / (2 if "SP" in words else 1), "F32" in words
    if "GMMA" in base:
        return _GROUP, kind, made / _WARPS
    if any(word.startswith("STEP") for word in words):
        made *= _FOUR / _STEPS[wide]
    return _with_sums(kind, wide), kind, made
