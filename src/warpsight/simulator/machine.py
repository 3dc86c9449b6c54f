"""What the simulation of a launch does not change: the numbers of a GPU description and a launch, as compiled code reads them.

Times are core cycles, or ticks where the name says so.
"""

from __future__ import annotations

from warpsight.base.records import Record


class Machine(Record):
    """What does not change: the GPU and the launch."""

    sm_count: int
    schedulers: int
    issue_width: int
    greedy: bool  # gto, not lrr
    places: int
    slots: int
    units: int
    block_ticks: int  # between two blocks that the GPU sends to its SMs
    vacant_cycles: int  # from the end of a block to the next in its place
    start_cycles: int  # between two warps of a block
    fetch_width: int
    barrier_cycles: int  # between two warps that arrive at barriers
    barrier_latency: int
    address_cycles: int
    access_cycles: int  # from one instruction in the load-store unit to the next, at least
    pass_cycles: int  # of a pass through the banks of shared memory
    sectors_a_cycle: int  # of a request
    write_back_cycles: int
    pipeline_cycles: int
    tag_banks: int  # of the L1, in each of which it looks up a line in a cycle; a power of two
    most_requests: int  # of an access
    shared_cycles: int
    cluster_cycles: int  # the same in shared memory of another block
    cluster_pass_cycles: int  # of a pass through its banks
    flit_bytes: int
    flit_ticks: int
    tpcs: int
    request_ticks: int  # from the request of a load to that of the next of a TPC
    store_ticks: int  # that the SM's port takes for a store of a part of a sector
    slices: int
    lines_per_piece: int
    slice_rule: int
    l2_cycles: int
    far_cycles: int  # further, of a hit in the other partition of the L2; 0: it has one
    atomic_width: int  # bytes of a sector that a slice changes in a cycle for an atomic
    merged_reads: int  # of a line that a slice answers together
    channels: int
    slices_per_channel: int
    dram_cycles: int
    dram_queue: int
    dram_ticks: int
    banks: int
    row_sectors: int
    open_ticks: int
    close_ticks: int
    row_ticks: int  # between two rows that a channel opens
    turnaround_ticks: int
    masks: bool  # the L2 marks the bytes of a partial write, and does not fetch the rest
    random: bool  # the L2 evicts any line, not the least recently used
    most_dirty: int  # lines of an L2 set
    blocks: int
    cluster_blocks: int  # that start together, on SMs of one GPC
    gpcs: int
    in_order: bool  # blocks start in the order of their numbers
    warps_per_block: int
    registers: int
    loads: int
    groups: int  # of each kind
    phases: int  # mbarriers of a block
    copies: int  # that can be under way in an SM
    max_cycles: int
    watched_sm: int  # -1: none
    watch_room: int
