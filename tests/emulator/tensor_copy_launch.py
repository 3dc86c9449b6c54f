"""Kernels that copy one box of a tensor, maps made from the description of their fields, and launches of both."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import warpsight

LEVELS = pytest.mark.parametrize("level", ["ptx", "sass"])
TYPES = {"u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 9, "bf16": 10,
         "tf32": 7 | 1 << 9, "b4x16_p64": 12}  # as NVIDIA's assembler writes them
SPANS = {0: 0, 1: 32, 2: 64, 3: 128}


def tensor_map(
    kind: str, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], *, steps: Sequence[int] = (), swizzle: int = 0,
    fill: int = 0, im2col: tuple[int, int, Sequence[int], Sequence[int]] | None = None, mode: int = 1, interleave: int = 0,
) -> bytes:
    """A map without an address. `im2col`: channels, pixels, lower and upper corners, of a walk of `mode`; `interleave`: 1 and 2 are
    slices of 16 and 32 bytes.
    """
    rank, steps = len(sizes), [*steps, *[1] * (5 - len(steps))]
    word = rank - 1 << 4 | TYPES[kind] << 7 | interleave << 11 | swizzle << 13 | fill << 15
    units = [stride >> 4 for stride in [*strides, *[0] * (4 - len(strides))]]
    upper = sum((unit >> 32) << 4 * k for k, unit in enumerate(units))
    dims = [size - 1 for size in [*sizes, *[1] * (5 - rank)]]
    boxes = bytes(n - 1 for n in [*box, *[1] * (5 - len(box))])
    step_bits = sum(step - 1 << 3 * k for k, step in enumerate(steps))
    data = struct.pack("<QI4II5I", 0, word, *(unit & 0xFFFFFFFF for unit in units), upper, *dims)
    data += struct.pack("<I", step_bits)[:3] + boxes
    data = data.ljust(64, b"\0")
    if im2col:
        channels, pixels, low, high = im2col
        low, high = [*low, *[0] * (3 - len(low))], [*high, *[0] * (3 - len(high))]
        return (data + struct.pack("<BBH3h3h4s", mode, channels - 1, pixels, *low, *high, b"WALK")).ljust(128, b"\0")
    return data.ljust(128, b"\1")  # nobody reads what lies behind a tile


def kernel(copy: str, size: int, *, before: str = "", after: str = "") -> str:
    """`k(map, scratch, tensor, data, coordinates)`: `copy` with the map at %map, the box at %box, coordinates %x0 to %x4."""
    moves = "\n".join(f"    ld.param.b64 %q1, [map+{8 * k}];\n    st.global.b64 [%map+{8 * k}], %q1;" for k in range(16))
    return f""".version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 scratch, .param .u64 tensor, .param .u64 data, .param .u32 x0,
                  .param .u32 x1, .param .u32 x2, .param .u32 x3, .param .u32 x4)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<8>, %x<5>, %box, %bar, %i;
    .reg .b64 %q<8>, %map, %tensor, %data;
    mov.u32 %i, %tid.x;
    ld.param.u64 %map, [scratch];
    ld.param.u64 %tensor, [tensor];
    ld.param.u64 %data, [data];
    {" ".join(f"ld.param.u32 %x{k}, [x{k}];" for k in range(5))}
    mov.u32 %box, memory;
    add.u32 %bar, %box, {-(-size // 8) * 8};
    setp.ne.u32 %p0, %i, 0;
    @%p0 bra WAIT;
{moves}
    tensormap.replace.tile.global_address.global.b1024.b64 [%map], %tensor;
    fence.proxy.tensormap::generic.release.gpu;
    fence.proxy.tensormap::generic.acquire.gpu [%map], 128;
    mbarrier.init.shared::cta.b64 [%bar], 1;
{before}
    {copy}
WAIT:
    bar.sync 0;
{after}
    ret;
}}
"""


def load_kernel(rank: int, size: int, mode: str = "tile", offsets: Sequence[int] = ()) -> str:
    """Load a box, then copy its bytes out of shared memory as they lie there."""
    coordinates = ", ".join(f"%x{k}" for k in range(rank))
    moved = f", {{{', '.join(map(str, offsets))}}}" if offsets else ""
    copy = (f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {size};\n"
            f"    cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}"
            f".mbarrier::complete_tx::bytes [%box], [%map, {{{coordinates}}}], [%bar]{moved};")  # fmt: skip
    after = f"""TRY:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
    @!%p1 bra TRY;
    mov.u32 %r0, 0;
