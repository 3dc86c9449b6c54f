"""Whole CUDA kernels that hide copies behind work: the results are those of the plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import KERNELS, launch
from trace_reader import accesses

import warpsight
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(3)


def test_two_stages_of_copies_give_the_sums() -> None:
    tiles = RNG.integers(0, 100, (5, 64, 4)).astype(np.float32)
    out = np.zeros(64, np.float32)
    source = load_source(KERNELS / "async_copies.cu", arch="compute_90")
    trace = launch(source, "two_stages", 1, 64, [tiles, out, 5])
    read = tiles.copy()
    read[:, 1::2, 2:] = 0
    np.testing.assert_array_equal(out, read.sum(axis=(0, 2))[::-1])
    # A warp's 32 copies of 16 bytes touch 16 sectors, tile after tile 1 KiB on.
    first = (1 << 32) // 32
    copies = [a.sectors for a in accesses(trace, 1) if a.opcode.startswith("cp.async")]
    assert copies == [tuple(range(first + 32 * k + 16, first + 32 * k + 32)) for k in range(5)]


def test_bulk_copies_and_an_mbarrier_move_each_round() -> None:
    data = RNG.integers(0, 1000, 7 * 256).astype(np.int32)
    wanted = data + 1
    wanted[6 * 256 :] -= 1
    launch(load_source(KERNELS / "async_copies.cu", arch="compute_90"), "bulk_rounds", 1, 256, [data, 6])
    np.testing.assert_array_equal(data, wanted)


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_warps_that_only_wait_see_each_phase_that_another_warp_completes(level: str) -> None:
    """Four warps wait for phases that the first one completes alone; nothing else keeps them together. Parities repeat."""
    text = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %q<3>; .shared .align 8 .b64 done;
    ld.param.u64 %q0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %q1, %r0, 4; add.u64 %q0, %q0, %q1;
    setp.eq.u32 %p, %r0, 0; @%p mbarrier.init.shared.b64 [done], 1; bar.sync 0; mov.u32 %r1, 0;
next:
    setp.eq.u32 %p, %r0, 0; @%p mbarrier.arrive.shared.b64 _, [done]; and.b32 %r2, %r1, 1;
wait:
    mbarrier.try_wait.parity.shared.b64 %p, [done], %r2; @!%p bra wait;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 6; @%p bra next;
    st.global.u32 [%q0], %r1;
    ret;
}
"""
    out = np.zeros(128, np.uint32)
    warpsight.trace(text, "k", grid=1, block=128, args=[out], gpu="h100-sxm", level=level, max_instructions=100_000)
    assert (out == 6).all()


ARRIVE, COMMIT = "mbarrier.arrive.shared.b64 _,", "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"


@pytest.mark.parametrize(
    ("gpu", "target", "signal", "level"),
    [("h100-sxm", "sm_90a", ARRIVE, "ptx"), ("h100-sxm", "sm_90a", ARRIVE, "sass"), ("b200", "sm_100a", COMMIT, "sass")],
)
def test_phases_that_one_lane_completes_in_straight_code_are_seen_too(gpu: str, target: str, signal: str, level: str) -> None:
    """As where a lane commits products, waits for them, and starts a copy: two objects, of which the parities repeat."""
    names = [("first", k) if half == 0 else ("second", k) for k in range(4) for half in range(2)]

    def wait(who: str, name: str, k: int) -> str:
        label = f"{who}_{name}_{k}"
        return f"{label}: mbarrier.try_wait.parity.shared.b64 %p, [{name}], {k % 2}; @!%p bra {label};"

    signals = "\n".join(f"{signal} [{name}]; {wait('makes', name, k)}" for name, k in names)
    text = f""".version 8.6
.target {target}
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p, %q; .reg .b32 %r<2>; .reg .b64 %q<3>; .shared .align 8 .b64 first; .shared .align 8 .b64 second;
    ld.param.u64 %q0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %q1, %r0, 4; add.u64 %q0, %q0, %q1;
    setp.eq.u32 %p, %r0, 0; @%p mbarrier.init.shared.b64 [first], 1; @%p mbarrier.init.shared.b64 [second], 1; bar.sync 0;
    setp.ge.u32 %q, %r0, 32; @%q bra watches; @!%p bra meet;
    {signals}
    bra meet;
watches:
    {" ".join(wait("sees", name, k) for name, k in names)}
meet:
    st.global.u32 [%q0], 1;
    ret;
}}
"""
    out = np.zeros(128, np.uint32)
    warpsight.trace(text, "k", grid=1, block=128, args=[out], gpu=gpu, level=level, max_instructions=100_000)
    assert (out == 1).all()
