"""Addresses in shared memory when the blocks of a cluster run together.

A program sees addresses that name the block too: its rank from bit `RANK_SHIFT` on, and below it the offset in that block's memory;
a generic address has the same above `CLUSTER_WINDOW`. This is what GPUs do, and what machine code relies on. Code here counts the
rank from that of the running block on instead, so that an address in its own memory is an offset, as it is without clusters.
"""

from __future__ import annotations

from warpsight.emulator.codegen.frame import Frame
from warpsight.emulator.codegen.lanes import I32, I64, Value, lanes_to_mask, splat, splat_constant, vector
from warpsight.emulator.codegen.layout import CLUSTER_WINDOW, MOST_RANKS, RANK_SHIFT, SHARED_WINDOW, WINDOW_BYTES, Slot

NOWHERE = 0x80000000  # no cluster has as many blocks
_OFFSET_BITS = (1 << RANK_SHIFT) - 1


def rank_window(frame: Frame) -> Value:
    """Where the addresses of the running block begin in those of the cluster (i64)."""
    return frame.builder.shl(frame.slot(Slot.CLUSTER_RANK), I64(RANK_SHIFT))


def _own(frame: Frame) -> Value:
    return splat(frame.builder, frame.builder.trunc(rank_window(frame), I32))


def own_offsets(frame: Frame, addresses: Value) -> Value:
    """Addresses (<32 x i32>) in the block's own memory as offsets, with its rank or without; those of another block lie nowhere.

    Addresses in local memory, which have no rank, stay as they are.
    """
    builder, limit = frame.builder, splat_constant(I32, 1 << RANK_SHIFT)
    offsets = builder.xor(addresses, _own(frame))
    low = builder.and_(addresses, splat_constant(I32, _OFFSET_BITS))
    inside = builder.or_(builder.icmp_unsigned("<", offsets, limit), builder.icmp_unsigned("<", addresses, limit))
    return builder.select(inside, low, builder.or_(low, splat_constant(I32, NOWHERE)))


def from_own(frame: Frame, addresses: Value) -> Value:
    """Addresses (<32 x i32>) in the shared memory of the cluster, with ranks counted from the running block's on."""
    return frame.builder.sub(addresses, _own(frame))


def own_window(frame: Frame, addresses: Value) -> Value:
    """Generic addresses (<32 x i64>), with those of the block's own shared memory in the window that it has without clusters."""
    builder = frame.builder
    start = builder.add(rank_window(frame), I64(CLUSTER_WINDOW))
    offsets = builder.sub(addresses, splat(builder, start))
    inside = builder.icmp_unsigned("<", offsets, splat_constant(I64, WINDOW_BYTES))
    return builder.select(inside, builder.add(offsets, splat_constant(I64, SHARED_WINDOW)), addresses)


def cluster_mask(frame: Frame, addresses: Value) -> Value:
    """Lanes (i32 mask) whose generic address lies in the cluster's window."""
    return lanes_to_mask(frame.builder, _in_cluster(frame, addresses))


def _in_cluster(frame: Frame, addresses: Value) -> Value:
    builder = frame.builder
    offsets = builder.sub(addresses, splat_constant(I64, CLUSTER_WINDOW))
    return builder.icmp_unsigned("<", offsets, splat_constant(I64, MOST_RANKS << RANK_SHIFT))


def generic_offsets(frame: Frame, addresses: Value) -> Value:
    """Generic addresses of shared memory, as `own_window` gives them, as `shared_host` takes them (<32 x i32>)."""
    builder = frame.builder
    offsets = builder.trunc(builder.sub(addresses, splat_constant(I64, SHARED_WINDOW)), vector(I32))
    if not frame.clustered:
        return offsets
    others = from_own(frame, builder.trunc(builder.sub(addresses, splat_constant(I64, CLUSTER_WINDOW)), vector(I32)))
    return builder.select(_in_cluster(frame, addresses), others, offsets)


def places_and_ranks(frame: Frame, offsets: Value) -> tuple[Value, Value]:
    """Of addresses with ranks counted from the running block's on: offsets in the blocks' memory, and the ranks (<32 x i32>)."""
    builder = frame.builder
    own = splat(builder, builder.trunc(frame.slot(Slot.CLUSTER_RANK), I32))
    ranks = builder.add(builder.lshr(offsets, splat_constant(I32, RANK_SHIFT)), own)
    return builder.and_(offsets, splat_constant(I32, _OFFSET_BITS)), builder.and_(ranks, splat_constant(I32, 0xFF))


def host_of_ranks(frame: Frame, offsets: Value) -> tuple[Value, Value, Value, Value]:
    """Of addresses with ranks counted from the running block's on: host addresses (<32 x i64>), offsets in the blocks' memory
    (<32 x i32>), the lanes (i32 mask) whose rank the cluster has, and the ranks (<32 x i32>).
    """
    builder = frame.builder
    inside, ranks = places_and_ranks(frame, offsets)
    rank = builder.zext(ranks, vector(I64))
    known = lanes_to_mask(builder, builder.icmp_unsigned("<", rank, splat(builder, frame.slot(Slot.CLUSTER_BLOCKS))))
    step = builder.mul(rank, splat(builder, frame.slot(Slot.CLUSTER_STRIDE)))
    memory = builder.add(splat(builder, frame.slot(Slot.CLUSTER_SHARED)), step)
    return builder.add(memory, builder.zext(inside, vector(I64))), inside, known, ranks


def at_rank(frame: Frame, offsets: Value, rank: Value) -> Value:
    """The same place (<32 x i32>, as `shared_host` takes it) in the memory of the block of that rank (i32)."""
    if not frame.clustered:
        return offsets
    builder = frame.builder
    away = builder.sub(rank, builder.trunc(frame.slot(Slot.CLUSTER_RANK), I32))
    inside = builder.and_(offsets, splat_constant(I32, _OFFSET_BITS))
    return builder.add(inside, splat(builder, builder.shl(away, I32(RANK_SHIFT))))
