"""Traces that are cut, changed or contradict themselves: is each told with its place, and is nothing ever worse?"""

from __future__ import annotations

import lzma
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from accelsim_writer import Dialect, Kernel, Op, Step
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.traces.importers.accelsim.importer import import_accelsim
from warpsight.traces.importers.launch import select
from warpsight.traces.schema import KernelTrace
from warpsight.traces.validate import validate

pytestmark = pytest.mark.unit

LOAD = Op(16, "LDG.E", ("R4",), ("R2",), "global", "load", 4)
STEPS = [
    Step(Op(0, "S2R", ("R0",)), 0xFFFFFFFF),
    Step(LOAD, 0xFFFF, tuple(0x7F0000001000 + 40 * k for k in range(16))),
    Step(Op(32, "LDS", ("R5",), ("R2",), "shared", "load", 4), 3, (0, 4)),
    Step(Op(48, "EXIT"), 0xFFFFFFFF),
]
KERNEL = Kernel((2, 1, 1), (64, 1, 1), [[STEPS, STEPS], [STEPS, STEPS]])
TEXT = Dialect(5, tail=("0",), form=2).text(KERNEL)


def read(folder: Path, text: str | bytes, name: str = "kernel-1.traceg") -> KernelTrace:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return import_accelsim(path)[0].trace()


def line_of(text: str, part: str) -> int:
    return next(k for k, line in enumerate(text.splitlines(), 1) if part in line)


CASES: list[tuple[str, Callable[[str], str], str, str]] = [
    ("fewer lines than insts =", lambda t: t.replace("0000 ffffffff 1 R0 S2R 0 0 0\n", "", 1), "warp = 1", "has 3 instructions"),
    ("no mask", lambda t: t.replace("0000 ffffffff", "0000 xxxxxxxx", 1), "xxxxxxxx", "active mask"),
    ("mask too wide", lambda t: t.replace("0000 ffffffff", "0000 1ffffffff", 1), "1ffffffff", "active mask"),
    ("no register", lambda t: t.replace("1 R0 S2R", "1 Q0 S2R", 1), "Q0", "not a register"),
    ("no opcode", lambda t: t.replace("1 R0 S2R", "1 R0 %2R", 1), "%2R", "not an opcode"),
    ("wrong count", lambda t: t.replace("1 R0 S2R", "9 R0 S2R", 1), "9 R0", "fields after the mask"),
    ("mode 7", lambda t: t.replace(" 4 2 0x7f", " 4 7 0x7f", 1), " 4 7 ", "form of the addresses"),
    ("too few addresses", lambda t: t.replace("0x7f0000001000 40 ", "0x7f0000001000 ", 1)
    .replace(" 40 40 0\n", " 40\n", 1), "LDG", "too few"),
    ("negative address", lambda t: t.replace("0x7f0000001000 40", "0x10 -40", 1), "-40", "addresses"),
    ("rubbish behind", lambda t: t.replace("S2R 0 0 0\n", "S2R 0 0 ?\n", 1), "?", "the fields after the memory fields"),
    ("block outside the grid", lambda t: t.replace("thread block = 1,0,0", "thread block = 2,0,0"), "= 2,0,0", "not in the grid"),
    ("block twice", lambda t: t.replace("thread block = 1,0,0", "thread block = 0,0,0"), "", "twice"),
    ("warp twice", lambda t: t.replace("warp = 1", "warp = 0", 1), "", "twice"),
    ("no such warp", lambda t: t.replace("warp = 1", "warp = 2", 1), "warp = 2", "no warp of that number"),
    ("block not ended", lambda t: t.replace("#END_TB", "", 1), "", "a block begins before"),
    ("cut inside a block", lambda t: t[: t.rindex("#END_TB")], "", "ends inside thread block 1"),
    ("no grid", lambda t: t.replace("-grid dim", "-great dim"), "#traces", "has no -grid dim"),
    ("grid of text", lambda t: t.replace("(2,1,1)", "(two,1,1)"), "(two", "not three counts"),
    ("unknown version", lambda t: t.replace("tracer version = 5", "tracer version = 9"), "version = 9", "version 9 is not known"),
    ("header alone", lambda t: t[: t.index("#traces")], "", "does not end"),
    ("no block at all", lambda t: t[: t.index("#BEGIN_TB")], "", "contains no instructions"),
    ("a stray word", lambda t: t.replace("\n#END_TB", "\nhello\n#END_TB", 1), "hello", "not a line of a trace"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "damage", "at", "says"), CASES, ids=[case[0] for case in CASES])
def test_damaged_trace_is_refused_with_file_and_line(
    name: str, damage: Callable[[str], str], at: str, says: str, tmp_path: Path
) -> None:
    text = damage(TEXT)
    assert text != TEXT
    with pytest.raises(FormatError, match=says) as refusal:
        read(tmp_path, text)
    assert refusal.value.place.startswith(str(tmp_path / "kernel-1.traceg"))
    if at:
        assert refusal.value.place.endswith(f":{line_of(text, at)}")


def test_missing_blocks_and_empty_warps_are_notes(tmp_path: Path) -> None:
    text = TEXT[: TEXT.index("\n#BEGIN_TB", TEXT.index("#END_TB"))]
    first = text.index("warp = 1")
    text = text[:first] + "warp = 1\ninsts = 0\n#END_TB\n"
    trace = read(tmp_path, text)
    validate(trace)
    assert (trace.header.sampled_blocks, trace.header.sampled_instructions, trace.header.warp_instructions) == (1, 4, 8)
    assert any(note.startswith("1 of 2 blocks") for note in trace.notes)
    assert any(note.startswith("1 warps have no instructions") for note in trace.notes)


