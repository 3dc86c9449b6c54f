"""Are the parts of a line marked for what they are, and is its text left as it is?"""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.reports.html.highlighting import demangled, highlighted, language_of

_MARK = re.compile(r"<(b|i|u)(?: class=(\w))?>(.*?)</\1>", re.S)
LANGUAGES = ("CUDA", "Python", "PTX", "SASS")


def marks(line: str, language: str) -> list[tuple[str, str]]:
    """The marked parts of a line: what they are (the element, or its class), and their text."""
    (found,) = highlighted([line], language)
    return [(kind or element, unescape(text)) for element, kind, text in _MARK.findall(str(found))]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("language", "line", "parts"),
    [
        ("SASS", "@!P0 IMAD.MOV.U32 R4, RZ, -0x1, c[0x0][0x174]",
         [("i", "P0"), ("b", "IMAD.MOV.U32"), ("i", "R4"), ("i", "RZ"), ("u", "-0x1"), ("u", "c[0x0][0x174]")]),
        ("SASS", "S2R R3, SR_TID.X", [("b", "S2R"), ("i", "R3"), ("v", "SR_TID.X")]),
        ("SASS", "@P1 BRA `(.L_x_4)", [("i", "P1"), ("b", "BRA"), ("l", "`(.L_x_4)")]),
        ("SASS", "LDG.E R4, desc[UR4][R2.64+0x10]", [("b", "LDG.E"), ("i", "R4"), ("i", "UR4"), ("i", "R2.64"), ("u", "0x10")]),
        ("PTX", "ld.global.v2.f32 {%f1, %f2}, [%rd1+16]; // x",
         [("b", "ld.global.v2.f32"), ("i", "%f1"), ("i", "%f2"), ("i", "%rd1"), ("u", "16"), ("c", "// x")]),
        ("PTX", "mov.u32 %r1, %ctaid.x;", [("b", "mov.u32"), ("i", "%r1"), ("v", "%ctaid.x")]),
        ("PTX", "@%p1 bra $L__BB0_2;", [("i", "%p1"), ("b", "bra"), ("l", "$L__BB0_2")]),
        ("PTX", "mov.f32 %f1, 0f3F800000;", [("b", "mov.f32"), ("i", "%f1"), ("u", "0f3F800000")]),
        ("PTX", "$L__BB0_2:", [("l", "$L__BB0_2")]),
        ("CUDA", "template <typename T> __global__ void k(float4 v) // <b>",
         [("b", "template"), ("b", "typename"), ("i", "T"), ("b", "__global__"), ("i", "void"), ("i", "float4"), ("c", "// <b>")]),
        ("CUDA", "int thread = threadIdx.x * 2;", [("i", "int"), ("v", "threadIdx"), ("u", "2")]),
        ("Python", "def k(n: tl.constexpr):  # n", [("b", "def"), ("c", "# n")]),
    ],
)  # fmt: skip
def test_parts_of_a_line_are_marked(language: str, line: str, parts: list[tuple[str, str]]) -> None:
    assert marks(line, language) == parts


@pytest.mark.unit
def test_comment_over_several_lines_is_marked_in_each() -> None:
    lines = ["a(); /* one", "  two", "", "three */ return;"]
    assert highlighted(lines, "CUDA") == [
        "a(); <b class=c>/* one</b>", "<b class=c>  two</b>", "", "<b class=c>three */</b> <b>return</b>;"
    ]


@pytest.mark.property
@given(st.sampled_from(LANGUAGES), st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from("\"'/*%#<>&\\\n\r"))))
def test_text_of_every_line_is_kept_and_escaped(language: str, lines: list[str]) -> None:
    plain = [_MARK.sub(r"\3", str(text)) for text in highlighted(lines, language)]
    assert [unescape(text) for text in plain] == lines
    assert not any("<" in text for text in plain)


@pytest.mark.unit
def test_few_marks_are_those_of_opcodes_labels_and_comments() -> None:
    assert highlighted(["@%p1 bra $L_1;", "add.s32 %r1, %r2, 5; // x"], "PTX", few=True) == [
        "@%p1 <b>bra</b> <b class=l>$L_1</b>;", "<b>add.s32</b> %r1, %r2, 5; <b class=c>// x</b>"
    ]


@pytest.mark.unit
def test_very_long_line_is_shown_without_colours() -> None:
    assert highlighted(["return;", "<" * 3000], "CUDA") == ["return;", "&lt;" * 3000]


@pytest.mark.unit
def test_mangled_names_are_shown_as_in_the_source() -> None:
    assert demangled("ld.param.u64 %rd1, [_Z5scaleIfEvPT_i_param_0];") == "ld.param.u64 %rd1, [scale<float>_param_0];"
    assert demangled(".text._ZN2ns3fooEPf") == ".text.ns::foo"
    assert demangled("call.uni _Z3addff, (p);") == "call.uni add, (p);"
    assert demangled("_Z?? x_Z3foo") == "_Z?? x_Z3foo"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("file", "language"), [("a/b.cu", "CUDA"), ("K.PY", "Python"), ("C:\\x\\k.ptx", "PTX"), ("algorithm", "CUDA")]
)
def test_language_of_a_file_is_known_by_its_name(file: str, language: str) -> None:
    assert language_of(file) == language
