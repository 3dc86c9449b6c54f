"""Tensor maps: the 128 bytes that describe a tensor to the copy engine (TMA), as `cuTensorMapEncodeTiled` and `Im2col` make them.

Their layout is described in `emulator/ptx/tensor_engine.py`. The address, in the first eight bytes, is left to the launch. What
CUDA refuses (CUDA Driver API, "Tensor Map Object Management") is a UsageError here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.base.errors import UsageError

BYTES = 128
_MOST_DIMENSIONS, _MOST_SIZE, _MOST_STRIDE, _MOST_BOX, _ALIGN = 5, 1 << 32, 1 << 40, 256, 16
# For each CUtensorMapDataType what bits 7-16 of a map have, and bytes of 16 elements in shared memory.
_NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7 | 1 << 9, 8 | 1 << 9, 11, 12, 13)
_BYTES_OF_16 = (16, 32, 64, 64, 128, 128, 32, 64, 128, 32, 64, 64, 64, 8, 16, 16)
_SPANS = (0, 32, 64, 128)  # of CUtensorMapSwizzle: bytes of a row
_REMEDY = "see cuTensorMapEncodeTiled in the CUDA Driver API"


@dataclass(frozen=True)
class TensorShape:
    """A tensor in device memory, dimension 0 (the contiguous one) first. `strides` are bytes, of the dimensions from 1 on;
    `kind` is a number of CUtensorMapDataType, `swizzle` one of CUtensorMapSwizzle; with `nan` what lies outside is not a number,
    else 0.
    """

    kind: int
    sizes: Sequence[int]
    strides: Sequence[int]
    swizzle: int = 0
    nan: bool = False
    steps: Sequence[int] = ()

    def tiled(self, box: Sequence[int]) -> bytes:
        """The map of copies of boxes of that many elements. Raises UsageError."""
        self._check(box[0], box)
        return self._head(bytes(size - 1 for size in box)).ljust(BYTES, b"\0")

    def im2col(self, channels: int, pixels: int, lower: Sequence[int], upper: Sequence[int]) -> bytes:
        """The map of copies of `pixels` columns of `channels`; the corners of their bounding box. Raises UsageError."""
        self._check(channels, ())
        if len(self.sizes) < 3 or not 0 < pixels <= 1024:
            raise _refused(f"an im2col map of {len(self.sizes)} dimensions and {pixels} pixels does not exist")
        corners = [*lower, *[0] * (3 - len(lower)), *upper, *[0] * (3 - len(upper))]
        tail = struct.pack("<BBH6h4s", 1, channels - 1, pixels, *corners, b"WALK")
        return (self._head(b"").ljust(64, b"\0") + tail).ljust(BYTES, b"\0")

    def _check(self, row: int, box: Sequence[int]) -> None:
        rank, span = len(self.sizes), _SPANS[self.swizzle]
        if not 1 <= rank <= _MOST_DIMENSIONS or len(self.strides) != rank - 1:
            raise _refused(f"a tensor of {rank} dimensions with {len(self.strides)} strides has no map")
        for size in self.sizes:
            if not 1 <= size <= _MOST_SIZE:
                raise _refused(f"a size of {size:,} is not 1 to 2^32")
        for stride in self.strides:
            if stride % _ALIGN or not 0 <= stride < _MOST_STRIDE:
                raise _refused(f"a stride of {stride:,} bytes is not a multiple of 16 below 2^40")
        for size in (row, *box):
            if not 1 <= size <= _MOST_BOX:
                raise _refused(f"a box of {size:,} elements in a dimension is not 1 to 256")
        row_bytes = row * _BYTES_OF_16[self.kind] // 16
        if row_bytes % _ALIGN or (span and row_bytes > span):
            limit = f", at most the {span} of its swizzle" if span else ""
            raise _refused(f"rows of {row_bytes:,} bytes in the box are not a multiple of 16{limit}")

    def _head(self, box: bytes) -> bytes:
        """The first 64 bytes."""
        rank = len(self.sizes)
        word = rank - 1 << 4 | _NUMBERS[self.kind] << 7 | self.swizzle << 13 | int(self.nan) << 15
        units = [stride >> 4 for stride in (*self.strides, *[0] * (4 - len(self.strides)))]
        upper = sum((unit >> 32) << 4 * k for k, unit in enumerate(units))
        sizes = [size - 1 for size in self.sizes] + [0] * (_MOST_DIMENSIONS - rank)
        steps = sum(step - 1 << 3 * k for k, step in enumerate(self.steps))
        head = struct.pack("<QI4II5I", 0, word, *(unit & 0xFFFFFFFF for unit in units), upper, *sizes)
        return head + struct.pack("<I", steps)[:3] + box


def _refused(what: str) -> UsageError:
    return UsageError(f"tensor map: {what}", place="tensor descriptor", remedy=_REMEDY)
