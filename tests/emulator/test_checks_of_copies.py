"""Does `check` find threads that do not wait for bulk copies, copies that do not wait for threads, and nothing else?"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np
import pytest
from emulator_launch import KERNELS, REGISTERS
from tensor_copy_launch import load_kernel, store_kernel, tensor_map

from warpsight.base.errors import LaunchFault
from warpsight.base.findings import MEMCHECK, RACECHECK, WATCHING, Finding
from warpsight.emulator.run.launch import PreparedKernel, emulate, prepare_kernel
from warpsight.kernels.launch import KernelSource, RunOptions
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture

pytestmark = pytest.mark.unit
LEVELS = pytest.mark.parametrize("native", [False, True], ids=["ptx", "sass"])
I32 = np.int32
SOURCE = load_source(KERNELS / "pipelines.cu", arch="sm_90")


@functools.cache
def compiled(kernel: str, native: bool, clustered: bool, checks: frozenset[str], text: str) -> tuple[KernelSource, PreparedKernel]:
    source = load_source(text, name="tensor.ptx") if text else SOURCE
    architecture = Architecture(90, "a") if native else None
    return source, prepare_kernel(source, kernel, architecture=architecture, checks=checks, clustered=clustered)


def found_in(
    kernel: str, grid: int, block: int, *args: Any, native: bool = False, cluster: int = 1, text: str = "", shared: int = 0,
    checks: frozenset[str] = WATCHING,
) -> list[Finding]:  # fmt: skip
    """What the checks find in a kernel of `pipelines.cu`, or of a PTX `text`."""
    findings: list[Finding] = []
    source, prepared = compiled(kernel, native, cluster > 1, checks, text)
    options = RunOptions(check=checks, found=findings.append)
    order = make_launch(source, kernel, grid, block, args, cluster=cluster, shared=shared)
    with contextlib.suppress(LaunchFault):  # the last finding, if there is one, says so
        emulate(source, order, registers=REGISTERS, options=options, prepared=prepared)
    return findings


def kinds(findings: list[Finding]) -> list[tuple[str, int | None, int | None]]:
    """Of each finding the kind, its line and that of the other access."""
    return [(f.kind, f.site and f.site.line, f.other and f.other.line) for f in findings]


@LEVELS
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_pipeline_in_which_all_wait_has_no_finding(native: bool, stages: int) -> None:
    tiles = 7
    data, out = np.arange(128 * tiles, dtype=I32), np.zeros(128 * tiles, I32)
    assert found_in("pipeline", 1, 160, data, out, tiles, stages, 0, native=native) == []
    assert np.array_equal(out, 2 * data)


@LEVELS
def test_a_read_that_does_not_wait_for_the_copy_is_a_hazard(native: bool) -> None:
    data, out = np.arange(256, dtype=I32), np.zeros(256, I32)
    (finding,) = found_in("pipeline", 1, 160, data, out, 2, 2, 1, native=native)
    assert kinds([finding]) == [("read-after-write", 41, 17)]
    assert (finding.tool, finding.space, finding.count) == (RACECHECK, "shared", 256)
    assert "a copy that has not been waited for" in finding.message and "mbarrier" in finding.remedy


@LEVELS
@pytest.mark.parametrize("stages", [1, 2])
def test_a_stage_that_is_given_back_before_it_is_read_is_a_hazard(native: bool, stages: int) -> None:
    data, out = np.arange(512, dtype=I32), np.zeros(512, I32)
    findings = found_in("pipeline", 1, 160, data, out, 4, stages, 2, native=native)
    assert kinds(findings) == [("write-after-read", 17, 41)]


def test_a_store_reads_its_stage_until_its_group_has_been_waited_for() -> None:
    """At level ptx: machine code does not say which groups its waits are for."""
    out = np.zeros(384, I32)
    assert found_in("stores", 1, 128, out, 3, 0) == []
    assert out.tolist() == [1000 * k + i for k in range(3) for i in range(128)]
    for wrong in (1, 3):
        (finding,) = found_in("stores", 1, 128, out, 3, wrong)
        assert finding.site is not None and finding.other is not None
        assert (finding.kind, finding.site.line, finding.other.line) == ("write-after-read", 49, 53)
        assert "wait_group.read" in finding.remedy


@LEVELS
def test_a_store_of_what_other_warps_write_is_a_hazard(native: bool) -> None:
    """It reads what one warp has written, and others write what it still reads, which machine code does not show."""
    found = set(kinds(found_in("stores", 1, 128, np.zeros(128, I32), 1, 2, native=native, checks=frozenset({RACECHECK}))))
    assert found <= {("read-after-write", 53, 49), ("write-after-read", 49, 53)} and len(found) == 2 - native


@LEVELS
def test_copies_to_several_blocks_are_waited_for_in_each(native: bool) -> None:
    data = np.arange(128, dtype=I32)
    # 1: nobody waits for the first copy, neither the threads nor the second one
    early = {("write-after-read", 73, 77), ("read-after-write", 77, 73)}  # block 0 has read, block 1 reads after the copy
    for wrong, expected in ((0, set()), (1, {("read-after-write", 77, 73), ("write-after-write", 73, 73)}), (2, early)):
        out = np.zeros(256, I32)
        findings = found_in("multicast", 2, 64, data, out, wrong, native=native, cluster=2, checks=frozenset({RACECHECK}))
        assert set(kinds(findings)) == expected, wrong


@LEVELS
def test_copies_from_block_to_block_are_waited_for(native: bool) -> None:
    for wrong in (0, 1):
        findings = found_in("neighbours", 2, 64, np.zeros(128, I32), wrong, native=native, cluster=2)
        assert kinds(findings) == [("read-after-write", 98, 95)] * wrong


@LEVELS
def test_tensor_copies_are_watched_as_others(native: bool) -> None:
    """A load with its wait, then without."""
    text, size = load_kernel(2, 512), 512
    first, last = text.index("TRY:"), text.index("    mov.u32 %r0, 0;\nLOOP")
    for body, expected in ((text, []), (text[:first] + text[last:], ["read-after-write"])):
        tensor, data = np.arange(256, dtype=np.float32).reshape(16, 16), np.zeros(512, np.uint8)
        args = [tensor_map("f32", (16, 16), (64,), (16, 8)), np.zeros(16, np.uint64), tensor, data, 0, 4, 0, 0, 0]
        findings = found_in("k", 1, 32, *args, native=native, checks=frozenset({RACECHECK}), shared=size + 8, text=body)
        assert {f.kind for f in findings} == set(expected)  # of unrolled loads of bytes one each


def test_a_tensor_store_is_waited_for_before_its_box_is_written_again() -> None:
    text = store_kernel(2, 512).replace("    ret;", "    mov.u32 %r1, 7;\n    @!%p0 st.shared.b32 [%box], %r1;\n    ret;")
    for body, expected in ((text, []), (text.replace("    cp.async.bulk.wait_group 0;", ""), ["write-after-read"])):
        args = [tensor_map("f32", (16, 16), (64,), (16, 8)), np.zeros(16, np.uint64), np.zeros((16, 16), np.float32),
                np.zeros(512, np.uint8), 0, 4, 0, 0, 0]  # fmt: skip
        findings = found_in("k", 1, 32, *args, checks=frozenset({RACECHECK}), shared=520, text=body)
        assert [f.kind for f in findings] == expected


@LEVELS
def test_bulk_copies_past_an_array_are_findings(native: bool) -> None:
    data, out = np.arange(250, dtype=I32), np.zeros(256, I32)
    findings = found_in("pipeline", 1, 160, data, out, 2, 2, 0, native=native, checks=frozenset({MEMCHECK}))
    assert [(f.kind, f.site and f.site.line, f.bytes) for f in findings] == [("out-of-bounds", 17, 512)]


def on_a_matrix(text: str, blocks: int, checks: frozenset[str], *, rows: int = 16, native: bool = False, cluster: int = 1,
                box: tuple[int, int] = (16, 8)) -> list[Finding]:  # fmt: skip
    """What the checks find where each block copies a box of a matrix of `rows` x 16, in a map for 16 x 16, from row 4 on."""
    place = "    ld.param.u64 %data, [data];"  # each block makes its own copy of the map
    own = "mov.u32 %r7, %ctaid.x;\n    mul.wide.u32 %q2, %r7, 128;\n    add.u64 %map, %map, %q2;"
    text = text.replace(place, f"{place}\n    {own}")
    args = [tensor_map("f32", (16, 16), (64,), box), np.zeros(32, np.uint64), np.zeros((rows, 16), np.float32),
            np.zeros(512, np.uint8), 0, 4, 0, 0, 0]  # fmt: skip
    return found_in("k", blocks, 32, *args, native=native, cluster=cluster, checks=checks, shared=520, text=text)


RACES, ACCESSES = frozenset({RACECHECK}), frozenset({MEMCHECK})


@LEVELS
def test_boxes_of_two_blocks_in_device_memory_are_hazards_where_one_writes_what_the_other_accesses(native: bool) -> None:
    """Sums are atomic; and boxes side by side share sectors, but no bytes."""
    (finding,) = on_a_matrix(store_kernel(2, 512), 2, RACES, native=native)
    assert (finding.tool, finding.kind, finding.space) == (RACECHECK, "write-after-write", "global")
    assert "atomics" in finding.remedy
    for text in (store_kernel(2, 512, "add"), load_kernel(2, 512)):
        assert on_a_matrix(text, 2, RACES, native=native) == []
    beside = store_kernel(2, 512).replace("    mov.u32 %r0, 0;\nFILL:", "    shl.b32 %x0, %r7, 2;\n    mov.u32 %r0, 0;\nFILL:")
    assert on_a_matrix(beside, 2, RACES, native=native, box=(4, 8)) == []


def test_a_box_that_another_block_has_stored_is_not_read_without_an_order() -> None:
    text = store_kernel(2, 512)
    copy = next(line for line in text.splitlines() if "cp.async.bulk.tensor" in line)
    load = "ld.global.b32 %r7, [%tensor+448];"  # of row 7, by a thread of the other block
    both = text.replace(copy, f"    setp.eq.u32 %p3, %r7, 1;\n    @%p3 {load}\n    @%p3 bra WAIT;\n{copy}")
    (finding,) = on_a_matrix(both, 2, RACES)
    assert (finding.kind, finding.site and finding.site.text, finding.address) == ("read-after-write", "ld.global.b32", 0x1000002C0)


@LEVELS
@pytest.mark.parametrize(
    "text", [load_kernel(2, 512), store_kernel(2, 512), store_kernel(2, 512, "add")], ids=["load", "store", "add"]
)
def test_a_tensor_map_that_is_larger_than_its_array_is_a_finding(native: bool, text: str) -> None:
    """Another array lies behind it, which a GPU would access; memcheck knows that it is another one."""
    (finding,) = on_a_matrix(text, 1, ACCESSES, rows=8, native=native)
    assert (finding.tool, finding.kind, finding.space) == (MEMCHECK, "tensor-out-of-bounds", "global")
    assert 'array of parameter "data"' in finding.allocation and "sizes and strides" in finding.remedy
    assert on_a_matrix(text, 1, ACCESSES, native=native) == []


def pair_kernel(*, multicast: bool, waits: bool, told: bool) -> str:
    """Both blocks of a pair get a box, and all bytes complete on the object of the first, which `waits` for them. The second block
    reads its box when it was `told` by a barrier of the cluster.
    """
    text = load_kernel(2, 512).replace(".target sm_90a", ".target sm_100a").replace(
        ".reg .pred %p<4>;", ".reg .pred %p<4>;\n    .reg .b16 %both;\n    .reg .b32 %rank, %far;"
    )
    first, start = text.index("    mbarrier.arrive.expect_tx"), text.index("WAIT:")
    copy = text[text.index("    cp.async", first) : start]
    form = "multicast::cluster.cta_group::2" if multicast else "cta_group::2"
    signal = "[%far], %both;" if multicast else "[%far];"
    copy = copy.replace("complete_tx::bytes", f"complete_tx::bytes.{form}").replace("[%bar];", signal)
    text = text[:first] + text[start:]
    begin, end = text.index("TRY:"), text.index("    mov.u32 %r0, 0;\nLOOP")
    wait = f"    setp.ne.u32 %p3, %rank, 0;\n    @%p3 bra OVER;\n{text[begin:end]}OVER:\n" if waits else ""
    meet = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"
    text = text[:begin] + wait + meet * told + text[end:]
    return text.replace("WAIT:\n    bar.sync 0;\n", f"""WAIT:
    bar.sync 0;
    mov.u32 %rank, %cluster_ctarank;
    setp.eq.u32 %p2, %i, 0;
    setp.eq.and.u32 %p1, %rank, 0, %p2;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;
{meet}    mapa.shared::cluster.u32 %far, %bar, 0;
    mov.b16 %both, 3;
    @!%p{1 if multicast else 2} bra ISSUED;
{copy}ISSUED:
""")


@pytest.mark.parametrize("multicast", [False, True], ids=["each", "multicast"])
def test_boxes_of_a_pair_of_blocks_are_waited_for_on_the_object_of_one(multicast: bool) -> None:
    def found(*, waits: bool = True, told: bool = True) -> list[Finding]:
        return on_a_matrix(pair_kernel(multicast=multicast, waits=waits, told=told), 2, RACES, cluster=2)

    assert found() == []
    (finding,) = found(waits=False)
    assert (finding.kind, finding.count) == ("read-after-write", 1024)  # all bytes of both boxes
    assert "a copy that has not been waited for" in finding.message
    (finding,) = found(told=False)
    assert finding.kind == ("write-after-read" if multicast else "read-after-write")  # the second block has read before the copy
