"""LDGSTS, bulk copies, warp-group products, texture fetches, unknown opcodes, PTX on its way out: each as the format says?"""

from __future__ import annotations

from pathlib import Path

import pytest
from accelsim_reader import same, streams
from accelsim_writer import SHARED_BASE, Dialect, Kernel, Op, Step

import warpsight
from warpsight.base.errors import UsageError
from warpsight.isa.op_classes import OP_CLASSES
from warpsight.isa.sass.from_ptx import architecture
from warpsight.isa.sass.opcodes import TABLE, SassTable, access_bytes, read_isa_file
from warpsight.traces.exporters.accelsim.lines import compressed
from warpsight.traces.exporters.accelsim.writer import export_accelsim
from warpsight.traces.importers.accelsim.importer import import_accelsim
from warpsight.traces.schema import KernelTrace
from warpsight.traces.validate import validate

pytestmark = pytest.mark.unit

EXIT = Step(Op(0x100, "EXIT"), 0xFFFFFFFF)
HEAD = Dialect(5, tail=("0",)).text(Kernel((1, 1, 1), (32, 1, 1), [None]))


def read(folder: Path, lines: list[str], isa: SassTable | None = None) -> KernelTrace:
    """One warp with these lines."""
    text = "\n".join([HEAD, "#BEGIN_TB", "thread block = 0,0,0", "warp = 0", f"insts = {len(lines)}", *lines, "#END_TB", ""])
    (folder / "kernel-1.traceg").write_text(text)
    trace = import_accelsim(folder / "kernel-1.traceg", isa)[0].trace()
    validate(trace)
    export_accelsim(trace, folder / "out", overwrite=True)
    assert same(trace, import_accelsim(folder / "out", isa)[0].trace()) == []
    return trace


@pytest.mark.parametrize(
    ("opcode", "size"),
    [("LDG.E.128.CONSTANT", 16), ("STG.E.U8", 1), ("LDS.U.64", 8), ("LDG.E", 4), ("LDG.E.S16.SYS", 2), ("LDSM.16.M88.4", 16),
     ("LDSM.16.M88", 4), ("RED.E.ADD.F32.FTZ.RN", 4), ("ATOMG.E.ADD.F64.RN", 8), ("LDG.E.LTC128B", 4)],
)  # fmt: skip
def test_width_of_an_access_is_read_from_its_opcode(opcode: str, size: int) -> None:
    assert access_bytes(opcode) == size


def test_every_row_of_the_table_has_a_class_and_an_access_that_the_models_know() -> None:
    for row in TABLE.values():
        assert row.op_class in OP_CLASSES
        assert bool(row.space) == bool(row.access)


def test_asynchronous_copy_is_a_store_to_shared_memory_and_a_load(tmp_path: Path) -> None:
    pair = ["0010 0000000f 0 LDGSTS.E.128 2 R5 R2 16 1 0x400 16 0", "0010 0000000f 0 LDGSTS.E.128 2 R5 R2 16 1 0x7f0000001000 16 0"]
    none = ["0010 00000000 0 LDGSTS.E.128 2 R5 R2 16 1 0x0 0 0"] * 2
    trace = read(tmp_path, [*none, *pair, *none, *pair, "0020 ffffffff 0 EXIT 0 0 0"])
    assert [(i.space, i.access, i.access_bytes) for i in trace.instructions] == [
        ("shared", "store", 16), ("global", "load", 16), ("", "", 0),
    ]  # fmt: skip
    (stream,) = streams(trace)
    assert [(r.instruction, len(r.sectors), r.passes) for r in stream] == [
        (0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 2, 0), (0, 0, 0), (1, 0, 0), (0, 0, 1), (1, 2, 0), (2, 0, 0),
    ]  # fmt: skip


def test_asynchronous_copy_with_one_line_as_grouped_files_have_it_is_the_load(tmp_path: Path) -> None:
    trace = read(tmp_path, ["0010 00000003 0 LDGSTS.E 2 R5 R2 4 2 0x7f0000001000 64 0", "0020 ffffffff 0 EXIT 0 0 0"])
    assert [i.access for i in trace.instructions] == ["load", ""]


