"""Kernels with products of a warp group, and their operands in registers and shared memory, placed by the formulas of the layouts.

The layouts are those of the PTX ISA's tables as CUTLASS writes them: pieces of 16 bytes, then an exclusive or of address bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from emulator_launch import launch
from matrix_reference import BITS, collect, spread
from matrix_reference import Place as Layout
from test_matrix_mma import sizes

import warpsight
from warpsight.kernels.sources import load_source

MODES = {0: 0, 32: 3, 64: 2, 128: 1}  # bytes of the swizzle, and what says so in a descriptor
WARPS = 4
SHARED = 44 * 1024


@dataclass(frozen=True)
class Place:
    """How a matrix of rows (A's, or B's columns) lies in shared memory: `across`, elements of one k are consecutive."""

    swizzle: int = 0
    across: bool = False
    leading: int = 128
    stride: int = 256
    start: int = 0
    base: int = 0

    def byte(self, row: int, k: int, bits: int) -> tuple[int, int]:
        """The byte and the bit in it of an element."""
        each, width = 128 // bits, self.swizzle // 16
        inside = row % each if self.across else k % each
        if self.across and not width:
            place = row // each * self.stride + k % 8 * 16 + k // 8 * self.leading
        elif self.across:
            place = row // each % width * 16 + row // each // width * self.leading + k % 8 * self.swizzle + k // 8 * self.stride
        else:
            piece = self.leading if not width else 16
            place = row % 8 * max(16, self.swizzle) + row // 8 * self.stride + k // each * piece
        place += self.start
        turned = ((place >> 7) - self.base) & (max(1, width) - 1)
        return (place ^ turned << 4) + inside * bits // 8, inside * bits % 8

    def descriptor(self) -> int:
        """The 64 bits that say all this."""
        fields = self.start >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
        return fields | self.base << 49 | MODES[self.swizzle] << 62

    def fill(self, image: np.ndarray, matrix: np.ndarray, kind: str) -> None:
        """Write the patterns [row, k] into the bytes of shared memory."""
        for (row, k), pattern in np.ndenumerate(matrix):
            byte, bit = self.byte(row, k, BITS[kind])
            for more in range(max(1, BITS[kind] // 8)):
                image[byte + more] |= (int(pattern) >> 8 * more & 0xFF) << bit & 0xFF


def left(kind: str) -> Layout:
    """Element i of A in a lane of a warp (16 rows), the manual's "Register Fragments" in one formula: 32 bytes of k."""
    e = 32 // BITS[kind]
    return lambda lane, i: (lane // 4 + 8 * (i // e % 2), lane % 4 * e + i % e + 4 * e * (i // (2 * e)))


def accumulator(lane: int, i: int) -> tuple[int, int]:
    """Element i of D in a lane of a warp."""
    return lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + lane % 4 * 2 + i % 2


def registers(matrix: np.ndarray, place: Layout, kind: str) -> np.ndarray:
    """The registers [thread, register] of the four warps that have 16 rows each."""
    count = matrix.shape[1] * 16 * BITS[kind] // 1024
    return np.concatenate([spread(matrix[16 * w : 16 * w + 16], place, kind, count) for w in range(WARPS)])


@dataclass(frozen=True)
class Group:
    """One instruction: its shape and types, where A (None: in registers) and B are, and its other operands."""

    shape: str
    d: str
    a: str
    b: str
    left: Place | None = Place()
    right: Place = Place(start=20 * 1024)
    scale: str = "%use"
    use: bool = True  # what %use holds
    signs: tuple[int, int] = (1, 1)
    words: str = ""  # behind the types
    selector: int | None = None  # of a sparse A

    def results(self) -> int:
        """Registers of D."""
        return sizes(self.shape)[1] * BITS[self.d] // 64

    def _text(self) -> str:
        sparse = ".sp" if self.selector is not None else ""
        given = ["{" + ", ".join(f"%d{k}" for k in range(self.results())) + "}"]
        given += ["{%a0, %a1, %a2, %a3}" if self.left is None else "%left", "%right"]
        given += ["%a4", str(self.selector)] if sparse else []
        given.append(self.scale)
        if self.d != "s32":
            given += [str(sign) for sign in self.signs]
        if self.a in ("f16", "bf16"):
            given += [str(int(place.across)) for place in (self.left, self.right) if place is not None]
        types = f"{self.shape}.{self.d}.{self.a}.{self.b}{self.words}"
        return f"wgmma.mma_async{sparse}.sync.aligned.{types} {', '.join(given)};"

    def body(self, number: int) -> str:
        """The product as part of a kernel that has registers %image, %held, %sums and %table, and the thread's number in %r0."""
        count, lines = self.results(), "\n".join
        return f"""{{
    .reg .pred %use, %p; .reg .b32 %r<8>, %a<5>, %d<{count}>; .reg .b64 %q<4>, %left, %right;
    mov.u32 %r0, %tid.x; mov.u32 %r2, memory; mad.lo.u32 %r2, %r0, 4, %r2; mov.u32 %r4, {SHARED // 512};
    bar.sync 0;
again{number}: .pragma "nounroll";
    ld.global.b32 %r5, [%image]; st.shared.b32 [%r2], %r5; add.u64 %image, %image, 512; add.u32 %r2, %r2, 512;
    sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra again{number};
    fence.proxy.async.shared::cta; bar.sync 0;
    mov.u32 %r2, memory; bfe.u32 %r2, %r2, 4, 14; cvt.u64.u32 %q1, %r2;
    ld.global.b64 %left, [%table]; ld.global.b64 %right, [%table + 8]; ld.global.b32 %r3, [%table + 16];
    add.u64 %left, %left, %q1; add.u64 %right, %right, %q1; setp.ne.u32 %use, %r3, 0; add.u64 %table, %table, 24;
    mad.wide.u32 %q2, %r0, 20, %held; mad.wide.u32 %q3, %r0, {4 * count}, %sums;
    add.u64 %held, %held, {20 * 32 * WARPS}; add.u64 %sums, %sums, {4 * count * 32 * WARPS};
    {lines(f"ld.global.b32 %a{k}, [%q2 + {4 * k}];" for k in range(5))}
    {lines(f"ld.global.b32 %d{k}, [%q3 + {4 * k}];" for k in range(count))}
    wgmma.fence.sync.aligned;
    {self._text()}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    {lines(f"st.global.b32 [%q3 + {4 * k}], %d{k};" for k in range(count))}
}}"""


Matrices = tuple[np.ndarray, np.ndarray, np.ndarray]


def products(groups: list[Group], given: list[Matrices], metadata: list[np.ndarray], level: str = "ptx") -> list[np.ndarray]:
    """D of several products, one after the other in one kernel, from the patterns of A (64 rows; of a sparse one the held half), B
    and C, and the metadata of the 128 threads.
    """
    image, held = np.zeros((len(groups), SHARED), np.uint8), np.zeros((len(groups), 32 * WARPS, 5), np.uint32)
    table, sums = np.zeros((len(groups), 3), np.uint64), []
    for number, (group, (a, b, c)) in enumerate(zip(groups, given, strict=True)):
        held[number, :, 4] = metadata[number]
        if group.left is None:
            held[number, :, :4] = registers(a, left(group.a), group.a)
        else:
            group.left.fill(image[number], a, group.a)
        group.right.fill(image[number], b.T, group.b)
        table[number] = [0 if group.left is None else group.left.descriptor(), group.right.descriptor(), int(group.use)]
        sums.append(registers(c, accumulator, group.d))
    body = "\n".join(group.body(number) for number, group in enumerate(groups))
    text = f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 held, .param .u64 sums, .param .u64 table)
{{
    .reg .b64 %image, %held, %sums, %table; .reg .b32 %r0; .reg .b64 %q0;
    .shared .align 1024 .b8 memory[{SHARED}];
    ld.param.u64 %image, [image]; ld.param.u64 %held, [held]; ld.param.u64 %sums, [sums]; ld.param.u64 %table, [table];
    mov.u32 %r0, %tid.x; mul.wide.u32 %q0, %r0, 4; add.u64 %image, %image, %q0;
{body}
    ret;
}}
"""
    flat = np.concatenate([part.ravel() for part in sums])
    arguments = [image, held, flat, table]
    if level == "sass":
        warpsight.trace(text, "k", grid=1, block=32 * WARPS, args=arguments, gpu="h100-sxm", level="sass")
    else:
        launch(load_source(text, name="group.ptx"), "k", 1, 32 * WARPS, arguments)
    found = np.split(flat, np.cumsum([part.size for part in sums])[:-1])
    return [_gathered(group, part.reshape(32 * WARPS, -1)) for group, part in zip(groups, found, strict=True)]


def _gathered(group: Group, sums: np.ndarray) -> np.ndarray:
    columns = sizes(group.shape)[1]
    return np.concatenate([collect(sums[32 * w : 32 * w + 32], accumulator, group.d, (16, columns)) for w in range(WARPS)])
