from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.base.errors import CompileError, FormatError
from warpsight.kernels import assembler
from warpsight.kernels.assembler import assemble, disassemble, link, with_lines
from warpsight.kernels.cubin import kernel_image, read_cubin
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.machine_code import machine_code, native_architecture
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import MissingLibraryError, parse_architecture

pytestmark = pytest.mark.unit

PTX = """\
.version 8.0
.target sm_75
.address_size 64
.const .align 4 .u32 factor = 5;
.visible .entry scale(.param .u64 p, .param .u32 n)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1];
	ld.const.u32 %r2, [factor];
	mul.lo.s32 %r3, %r1, %r2;
	st.global.u32 [%rd1], %r3;
	ret;
}
"""


@pytest.fixture(scope="module")
def source() -> KernelSource:
    return load_source(PTX, name="scale.ptx")


def test_each_instruction_knows_its_line_of_the_ptx(source: KernelSource) -> None:
    function = machine_code(source, parse_architecture(80)).function("scale")
    lines = {i.text.partition(".")[0]: PTX.splitlines()[i.ptx_line - 1].split()[0] for i in function.instructions if i.ptx_line}
    assert lines["LDG"] == "ld.global.u32" and lines["STG"] == "st.global.u32" and lines["IMAD"] == "mul.lo.s32"


SWITCH = """\
.version 8.0
.target sm_75
.address_size 64
.visible .entry chosen(.param .u64 p)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1];
TABLE: .branchtargets ONE, TWO, THREE;
	brx.idx %r1, TABLE;
ONE:	st.global.u32 [%rd1+4], 1;
	ret;
TWO:	st.global.u32 [%rd1+8], 2;
	ret;
THREE:	st.global.u32 [%rd1+12], 3;
	ret;
}
"""


@pytest.mark.parametrize("kernel, text, branches, starts", [("scale", PTX, [], 1), ("chosen", SWITCH, [3], 2)])
def test_where_a_branch_by_register_may_go_is_listed_and_looked_for_only_where_there_is_one(
    kernel: str, text: str, branches: list[int], starts: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path))
    commands, start = [], assembler._run
    monkeypatch.setattr(assembler, "_run", lambda command, *rest: commands.append(command) or start(command, *rest))
    code = machine_code(load_source(text, name="k.ptx"), parse_architecture(80)).sections[kernel]
    listed = [each.targets for each in code.instructions if each.mnemonic == "BRX"]
    assert [len(set(targets)) for targets in listed] == branches and all(set(targets) <= set(code.labels) for targets in listed)
    assert sum(command[0].endswith("nvdisasm") for command in commands) == starts


@pytest.fixture
def two_kernels() -> KernelSource:
    """Kernels `first` and `second`, which call a function."""
    kernels = "".join(
        f"""
.visible .entry {name}(.param .u64 p)
{{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	ld.global.u32 %r1, [%rd1];
	{{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; call (r), f, (a); ld.param.b32 %r2, [r]; }}
	st.global.u32 [%rd1], %r2;
	ret;
}}
""" for name in ("first", "second")
    )
    body = ".reg .b32 %r<2>; ld.param.b32 %r1, [a]; st.param.b32 [r], %r1; ret;"
    function = f".visible .func (.param .b32 r) f(.param .b32 a)\n{{ {body} }}\n"
    return load_source(PTX.partition(".const")[0] + function + kernels, name="two.ptx")


def test_listing_for_a_kernel_of_many_has_its_code_and_that_of_functions_but_no_other_kernels(
    two_kernels: KernelSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The linker leaves functions in sections of their own, the assembler puts them into those of their kernels."""
    monkeypatch.setattr("warpsight.kernels.machine_code.TOGETHER_BYTES", 0)
    linked = tmp_path / "two.cubin"
    linked.write_bytes(link([(1, two_kernels.ptx.encode())], "two.ptx", parse_architecture(80)))
    apart, together = ({"f"}, load_source(linked, native=parse_architecture(80))), (set[str](), two_kernels)
    for functions, source in (apart, together):
        whole, own = (machine_code(source, parse_architecture(80), (), kernel) for kernel in ("", "second"))
        assert set(whole.sections) == {"first", "second"} | functions
        assert set(own.sections) == {"second"} | functions
    assert [i.text for i in own.function("second").instructions] == [i.text for i in whole.function("second").instructions]


def test_kernels_of_a_small_source_are_disassembled_together(
    two_kernels: KernelSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path))
    for kernel in ("first", "second"):
        assert machine_code(two_kernels, parse_architecture(80), (), kernel).function(kernel).name == kernel
    (listing,) = (path for path in (tmp_path / "listing").rglob("*") if path.is_file())
    assert b".text.first" in listing.read_bytes() and b".text.second" in listing.read_bytes()


def test_line_marks_move_no_line() -> None:
    marked = with_lines(PTX)
    assert len(marked.splitlines()) == len(PTX.splitlines()) + 1  # the file that the mark names, at the end
    assert [a for a, b in zip(PTX.splitlines(), marked.splitlines(), strict=False) if a != b] == ["	ld.param.u64 %rd1, [p];"]
    assert with_lines(marked) == marked


def test_image_has_constant_banks_and_the_place_of_the_parameters(source: KernelSource) -> None:
    image = machine_code(source, parse_architecture(80)).image("scale")
    assert image.parameters == 0x160  # constant bank 0 of sm_80, as NVIDIA's listings of it have the first parameter
    (bank,) = (bank for bank in image.banks if bank.number == 3)
    assert bank.data[:4] == (5).to_bytes(4, "little") and bank.symbols == (("factor", 0, 4),) and bank.owner == ""


def test_volta_takes_the_code_of_turing_and_says_so() -> None:
    assert native_architecture(parse_architecture(80)) == (parse_architecture(80), "")
    architecture, note = native_architecture(parse_architecture(70))
    assert architecture.real == "sm_75" and "no longer supports sm_70" in note


@pytest.mark.parametrize("part", [0.5, 0.9])
def test_half_a_cubin_is_refused_in_one_line(part: float) -> None:
    cubin = assemble(PTX, "scale.ptx", parse_architecture(80))
    cut = cubin[: int(part * len(cubin))]
    with pytest.raises(FormatError, match="is damaged"):
        read_cubin(cut)
    with pytest.raises(FormatError, match="is damaged"):
        kernel_image(cut, "scale")
    with pytest.raises(CompileError, match=r"the disassembler \(nvdisasm\) refuses it"):
        disassemble(cut, "scale.cubin")


def test_file_that_is_no_cubin_is_refused() -> None:
    with pytest.raises(FormatError, match="is not a 64-bit ELF file"):
        kernel_image(b"MZ" + bytes(200), "scale")


def test_missing_disassembler_names_its_package_and_the_other_level(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(assembler.libraries, "toolkit_folders", lambda: [tmp_path])
    with pytest.raises(MissingLibraryError, match="nvdisasm, NVIDIA's disassembler, is not installed") as raised:
        assembler.disassembler_path()
    assert "nvidia-cuda-nvdisasm" in str(raised.value.remedy) and 'level="ptx"' in str(raised.value.remedy)
