"""Whatever the control flow: are the counts from the program text, where it gives any, those of the execution?"""

from __future__ import annotations

import os

import numpy as np
import pytest
import random_kernels
from hypothesis import HealthCheck, given, settings
from random_kernels import OUT_WORDS, RandomKernel, branching, exchanging

from warpsight.base.errors import WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.intervals.static.counts import static_counts
from warpsight.intervals.usage import path_use, trace_counts
from warpsight.pipeline.kernel_input import prepare
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import run_ready

pytestmark = pytest.mark.property

_EXAMPLES = int(os.environ.get("WARPSIGHT_TEST_EXAMPLES", "25"))
_tried = settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

# The random kernels take their registers from memory, which is not known here: numbers of the thread take their place.
_IN_PLACE = {
    "ld.global.v2.u32 {%r0, %r1}, [%in];": "mad.lo.u32 %r0, %g, 7, %laneid; mad.lo.u32 %r1, %tid_, 0x9E3779B1, 12345;",
    "ld.global.u8 %r2, [%in+9];": "and.b32 %r2, %r1, 3;",
    "ld.global.s16 %r3, [%in+10];": "mov.u32 %r3, 6;",
    "ld.global.v2.u64 {%q0, %q1}, [%in];": "mul.wide.u32 %q0, %r1, 3; mov.u64 %q1, 5;",
    "setp.gt.f32 %p1, %f0, %f1;": "setp.gt.s32 %p1, %r1, 0;",
}


def _check(kernel: RandomKernel) -> None:
    text = kernel.text
    for loaded, computed in _IN_PLACE.items():
        assert loaded in random_kernels.HEAD
        text = text.replace(loaded, computed, 1)
    out = np.zeros(kernel.threads * OUT_WORDS, np.uint32)
    ready = prepare(
        KernelRequest(path=text, kernel="k", grid=kernel.grid, block=kernel.block, args=(kernel.words, out, kernel.scalar))
    )
    gpu = load_gpu("gtx280")
    try:
        counted = static_counts(ready.source, ready.launch, gpu, 3)
    except WarpsightError as refusal:
        assert refusal.place
        assert refusal.remedy
        return
    trace = run_ready(ready)
    executed = trace_counts(trace, gpu, path_use(trace)[0], 3)
    for name, value in executed.__dict__.items():
        if not isinstance(value, str):
            assert getattr(counted, name) == pytest.approx(value, rel=1e-9), name


@_tried
@given(branching())
def test_branching_kernel_has_the_counts_of_its_execution_or_is_refused(kernel: RandomKernel) -> None:
    _check(kernel)


@_tried
@given(exchanging())
def test_kernel_with_barriers_has_the_counts_of_its_execution_or_is_refused(kernel: RandomKernel) -> None:
    _check(kernel)
