from __future__ import annotations

import pytest

from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.emulator.run.static import static_instructions
from warpsight.isa.ptx.cfg import build_cfg
from warpsight.isa.ptx.program import Function
from warpsight.isa.ptx.rules import memory_access, op_class, reads, writes
from warpsight.isa.sass.decode import decode_kernel
from warpsight.isa.sass.listing import read_listing, split_operands
from warpsight.isa.sass.native import (
    NativeAddress,
    NativeConstant,
    NativeImmediate,
    NativeRegister,
    NativeSymbol,
    control_word,
    parse_operand,
)

pytestmark = pytest.mark.unit

# What `nvdisasm -c -hex -gp` prints of a kernel for sm_80, shortened.
LISTING = '''
	.target	sm_80

//--------------------- .text.k --------------------------
	.section	.text.k,"ax",@progbits
	.sectioninfo	@"SHI_REGISTERS=10"
	.align	128
        .global         k
        .type           k,@function
k:
.text.k:
	//## File ".nv_debug_ptx_txt.1", line 12
        /*0000*/                   S2R R4, SR_CTAID.X ;                  /* 0x0000000000047919 */
                                                                         /* 0x000e280000002500 */
	//## File ".nv_debug_ptx_txt.1", line 13
        /*0010*/                   IMAD.WIDE R2, R4, R5, c[0x0][0x160] ;  /* 0x0000580004027625 */
                                                                         /* 0x001fc800078e0205 */
        /*0020*/                   LDG.E.64 R6, [R2.64+0x10] ;           /* 0x0000100402067981 */
                                                                         /* 0x000ea8000c1e1b00 */
        /*0030*/              @!P0 BRA `(.L_x_1) ;                       /* 0x0000001000008947 */
                                                                         /* 0x004fea0003800000 */
        /*0040*/                   CALL.REL.NOINC `($slow) ;             /* 0x0000003000007944 */
                                                                         /* 0x000fea0003c00000 */
.L_x_1:
        /*0050*/                   EXIT ;                                /* 0x000000000000794d */
                                                                         /* 0x000fea0003800000 */
        .type           $slow,@function
$slow:
        /*0060*/                   RET.REL.NODEC R8 `(k) ;               /* 0xffffff9008007950 */
                                                                         /* 0x000fea0003c3ffff */
        /*0070*/                   NOP;                                  /* 0x0000000000007918 */
                                                                         /* 0x000fc00000000000 */
'''


@pytest.fixture(scope="module")
def decoded() -> Function:
    return decode_kernel(read_listing(LISTING, "k.ptx"), "k", (), {13: ("k.cu", 5, ())}, "k.ptx", ("k",))


def test_listing_has_encodings_lines_and_functions() -> None:
    section = read_listing(LISTING, "k.ptx")["k"]
    assert [i.ptx_line for i in section.instructions[:3]] == [12, 13, 13]
    assert section.instructions[0].encoding == 0x000E280000002500_0000000000047919
    assert section.functions == {"k": 0, "$slow": 0x60} and section.labels[".L_x_1"] == 0x50
    assert section.instructions[3].text == "@!P0 BRA `(.L_x_1)"


def test_listing_with_a_strange_line_is_refused() -> None:
    with pytest.raises(FormatError, match="line 8 of the disassembler's listing is not recognized"):
        read_listing(LISTING.replace("        .global         k", "        global k"), "k.ptx")


def test_operands_in_brackets_stay_together_and_a_branch_base_is_its_own() -> None:
    assert split_operands("R2, [R4.64+0x10], {R1, R2}, c[0x0][0x160]") == ("R2", "[R4.64+0x10]", "{R1, R2}", "c[0x0][0x160]")
    assert split_operands("R20 `(k)") == ("R20", "`(k)")
    assert split_operands("R6 -0x810") == ("R6", "-0x810")


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("-R2.reuse", NativeRegister("R2", negative=True)),
        ("|R7|.reuse", NativeRegister("R7", absolute=True)),
        ("!UP0", NativeRegister("UP0", inverted=True)),
        ("R4.H1_H1", NativeRegister("R4", part="H1_H1")),
        ("-0x20", NativeImmediate(-32, 0)),
        ("-c[0x0][0x168]", NativeConstant(0, 0x168, negative=True)),
        ("c[0x2][R0+-0x8000]", NativeConstant(2, -0x8000, NativeRegister("R0"))),
        ("desc[UR4][R2.64+0x10]", NativeAddress(NativeRegister("R2"), None, 16, 1, True, "UR4")),
        ("[R24.X4+UR5+0x100]", NativeAddress(NativeRegister("R24"), NativeRegister("UR5"), 256, 4)),
        ("32@hi(counter)", NativeSymbol("counter", 0, "hi")),
        ("32@lo((k + .L_x_0@srel))", NativeSymbol(".L_x_0", 0, "lo")),
    ],
)
def test_operand_is_read_as_the_disassembler_writes_it(text: str, operand: object) -> None:
    assert parse_operand(text, 0) == operand


