"""Traces of PPT-GPU's and AMALI's tracers: whatever warps did, is it read back as it was, and is the program put together again?"""

from __future__ import annotations

import dataclasses
import lzma
import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from accelsim_reader import Read, streams
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pptgpu_programs import kernels
from pptgpu_writer import Op, Step, Written, write

from warpsight.isa.sass.opcodes import SassTable
from warpsight.traces.importers.accelsim.importer import import_accelsim
from warpsight.traces.importers.pptgpu.importer import align, import_pptgpu
from warpsight.traces.schema import KernelTrace
from warpsight.traces.validate import validate

TRACES = Path(__file__).parents[3] / "shared" / "traces"
BASE = 0x7F0000000000


def read(kernel: Written, *, amali: bool, cluster: int = 0) -> KernelTrace:
    with tempfile.TemporaryDirectory() as folder:
        trace = import_pptgpu(write(Path(folder) / "app", kernel, amali=amali, cluster=cluster))[0].trace()
    validate(trace)
    return trace


def sectors_of(trace: KernelTrace, warp: list[Read]) -> list[tuple[str, tuple[int, ...]]]:
    return [(trace.instructions[k.instruction].opcode, k.sectors) for k in warp]


def wanted(warp: list[Step]) -> list[tuple[str, tuple[int, ...]]]:
    return [(step.op.opcode, step.sectors()) for step in warp]


