"""Does a trace say what was executed and which memory it touched? Expectations are counted by hand or follow from definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emulator_launch import KERNELS, cuda, launch, ptx, whole
from trace_reader import Access, accesses, path_of

import warpsight
from warpsight.traces import packing
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit
PRELUDE = 7  # instructions before the body of emulator_launch.ptx
FIRST = (1 << 32) // 32  # sector of the first array's first byte
SPACE = ".shared .align 16 .b8 s[32768];"


def words(threads: int) -> np.ndarray:
    return np.zeros(threads, np.uint64)


# -- paths -------------------------------------------------------------------------------------------------------------------


def test_loop_is_counted_and_recorded_as_a_repeated_block() -> None:
    body = "mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 5;\n@%p1 bra L;\nst.global.u32 [%out], %r1;\nret;"
    trace = launch(ptx(body), "k", 2, 80, [words(160)])
    per_warp = PRELUDE + 1 + 5 * 3 + 2
    assert trace.header.warp_instructions == 6 * per_warp
    assert trace.header.thread_instructions == 160 * per_warp
    assert np.diff(trace.block_start).tolist() == [PRELUDE + 1, 3, 2]
    assert path_of(trace, 0) == [(0, 32, 1), (1, 32, 5), (2, 32, 1)]
    assert path_of(trace, 2) == [(0, 16, 1), (1, 16, 5), (2, 16, 1)]
    assert whole(trace).path.tolist() == [0, 0, 1, 0, 0, 1]  # warps that did the same share a path
    assert len(trace.paths) == 2


def test_branch_that_divides_a_warp_records_the_lanes_of_each_side() -> None:
    body = """
        setp.lt.u32 %p1, %i, 10;
        @%p1 bra THEN;
        mov.u32 %r1, 1;
        bra JOIN;
        THEN: mov.u32 %r1, 2;
        JOIN: st.global.u32 [%out], %r1;
        ret;"""
    trace = launch(ptx(body), "k", 1, 64, [words(64)])
    assert path_of(trace, 0) == [(0, 32, 1), (2, 10, 1), (1, 22, 1), (3, 32, 1)]
    assert path_of(trace, 1) == [(0, 32, 1), (1, 32, 1), (3, 32, 1)]  # nobody goes the other way
    assert trace.header.warp_instructions == (PRELUDE + 2 + 1 + 2 + 2) + (PRELUDE + 2 + 2 + 2)
    assert trace.header.thread_instructions == 64 * (PRELUDE + 4) + 10 + 54 * 2


def test_loop_with_trip_count_by_lane_records_fewer_and_fewer_lanes() -> None:
    body = "shr.u32 %r1, %i, 3;\nL: setp.eq.u32 %p1, %r1, 0;\n@%p1 bra E;\nsub.u32 %r1, %r1, 1;\nbra L;\nE: ret;"
    trace = launch(ptx(body), "k", 1, 32, [words(32)])
    # Eight lanes make 0 rounds, eight 1, eight 2 and eight 3; those that are done wait at E.
    head, body_block, end = 1, 2, 3
    expected = [(0, 32, 1), (head, 32, 1)]
    for lanes in (24, 16, 8):
        expected += [(body_block, lanes, 1), (head, lanes, 1)]
    assert path_of(trace, 0) == [*expected, (end, 32, 1)]


def test_instruction_under_a_guard_counts_whether_or_not_it_takes_effect() -> None:
    trace = launch(ptx("setp.eq.u32 %p1, %i, 99;\n@%p1 st.global.u32 [%out], 1;\nret;"), "k", 1, 32, [words(32)])
    assert trace.header.warp_instructions == PRELUDE + 3
    (only,) = accesses(trace)
    assert only == Access("st.global.u32", PRELUDE + 1, (), None, None)


def test_static_instructions_name_classes_registers_and_lines() -> None:
    body = "ld.global.v2.f32 {%f1, %f2}, [%out];\nfma.rn.f32 %f3, %f1, %f2, %f1;\n@%p1 sqrt.rn.f64 %d1, %d2;\nbar.sync 0;\nret;"
    trace = launch(ptx(body), "k", 1, 32, [words(32)])
    load, fma, root, barrier, leave = trace.instructions[PRELUDE:]
    assert [i.op_class for i in (load, fma, root, barrier, leave)] == ["memory", "fp32", "sfu", "barrier", "branch"]
    assert (load.space, load.access, load.access_bytes, load.event_bytes) == ("global", "load", 8, 1)
    assert fma.sources == load.destinations
    assert len(root.sources) == 2  # the guard is read too
    assert [i.ptx_line for i in (load, fma, root)] == [load.ptx_line + k for k in range(3)]
    assert (load.pc, trace.instructions[load.pc]) == (PRELUDE, load)
    assert trace.instructions[5].opcode == "ld.param.u64"
    assert trace.instructions[5].event_bytes == 0


# -- whole launches ----------------------------------------------------------------------------------------------------------


def test_records_of_a_warp_stay_in_its_own_order_across_barriers() -> None:
    body = """
        st.global.u32 [%out], 1;
        bar.sync 0;
        st.global.u32 [%out+4096], 2;
        st.shared.u32 [s], 1;
        bar.sync 0;
        st.global.u32 [%out+8192], 3;
        ret;"""
    trace = launch(ptx(body, registers=SPACE), "k", 3, 96, [words(2000)])
    for warp in range(9):
        starts = [FIRST + warp * 8 + 128 * k for k in range(3)]
        wanted = [tuple(range(s, s + 8)) for s in starts]
        assert [a.sectors for a in accesses(trace, warp) if a.sectors is not None] == wanted
        assert [a.degree for a in accesses(trace, warp) if a.degree is not None] == [1]


def same(a: KernelTrace, b: KernelTrace) -> None:
    """Two traces hold the same, however they are cut into chunks."""
    first, second = whole(a), whole(b)
    for name in ("path", "event_offset", "events", "sector_offset", "sectors"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    for name in ("offset", "block", "lanes", "repeat"):
        np.testing.assert_array_equal(getattr(a.paths, name), getattr(b.paths, name), err_msg=name)
    assert (a.header.input_hash, a.header.kernel_hash) == (b.header.input_hash, b.header.kernel_hash)
    assert a.header.warp_instructions == b.header.warp_instructions
    assert a.header.thread_instructions == b.header.thread_instructions


def _sort() -> tuple[KernelTrace, np.ndarray]:
    x = np.random.default_rng(2).integers(0, 10**6, 6 * 1024).astype(np.int32)
    return launch(cuda("memory.cu"), "bitonic_sort", 6, 512, [x]), x


def _walk() -> tuple[KernelTrace, np.ndarray]:
    x, out = np.random.default_rng(4).integers(1, 10**4, 3000).astype(np.int32), np.zeros(3000, np.int32)
    return launch(cuda("control.cu"), "collatz", 94, 32, [x, out, 3000]), out


@pytest.mark.parametrize("run", [_sort, _walk])
def test_small_buffers_change_how_often_they_are_drained_and_nothing_else(
    run: Callable[[], tuple[KernelTrace, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from warpsight.emulator.run import buffers

    wanted, result = run()
    plain = buffers.Buffer.__init__

    def tiny(self: Any, context: Any, cursor: Any, end: Any, soft: Any, shape: tuple[int, ...], *rest: Any, **more: Any) -> None:
        plain(self, context, cursor, end, soft, (32, *shape[1:]), *rest, **more)

    monkeypatch.setattr(buffers.Buffer, "__init__", tiny)
    monkeypatch.setattr(packing, "_MOST_JOINED", 0)
    got, again = run()
    assert len(list(got.chunks)) > len(list(wanted.chunks)) == 1
    same(got, wanted)
    np.testing.assert_array_equal(again, result)


def test_thousands_of_different_paths_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsight.emulator.run import buffers

    plain = buffers.Buffer.__init__

    def small(self: Any, context: Any, cursor: Any, end: Any, soft: Any, shape: tuple[int, ...], *rest: Any, **more: Any) -> None:
        plain(self, context, cursor, end, soft, (1000, *shape[1:]), *rest, **more)

    monkeypatch.setattr(buffers.Buffer, "__init__", small)
    monkeypatch.setattr(packing, "_MOST_JOINED", 0)
    # Block b makes b % 2500 + 1 rounds; the last 500 blocks repeat paths that are known.
    body = "mov.u32 %r1, %ctaid.x;\nrem.u32 %r1, %r1, 2500;\nL: sub.u32 %r1, %r1, 1;\nsetp.ge.s32 %p1, %r1, 0;\n@%p1 bra L;\nret;"
    trace = launch(ptx(body), "k", 3000, 32, [words(1)])
    assert whole(trace).path.tolist() == [b % 2500 for b in range(3000)]
    assert trace.paths.repeat[1::3].tolist() == list(range(1, 2501))
    assert len(list(trace.chunks)) > 3


def test_launches_in_several_threads_do_not_disturb_each_other() -> None:
    from concurrent.futures import ThreadPoolExecutor

    wanted = [_walk()[0], _sort()[0]] * 4
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda k: (_walk, _sort)[k % 2]()[0], range(8)))
    for a, b in zip(got, wanted, strict=True):
        same(a, b)


@pytest.mark.parametrize("run", [_sort, _walk])
def test_launch_made_twice_gives_the_same_trace_and_results(run: Callable[[], tuple[KernelTrace, np.ndarray]]) -> None:
    (first, x), (second, y) = run(), run()
    same(first, second)
    assert [len(c.path) for c in first.chunks] == [len(c.path) for c in second.chunks]
    np.testing.assert_array_equal(x, y)


def test_float_atomics_give_the_same_sum_every_time() -> None:
    x = np.random.default_rng(6).normal(size=4096).astype(np.float32)
    sums = set()
    for _ in range(3):
        out = np.zeros(1)
        launch(cuda("memory.cu"), "block_sum", 8, 128, [x, out, 4096])
        sums.add(out[0])
    assert len(sums) == 1


def test_hash_of_the_inputs_follows_data_and_shape() -> None:
    def hashes(x: np.ndarray, grid: int) -> tuple[str, str]:
        header = launch(cuda("memory.cu"), "block_sum", grid, 64, [x, np.zeros(1), 64]).header
        return header.input_hash, header.kernel_hash

    x = np.arange(64, dtype=np.float32)
    base, other_data, other_grid = hashes(x, 1), hashes(x + 1, 1), hashes(x, 2)
    assert len({base[0], other_data[0], other_grid[0]}) == 3
    assert len({base[1], other_data[1], other_grid[1]}) == 1


def test_public_interface_gives_the_same_trace_with_a_full_header() -> None:
    x, out = np.random.default_rng(4).integers(1, 10**4, 100).astype(np.int32), np.zeros(100, np.int32)
    trace = warpsight.trace(KERNELS / "control.cu", kernel="collatz", grid=4, block=(16, 2), args=[x, out, 100], registers=40)
    same(trace, launch(cuda("control.cu"), "collatz", 4, (16, 2), [x, np.zeros(100, np.int32), 100]))
    header = trace.header
    assert (header.kernel, header.grid, header.block, header.warps, header.blocks) == ("collatz", (4, 1, 1), (16, 2, 1), 4, 4)
    assert (header.registers_per_thread, header.registers_from, header.target) == (40, "override", "sm_75")
    assert header.source.endswith("control.cu")
    assert {i.file.rpartition("/")[2] for i in trace.instructions} == {"control.cu"}
