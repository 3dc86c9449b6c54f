"""Are threads that end within a loop, by a guarded `ret`, counted from the program text as often as they execute?"""

from __future__ import annotations

import pytest

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.interval_profile import KernelCounts
from warpsight.intervals.static.counts import static_counts
from warpsight.intervals.static.loops import StaticHints
from warpsight.intervals.usage import path_use, trace_counts
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import run_ready

pytestmark = pytest.mark.unit

# Lanes below 16 end inside a loop of 4 iterations: of 33 threads half of the first warp, and the only one of the second.
ENDING = """.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %q<4>;
  mov.u32 %r1, %laneid;
  ld.param.u64 %q1, [out];
  mul.wide.u32 %q2, %r1, 4;
  add.s64 %q1, %q1, %q2;
  setp.lt.u32 %p1, %r1, 16;
  mov.u32 %r3, 3;
$outer:
  mov.u32 %r2, 4;
$loop:
  {body}
  bra $loop;
$after:
  {again}
  st.global.u32 [%q1], %r2;
  ret;
}}
"""
LEAVE = "setp.eq.u32 %p2, %r2, 0; @%p2 bra $after;"
WORK = "xor.b32 %r4, %r1, %r2; st.global.u32 [%q1], %r4;"
COUNT = "sub.u32 %r2, %r2, 1;"
AGAIN = "sub.u32 %r3, %r3, 1; setp.ne.u32 %p3, %r3, 0; @%p3 bra $outer;"
SECOND = "setp.eq.u32 %p4, %r2, 2; @%p4 ret;"


def _ready(text: str) -> ReadyLaunch:
    return prepare(KernelRequest(path=text, kernel="k", grid=(2,), block=(33,), args=("u32[33]:zeros",)))


def _numbers(counts: KernelCounts) -> list[float]:
    return [float(value) for value in counts.__dict__.values() if not isinstance(value, str)]


def _ending(body: str, again: str) -> tuple[KernelCounts, KernelCounts]:
    """Counts of the text and of the execution."""
    ready = _ready(ENDING.format(body=body, again=again))
    trace, gpu = run_ready(ready), load_gpu("gtx280")
    return static_counts(ready.source, ready.launch, gpu, 3), trace_counts(trace, gpu, path_use(trace)[0], 3)


@pytest.mark.parametrize(
    "body",
    [
        f"{LEAVE} {WORK} @%p1 ret; {COUNT}",
        f"{LEAVE} {WORK} {COUNT} @%p1 exit;",
        f"@%p1 ret; {LEAVE} {WORK} {COUNT}",
        f"{LEAVE} {WORK} @!%p1 ret; {COUNT}",
        f"{LEAVE} {WORK} {SECOND} {COUNT}",
        f"{LEAVE} {WORK} {SECOND} @%p1 ret; {COUNT}",
        f"{LEAVE} {WORK} setp.lt.u32 %p4, %r1, 16; @%p4 ret; add.u32 %r1, %r1, 0; {COUNT}",
        f"{LEAVE} @!%p1 bra $stays; {WORK} ret; $stays: {WORK} {COUNT}",
    ],
)
def test_threads_that_end_within_a_loop_are_not_counted_in_its_later_iterations(body: str) -> None:
    counted, executed = _ending(body, "")
    assert _numbers(counted) == pytest.approx(_numbers(executed), rel=1e-12)


def test_warp_whose_threads_all_end_in_the_first_iteration_has_the_counts_of_one() -> None:
    counted, _ = _ending(f"{LEAVE} {WORK} @%p1 ret; {COUNT}", "")
    # the first warp: 7 before the loop, 4 x 7, 2 that leave, 2 after it; the second: 7 before the loop, 5 to its `ret`
    assert counted.instructions == (7 + 4 * 7 + 2 + 2 + 7 + 5) / 2
    # a store in each iteration, and one after the loop
    assert counted.memory_instructions == (4 + 1 + 1) / 2


@pytest.mark.parametrize("body", [f"{LEAVE} {WORK} @%p1 ret; {COUNT}", f"@%p1 ret; {LEAVE} {WORK} {COUNT}"])
def test_loop_in_which_all_threads_end_is_counted(body: str) -> None:
    counted, executed = _ending(body.replace("@%p1", "setp.lt.u32 %p4, %r1, 32; @%p4"), "")
    assert _numbers(counted) == pytest.approx(_numbers(executed), rel=1e-12)


def test_told_trips_are_compared_with_those_of_threads_that_do_not_end_before() -> None:
    ready = _ready(ENDING.format(body=f"{LEAVE} {WORK} @%p1 ret; {COUNT}", again=""))
    found = (static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3, StaticHints(trips=t)) for t in ({}, {"$loop": 4}))
    plain, hinted = found
    assert hinted == plain
    with pytest.raises(UsageError, match="is 3 iterations, but the program text has 4"):
        static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3, StaticHints(trips={"$loop": 3}))


def test_large_loop_in_which_threads_end_is_one_pass() -> None:
    text = ENDING.format(body=f"{LEAVE} {WORK} @%p1 ret; {COUNT}", again="").replace("%r2, 4;", "%r2, 20000000;")
    ready = _ready(text)
    assert static_counts(ready.source, ready.launch, load_gpu("gtx280"), 3).memory_instructions == (20000000 + 1 + 1) / 2


@pytest.mark.parametrize("body", [f"{LEAVE} {WORK} @%p1 ret; {COUNT}", f"@%p1 ret; {LEAVE} {WORK} {COUNT}"])
def test_threads_that_end_within_an_inner_loop_are_refused_with_place_and_remedy(body: str) -> None:
    with pytest.raises(WarpsightError, match="a jump to the start of an outer loop") as caught:
        _ending(body, AGAIN)
    assert "PTX line" in caught.value.place
    assert caught.value.remedy