def test_bulk_copies_have_the_sectors_of_their_addresses(tmp_path: Path) -> None:
    deltas = " ".join(["32"] * 299)
    lines = [
        "0000 00000001 0 UTMALDG.2D 2 UR8 UR4 0 0x400 0 64 0 3 2 0x7f0000001000 0x7f0000002000 0",
        f"0010 00000001 0 UTMALDG.2D 2 UR8 UR4 0 0x400 1 ff 9600 0 4 0x7f0000004000 300 {deltas} 0",
        "0020 00000001 0 UBLKCP.G.S 2 UR8 UR4 0 0x0 0 256 0 3 1 0x7f0000009000 0",
        "0030 00000001 0 UTMAPF.L2.2D 1 UR8 0 0x0 0 64 0 3 1 0x7f000000a000 0",
        "0040 ffffffff 0 EXIT 0 0 0",
    ]
    trace = read(tmp_path, lines)
    (stream,) = streams(trace)
    base = 0x7F0000001000 // 32
    assert [s - base for s in stream[0].sectors] == [0, 0x1000 // 32]
    assert [(r.pc, len(r.sectors)) for r in stream] == [(0, 2), (0x10, 255), (0x10, 45), (0x20, 8), (0x30, 0), (0x40, 0)]
    assert [i.access for i in trace.instructions] == ["load", "load", "load", "store", "", ""]
    assert any("255 sectors count as several" in note and "1 more" in note for note in trace.notes)


def test_warp_group_product_has_one_field_more(tmp_path: Path) -> None:
    trace = read(tmp_path, ["0000 ffffffff 1 R24 HGMMA.64x64x16.F32 2 R4 UR8 1 0 0 0 NoVal", "0010 ffffffff 0 EXIT 0 0 0 0 NoVal"])
    assert trace.instructions[0].op_class == "tensor"


def test_registers_of_wide_operands_follow_each_other_and_zero_registers_are_none(tmp_path: Path) -> None:
    lines = [
        "0000 ffffffff 1 R8 IMAD.WIDE 3 R2 R255 R4 0 0",
        "0010 ffffffff 1 R4 LDG.E.128 1 R8 16 1 0x7f0000001000 16 0",
        "0020 ffffffff 0 STG.E.64 2 R8 R6 8 1 0x7f0000001000 8 0",
        "0030 ffffffff 1 R255 IADD3 1 R9 0 0",
        "0040 ffffffff 0 EXIT 0 0 0",
    ]
    wide, load, store, add, _ = read(tmp_path, lines).instructions
    assert len(wide.destinations) == 2
    assert set(wide.destinations) == set(load.sources)  # the address R8, R9
    assert len(load.destinations) == 4
    assert set(store.sources) == {*wide.destinations, *load.destinations[2:]}
    assert add.destinations == ()
    assert add.sources == (wide.destinations[1],)


def test_generic_access_is_resolved_by_the_windows_of_the_header(tmp_path: Path) -> None:
    address = SHARED_BASE + 128
    trace = read(
        tmp_path,
        [
            f"0000 00000003 1 R4 LD.E 1 R2 4 2 {address:#x} 128 0",
            "0010 00000001 1 R4 LD.E 1 R2 4 2 0x7f0000001000 0",
            "0020 ffffffff 0 EXIT 0 0 0",
        ],
    )
    (stream,) = streams(trace)
    assert [(len(r.sectors), r.passes) for r in stream[:2]] == [(0, 2), (1, 0)]


def test_opcode_that_is_not_known_is_priced_by_the_nearest_name_with_one_warning(tmp_path: Path) -> None:
    lines = [
        "0000 ffffffff 1 R4 FFMAX.NEW 1 R2 0 0",
        "0010 ffffffff 1 R4 FFMAX.NEW 1 R2 0 0",
        "0020 ffffffff 0 NOP 0 0 0",
        "0030 ffffffff 0 EXIT 0 0 0",
    ]
    trace = read(tmp_path, lines)
    assert trace.instructions[0].op_class == "fp32"
    (warning,) = [note for note in trace.notes if note.startswith("warning")]
    assert "FFMAX.NEW as FFMA (50.00%)" in warning
    own = tmp_path / "isa.yaml"
    own.write_text("FFMAX: {class: sfu}\n")
    trace = read(tmp_path, lines, read_isa_file(own))
    assert trace.instructions[0].op_class == "sfu"
    assert not any(note.startswith("warning") for note in trace.notes)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [("FOO: {class: integer}\n", 1, "not known"),
    ("IMAD: int\nFOO: {space: global}\n", 2, "no class"), ("foo: int\n", 1, "not an opcode"),
     ("FOO: {class: memory, space: global}\n", 1, "only one of"), ("FOO: int\nFOO: fp32\n", 2, "twice")],
)  # fmt: skip
def test_file_of_opcodes_that_is_wrong_is_refused_at_its_line(text: str, line: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "isa.yaml").write_text(text)
    with pytest.raises(UsageError, match=says) as refusal:
        read_isa_file(tmp_path / "isa.yaml")
    assert refusal.value.place.endswith(f":{line}")


SOURCE = """
extern "C" __global__ void k(const float* a, float* b, int n, int* count) {
    __shared__ float tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    tile[threadIdx.x] = a[(i * 7) % n];
    __syncthreads();
    if (threadIdx.x % 3 == 0) atomicAdd(count + threadIdx.x % 2, 1);
    b[i] = sqrtf(tile[63 - threadIdx.x]);
}
"""