@pytest.mark.property
@pytest.mark.parametrize("amali", [False, True], ids=["pptgpu", "amali"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_kernel_is_read_back_with_the_sectors_of_every_warp_and_its_whole_program(amali: bool, data: st.DataObject) -> None:
    """Of the program the true answer is known, with a text for each instruction: one place for each that was executed."""
    kernel = data.draw(kernels(own_streams=amali))
    trace = read(kernel, amali=amali)
    blocks = kernel.blocks
    if not amali and not any(step.op.recorded for warp in blocks[0] for step in warp):
        blocks = blocks[:1]  # nothing tells the other blocks apart
    assert trace.header.recorded_blocks == len(blocks)
    executed = streams(trace)
    assert [sectors_of(trace, warp) for warp in executed] == [wanted(warp) for block in blocks for warp in block]
    places: dict[int, int] = {}
    for got, steps in zip(executed, (w for b in kernel.blocks for w in b), strict=False):
        for one, step in zip(got, steps, strict=True):
            assert places.setdefault(one.instruction, step.op.place) == step.op.place
    assert len(set(places.values())) == len(places) == len(trace.instructions)


@pytest.mark.unit
def test_loop_entered_from_above_is_one_piece_of_code() -> None:
    """a b c BRA (b c BRA)* EXIT: the loop's later turns are the end of the first run. Five instructions, not nine."""
    a, b, c, branch, leave = range(5)
    stream = np.array([a, b, c, branch, b, c, branch, b, c, branch, leave], np.int32)
    program = align([stream], np.array([False, False, False, True, True]))
    assert program.text.tolist() == [a, b, c, branch, leave]
    assert program.streams[0].tolist() == [0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4]


@pytest.mark.unit
def test_two_sides_of_a_branch_that_join_share_the_code_behind() -> None:
    """x BRA | y z BRA (one side) | z BRA (the other): the join z BRA is the end of the side that falls into it."""
    x, y, z, first, second, leave = range(6)
    ends = np.array([False, False, False, True, True, True])
    through, around = [x, first, y, z, second, leave], [x, first, z, second, leave]
    program = align([np.array(through, np.int32), np.array(around, np.int32)], ends)
    assert program.text.tolist() == [x, first, y, z, second, leave]
    assert program.streams[1].tolist() == [0, 1, 3, 4, 5]


LOAD, STORE, EXIT = Op(0, "LDG.E", ("R4", "R2"), True), Op(1, "STG.E", ("R2", "R4"), True), Op(2, "EXIT")


def lockstep(blocks: int, *, turns: list[list[int]] | None = None) -> Written:
    made = [
        [[Step(LOAD, (BASE + 4096 * b + 128 * w,)), Step(STORE, (BASE + 4096 * b + 128 * w,)), Step(EXIT)] for w in range(2)]
        for b in range(blocks)
    ]
    return Written(64, made, turns or [[0, 1]] * blocks)


@pytest.mark.unit
def test_other_blocks_of_pptgpu_keep_their_own_addresses_by_opcode_whatever_the_order_of_warps() -> None:
    trace = read(lockstep(2, turns=[[0, 1], [1, 0]]), amali=False)
    second = [item for warp in streams(trace)[2:] for item in sectors_of(trace, warp)]
    true = [item for warp in lockstep(2).blocks[1] for item in wanted(warp)]
    assert Counter(second) == Counter(true)
    assert second != true  # the warps have each other's: the note says so
    assert any("by opcode" in note for note in trace.notes)


@pytest.mark.unit
def test_blocks_with_other_counts_are_told_with_numbers() -> None:
    kernel = lockstep(3)
    kernel.blocks[1][0].insert(0, Step(LOAD, (BASE + 64,)))
    del kernel.blocks[2][1][1]
    (note,) = [note for note in read(kernel, amali=False).notes if note.startswith("warning")]
    assert "2 blocks do not have as many accesses" in note
    assert "kernel_1_block_1.mem" in note
    assert "1 instructions have no addresses, 1 accesses have no instruction" in note


@pytest.mark.unit
def test_what_the_tracer_does_not_say_is_in_the_notes() -> None:
    notes = " ".join(read(lockstep(1), amali=True, cluster=2).notes)
    for part in ("no program counters", "no masks", "shape of blocks", "a cluster has 2 blocks", "AMALI's tracer"):
        assert part in notes
    notes = " ".join(read(lockstep(1), amali=False).notes)
    for part in ("PPT-GPU's tracer", "the shapes of grid and blocks", "uniform registers", "those of one block"):
        assert part in notes


@pytest.mark.unit
def test_grid_of_amali_has_the_shape_that_its_blocks_have() -> None:
    trace = read(dataclasses.replace(lockstep(6), grid=(3, 2, 1)), amali=True)
    assert trace.header.grid == (3, 2, 1)
    assert trace.header.recorded_blocks == 6


@pytest.mark.unit
def test_addresses_that_no_memory_has_and_zeros_are_left_out_and_said() -> None:
    kernel = Written(32, [[[Step(LOAD, (BASE, 0, 1 << 60, BASE + 4)), Step(EXIT)]]], [[0]])
    trace = read(kernel, amali=False)
    assert streams(trace)[0][0].sectors == (BASE // 32,)
    assert any("1 addresses beyond any memory" in note for note in trace.notes)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("opcode", "names", "written"),
    [
        ("LDG.E", "R4 R2", "R4"), ("STG.E", "R2 R4", ""), ("RED.E.ADD", "R2 R4", ""), ("ATOMG.E.ADD", "P7 R0 R2 R5", "P7 R0"),
        ("ISETP.GE.AND", "P0 P7 R0 P7", "P0 P7"), ("IADD3", "R2 P0 R4 R5", "R2 P0"), ("IADD3.X", "R3 R4 R5 P0", "R3"),
        ("LOP3.LUT", "P0 R1 R2 R3", "P0 R1"), ("FCHK", "P0 R1 R2", "P0"), ("BRA", "P0", ""), ("BAR.SYNC", "R0", ""),
        ("SEL", "R0 R1 R2 P0", "R0"), ("SHFL.IDX", "P7 R4 R5", "P7 R4"), ("LDGSTS.E", "R1 R2", ""),
        ("VOTE.ANY", "R0 P7 P0", "R0 P7"),
    ],
)  # fmt: skip
def test_operands_that_are_written_come_first(opcode: str, names: str, written: str) -> None:
    """As NVIDIA's disassembler orders them."""
    from warpsight.isa.sass.registers import split_operands

    got = split_operands(SassTable().meaning(opcode).row, opcode, names.split())
    assert got == (tuple(written.split()), tuple(names.split()[len(written.split()) :]))


@pytest.mark.oracle
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "instructions", "sectors"),
    [
        ("vectoradd_v5/kernel-1.traceg.xz", 26_601, 18_750),
        ("btree_v5_sm90/kernel-1-ctx_0x5607b0e17740.traceg.xz", 21_832, 103_144),
    ],
)
def test_real_trace_rewritten_as_amali_writes_has_the_published_counts(
    name: str, instructions: int, sectors: int, tmp_path: Path
) -> None:
    """The counts are those of the traces' README, which another reader made."""
    trace = import_pptgpu(_rewritten(TRACES / name, tmp_path / "app"))[0].trace()
    validate(trace)
    accesses = [k for warp in streams(trace) for k in warp if trace.instructions[k.instruction].space == "global"]
    assert trace.header.warp_instructions == instructions
    assert sum(len(k.sectors) for k in accesses) == sectors
    true = len(import_accelsim(TRACES / name)[0].trace().instructions)
    # Two pieces of code with the same text up to their branch count as one.
    assert 0.99 * true <= len(trace.instructions) <= true