def test_float_immediate_has_the_bits_of_the_encoding() -> None:
    # FMUL R4, R2, 0.0010000000474974513054: 0x3a83126f is 0.001f
    assert parse_operand("0.0010000000474974513054", 0x001FD20000400000_3A83126F02047820) == NativeImmediate(0, 0x3A83126F, True)


def test_unknown_operand_names_its_instruction_and_the_other_level() -> None:
    with pytest.raises(UnsupportedError, match=r"operand .* of EXIT is not recognized") as raised:
        decode_kernel(read_listing(LISTING.replace("EXIT ;  ", "EXIT <?> ;"), "k.ptx"), "k", (), {}, "k.ptx", ("k",))
    assert raised.value.place == "k.ptx:k+0x50 (PTX line 13)" and "level='ptx'" in str(raised.value.remedy)


def test_control_word_has_stall_cycles_and_barriers() -> None:
    # S2R R4: 4 stall cycles, its result releases barrier 0; the IMAD.WIDE after it waits for that barrier
    s2r, imad = (control_word(i.encoding) for i in read_listing(LISTING, "k")["k"].instructions[:2])
    assert (s2r.stall, s2r.write_barrier, s2r.read_barrier, s2r.waited_for) == (4, 0, 7, ())
    assert (imad.stall, imad.write_barrier, imad.waited_for) == (4, 7, (0,))


def decode(**replaced: str) -> Function:
    """The kernel with other text for the opcodes `s2r` and `imad`; encodings, and so control words, stay."""
    texts = {"s2r": "S2R R4, SR_CTAID.X ;", "imad": "IMAD.WIDE R2, R4, R5, c[0x0][0x160] ;"}
    listing = LISTING
    for name, text in replaced.items():
        listing = listing.replace(texts[name], f"{text} ;")
    return decode_kernel(read_listing(listing, "k.ptx"), "k", (), {}, "k.ptx", ("k",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FFMA R4, R4, R5, R6", "fp32"), ("IMAD.MOV.U32 R4, RZ, RZ, R5", "imad"), ("IDP.4A.S8.S8 R4, R4, R5, R6", "imad"),
        ("FSETP.GT.AND P0, PT, R4, R5, PT", "int"), ("FSEL R4, R4, R5, P0", "int"), ("FMNMX R4, R4, R5, PT", "int"),
        ("F2FP.PACK_AB R4, R4, R5", "int"), ("I2FP.F32.S32 R4, R5", "int"), ("I2F R4, R5", "sfu"),
        ("FCHK P0, R4, R5", "sfu"), ("LEA R4, R4, R5, 0x2", "int"),
        ("LDC R4, c[0x3][R5]", "constant"), ("ULDC.64 UR4, c[0x0][0x118]", "constant"), ("UIADD3 UR4, UR5, 0x1, URZ", "uniform"),
        ("UFLO.U32 UR4, UR5", "uniform"), ("S2UR UR4, SR_CTAID.X", "uniform"), ("R2UR UR4, R5", "uniform"),
    ],
)
def test_op_class_is_the_pipe_that_executes_an_opcode(text: str, expected: str) -> None:
    assert op_class(decode(s2r=text).instructions[0]) == expected


@pytest.mark.parametrize(("wait", "groups"), [("DEPBAR.LE SB0, 0x1", 1), ("DEPBAR.LE SB0, 0x0", 0), ("DEPBAR.LE SB1, 0x1", -1)])
def test_wait_for_the_barrier_that_counts_groups_of_copies_says_how_many_may_be_on_their_way(wait: str, groups: int) -> None:
    """The control word of the first instruction releases barrier 0, SB0."""
    rows = static_instructions(decode(s2r="LDGDEPBAR", imad=wait))
    assert [row.closes_group for row in rows[:2]] == [True, False] and [row.wait_groups for row in rows[:2]] == [-1, groups]


def test_instructions_read_and_write_all_registers_of_wide_operands(decoded: Function) -> None:
    wide, load = decoded.instructions[1:3]
    assert (writes(wide), reads(wide)) == (("R2", "R3"), ("R4", "R5"))
    assert (writes(load), reads(load)) == (("R6", "R7"), ("R2", "R3"))
    access = memory_access(load)
    assert access is not None and (access.space, access.access, access.bytes_per_lane) == ("global", "load", 8)
    assert op_class(load) == "memory" and load.text == "LDG.E.64" and (load.file, load.line) == ("k.cu", 5)


def test_control_flow_is_that_of_the_code(decoded: Function) -> None:
    graph = build_cfg(decoded)
    assert graph.block_start.tolist() == [0, 4, 5, 6, 7]  # padding behind the last instruction is left out
    assert graph.successors[0] == (2, 1) and graph.post_dominator[0] == 2
    assert decoded.callables["$slow"].first == 6 and decoded.call_sites[4].targets == ("$slow",)
    assert decoded.frame == 0  # nothing calls itself


def test_kernel_that_is_not_in_the_listing_is_named() -> None:
    with pytest.raises(FormatError, match="has no code for other"):
        decode_kernel(read_listing(LISTING, "k.ptx"), "other", (), {}, "k.ptx", ("k",))
