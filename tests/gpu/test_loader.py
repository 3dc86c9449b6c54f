from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from warpsight.base.errors import SpecError, UsageError
from warpsight.gpu.loader import OVERRIDE_SOURCE, check_gpu, load_gpu

pytestmark = pytest.mark.unit

Write = Callable[..., Path]

# the first file of the catalogue as the design draws it, with a source for everything
DRAWN = """\
schema: 1
name: drawn
core_clock: 1.4 GHz
sm_count: 28
sm: {max_warps: 64, max_blocks: 32, registers: 65536, shared_memory: 96 KiB, schedulers: 1, issue_width: 1, policy: gto}
latency: {int: 4 cycles, fp32: 4 cycles, fp64: 8 cycles, sfu: 20 cycles, shared: 24 cycles}     # per op class
l1: {size: 48 KiB, line: 128 B, sector: 128 B, ways: 6, mshrs: 128, targets: 64, latency: 25 cycles, index: modulo}
noc: {bandwidth: 1050 GB/s}
l2: {size: 3 MiB, line: 128 B, sector: 128 B, ways: 8, slices: 24, mshrs: 128, latency: 120 cycles}
dram: {bandwidth: 480 GB/s, channels: 24, latency: 220 cycles}
sources: {"*": paper, "l1.*": "Table III", "l1.latency": estimated}
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str, name: str = "my.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(SpecError) as caught:
        load_gpu(path, overrides)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{path.parent}/", "")


def test_file_as_the_design_draws_it_is_loaded_in_base_units(write: Write) -> None:
    gpu = load_gpu(write(DRAWN))
    assert (gpu.name, gpu.core_clock_hz, gpu.sm_count) == ("drawn", 1.4e9, 28)
    assert (gpu.sm.max_warps, gpu.sm.registers, gpu.sm.shared_memory_bytes, gpu.sm.policy) == (64, 65_536, 98_304, "gto")
    assert gpu.latency_cycles == {
        "int": 4, "fp32": 4, "fp64": 8, "sfu": 20, "shared": 24, "fp16": 4, "imad": 4, "uniform": 4, "constant": 4,
    }  # fmt: skip
    assert (gpu.l1.size_bytes, gpu.l1.sets, gpu.l1.ways, gpu.l1.latency_cycles) == (49_152, 64, 6, 25)
    assert (gpu.l2.size_bytes, gpu.l2.sets, gpu.l2.slices) == (3_145_728, 128, 24)
    assert (gpu.noc.bandwidth_bytes_per_s, gpu.dram.bandwidth_bytes_per_s) == (1.05e12, 4.8e11)
    assert (gpu.dram.channels, gpu.dram.latency_cycles) == (24, 220)


def test_source_of_a_number_is_that_of_its_most_specific_pattern(write: Write) -> None:
    sources = load_gpu(write(DRAWN)).sources
    assert (sources["l1.latency"], sources["l1.ways"], sources["sm_count"]) == ("estimated", "Table III", "paper")
    assert sources["sm.register_unit"].startswith("default: CUDA")


def test_key_that_is_omitted_takes_its_stated_default(write: Write) -> None:
    gpu = load_gpu(write(DRAWN.replace(" sector: 128 B,", "").replace("fp32: 4 cycles", "fp32: 6 cycles")))
    assert (gpu.l1.sector_bytes, gpu.latency_cycles["fp16"], gpu.initiation_cycles["fp64"]) == (128, 6, 1)
    assert (gpu.sm.max_threads_per_block, gpu.sm.register_unit, gpu.l2.slice_interleave_bytes) == (1024, 256, 256)
    assert (gpu.l1.write_policy, gpu.l1.write_allocate) == ("write-through", False)
    assert (gpu.l2.write_policy, gpu.l2.write_allocate) == ("write-back", True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ways: 6", "way: 6", 'my.yaml:7: l1.way is not a known key; did you mean "ways"?'),
        ("noc:", "nok:", 'my.yaml:8: nok is not a known key; did you mean "noc"?'),
        ("sm_count: 28", "sm_counts: 28", 'my.yaml:4: sm_counts is not a known key; did you mean "sm_count"?'),
        ("sm_count: 28", "sm_count: 28\nsm_count: 56", "my.yaml:5: sm_count is given twice"),
        ("ways: 6", "ways: 6, ways: 8", "my.yaml:7: l1.ways is given twice"),
        ('"l1.*": "Table III"', '"l1.*": a, "l1.*": b', "my.yaml:11: l1.* is given twice"),
        ("1.4 GHz", "1.4", 'my.yaml:3: core_clock has no unit: "1.4"'),
        ("48 KiB", "48", 'my.yaml:7: l1.size has no unit: "48"'),
        ("48 KiB", "-48 KiB", 'my.yaml:7: l1.size is negative: "-48 KiB"'),
        ("48 KiB", "48 KB", 'my.yaml:7: l1.size: "KB" is ambiguous'),
        ("48 KiB", "48 cycles", 'my.yaml:7: l1.size is a size, but "48 cycles" is a number of cycles'),
        ("48 KiB", "[48 KiB]", "my.yaml:7: l1.size has more than one value"),
        ("48 KiB", "", "my.yaml:7: l1.size has no value"),
        ("48 KiB", "50 KiB", "my.yaml:7: l1.size is 50 KiB, which makes 66.6667 sets"),
        ("3 MiB", "3001 KiB", "my.yaml:9: l2.size is 3001 KiB, which makes 125.042 sets"),
        ("line: 128 B, sector: 128 B, ways: 6", "line: 96 B, sector: 32 B, ways: 6",
         "my.yaml:7: l1.line is 96 B, not a power of two"),
        ("line: 128 B, sector: 128 B, ways: 8", "line: 128 B, sector: 256 B, ways: 8",
         "my.yaml:9: l2.sector is 256 B, more than l2.line"),
        ("line: 128 B, sector: 128 B, ways: 6", "line: 16 B, ways: 6", "my.yaml:7: l1.line is 16 B, and must be at least 32 B"),
        ("slices: 24", "slices: 24, slice_interleave: 64 B", "my.yaml:9: l2.line is 128 B, more than l2.slice_interleave (64 B)"),
        ("slices: 24", "slices: 24, slice_interleave: 384 B", "my.yaml:9: l2.slice_interleave is 384 B, not a power of two"),
        ("index: modulo", "tag_lookups: 3", "my.yaml:7: l1.tag_lookups is 3, not a power of two"),
        ("slices: 24", "slices: 0", "my.yaml:9: l2.slices is 0, and must be at least 1"),
        ("issue_width: 1,", "issue_width: 1, max_shared_memory_per_block: 97 KiB,",
         "my.yaml:5: sm.max_shared_memory_per_block is 97 KiB"),
        ("48 KiB, line: 128 B, sector: 128 B, ways: 6, mshrs: 128, targets: 64, latency: 25 cycles, index: modulo",
         "36 KiB, line: 128 B, ways: 6, mshrs: 128, latency: 25 cycles, index: xor",
         "my.yaml:7: l1.index is xor, which needs a power"),
        ("index: modulo", "index: modulus", 'my.yaml:7: l1.index: "modulus" is not known; did you mean "modulo"?'),
        ("policy: gto", "policy: got", 'my.yaml:5: sm.policy: "got" is not known; did you mean "gto"?'),
        ("index: modulo", "replacement: fifo", 'my.yaml:7: l1.replacement: "fifo" is not known'),
        ("index: modulo", "write_allocate: maybe", 'my.yaml:7: l1.write_allocate is not true or false: "maybe"'),
        ("noc: {bandwidth: 1050 GB/s}", "noc: 1050 GB/s", "my.yaml:8: noc is a section, not a value"),
        ("noc: {bandwidth: 1050 GB/s}\n", "", "my.yaml: noc.bandwidth is missing"),
        ("1.4 GHz", "1.4 THz", "my.yaml:3: core_clock is 1400 GHz, and must be at most 100 GHz"),
        ("25 cycles", "2.5 cycles", "my.yaml:7: l1.latency is not a whole number of cycles"),
        ("schema: 1", "schema: 2", 'my.yaml:1: schema "2" is not known'),
        ("schema: 1", "like: mdm-pascl", 'my.yaml:1: "mdm-pascl" is neither'),
        ('"*": paper, ', "", "my.yaml:3: core_clock has no source"),
        ('"l1.*"', '"l1.way"', 'my.yaml:11: sources: l1.way matches no key; did you mean "l1.ways"?'),
        ("estimated}", "}", "my.yaml:11: l1.latency has no value"),
        ("sources: {", "sources: [{", "my.yaml:12: is not YAML"),
        ("schema: 1", "? [a]\n: b", "my.yaml:1: a key is not a word"),
        ("schema: 1", "<<: {sm_count: 3}", "my.yaml:1: << is not a known key"),
        ("name: drawn", 'name: "a\\u0007b"', "my.yaml:2: name has characters that cannot be printed"),
    ],
)
def test_file_with_one_mistake_is_refused_with_its_line(write: Write, old: str, new: str, message: str) -> None:
    assert old in DRAWN
    path = write(DRAWN.replace(old, new, 1))
    if "neither" in message:
        with pytest.raises(UsageError) as caught:
            load_gpu(path)
        said = str(caught.value)
    else:
        said = refusal(path)
    assert said.replace(f"{path.parent}/", "").startswith(message)
    assert "-> " in said


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "my.yaml: is empty"), ("# nothing\n", "my.yaml: is empty"), ("just words", "my.yaml:1: is not a mapping"),
     ("- a\n- b\n", "my.yaml:1: is not a mapping"), ("a: b: c", "my.yaml:1: is not YAML"),
     ("a: 1\n---\nb: 2\n", "my.yaml:2: is not YAML"),
     ("\x00", "my.yaml: is not YAML"), ("[" * 600, "my.yaml")],
)
def test_file_that_is_no_mapping_is_refused(write: Write, text: str, message: str) -> None:
    assert refusal(write(text)).startswith(message)


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x81")
    (tmp_path / "large.yaml").write_text("#" * (2 << 20))
    assert refusal(tmp_path / "binary.yaml") == "binary.yaml: is not UTF-8 text\n       -> give a YAML file"
    assert "larger than any GPU description" in refusal(tmp_path / "large.yaml")
    with pytest.raises(SpecError, match="cannot be read: Is a directory"):
        load_gpu(tmp_path)


def test_name_that_is_neither_catalogue_nor_file_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r'"mdm-pascl" is neither .*; did you mean "mdm-pascal"\?'):
        load_gpu("mdm-pascl")


def test_object_of_another_type_is_refused_as_a_gpu_and_one_text_as_overrides() -> None:
    with pytest.raises(UsageError, match="gpu: an object of type int is not a GPU"):
        load_gpu(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r'overrides: is one text\n.*\["sm_count=3"\]'):
        load_gpu("a100", overrides="sm_count=3")


def test_geometry_remedy_proposes_sizes_and_ways_that_load() -> None:
    said = [str(problem) for problem in check_gpu("mdm-pascal", ["l1.size=32KiB"])]
    assert said == [
        "--set l1.size=32KiB: l1.size is 32 KiB, which makes 42.6667 sets, not a whole number (128 B lines x 6 ways)\n"
        "       -> l1.size 32256 B or 33024 B; or l1.ways 4 or 8"
    ]
    assert load_gpu("mdm-pascal", ["l1.size=32256 B"]).l1.sets == 42
    assert load_gpu("mdm-pascal", ["l1.size=32KiB", "l1.ways=8"]).l1.sets == 32


def test_check_of_a_file_with_several_mistakes_lists_all(write: Write) -> None:
    path = write(DRAWN.replace("ways: 6", "way: 6").replace("1.4 GHz", "1.4").replace("gto", "fifo"))
    places = [problem.place.rpartition("/")[2] for problem in check_gpu(path)]
    assert places == ["my.yaml:7", "my.yaml:3", "my.yaml:5", "my.yaml"]
    assert check_gpu(write(DRAWN)) == []


@pytest.mark.parametrize(
    ("override", "read", "expected"),
    [
        ("sm_count=56", lambda g: g.sm_count, 56), ("noc.bandwidth=525GB/s", lambda g: g.noc.bandwidth_bytes_per_s, 5.25e11),
        ("l1.size=96KiB", lambda g: g.l1.sets, 128), ("latency.fp32=6cycles", lambda g: g.latency_cycles["fp32"], 6),
        ("latency.fp32=6cycles", lambda g: g.latency_cycles["fp16"], 6), ("core_clock = 1.6 GHz", lambda g: g.core_clock_hz, 1.6e9),
        ("sm.policy=lrr", lambda g: g.sm.policy, "lrr"), ("l1.write_allocate=true", lambda g: g.l1.write_allocate, True),
        ("dram.latency=0 cycles", lambda g: g.dram.latency_cycles, 0),
    ],
)
def test_override_of_a_key_changes_it_and_says_who_did(override: str, read: Callable[..., object], expected: object) -> None:
    gpu = load_gpu("mdm-pascal", [override])
    assert read(gpu) == expected
    assert read(load_gpu("mdm-pascal")) != expected
    assert gpu.sources.get(override.partition("=")[0].strip()) == OVERRIDE_SOURCE


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["l1.way=3"], '--set l1.way=3: l1.way is not a known key; did you mean "l1.ways"?'),
        (["mshrs=3"], "--set mshrs=3: mshrs is not a known key"), (["sm_count"], "--set sm_count: is not key=value"),
        (["=3"], "--set =3: is not key=value"), (["sm_count="], "--set sm_count=: sm_count has no value"),
        (["noc.bandwidth=525"], '--set noc.bandwidth=525: noc.bandwidth has no unit: "525"'),
        (["sm_count=-1"], '--set sm_count=-1: sm_count is negative: "-1"'),
        (["sm_count=2", "sm_count=3"], "--set sm_count=3: sm_count is set twice"),
        (["name=x"], "--set name=x: name is not a known key"),
        (["sm.max_warps=0"], "--set sm.max_warps=0: sm.max_warps is 0, and must"),
    ],
)
def test_override_that_cannot_be_meant_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_gpu("mdm-pascal", overrides)
    assert str(caught.value).startswith(message)


def test_tensor_cores_are_there_when_both_numbers_are_given() -> None:
    assert "tensor" not in load_gpu("mdm-pascal").latency_cycles
    gpu = load_gpu("mdm-pascal", ["latency.tensor=16 cycles", "initiation.tensor=8 cycles"])
    assert (gpu.latency_cycles["tensor"], gpu.initiation_cycles["tensor"]) == (16, 8)
    with pytest.raises(SpecError, match=r"latency\.tensor is given but initiation\.tensor is not"):
        load_gpu("mdm-pascal", ["latency.tensor=16 cycles"])


def test_spec_in_python_is_checked_and_can_be_overridden() -> None:
    gpu = load_gpu("gpumech")
    assert load_gpu(gpu) == gpu
    broken = replace(gpu, l1=replace(gpu.l1, ways=7))
    with pytest.raises(SpecError, match=r"^GpuSpec gpumech: l1.size is 32 KiB"):
        load_gpu(broken)
    with pytest.raises(SpecError, match=r'^GpuSpec gpumech: sm.policy: "fifo" is not known'):
        load_gpu(replace(gpu, sm=replace(gpu.sm, policy="fifo")))
    bare = replace(gpu, sources={}, latency_cycles={k: v for k, v in gpu.latency_cycles.items() if k != "fp16"})
    assert load_gpu(bare).latency_cycles["fp16"] == 4
    assert load_gpu(bare).sources["l1.size"] == "given in Python"
