"""Folders of PPT-GPU, AMALI and MDM that are cut or changed: is each told with its place, and is nothing ever worse?"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mdm_writer import MdmOp, MdmStep, write_mdm
from pptgpu_writer import Op, Step, Written, write
from test_mdm_traces import WARP

from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.cli.main import main
from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.formats import format_of, launches_in
from warpsight.traces.importers.pptgpu.importer import import_pptgpu
from warpsight.traces.validate import validate

pytestmark = pytest.mark.unit

BASE = 0x7F0000000000
OPS = [Op(0, "S2R", ("R0",)), Op(1, "LDG.E", ("R4", "R2"), True), Op(2, "FADD", ("R5", "R4", "R4")),
       Op(3, "STG.E", ("R2", "R5"), True), Op(4, "BRA", ("P0",)), Op(5, "EXIT")]  # fmt: skip


def kernel(blocks: int) -> Written:
    def step(op: Op, block: int, warp: int) -> Step:
        return Step(op, tuple(BASE + 4096 * block + 256 * warp + 8 * k for k in range(20)) if op.recorded else ())

    return Written(64, [[[step(op, b, w) for op in OPS] for w in range(2)] for b in range(blocks)], [[0, 1]] * blocks)


SASS, CONFIG, MEM = "sass_traces/kernel_1.sass", "app_config.py", "memory_traces/kernel_1_block_1.mem"
CASES: list[tuple[str, str, Callable[[str], str], str, int | None]] = [
    ("call in the config", CONFIG, lambda t: "import os\n" + t, "nothing of the file is executed", 1),
    ("computed value", CONFIG, lambda t: t.replace(": 24", ": 20 + 4"), "not a literal", 1),
    ("code in a value", CONFIG, lambda t: t.replace(": 24", ": __import__('os').getpid()"), "not a literal", 1),
    ("no Python", CONFIG, lambda t: t.replace("}", ""), "it is not Python", None),
    ("cut config", CONFIG, lambda t: t[: t.index("app_kernels")], "has no app_kernels_id", None),
    ("kernel missing", CONFIG, lambda t: t.replace("[1]", "[1, 2]"), "names kernel 2", 11),
    ("kernel twice", CONFIG, lambda t: t + "\nkernel_1 = {}", "given twice", 12),
    ("block of text", CONFIG, lambda t: t.replace(": 64", ": 'x'"), "block_size of kernel_1", 1),
    ("block too large", CONFIG, lambda t: t.replace(": 64", ": 2048"), "block_size of kernel_1 is 2048", 1),
    ("too many warps", CONFIG, lambda t: t.replace(": 64", ": 32"), "lines of 2 warps", None),
    ("grid too small", CONFIG, lambda t: t.replace('"grid_size"\t\t\t: 2', '"grid_size"\t\t\t: 1'), "grid has 1 blocks", None),
    ("no number", SASS, lambda t: t.replace("\n10 LDG", "\nten LDG", 1), "not begin with whole numbers", 4),
    ("no opcode", SASS, lambda t: t.replace("10 LDG.E", "10 %DG", 1), "not an opcode", 4),
    ("no register", SASS, lambda t: t.replace("R4 R2", "R4 Q2", 1), "not a register", 3),
    ("three numbers", SASS, lambda t: "1 2 " + t, "3 numbers before the opcode", 1),
    ("cut inside a line", SASS, lambda t: t[:-4], "ends inside a line", 12),
    ("cut after a line", SASS, lambda t: t[: t.rindex("10 EXIT")], "not EXIT", 10),
    ("cut before accesses", SASS, lambda t: t.replace("10 LDG.E R4 R2 \n", "", 1), "no block's records", None),
    ("empty", SASS, lambda t: "", "no instruction", None),
    ("no record", MEM, lambda t: t.replace("LDG.E 0x", "LDG.E x", 1), "not a record of an access", 3),
    ("cut address", MEM, lambda t: t[:-3], "ends inside a record", 9),
    ("too many lanes", MEM, lambda t: t.replace("LDG.E ", "LDG.E " + "0x7f0000000000 " * 20, 1), "40 addresses", 3),
]


@pytest.mark.parametrize(("name", "file", "damage", "says", "line"), CASES, ids=[case[0] for case in CASES])
def test_damaged_folder_of_pptgpu_is_refused_with_file_and_line(
    name: str, file: str, damage: Callable[[str], str], says: str, line: int | None, tmp_path: Path
) -> None:
    folder = write(tmp_path / "app", kernel(2), amali=False)
    text = (folder / file).read_text()
    assert damage(text) != text
    (folder / file).write_text(damage(text))
    with pytest.raises(FormatError, match=says) as refusal:
        import_pptgpu(folder)[0].trace()
    assert refusal.value.place.startswith(str(folder))
    if line is not None:
        assert refusal.value.place == f"{folder / file}:{line}"


def test_nothing_of_the_config_is_executed(tmp_path: Path) -> None:
    folder = write(tmp_path / "app", kernel(1), amali=False)
    proof = tmp_path / "proof"
    (folder / CONFIG).write_text(f"open({str(proof)!r}, 'w').close()\n" + (folder / CONFIG).read_text())
    with pytest.raises(FormatError):
        import_pptgpu(folder)
    assert not proof.exists()


AMALI: list[tuple[str, str, Callable[[str], str], str]] = [
    ("record of another opcode", MEM, lambda t: t.replace("\nLDG.E", "\nSTG.E", 1), r"the block's next access is LDG.E"),
    ("record missing", MEM, lambda t: t[: t.rindex("\n")], "3 records of accesses, and the block's lines have 4"),
    ("line missing", SASS, lambda t: t.replace("1 1 0 0 10 LDG.E R4 R2 \n", ""), "the record is of LDG.E"),
    ("blocks of no shape", SASS, lambda t: t.replace("1 1 0 0 ", "1 4 1 0 "), "not the shape of 2 blocks"),
]


@pytest.mark.parametrize(("name", "file", "damage", "says"), AMALI, ids=[case[0] for case in AMALI])
def test_accesses_of_amali_that_are_not_those_of_its_lines_are_refused(
    name: str, file: str, damage: Callable[[str], str], says: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "app", kernel(2), amali=True)
    (folder / file).write_text(damage((folder / file).read_text()))
    with pytest.raises(FormatError, match=says) as refusal:
        import_pptgpu(folder)[0].trace()
    assert refusal.value.place.startswith(str(folder / (MEM if "line" in name else file)))


def test_block_of_amali_without_its_records_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "app", kernel(2), amali=True)
    (folder / MEM).unlink()
    with pytest.raises(FormatError, match=r"kernel_1_block_1\.mem"):
        import_pptgpu(folder)[0].trace()


def test_blocks_of_pptgpu_without_records_count_as_missing(tmp_path: Path) -> None:
    folder = write(tmp_path / "app", kernel(4), amali=False)
    (folder / MEM).unlink()
    trace = import_pptgpu(folder)[0].trace()
    assert (trace.header.sampled_blocks, trace.header.warp_instructions) == (3, 48)
    shutil.rmtree(folder / "memory_traces")
    with pytest.raises(FormatError, match="accesses memory"):
        import_pptgpu(folder)[0].trace()


def folders(root: Path) -> Iterator[Path]:
    yield write(root / "pptgpu", kernel(2), amali=False)
    yield write(root / "amali", kernel(2), amali=True)
    yield write_mdm(root / "mdm", [WARP] * 4, (2, 1, 1), (64, 1, 1))


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_changed_bytes_give_a_trace_or_a_located_error(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder = data.draw(st.sampled_from(list(folders(Path(root)))))
        file = data.draw(st.sampled_from(sorted(p for p in folder.rglob("*") if p.is_file())))
        damaged = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, max(0, len(damaged) - 1)))
            kind = data.draw(st.sampled_from(["byte", "digit", "drop", "insert", "cut"]))
            if kind in ("byte", "digit") and damaged:
                damaged[at] = data.draw(st.integers(0, 255) if kind == "byte" else st.integers(48, 57))
            elif kind == "drop":
                del damaged[at : at + data.draw(st.integers(1, 30))]
            elif kind == "insert":
                damaged[at:at] = data.draw(st.binary(max_size=12))
            else:
                del damaged[at:]
        file.write_bytes(bytes(damaged))
        try:
            for launch in launches_in(folder, SassTable()):
                validate(launch.trace())
        except WarpsightError as error:
            assert error.place


def test_each_folder_is_of_its_own_format(tmp_path: Path) -> None:
    tools = [found.tool for folder in folders(tmp_path) if (found := format_of(folder))]
    assert tools == ["PPT-GPU", "PPT-GPU", "MDM"]
    assert format_of(tmp_path) is None
    assert format_of(tmp_path / "pptgpu" / SASS) is not None
    with pytest.raises(UsageError, match="not a trace of PPT-GPU"):
        import_pptgpu(tmp_path)


@pytest.mark.parametrize("tool", ["accelsim", "pptgpu", "amali", "mdm"])
@pytest.mark.parametrize("command", ["predict", "simulate"])
def test_the_largest_grid_of_which_one_block_was_traced(
    tool: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is made for each block of the launch would take all memory: only those of the trace count."""
    most = 2**31 - 1
    folder = tmp_path / "t"
    if tool == "mdm":
        steps = [MdmStep(MdmOp(0, "IMAD")), MdmStep(MdmOp(16, "LDG.E", (2, 4, 0, 0), 1), (4096, 4100)), MdmStep(MdmOp(32, "EXIT"))]
        write_mdm(folder, [steps], (most, 1, 1), (32, 1, 1))
    elif tool == "accelsim":
        folder.mkdir()
        (folder / "kernel-1.traceg").write_text(_LARGEST.format(most=most, last=most - 1))
    else:
        write(folder, kernel(1), amali=tool == "amali")
        config = (folder / CONFIG).read_text()
        (folder / CONFIG).write_text(config.replace('"grid_size"\t\t\t: 1,', f'"grid_size"\t\t\t: {most},'))
    code = main([command, str(folder), "--gpu", "mdm-pascal", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    document = json.loads(out)
    assert document["cycles"] > 0
    assert document["warp_instructions"] >= 3 * most
    assert any(note.startswith("1 of 2,147,483,647 blocks are in the trace") for note in document["provenance"]["notes"])


_LARGEST = """\
-kernel name = k
-kernel id = 1
-grid dim = ({most},1,1)
-block dim = (32,1,1)
-shmem = 0
-nregs = 8
-binary version = 75
-cuda stream id = 0
-accelsim tracer version = 5
#
#BEGIN_TB
thread block = {last},0,0
warp = 0
insts = 3
0000 ffffffff 1 R1 IMAD.MOV.U32 0 0
0010 ffffffff 1 R2 LDG.E 1 R4 4 1 0x7f0000010000 4
0020 ffffffff 0 EXIT 0 0
#END_TB
"""