def _rewritten(path: Path, folder: Path) -> Path:
    """A grouped trace of Accel-Sim's tracer (version 5) in the form of AMALI's."""
    text = lzma.decompress(path.read_bytes()).decode()
    dimensions = r"dim = \((\d+),(\d+),(\d+)\)"
    grid, block = ([int(n) for n in re.findall(f"-{what} {dimensions}", text)[0]] for what in ("grid", "block"))
    (folder / "sass_traces").mkdir(parents=True)
    (folder / "memory_traces").mkdir()
    (folder / "app_config.py").write_text(
        f'kernel_1 = {{"kernel_name": "k", "num_registers": 32, "shared_mem_bytes": 0, "grid_size": {np.prod(grid)}, '
        f'"block_size": {np.prod(block)}, "cuda_stream_id": 0}}\napp_kernels_id = [1]'
    )
    with (folder / "sass_traces/kernel_1.sass").open("w") as out:
        for part in text.split("#BEGIN_TB")[1:]:
            x, y, z = (int(n) for n in re.findall(r"thread block = (\d+),(\d+),(\d+)", part)[0])
            records = []
            for warp in part.split("warp = ")[1:]:
                number, _, *lines = [line for line in warp.splitlines() if line and not line.startswith("#")]
                for line in lines:
                    opcode, operands, addresses = _parsed(line.split())
                    out.write(" ".join(["0", f"{x}", f"{y}", f"{z}", number, opcode, *operands, ""]) + "\n")
                    if addresses is not None and opcode.startswith(("LDG", "STG")):
                        records.append(f"\n{opcode} " + "".join(f"{a:#x} " for a in addresses))
            index = x + grid[0] * (y + grid[1] * z)
            if records:
                (folder / f"memory_traces/kernel_1_block_{index}.mem").write_text("".join(records))
    return folder


def _parsed(words: list[str]) -> tuple[str, list[str], list[int] | None]:
    """(opcode, operands, addresses of active lanes) of a line."""
    mask, count = int(words[1], 16), int(words[2])
    written, opcode = words[3 : 3 + count], words[3 + count]
    at = 5 + count + int(words[4 + count])
    read = words[5 + count : at]
    if words[at] == "0":
        return opcode, [*written, *read], None
    mode, active = words[at + 1], mask.bit_count()
    base = int(words[at + 2], 16)
    if mode == "1":
        addresses = [base + int(words[at + 3]) * k for k in range(active)]
    else:
        addresses = [base]
        for k in range(active - 1):
            addresses.append(addresses[-1] + int(words[at + 3 + k]))
        addresses = addresses[:active]
    return opcode, [*written, *read], addresses
