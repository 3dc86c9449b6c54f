"""Whatever a warp did, in whatever dialect a tracer wrote it: is it read back as it was?"""

from __future__ import annotations

import gzip
import lzma
import tempfile
from pathlib import Path

import pytest
from accelsim_programs import kernels
from accelsim_reader import Read, same, streams
from accelsim_writer import Dialect, Kernel, Step, expected_event, is_local
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from warpsight.traces.exporters.accelsim.writer import export_accelsim
from warpsight.traces.importers.accelsim.importer import import_accelsim
from warpsight.traces.schema import KernelTrace
from warpsight.traces.validate import validate

pytestmark = pytest.mark.property

DIALECTS = [
    Dialect(1), Dialect(2, form=0), Dialect(3), Dialect(3, form=2), Dialect(4, lineinfo=True), Dialect(5, tail=("0",)),
    Dialect(5, tail=("-264",), form=0), Dialect(5, tail=("192", "0"), cluster=True), Dialect(6, tail=("0", "0", "NoVal")),
    Dialect(6, tail=("0", "7", "Val", "1", "ff", "32", *["0a"] * 32), lineinfo=True, cluster=True),
    Dialect(3, raw=True), Dialect(5, tail=("0",), raw=True, prefix=6), Dialect(6, tail=("0", "0", "NoVal"), raw=True, prefix=11),
    Dialect(4, raw=True, lineinfo=True), Dialect(5, tail=("0",), order=(3, 1, 2, 0)),
]  # fmt: skip


def read(text: str, raw: bool, packing: str = "") -> KernelTrace:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"kernel-1.trace{'' if raw else 'g'}{packing}"
        data = text.encode()
        path.write_bytes({"": data, ".gz": gzip.compress(data, 1), ".xz": lzma.compress(data, preset=0)}[packing])
        return import_accelsim(path)[0].trace()