LOOP:
    add.u32 %r1, %r0, %i;
    setp.ge.u32 %p2, %r1, {size};
    @%p2 bra NEXT;
    add.u32 %r2, %box, %r1;
    ld.shared.u8 %r3, [%r2];
    cvt.u64.u32 %q2, %r1;
    add.u64 %q2, %q2, %data;
    st.global.u8 [%q2], %r3;
NEXT:
    add.u32 %r0, %r0, 32;
    setp.lt.u32 %p3, %r0, {size};
    @%p3 bra LOOP;"""
    return kernel(copy, size, after=after)


def store_kernel(rank: int, size: int, operation: str = "") -> str:
    """Fill shared memory from `data`, then store the box, or reduce it into the tensor."""
    coordinates = ", ".join(f"%x{k}" for k in range(rank))
    name = "cp.reduce.async.bulk.tensor" if operation else "cp.async.bulk.tensor"
    fill = f"""    mov.u32 %r0, 0;
FILL:
    cvt.u64.u32 %q2, %r0;
    add.u64 %q2, %q2, %data;
    ld.global.b64 %q3, [%q2];
    add.u32 %r2, %box, %r0;
    st.shared.b64 [%r2], %q3;
    add.u32 %r0, %r0, 8;
    setp.lt.u32 %p3, %r0, {size};
    @%p3 bra FILL;
    fence.proxy.async.shared::cta;"""
    form = f"{operation}.tile" if operation else "tile"
    copy = (f"{name}.{rank}d.global.shared::cta.{form}.bulk_group [%map, {{{coordinates}}}], [%box];\n"
            "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;")  # fmt: skip
    return kernel(copy, size, before=fill)


_HOMES: dict[str, tuple[str, str]] = {}


def together(*texts: str) -> None:
    """Kernels of one target that are machine code of one file, which the disassembler reads at once: it takes long to start."""
    entry = ".visible .entry k("
    module = texts[0].partition(entry)[0] + "\n".join(
        f"{entry[:-1]}{number}({text.partition(entry)[2]}" for number, text in enumerate(texts)
    )
    _HOMES.update({text: (module, f"k{number}") for number, text in enumerate(texts)})


def run(text: str, size: int, map_bytes: bytes, tensor: Any, data: Any, at: Sequence[int], level: str,
        gpu: str = "h100-sxm") -> warpsight.KernelTrace:  # fmt: skip
    coordinates = [*at, *[0] * (5 - len(at))]
    scratch = np.zeros(16, np.uint64)
    args = [map_bytes, scratch, tensor, data, *map(int, coordinates)]
    text, name = _HOMES.get(text, (text, "k")) if level == "sass" else (text, "k")
    return warpsight.trace(text, name, grid=1, block=32, args=args, level=level,
                           gpu=gpu, shared=-(-size // 8) * 8 + 8, max_instructions=5_000_000)  # fmt: skip


def swizzled(rows: np.ndarray, kind: int) -> np.ndarray:
    """Bytes of a box as they lie in shared memory, from an address that is a multiple of 1,024."""
    flat = rows.reshape(-1).view(np.uint8)
    place = np.arange(len(flat))
    place ^= (place >> 7 & SPANS[kind] // 16 - 1) << 4 if kind else 0
    result = np.zeros(len(flat), np.uint8)
    result[place] = flat
    return result
