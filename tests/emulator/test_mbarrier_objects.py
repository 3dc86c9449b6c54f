"""mbarrier objects against a model of the PTX ISA's words: counts, phases, transaction bytes, states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hopper_launch import hopper, run, run_traced
from trace_reader import accesses

from warpsight.base.errors import LaunchFault, UnsupportedError

pytestmark = pytest.mark.unit
DECLARE = ".shared .align 8 .b64 b[4]; .shared .align 16 .b8 data[1024];"


@dataclass
class Barrier:
    """The object as the ISA describes it: expected and pending arrivals, pending bytes, and how many phases are over."""

    expected: int
    pending: int = 0
    bytes: int = 0
    phase: int = 0

    def __post_init__(self) -> None:
        self.pending = self.expected

    def act(self, arrivals: int = 0, dropped: int = 0, expect: int = 0) -> tuple[int, int]:
        """One operation; gives phase and pending count before it."""
        before = self.phase, self.pending
        self.bytes += expect
        self.pending -= arrivals
        self.expected -= dropped
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.expected
        return before


def test_every_form_of_arrival_on_every_lane_follows_the_model() -> None:
    # One lane after the other does each of these; the pending count before and whether its phase is over afterwards come out.
    forms = [
        ("mbarrier.arrive.shared.b64 %q1, [b];", {"arrivals": 1}),
        ("mbarrier.arrive.release.cta.shared::cta.b64 %q1, [b], 2;", {"arrivals": 2}),
        ("mbarrier.arrive.relaxed.cluster.shared::cta.b64 %q1, [b];", {"arrivals": 1}),
        ("mbarrier.arrive.noComplete.release.cta.shared.b64 %q1, [b], %r1;", {"arrivals": 3}),
        ("mbarrier.arrive.b64 %q1, [%q9];", {"arrivals": 1}),
        ("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %q1, [b], 64;", {"arrivals": 1, "expect": 64}),
        ("mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [b], 64;", {"expect": -64}),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], %r1;", {"expect": 3}),
        ("mbarrier.complete_tx.shared::cluster.b64 [b], 3;", {"expect": -3}),
        ("mbarrier.arrive_drop.shared.b64 %q1, [b];", {"arrivals": 1, "dropped": 1}),
        ("mbarrier.arrive_drop.release.cluster.shared::cta.b64 %q1, [b], 1;", {"arrivals": 1, "dropped": 1}),
        ("mbarrier.arrive_drop.noComplete.release.cta.shared.b64 %q1, [b], 1;", {"arrivals": 1, "dropped": 1}),
        ("mbarrier.arrive_drop.expect_tx.shared::cta.b64 %q1, [b], 8;", {"arrivals": 1, "dropped": 1, "expect": 8}),
        ("mbarrier.complete_tx.b64 [%q9], 8;", {"expect": -8}),
        ("mbarrier.arrive.shared::cluster.b64 _, [b], 4;", {"arrivals": 4}),
        ("mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [b], 0;", {"arrivals": 1, "expect": 0}),
        ("mbarrier.arrive_drop.shared::cluster.b64 _, [b];", {"arrivals": 1, "dropped": 1}),
    ]
    count, lines = 300, ["mov.u64 %q9, b;", "cvta.shared.u64 %q9, %q9;", "mov.u32 %r1, 3;", "setp.eq.u32 %p1, %i, 0;"]
    lines += [f"@%p1 mbarrier.init.shared::cta.b64 [b], {count};", "@%p1 mbarrier.init.b64 [%q9+8], 7;"]
    for number, (text, _) in enumerate(forms):
        lines += [text]
        if "%q1" in text:
            lines += ["mbarrier.pending_count.b64 %r2, %q1;", "mbarrier.test_wait.shared.b64 %p2, [b], %q1;"]
            lines += ["selp.u32 %r3, 1, 0, %p2;", f"st.global.v2.u32 [%out+{8 * number}], {{%r2, %r3}};"]
    lines += ["ld.shared.u64 %q3, [b];", "mbarrier.inval.shared.b64 [b+8];", "ld.shared.u64 %q4, [b+8];"]
    lines += [f"st.global.u64 [%out+{8 * len(forms)}], %q4;"]
    got = run(hopper("\n".join(lines), len(forms) + 1, declarations=DECLARE), words=len(forms) + 1).view(np.uint32)
    model = Barrier(count)
    for number, (text, change) in enumerate(forms):
        befores = [model.act(**change) for _ in range(32)]
        for lane, (phase, pending) in enumerate(befores):
            if "%q1" in text:
                assert got[lane, 2 * number : 2 * number + 2].tolist() == [pending, int(model.phase != phase)], (text, lane)
    assert model.phase >= 2
    assert not got[:, 2 * len(forms) :].any()


def test_waits_say_whether_the_phase_is_over() -> None:
    body = """
        setp.eq.u32 %p1, %i, 0;
        @%p1 mbarrier.init.shared.b64 [b], 32;
        mbarrier.try_wait.parity.shared.b64 %p2, [b], 0;
        mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p3, [b], 1;
        mbarrier.arrive.shared.b64 %q1, [b];
        mbarrier.try_wait.acquire.cluster.shared::cta.b64 %p4, [b], %q1, 1000;
        mbarrier.test_wait.parity.relaxed.cta.shared::cta.b64 %p5, [b], 0;
        mbarrier.try_wait.parity.shared::cta.b64 %p6, [b], 1, 20;
        mbarrier.arrive.shared.b64 %q2, [b];
        mbarrier.test_wait.shared.b64 %p7, [b], %q2;
        mbarrier.try_wait.parity.shared.b64 %p8, [b], 1;
        setp.ne.u32 %p10, %i, 5;
        @%p10 mbarrier.arrive.shared.b64 %q2, [b];
        mbarrier.test_wait.shared.b64 %p9, [b], %q2;
        mov.u32 %r1, 0;
        """
    body += "\n".join(f"selp.u32 %r2, {1 << k}, 0, %p{k};\nor.b32 %r1, %r1, %r2;" for k in range(2, 10))
    body += "\nst.global.u32 [%out], %r1;"
    got = run(hopper(body, declarations=DECLARE))[:, 0]
    # Before the arrivals: phase 0 runs, the one before it (parity 1) is over. Then 0 is over and 1 runs, then 1 is over, 2 runs.
    wanted = (1 << 3) | (1 << 4) | (1 << 5) | (1 << 7) | (1 << 8)
    lane5 = wanted | 1 << 9  # its state is of phase 1, the others' of phase 2, which lacks lane 5
    assert got.tolist() == [lane5 if k == 5 else wanted for k in range(32)]


def test_copies_arrive_on_the_object_only_without_having_been_counted() -> None:
    body = """
        setp.eq.u32 %p1, %i, 0;
        @%p1 mbarrier.init.shared.b64 [b], 64;
        mad.wide.u32 %in, %i, 4, %in;
        mov.u32 %r1, data;
        mad.lo.u32 %r1, %i, 4, %r1;
        cp.async.ca.shared.global [%r1], [%in], 4;
        cp.async.mbarrier.arrive.shared.b64 [b];
        cp.async.mbarrier.arrive.noinc.shared::cta.b64 [b];
        mbarrier.arrive.shared.b64 %q1, [b];
        mbarrier.pending_count.b64 %r2, %q1;
        st.global.u32 [%out], %r2;
        mbarrier.test_wait.shared.b64 %p2, [b], %q1;
        selp.u32 %r3, 1, 0, %p2;
        st.global.u32 [%out+4], %r3;"""
    got = run(hopper(body, declarations=DECLARE), np.zeros(32, np.uint32)).view(np.uint32)
    assert got[:, 0].tolist() == [32 - k for k in range(32)] and set(got[:, 1].tolist()) == {1}


def test_asynchronous_stores_and_reductions_complete_their_bytes() -> None:
    body = """
        setp.eq.u32 %p1, %i, 0;
        @%p1 mbarrier.init.shared.b64 [b], 1;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 %q1, [b], 1152;
        mov.u32 %r1, data;
        mad.lo.u32 %r2, %i, 16, %r1;
        mov.u32 %r3, b;
        add.u32 %r4, %i, 1;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r2], {%i, %r4, %i, %r4}, [%r3];
        st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%r2+8], %q9, [%r3];
        st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r2+12], 77, [%r3];
        mbarrier.test_wait.parity.shared.b64 %p2, [b], 0;
        red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1+512], %i, [%r3];
        red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 [%r1+516], %i, [%r3];
        mbarrier.test_wait.parity.shared.b64 %p3, [b], 0;
        ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r2];
        ld.shared.v2.u32 {%r9, %r10}, [data+512];
        selp.u32 %r11, 1, 0, %p2;
        selp.u32 %r12, 1, 0, %p3;
        st.global.v4.u32 [%out], {%r5, %r6, %r7, %r8};
        st.global.v4.u32 [%out+16], {%r9, %r10, %r11, %r12};"""
    got = run(hopper(body.replace("1152", str(32 * 36)), 4, declarations=DECLARE), words=4).view(np.uint32)
    for k in range(32):
        assert got[k].tolist() == [k, k + 1, 0, 77, 31 * 16, 31, 0, 1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mbarrier.arrive.shared.b64 %q1, [b];", "no mbarrier object"),
        ("mbarrier.test_wait.parity.shared.b64 %p1, [b], 0;", "no mbarrier object"),
        ("mbarrier.init.shared.b64 [b], 2; mbarrier.inval.shared.b64 [b]; mbarrier.expect_tx.shared::cta.b64 [b], 1;",
        "no mbarrier object"),
        ("mbarrier.init.shared.b64 [b], 2; mbarrier.arrive.shared.b64 %q1, [b], 3;", "more arrivals"),
        ("mbarrier.init.shared.b64 [b], %i; mbarrier.init.shared.b64 [b], 0;", "more arrivals"),
        ("mbarrier.init.shared.b64 [b], 1048576;", "more arrivals"),
        ("mbarrier.init.shared.b64 [b], 2; mbarrier.expect_tx.shared::cta.b64 [b], 1048576;", "more arrivals or bytes"),
        ("mbarrier.init.shared.b64 [b+4], 2;", "misaligned"), ("mbarrier.init.shared.b64 [b+2000], 2;", "end of shared"),
        ("mbarrier.init.b64 [%out], 2;", "end of shared"),
    ],
)  # fmt: skip
def test_misuse_of_an_object_faults(text: str, problem: str) -> None:
    source = hopper(f"setp.eq.u32 %p15, %i, 9;\n@!%p15 ret;\n{text}", declarations=DECLARE)
    with pytest.raises(LaunchFault, match=rf"{problem}.* thread \(9,0,0\)"):
        run(source)


@pytest.mark.parametrize(
    "text",
    ["mbarrier.arrive.shared.b64 %q1, [b], 1, 2;", "mbarrier.invert.shared.b64 [b];", "mbarrier.init.shared.b32 [b], 1;",
     "mbarrier.arrive.wild.shared.b64 %q1, [b];", "mbarrier.expect_tx.shared.b64 [b];",
     "mbarrier.test_wait.shared.b64 %p1, [b], %q1, 5;"],
)  # fmt: skip
def test_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="mbarrier"):
        run(hopper(text, declarations=DECLARE))


def test_objects_are_recorded_as_shared_memory() -> None:
    body = """
        setp.eq.u32 %p1, %i, 0;
        @%p1 mbarrier.init.shared.b64 [b], 32;
        mbarrier.arrive.shared.b64 %q1, [b];
        mbarrier.test_wait.shared.b64 %p2, [b], %q1;
        mbarrier.pending_count.b64 %r1, %q1;"""
    _, trace = run_traced(hopper(body, declarations=DECLARE))
    assert [(a.sectors, a.degree, a.sharing) for a in accesses(trace)] == [(None, 1, None), (None, 2, 32), (None, 2, None)]
    rows = [i for i in trace.instructions if i.opcode.startswith("mbarrier")]
    assert [(i.space, i.access, i.op_class) for i in rows] == [
        ("shared", "store", "shared"), ("shared", "atomic", "shared"), ("shared", "load", "shared"), ("", "", "int"),
    ]  # fmt: skip
    assert rows[1].destinations and rows[2].sources == rows[1].destinations == rows[3].sources