def test_kernel_emulated_here_is_exported_with_the_same_traffic(tmp_path: Path) -> None:
    import numpy as np

    a, b, count = np.ones(4096, np.float32), np.zeros(4096, np.float32), np.zeros(2, np.int32)
    trace = warpsight.trace(SOURCE, grid=64, block=64, args=[a, b, 4096, count])
    export_accelsim(trace, tmp_path / "out")
    again = import_accelsim(tmp_path / "out")[0].trace()
    validate(again)
    assert again.header.warp_instructions == trace.header.warp_instructions
    assert (again.header.grid, again.header.block, again.header.registers_per_thread) == (
        trace.header.grid, trace.header.block, trace.header.registers_per_thread,
    )  # fmt: skip
    assert not any(note.startswith("warning") for note in again.notes)
    wanted = [(sum(len(c.sectors) for c in t.chunks), len(t.paths)) for t in (trace, again)]
    assert wanted[0] == wanted[1]
    assert [i.op_class for i in again.instructions] == [i.op_class for i in trace.instructions if i.pc in executed(trace)]


def executed(trace: KernelTrace) -> set[int]:
    return {pc for block in set(trace.paths.block.tolist()) for pc in range(trace.block_start[block], trace.block_start[block + 1])}


def test_stride_that_does_not_fit_an_int_is_written_as_a_delta() -> None:
    # Accel-Sim's trace_parser.cc reads a stride as an int of 32 bits and deltas as long long
    assert compressed([0, 1], [0x7F0000000000, 0x7F007FFFFFFF]) == "1 0x7f0000000000 2147483647"
    assert compressed([0, 1], [0x7F0000000000, 0x7F0080000000]) == "2 0x7f0000000000 2147483648"
    assert compressed([0, 1], [0x7F0080000001, 0x7F0000000000]) == "2 0x7f0080000001 -2147483649"


MINIMUM = """
__global__ void pick(double* x, int* n) {
    int i = threadIdx.x;
    n[i] = __usad(n[i], i, 7u);
    x[i] = fmax(fmin(x[i], 2.0), 1.0);
}
"""


def test_ptx_is_written_with_opcodes_that_sm_70_and_later_have(tmp_path: Path) -> None:
    # DMNMX is Maxwell's and Pascal's, ISAD Kepler's (CUDA Binary Utilities); Accel-Sim stops at an opcode that its table lacks
    import numpy as np

    trace = warpsight.trace(MINIMUM, grid=1, block=32, args=[np.ones(32), np.zeros(32, np.int32)])
    export_accelsim(trace, tmp_path / "out")
    text = (tmp_path / "out" / "kernel-1.traceg").read_text()
    assert "-binary version = 70\n" in text
    assert " DMNMX" not in text
    assert " ISAD" not in text
    assert " DSETP.MIN.AND " in text
    assert " DSETP.MAX.AND " in text
    assert " VABSDIFF " in text


@pytest.mark.parametrize(
    ("opcodes", "sm"),
    [([], 70), (["FFMA", "LDG.E"], 70), (["HMMA.16816.F32"], 80), (["HMNMX2", "MUFU.TANH"], 80), (["MUFU.TANH"], 75)],
)
def test_exported_trace_says_the_first_architecture_that_has_its_opcodes(opcodes: list[str], sm: int) -> None:
    assert architecture(opcodes) == sm


def test_export_of_a_sample_says_that_blocks_are_missing(tmp_path: Path) -> None:
    # Accel-Sim takes a block of the file for each of the grid, and asserts that each of its warps has instructions
    import numpy as np

    args = [np.ones(4096, np.float32), np.zeros(4096, np.float32), 4096, np.zeros(2, np.int32)]
    whole = warpsight.trace(SOURCE, grid=64, block=64, args=args)
    sample = warpsight.trace(SOURCE, grid=64, block=64, args=args, sample=8)
    assert not any("missing" in note for note in export_accelsim(whole, tmp_path / "whole").notes)
    assert any("8 of 64 blocks are written" in note for note in export_accelsim(sample, tmp_path / "sample").notes)


DOUBLES = """
__global__ void chains(double* x, double a) {
    double p = x[threadIdx.x], q = x[threadIdx.x + 32];
    for (int k = 0; k < 8; ++k) { p = p * a + 1.0; q = q * a + 2.0; }
    x[threadIdx.x] = p;
    x[threadIdx.x + 32] = q;
}
"""


def test_registers_of_ptx_stay_one_each_when_an_export_is_read_back(tmp_path: Path) -> None:
    # of a native instruction R4 of a double is R4 and R5; a register of PTX is whole, and its neighbour is another value
    import numpy as np

    trace = warpsight.trace(DOUBLES, grid=1, block=32, args=[np.ones(64), 0.5])
    export_accelsim(trace, tmp_path / "out")
    again = import_accelsim(tmp_path / "out")[0].trace()
    used = [i for i in trace.instructions if i.pc in executed(trace)]
    count = [(len(i.destinations), len(i.sources)) for i in again.instructions]
    assert count == [(min(1, len(i.destinations)), min(4, len(i.sources))) for i in used]
    export_accelsim(again, tmp_path / "twice")
    assert same(again, import_accelsim(tmp_path / "twice")[0].trace()) == []