@pytest.mark.parametrize("newer", [False, True], ids=["until version 5", "from version 6"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_kernel_in_any_dialect_read_back_equals_what_was_written(newer: bool, data: st.DataObject) -> None:
    """Each kernel in every dialect that can say all that it does, packed in one of the ways."""
    drawn = data.draw(kernels(newer=newer))
    for dialect in (each for each in DIALECTS if (each.version >= 6) is newer):
        note(str(dialect))
        kernel = drawn
        if dialect.raw:  # a raw file says nothing of warps without instructions
            kernel = Kernel(drawn.grid, drawn.block, [b if b is None or any(b) else None for b in drawn.streams])
        trace = read(dialect.text(kernel), dialect.raw, data.draw(st.sampled_from(["", ".gz", ".xz"])))
        validate(trace)
        there = [block for block in kernel.streams if block is not None]
        assert trace.header.recorded_blocks == len(there)
        assert trace.header.recorded_instructions == sum(len(steps) for block in there for steps in block)
        for got, wanted in zip(streams(trace), [steps for block in there for steps in block], strict=True):
            check(trace, got, wanted)


def check(trace: KernelTrace, got: list[Read], wanted: list[Step]) -> None:
    """Compare one warp's stream, execution by execution."""
    assert [r.pc for r in got] == [s.op.pc for s in wanted]
    for r, s in zip(got, wanted, strict=True):
        instruction = trace.instructions[r.instruction]
        assert (instruction.opcode, instruction.line) == (s.op.opcode, instruction.line)
        assert (instruction.access, instruction.space) == (s.op.access, s.op.space)
        assert r.lanes >= len(s.lanes)
        sectors, passes, sharing = expected_event(s)
        assert [x for x in r.sectors if x >= 0] == sectors
        assert (r.passes, r.sharing) == (passes, sharing)
        local = sorted(
            {
                (address >> 2) + word << 2 | lane >> 3
                for lane, address in zip(s.lanes, s.addresses, strict=bool(s.op.width))
                if is_local(s.op, address)
                for word in range(max(1, s.op.width // 4))
            }
        )
        assert len([x for x in r.sectors if x < 0]) == len(local)
        # rows of one page stay in their order and distance
        assert sorted(-1 - x & 511 for x in r.sectors if x < 0) == sorted(x & 511 for x in local)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernel=kernels(newer=True))
def test_trace_exported_and_imported_again_is_the_same(kernel: Kernel) -> None:
    trace = read(Dialect(6, tail=("0", "0", "NoVal")).text(kernel), False)
    with tempfile.TemporaryDirectory() as folder:
        export_accelsim(trace, Path(folder) / "out")
        again = import_accelsim(Path(folder) / "out")[0].trace()
    assert same(trace, again) == []


@pytest.mark.parametrize("offsets", [{0: 0}, dict.fromkeys(range(32), 0), {4: 8, 31: 8, **dict.fromkeys(range(5, 31), 0)},
                                     {30: 8, 31: 8, **dict.fromkeys(range(30), 0)}])  # fmt: skip
def test_atomic_on_local_memory_is_exported_with_as_many_lanes_at_one_address(offsets: dict[int, int]) -> None:
    from accelsim_writer import LOCAL_BASE, Op, Step

    mask, addresses = sum(1 << lane for lane in offsets), tuple(LOCAL_BASE + 64 + offsets[lane] for lane in sorted(offsets))
    atomic = Op(16, "ATOM.E.ADD.64", ("R0",), ("R2", "R4"), "generic", "atomic", 8)
    steps = [Step(Op(0, "IADD3"), 0xFFFFFFFF), Step(atomic, mask, addresses)]
    trace = read(Dialect(6, tail=("0", "0", "NoVal")).text(Kernel((1, 1, 1), (32, 1, 1), [[steps]])), False)
    with tempfile.TemporaryDirectory() as folder:
        export_accelsim(trace, Path(folder) / "out")
        again = import_accelsim(Path(folder) / "out")[0].trace()
    assert same(trace, again) == []
    assert streams(trace)[0][1].sharing == max(list(offsets.values()).count(n) for n in offsets.values())


@pytest.mark.parametrize("elsewhere", [2, 16, 30])
def test_generic_access_to_several_windows_is_exported_with_all_its_sectors(elsewhere: int) -> None:
    from accelsim_writer import LOCAL_BASE, Op, Step

    addresses = [LOCAL_BASE + 64] * (32 - elsewhere) + [0x7F0000001000 + 4096 * k for k in range(elsewhere)]
    step = Step(Op(0, "LD.E", ("R0",), ("R2",), "generic", "load", 4), 0xFFFFFFFF, tuple(addresses))
    trace = read(Dialect(6, tail=("0", "0", "NoVal")).text(Kernel((1, 1, 1), (32, 1, 1), [[[step]]])), False)
    with tempfile.TemporaryDirectory() as folder:
        export_accelsim(trace, Path(folder) / "out")
        again = import_accelsim(Path(folder) / "out")[0].trace()
    assert len(streams(trace)[0][0].sectors) == elsewhere + len({lane // 8 for lane in range(32 - elsewhere)})
    assert sorted(streams(again)[0][0].sectors) == sorted(streams(trace)[0][0].sectors)


@pytest.mark.parametrize("opcode", ["ATOMS.ADD.64", "ATOM.E.ADD.64", "ATOMS.ADD"])
@pytest.mark.parametrize("spread", [1, 2, 16, 32])
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0xF0F0F0F0, 0x80000001])
def test_atomic_on_shared_memory_is_exported_with_all_its_lanes(opcode: str, spread: int, mask: int) -> None:
    from accelsim_writer import SHARED_BASE, Op, Step

    base, width = (0, "shared") if opcode.startswith("ATOMS") else (SHARED_BASE, "generic"), 8 if opcode.endswith("64") else 4
    atomic = Op(0, opcode, ("R0",), ("R2", "R4"), base[1], "atomic", width)
    step = Step(atomic, mask, tuple(base[0] + k // spread * width for k in range(bin(mask).count("1"))))
    trace = read(Dialect(6, tail=("0", "0", "NoVal")).text(Kernel((1, 1, 1), (32, 1, 1), [[[step]]])), False)
    with tempfile.TemporaryDirectory() as folder:
        export_accelsim(trace, Path(folder) / "out")
        assert same(trace, import_accelsim(Path(folder) / "out")[0].trace()) == []


def test_source_lines_are_kept_where_the_tracer_wrote_them() -> None:
    from accelsim_writer import Op

    steps = [Step(Op(0, "IADD3", ("R1",), ("R2",), line=17), 0xFFFFFFFF), Step(Op(16, "EXIT", line=18), 0xFFFFFFFF)]
    text = Dialect(5, tail=("0",), lineinfo=True).text(Kernel((1, 1, 1), (32, 1, 1), [[steps]]))
    assert [i.line for i in read(text, False).instructions] == [17, 18]
