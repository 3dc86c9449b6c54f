"""`clusterlaunchcontrol`: is every request declined, at the mbarriers of all blocks that it names, and does the trace say so?"""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import launch

from warpsight.base.errors import CheckFault, UnsupportedError
from warpsight.base.findings import WATCHING
from warpsight.kernels.launch import RunOptions
from warpsight.kernels.sources import load_source
from warpsight.traces.events import EventReader
from warpsight.traces.schema import BARRIER_RECORD

pytestmark = pytest.mark.unit


def source(form: str, *, issuer: str = "%i", cluster: str = "", answer: str = "response") -> str:
    """A thread whose %i or %rank (`issuer`) is 0 asks; each thread writes 7, or 100 where the answer is yes."""
    return f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {cluster}
{{
    .reg .b64 %out, %at, %lo, %hi; .reg .b32 %i, %b, %x, %y, %z, %w, %rank; .reg .b128 %answer; .reg .pred %p, %one, %asks, %c;
    .shared .align 16 .b8 response[32]; .shared .align 8 .b64 done;
    ld.param.u64 %out, [out]; mov.u32 %i, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %rank, %cluster_ctarank;
    setp.eq.u32 %one, %i, 0; setp.eq.and.u32 %asks, {issuer}, 0, %one;
    @%one mbarrier.init.shared.b64 [done], 1;
    @%one mbarrier.arrive.expect_tx.shared.b64 _, [done], 16;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @%asks clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{form}.b128 [response], [done];
wait: mbarrier.try_wait.parity.shared.b64 %p, [done], 0; @!%p bra wait;
    ld.shared.v2.b64 {{%lo, %hi}}, [{answer}]; mov.b128 %answer, {{%lo, %hi}};
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %c, %answer;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%x, %y, %z, _}}, %answer;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %w, %answer;
    selp.b32 %x, 100, 7, %c; mad.lo.u32 %w, %b, 32, %i; mad.wide.u32 %at, %w, 4, %out; st.global.b32 [%at], %x;
    ret;
}}
"""


def test_every_block_is_told_that_nothing_is_left() -> None:
    out = np.zeros((3, 32), np.uint32)
    trace = launch(load_source(source("")), "k", 3, 32, [out], options=RunOptions(check=WATCHING))
    assert (out == 7).all()
    (chunk,) = trace.chunks
    events = EventReader(trace).read(chunk)
    code = [trace.instructions[pc] for pc in events.pc.tolist()]
    ends = [byte + i.event_bytes for byte, i in zip(events.byte.tolist(), code, strict=True) if "try_cancel" in i.opcode]
    records = [np.frombuffer(chunk.events[end - BARRIER_RECORD.itemsize : end].tobytes(), BARRIER_RECORD)[0] for end in ends]
    assert [(int(each["amount"]), int(each["bytes"]), int(each["expected"])) for each in records] == [(0, -16, 1)] * 3


def test_one_request_answers_all_blocks_of_a_cluster() -> None:
    out = np.zeros((4, 32), np.uint32)
    launch(load_source(source(".multicast::cluster::all", issuer="%rank", cluster=".reqnctapercluster 2")), "k", 4, 32, [out])
    assert (out == 7).all()


def test_reading_beside_the_response_is_found_and_other_forms_are_refused() -> None:
    out = [np.zeros(32, np.uint32)]
    with pytest.raises(CheckFault, match="initcheck"):
        launch(load_source(source("", answer="response+16")), "k", 1, 32, out, options=RunOptions(check=WATCHING))
    with pytest.raises(UnsupportedError, match="clusterlaunchcontrol"):
        launch(load_source(source(".relaxed")), "k", 1, 32, out)
