"""Text traces of MDM's tools: are instructions, registers and cache lines read back, and is nothing guessed?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from accelsim_reader import streams
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mdm_writer import NONE, MdmOp, MdmStep, write_mdm

from warpsight.base.errors import FormatError, UsageError
from warpsight.isa.sass.opcodes import SassTable, read_isa_file
from warpsight.traces.importers.launch import LaunchFacts
from warpsight.traces.importers.mdm.files import CacheFile, read_cache_file
from warpsight.traces.importers.mdm.importer import import_mdm
from warpsight.traces.schema import KernelTrace
from warpsight.traces.validate import validate

BASE = 0x7F0000000000
S2R, FADD = MdmOp(0, "S2R", (0, 33, 0, 0)), MdmOp(16, "FADD", (5, 4, 255, 0))
LOAD, STORE = MdmOp(32, "LDG.E", (4, 2, 0, 0), 1), MdmOp(48, "STG.E", (2, 4, 0, 0), 0)
BRANCH, EXIT = MdmOp(64, "BRA", (NONE, 0, 0, 0)), MdmOp(80, "EXIT")
WARP = [
    MdmStep(S2R), MdmStep(LOAD, tuple(BASE + 4 * k for k in range(32))), MdmStep(FADD), MdmStep(STORE, (BASE + 900,)),
    MdmStep(EXIT),
]  # fmt: skip


def load(folder: Path, isa: SassTable | None = None, facts: LaunchFacts | None = None) -> KernelTrace:
    trace = import_mdm(folder, isa, facts or LaunchFacts())[0].trace()
    validate(trace)
    return trace


@st.composite
def walks(draw: st.DrawFn) -> list[MdmStep]:
    """A loop over the body, each access with any lanes, or none."""
    steps = [MdmStep(S2R)]
    for _ in range(draw(st.integers(0, 4))):
        for op in (FADD, LOAD, STORE):
            base = BASE + 32 * draw(st.integers(0, 1000))
            lanes = draw(st.lists(st.integers(0, 5000), max_size=32)) if op.load is not None else []
            steps.append(MdmStep(op, tuple(base + 4 * lane for lane in lanes)))
        steps.append(MdmStep(BRANCH))
    return [*steps, MdmStep(EXIT)]


@pytest.mark.property
@pytest.mark.parametrize("functional", [False, True], ids=["mem_trace", "memory_access"])
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_warps_read_back_have_the_pcs_and_the_sectors_of_their_lines(functional: bool, data: st.DataObject) -> None:
    per_block, blocks = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    warps = [data.draw(walks()) for _ in range(per_block * blocks)]
    with tempfile.TemporaryDirectory() as folder:
        trace = load(write_mdm(Path(folder), warps, (blocks, 1, 1), (32 * per_block, 1, 1), functional=functional))
    for got, steps in zip(streams(trace), warps, strict=True):
        assert [one.pc for one in got] == [step.op.pc for step in steps]
        assert [trace.instructions[one.instruction].opcode for one in got] == [step.op.opcode for step in steps]
        for pc in (LOAD.pc, STORE.pc):  # an execution without a lane has no record: the records are the first executions'
            seen = [set(one.sectors) for one in got if one.pc == pc and one.sectors]
            assert seen == [step.sectors() for step in steps if step.op.pc == pc and step.addresses]


@pytest.mark.unit
def test_launch_comes_from_what_the_tool_printed(tmp_path: Path) -> None:
    header = load(write_mdm(tmp_path, [WARP] * 4, (2, 1, 1), (8, 8, 1))).header
    assert (header.kernel, header.grid, header.block) == ("saxpy", (2, 1, 1), (8, 8, 1))
    assert (header.registers_per_thread, header.static_shared_bytes) == (20, 256)


@pytest.mark.unit
def test_launch_comes_from_the_user_where_nothing_was_printed(tmp_path: Path) -> None:
    write_mdm(tmp_path, [WARP] * 4, (2, 1, 1), (64, 1, 1), log=False)
    isa = SassTable(numbers={0: "S2R", 1: "LDG.E", 2: "FADD", 3: "STG.E", 4: "EXIT"})
    for name in ("grid", "block", "registers", "shared"):
        facts = {"grid": "2", "block": 64, "registers": 20, "shared": "0", name: None}
        with pytest.raises(UsageError, match="is missing") as refusal:
            load(tmp_path, isa, LaunchFacts(**facts))
        assert refusal.value.place == name
    trace = load(tmp_path, isa, LaunchFacts("2", 64, "0", 20))
    assert trace.header.kernel == "kernel_1"
    assert trace.header.warp_instructions == 20


@pytest.mark.unit
def test_user_and_tool_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    write_mdm(tmp_path, [WARP] * 4, (2, 1, 1), (64, 1, 1))
    with pytest.raises(UsageError, match=r"run\.log") as refusal:
        load(tmp_path, None, LaunchFacts(block=128))
    assert refusal.value.place == "block"


@pytest.mark.unit
def test_numbers_without_opcodes_are_refused_unless_a_file_says_them(tmp_path: Path) -> None:
    write_mdm(tmp_path, [WARP] * 4, (2, 1, 1), (64, 1, 1), log=False)
    facts = LaunchFacts(2, 64, 0, 20)
    with pytest.raises(FormatError, match=r"of the numbers 0, 2, 4 are not known") as refusal:  # 1 and 3 are accesses
        load(tmp_path, None, facts)
    assert "a file of opcodes" in refusal.value.remedy
    (tmp_path / "isa.yaml").write_text("0: S2R\n2: fp64\n4: EXIT\n3: STG.E.64\n")
    trace = load(tmp_path, read_isa_file(tmp_path / "isa.yaml"), facts)
    assert [(i.opcode, i.op_class, i.access) for i in trace.instructions] == [
        ("S2R", "int", ""), ("OP2", "fp64", ""), ("OP1", "memory", "load"), ("STG.E.64", "memory", "store"), ("EXIT", "branch", ""),
    ]  # fmt: skip


@pytest.mark.unit
def test_operand_fields_that_hold_something_else_each_time_are_no_operands(tmp_path: Path) -> None:
    """The tool does not write sources from 1000 on: what stands there is whatever was in memory."""
    other = [MdmStep(MdmOp(16, "FADD", (5, 4, 255, 77))) if step.op is FADD else step for step in WARP]
    trace = load(write_mdm(tmp_path, [WARP, other], (1, 1, 1), (64, 1, 1)))
    add = trace.instructions[1]
    assert len(add.destinations) == 1
    assert len(add.sources) == 1
    assert any("1 operand fields" in note for note in trace.notes)


@pytest.mark.unit
def test_dependence_from_load_to_store_is_there(tmp_path: Path) -> None:
    trace = load(write_mdm(tmp_path, [WARP], (1, 1, 1), (32, 1, 1)))
    read, write = (next(i for i in trace.instructions if i.access == access) for access in ("load", "store"))
    assert read.destinations
    assert set(read.destinations) <= set(write.sources)


@pytest.mark.unit
def test_cache_file_sets_the_size_of_lines_and_is_told(tmp_path: Path) -> None:
    write_mdm(tmp_path, [WARP], (1, 1, 1), (32, 1, 1))
    (tmp_path / "L1_cache").write_text("line size = 64\nnumber of lines =192\nassociativity = 4\nreplacement policy = LRU\n")
    assert read_cache_file(tmp_path / "L1_cache") == CacheFile(64, 192, 4, "LRU")
    trace = load(tmp_path)
    assert [len(one.sectors) for one in streams(trace)[0]] == [0, 2, 0, 2, 0]
    assert any("L1_cache: 12,288 B" in note for note in trace.notes)
    (tmp_path / "L1_cache").write_text("line size = 64\nlines = 3\n")
    with pytest.raises(FormatError, match="not a line of a cache file") as refusal:
        load(tmp_path)
    assert refusal.value.place.endswith("L1_cache:2")


@pytest.mark.unit
def test_addresses_alone_are_refused_with_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "memory_access_1.txt").write_text("0,16,R,100,\n")
    with pytest.raises(FormatError, match="no instructions"):
        import_mdm(tmp_path, None, LaunchFacts())


@pytest.mark.unit
@pytest.mark.parametrize(
    ("file", "old", "new", "says", "at"),
    [
        ("instruction_trace_1.txt", "0,16,2,5", "0,16,x,5", "expected", 5),
        ("instruction_trace_1.txt", "1,16,2,5", "1,16,3,5", "has opcode 3 here and 2 above", 6),
        ("instruction_trace_1.txt", "1,80,4", "9,80,4", "the launch has 2 warps", 10),
        ("mem_trace_1.txt", "1,1,32,1,", "1,1,32,7,", "the mark of a load", 2),
        ("mem_trace_1.txt", "1,1,32,1,", "1,1,32,0,", "where the instruction is LDG.E", 2),
        ("mem_trace_1.txt", "1,1,32,1,", "1,1,33,1,", "no warp executed", 2),
        ("mem_trace_1.txt", "1,1,32,1,", "0,1,32,1,", "more accesses of pc 0x20 than executions", 2),
        ("mem_trace_1.txt", "1,1,32,1,", "7,1,32,1,", "which has no instructions", 2),
        ("mem_trace_1.txt", ",\n0,0,48", "\n0,0,48", "does not end with a comma", 2),
    ],
)
def test_damage_is_told_with_file_and_line(file: str, old: str, new: str, says: str, at: int, tmp_path: Path) -> None:
    write_mdm(tmp_path, [WARP, WARP], (1, 1, 1), (64, 1, 1))
    text = (tmp_path / file).read_text()
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new, 1))
    with pytest.raises(FormatError, match=says) as refusal:
        load(tmp_path)
    assert refusal.value.place == f"{tmp_path / file}:{at}"


@pytest.mark.unit
def test_two_runs_of_the_tool_do_not_share_their_numbers(tmp_path: Path) -> None:
    write_mdm(tmp_path, [WARP], (1, 1, 1), (32, 1, 1))
    (tmp_path / "other.log").write_text("OPCODE MOV MAPS TO ID 0\n")
    with pytest.raises(FormatError, match="both hold the output of a tool"):
        load(tmp_path)
