"""`clusterlaunchcontrol`: a running cluster asks for the work of one that has not begun, as persistent kernels of sm_100 do.

Every request is declined, at once. A GPU answers so too when all blocks of the grid are resident, and programs must expect it: each
block of the grid then does its own work. What a declined response says of blocks is undefined; here it is 0.
"""

from __future__ import annotations

from warpsight.base.findings import INITCHECK
from warpsight.emulator.codegen.access import each_block, shared_host
from warpsight.emulator.codegen.cluster_addresses import at_rank
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.codegen.lanes import I32, I64, PTR, Value, gather, mask_to_lanes, splat, splat_constant, vector
from warpsight.emulator.codegen.layout import Slot
from warpsight.emulator.codegen.orders import store_lanes
from warpsight.emulator.codegen.recording import emit_barrier_record, emit_event_byte
from warpsight.emulator.codegen.watching import note_written
from warpsight.emulator.ptx.common import operands
from warpsight.emulator.ptx.mbarriers import COUNT_BITS, COUNT_MASK, complete_bytes
from warpsight.emulator.ptx.memory import allow_words
from warpsight.isa.ptx.program import Instruction, Vector

_REQUEST = ("try_cancel", "async", "shared::cta", "mbarrier::complete_tx::bytes", "multicast::cluster::all", "b128")
_ANSWERS = ("query_cancel", "is_canceled", "pred", "get_first_ctaid", *(f"get_first_ctaid::{axis}" for axis in "xyz"), "v4", "b32",
            "b128")  # fmt: skip
_RESPONSE_BYTES, _HALF = 16, 8


def launch_control(emitter: Emitter, instruction: Instruction) -> None:
    """`try_cancel` and `query_cancel`."""
    if "try_cancel" in instruction.modifiers:
        _request(emitter, instruction)
    else:
        _answer(emitter, instruction)


def _request(emitter: Emitter, instruction: Instruction) -> None:
    """`try_cancel.async.mbarrier::complete_tx::bytes{.multicast::cluster::all}.b128 [response], [mbarrier]`."""
    allow_words(emitter, instruction, *_REQUEST)
    response, barrier = operands(emitter, instruction, 2)
    places = [emitter.cluster_address(response), emitter.cluster_address(barrier)]
    many = "multicast::cluster::all" in instruction.modifiers

    def body(helper: HelperFrame) -> list[Value]:
        builder, (where, signal) = helper.builder, helper.arguments
        objects = gather(builder, builder.inttoptr(shared_host(helper, signal, 8), vector(PTR)), helper.active, I64)
        if many:
            blocks = builder.trunc(helper.slot(Slot.CLUSTER_BLOCKS), I32)
            everyone = splat(builder, builder.sub(builder.shl(I32(1), blocks), I32(1)))
            each_block(helper, everyone, lambda frame, rank: _decline(frame, *(at_rank(frame, v, rank) for v in (where, signal))))
        else:
            _decline(helper, where, signal)
        emit_event_byte(helper, I32(1))
        expected = builder.and_(builder.lshr(objects, splat_constant(I64, COUNT_BITS)), splat_constant(I64, COUNT_MASK))
        emit_barrier_record(helper, signal, splat_constant(I64, 0), splat_constant(I64, -_RESPONSE_BYTES), expected)
        return []

    call_helper(emitter, f"try_cancel{'_everywhere' if many else ''}", 0, places, [], body)


def _decline(frame: Frame, where: Value, signal: Value) -> None:
    """Write a response of zeros at shared offsets, and complete its bytes there."""
    builder = frame.builder
    host = shared_host(frame, where, _RESPONSE_BYTES)
    if INITCHECK in frame.checks:
        wide = builder.zext(where, vector(I64))
        note_written(frame, "shared", host, wide, _HALF, _RESPONSE_BYTES // _HALF, reads=False, writes=True)
    for start in range(0, _RESPONSE_BYTES, _HALF):
        pointers = builder.inttoptr(builder.add(host, splat_constant(I64, start)), vector(PTR))
        store_lanes(frame, splat_constant(I64, 0), pointers)
    complete_bytes(frame, signal, splat_constant(I64, _RESPONSE_BYTES))


def _answer(emitter: Emitter, instruction: Instruction) -> None:
    """`query_cancel.is_canceled.pred.b128 p, response`, and `.get_first_ctaid{::x}` with one number, or a vector of four."""
    allow_words(emitter, instruction, *_ANSWERS)
    result, response = operands(emitter, instruction, 2)
    emitter.read(response, "b128")
    if "is_canceled" in instruction.modifiers:
        emitter.write(result, mask_to_lanes(emitter.builder, I32(0)), "pred")
        return
    for each in result.elements if isinstance(result, Vector) else (result,):
        emitter.write(each, splat_constant(I32, 0), "b32")
