"""What a program is told of the device, from the GPU description. Where that has no figure, a fixed one stands here."""

from __future__ import annotations

import struct

from warpsight.gpu.occupancy import WARP_SIZE
from warpsight.gpu.spec import GpuSpec

MEMORY_BYTES = 16 << 30
COMPUTE_CAPABILITY = (8, 0)
_VALUES, _NAME_BYTES = 64, 256
_BUS_BITS = 256
_DEFAULT_SHARED = 48 << 10  # without asking for more (CUDA C++ Programming Guide, cudaFuncAttributeMaxDynamicSharedMemorySize)


def device_bytes(gpu: GpuSpec) -> bytes:
    """The answer to HELLO: 64 int64 in the order of `enum device_value` in runtime.h, then the name."""
    sm = gpu.sm
    largest = sm.max_shared_memory_per_block_bytes or sm.shared_memory_bytes
    bandwidth = int(gpu.dram.bandwidth_bytes_per_s)
    values = [
        *COMPUTE_CAPABILITY,
        gpu.sm_count,
        int(gpu.core_clock_hz / 1e3),
        MEMORY_BYTES,
        min(_DEFAULT_SHARED, largest),
        largest,
        sm.shared_memory_bytes,
        sm.shared_memory_reserved_bytes,
        sm.registers,
        min(sm.max_threads_per_block, sm.max_warps * WARP_SIZE),
        sm.max_warps * WARP_SIZE,
        sm.max_blocks,
        gpu.l2.size_bytes,
        _BUS_BITS,
        bandwidth * 8 // (2 * _BUS_BITS) // 1000,  # two transfers a clock
        bandwidth,
    ]
    values += [0] * (_VALUES - len(values))
    name = f"{gpu.name} (warpsight)".encode()[: _NAME_BYTES - 1]
    return struct.pack(f"<{_VALUES}q{_NAME_BYTES}s", *values, name)
