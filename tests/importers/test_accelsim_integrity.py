"""Traces whose parts contradict each other in small ways: nothing is read as something else than what stands there."""

from __future__ import annotations

from pathlib import Path

import pytest
from accelsim_writer import Dialect, Kernel, Op, Step

from warpsight.base.errors import FormatError
from warpsight.traces.importers.accelsim.files import is_raw
from warpsight.traces.importers.accelsim.importer import import_accelsim
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

LOAD = Op(16, "LDG.E", ("R4",), ("R2",), "global", "load", 4)
SPREAD = Step(LOAD, 0xFFFF, tuple(0x7F0000001000 + 40 * k for k in range(16)))
ROW = Step(LOAD, 0xFF, tuple(0x7F0000001000 + 4 * k for k in range(8)))
STEPS = [Step(Op(0, "S2R", ("R0",)), 0xFFFFFFFF), ROW, SPREAD, Step(Op(32, "EXIT"), 0xFFFFFFFF)]
KERNEL = Kernel((2, 1, 1), (64, 1, 1), [[STEPS, STEPS], [STEPS, STEPS]])
TEXT = Dialect(5, tail=("0",)).text(KERNEL)
OLD = Dialect(2).text(KERNEL)


def read(folder: Path, text: str, name: str = "kernel-1.traceg") -> KernelTrace:
    (folder / name).write_text(text)
    return import_accelsim(folder / name)[0].trace()


@pytest.mark.parametrize(
    ("text", "old", "new", "says"),
    [
        (TEXT, "0000 ffffffff", "0000 fffffff", "active mask"),
        (TEXT, "0000 ffffffff", "0000 0x123456", "active mask"),
        (TEXT, "000000ff 1 R4", "000001fe 1 R4", ""),  # eight lanes that follow each other
        (TEXT, "000000ff 1 R4", "000001ef 1 R4", "are not contiguous"),
        (TEXT, "insts = 4\n", "", "insts = of the warp is missing"),
        (TEXT, "warp = 1\ninsts = 4\n", "warp = 1\n", "insts = of the warp is missing"),
        (TEXT, "insts = 4\n", "insts = 4 4\n", "a number is missing"),
        (TEXT, "warp = 1\n", "warp = 1 1\n", "a number is missing"),
        (TEXT, "warp = 1\n", "warps = 1\n", "a number is missing"),
        (TEXT, "thread block = 0,0,0\n", "thread block = 0,0,0,0\n", "a number is missing"),
        (TEXT, "thread block = 0,0,0\n", "thread block = 0,0,0 0\n", "a number is missing"),
        (TEXT, "#END_TB", "#END_TBS", "not a line of a trace"),
        (TEXT, "thread block = 0,0,0\n", "thread block = 0,0,0\ncluster id = 0,x,0\n", "not a line of a trace"),
        (TEXT, "thread block = 0,0,0\n", "thread block = 0,0,0\nclusters = 1\n", "not a line of a trace"),
        (TEXT, "1 R4 LDG.E", "1 R256 LDG.E", "not a register"),
        (TEXT, "1 R0 S2R", "1 P8 S2R", "not a register"),
        (TEXT, "1 R4 LDG.E", "1 R4 LdG.E", "not an opcode"),
        (TEXT, "base_addr = 0x0000", "base_addr = 0xf000", "not an address below"),
        (TEXT, "(2,1,1)", "(2,65536,1)", "exceeds CUDA's launch limits"),
        (TEXT, "(2,1,1)", "(2147483648,1,1)", "exceeds CUDA's launch limits"),
        (OLD, "0 0 0 0 0000 ffffffff", "1 0 0 0 0000 ffffffff", "another block or warp"),
        (OLD, "0 0 0 0 0000 ffffffff", "0 0 0 1 0000 ffffffff", "another block or warp"),
        (OLD, "0 0 0 0 0000 ffffffff", "0 0 x 0 0000 ffffffff", "another block or warp"),
    ],
)
def test_line_that_contradicts_its_surroundings_is_refused_at_its_place(
    text: str, old: str, new: str, says: str, tmp_path: Path
) -> None:
    assert old in text
    if not says:
        read(tmp_path, text.replace(old, new, 1))
        return
    with pytest.raises(FormatError, match=says) as refusal:
        read(tmp_path, text.replace(old, new, 1))
    assert refusal.value.place.rpartition(":")[2].isdigit()


def test_lost_or_added_address_is_a_note_with_its_line(tmp_path: Path) -> None:
    whole = Dialect(5, tail=("0",), form=2).text(KERNEL)
    for old, new in (("0x7f0000001000 40 40", "0x7f0000001000 40"), ("0000ffff 1 R4", "00017fff 1 R4"), ("0000ffff", "00007fff")):
        first = whole.index("EXIT")  # the first memory line of all says how many fields there are
        text = whole[:first] + whole[first:].replace(old, new, 1)
        line = next(k for k, (a, b) in enumerate(zip(whole.splitlines(), text.splitlines(), strict=True), 1) if a != b)
        notes = [note for note in read(tmp_path, text).notes if "addresses may be missing" in note]
        if new == "00017fff 1 R4":  # as many lanes: nothing to see
            assert not notes
        else:
            (note,) = notes
            assert note.startswith("1 of 8 memory lines")
            assert f"kernel-1.traceg:{line})" in note