def test_calls_that_the_tracer_left_out_are_a_note(tmp_path: Path) -> None:
    steps = [Step(Op(0, "MOV", ("R0",)), 1), Step(Op(0x400, "FADD", ("R0",), ("R1",)), 1), Step(Op(0x410, "EXIT"), 1)]
    trace = read(tmp_path, Dialect(3).text(Kernel((1, 1, 1), (32, 1, 1), [[steps]])))
    assert any("0000 to 0400" in note for note in trace.notes)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_changed_bytes_give_a_trace_or_a_located_error(data: st.DataObject, tmp_path: Path) -> None:
    damaged = bytearray(
        data.draw(st.sampled_from([TEXT, Dialect(6, tail=("0", "0", "NoVal"), lineinfo=True).text(KERNEL)])).encode()
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(damaged) - 1)))
        kind = data.draw(st.sampled_from(["byte", "drop", "insert", "cut"]))
        if kind == "byte" and damaged:
            damaged[at] = data.draw(st.integers(0, 255))
        elif kind == "drop":
            del damaged[at : at + data.draw(st.integers(1, 30))]
        elif kind == "insert":
            damaged[at:at] = data.draw(st.binary(max_size=12))
        else:
            del damaged[at:]
    raw = data.draw(st.booleans())
    try:
        validate(read(tmp_path, bytes(damaged), "kernel-1.trace" if raw else "kernel-1.traceg"))
    except WarpsightError as error:
        assert error.place


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_packed_trace_that_is_cut_or_changed_is_refused(keep: float, tmp_path: Path) -> None:
    packed = lzma.compress(TEXT.encode())
    with pytest.raises(FormatError, match="cannot be unpacked") as refusal:
        read(tmp_path, packed[: int(len(packed) * keep)], "kernel-1.traceg.xz")
    assert refusal.value.place.endswith("kernel-1.traceg.xz")
    changed = bytearray(packed)
    changed[len(packed) // 2] ^= 0xFF
    with pytest.raises(FormatError):
        read(tmp_path, bytes(changed), "kernel-1.traceg.xz")


def test_tracez_is_read_like_the_text_that_it_holds(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    from accelsim_reader import same

    packed = tracez(TEXT)
    assert same(read(tmp_path, packed, "kernel-1.tracez"), read(tmp_path, TEXT)) == []
    for keep in (10, 600, len(packed) - 3):
        with pytest.raises(FormatError):
            read(tmp_path, packed[:keep], "kernel-1.tracez")


def tracez(text: str) -> bytes:
    """The grouped text as `.tracez`: one frame a warp, no dictionary."""
    import zstandard

    head = text[: text.index("#traces")].encode()
    out = head + b"\0" + struct.pack("<II", 0, 1000)
    index = b""
    blocks = text.split("#BEGIN_TB")[1:]
    for number, block in enumerate(blocks):
        warps = block.split("warp = ")[1:]
        index += struct.pack("<11I", number, 0, 0, *[0] * 7, len(warps))
        for warp in warps:
            lines = [line for line in warp.splitlines()[2:] if line and not line.startswith("#")]
            frame = zstandard.ZstdCompressor().compress("\n".join(lines).encode())
            index += struct.pack("<IIQI", len(lines), 1, len(out), len(lines))
            out += struct.pack("<III", len(lines), 1, len(frame)) + frame
    return out + struct.pack("<I", len(blocks)) + index + struct.pack("<Q", len(out))


def test_list_that_names_a_missing_file_is_refused_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "kernelslist.g").write_text("MemcpyHtoD,0x00007fb0fc400000,200000\nkernel-1.traceg\nkernel-2.traceg\n")
    (tmp_path / "kernel-1.traceg.xz").write_bytes(lzma.compress(TEXT.encode()))
    with pytest.raises(FormatError, match=r"kernel-2\.traceg.* does not exist") as refusal:
        import_accelsim(tmp_path)
    assert refusal.value.place.endswith("kernelslist.g:3")


def test_list_with_copies_and_other_lines_says_so(tmp_path: Path) -> None:
    (tmp_path / "kernelslist.g").write_text("MemcpyHtoD,0x00007fb0fc400000,200000\nMemcpyDtoH,0x1,8\nkernel-1.traceg\nncclGroup\n")
    (tmp_path / "kernel-1.traceg").write_text(TEXT)
    (launch,) = import_accelsim(tmp_path)
    notes = " ".join(launch.trace().notes)
    assert "200,000 bytes" in notes
    assert "kernelslist.g:4: ncclGroup" in notes


@pytest.mark.parametrize(
    ("kernels", "launches", "says"),
    [("tset", None, "did you mean"), (None, "2", "not a launch or a range"), (None, "x", "not a launch")],
)
def test_choice_of_launches_that_are_not_there_is_refused(
    kernels: str | None, launches: str | None, says: str, tmp_path: Path
) -> None:
    (tmp_path / "kernel-1.traceg").write_text(TEXT)
    with pytest.raises(UsageError, match=says):
        select(import_accelsim(tmp_path), kernels, launches)