def test_values_of_registers_are_no_fewer_or_more_fields(tmp_path: Path) -> None:
    text = Dialect(6, tail=("0", "0", "Val", "1", "ff")).text(KERNEL).replace("Val 1 ff", "NoVal", 3)
    assert not any("addresses may be missing" in note for note in read(tmp_path, text).notes)


def test_keys_that_no_tracer_writes_and_missing_windows_are_notes(tmp_path: Path) -> None:
    generic = TEXT.replace("LDG.E", "LD.E").replace("-shmem base_addr", "-shmem bass_addr")
    notes = " ".join(read(tmp_path, generic).notes)
    assert "-shmem bass_addr" in notes
    assert "no base address of shared memory" in notes
    assert "base address" not in " ".join(read(tmp_path, TEXT.replace("-shmem base_addr", "-shmem bass_addr")).notes)


def test_header_may_end_with_the_first_block(tmp_path: Path) -> None:
    text = TEXT.replace("#traces format = whatever\n", "", 1)
    assert read(tmp_path, text).header.warp_instructions == read(tmp_path, TEXT).header.warp_instructions == 16


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, TEXT.replace("\n", "\r\n")).header.input_hash == read(tmp_path, TEXT).header.input_hash


@pytest.mark.parametrize("end", ["\n", ""])
def test_raw_file_whose_last_line_has_no_end_says_so(end: str, tmp_path: Path) -> None:
    text = Dialect(5, tail=("0",), raw=True).text(KERNEL).rstrip("\n") + end
    notes = [note for note in read(tmp_path, text, "kernel-1.trace").notes if "last line" in note]
    assert bool(notes) == (end == "")


def test_line_without_an_end_is_refused_and_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("parser", "raw"):
        monkeypatch.setattr(f"warpsight.traces.importers.accelsim.{module}.MOST_LINE_BYTES", 1 << 22)
    for name in ("kernel-1.traceg", "kernel-1.trace"):
        first = "0 0 0 0 0000 ffffffff 0 NOP 0 0\n" if name.endswith("trace") else ""
        with pytest.raises(FormatError, match="does not end"):
            read(tmp_path, TEXT[: TEXT.index("#BEGIN_TB")] + first + "0" * (20 << 20), name)


@pytest.mark.parametrize(
    ("name", "raw"), [("kernel-1.trace.xz", True), ("kernel-1.traceg", False), ("my.trace.kernel-1.traceg.gz", False)]
)
def test_raw_files_are_known_by_the_end_of_their_name(name: str, raw: bool) -> None:
    assert is_raw(Path(name)) is raw


def test_kernel_that_several_lists_name_is_launched_once(tmp_path: Path) -> None:
    (tmp_path / "kernel-1.traceg").write_text(TEXT)
    (tmp_path / "kernelslist_ctx_0x55.g").write_text("kernel-1.traceg\n")
    (tmp_path / "kernelslist.g").write_text("kernel-1.traceg\n")
    assert [launch.number for launch in import_accelsim(tmp_path)] == [1]
    (tmp_path / "kernelslist.g").write_text("kernel-1.traceg\nkernel-1.traceg\n")
    assert [launch.number for launch in import_accelsim(tmp_path)] == [1, 2]


def test_bulk_copy_without_an_active_lane_moves_nothing(tmp_path: Path) -> None:
    line = "0000 {} 0 UTMALDG.2D 2 UR8 UR4 0 0x400 0 64 0 3 2 0x7f0000001000 0x7f0000002000 0"
    head = Dialect(5).text(Kernel((1, 1, 1), (32, 1, 1), [None]))
    for mask, sectors in (("00000000", 0), ("00000001", 2)):
        lines = ["#BEGIN_TB", "thread block = 0,0,0", "warp = 0", "insts = 1", line.format(mask), "#END_TB", ""]
        assert sum(len(chunk.sectors) for chunk in read(tmp_path, head + "\n".join(lines)).chunks) == sectors


def test_blocks_in_any_order_are_put_in_order_in_time_that_grows_with_the_file(tmp_path: Path) -> None:
    blocks = 3000
    kernel = Kernel((blocks, 1, 1), (64, 1, 1), [[STEPS, STEPS]] * blocks)
    forward = read(tmp_path, Dialect(5, tail=("0",)).text(kernel))
    backward = read(tmp_path, Dialect(5, tail=("0",), order=tuple(range(blocks, 0, -1))).text(kernel))
    assert backward.header.input_hash == forward.header.input_hash
