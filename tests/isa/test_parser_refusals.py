"""Damaged PTX: one FormatError with place and remedy, whatever the damage."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ptx_samples import HEAD, kernel, llvm_ptx

from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.isa.ptx.cfg import build_cfg
from warpsight.isa.ptx.dataflow import live_in
from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.rules import memory_access, op_class

WHOLE = llvm_ptx()
CHARACTERS = st.characters() | st.sampled_from("{}[]();,.:@%$<>=-+|!_\"'/*\\\n\t 019abxfU")
CODE = WHOLE[: WHOLE.index(".section")]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "empty"),
        (" \n\t\0", 1, "empty"),
        ("#include <cstdio>\nint main() {}", 1, "not PTX"),
        (".target sm_75\n", 1, ".version"),
        (".version 7.5\n", 1, ".target"),
        (kernel("ret;").replace("}", ""), 4, "no closing brace"),
        (kernel("ret;").removesuffix("ret;\n}\n"), 4, "no closing brace"),
        (HEAD + ".visible .entry k(.param .u64 p", 4, "not a closed list"),
        (HEAD + ".visible .entry k", 4, "no body"),
        (HEAD + ".global .u32 x = 3", 4, "semicolon"),
        (HEAD + ".section .debug_info {", 4, "no end"),
        (kernel("mov.u32 %r1, 5;\nret"), 6, "semicolon"),
        (kernel("mov.u32 %r1, %r2\nret;"), 5, "%r2"),
        (kernel("mov.u32 %r1, %q2;"), 5, '"%q2" is not a declared register'),
        (kernel("mov.u32 %r1, %r99;"), 5, '"%r99" is not a declared register'),
        (kernel("bra nowhere;"), 5, '"nowhere" is neither'),
        (kernel("ld.global.u32 %r1, [%rd1;"), 5, "bracket"),
        (kernel("ld.global.u32 %r1, %rd1];"), 5, '"%rd1]" is not an operand'),
        (kernel("mov.b64 {%r1, %r2}}, %rd1;"), 5, '"mov.b64 {%r1, %r2}" has no closing semicolon'),
        (kernel("mov.u32 %r1, 99999999999999999999;"), 5, "99999999999999999999"),
        (kernel("mov.u32 %r1, 1/0;"), 5, "1/0"),
        (kernel("{ ret;"), 4, "no closing brace"),
        (kernel("L: ret; L: ret;"), 5, "twice"),
        (kernel(".reg .b32 a, a;"), 5, "twice"),
        (kernel(".reg .b32 a<99999999>;"), 5, "registers"),
        (kernel(".reg .b31 a;"), 5, ".reg"),
        (kernel("ret;") + kernel("ret;").removeprefix(HEAD), 7, "twice"),
        (HEAD + ".global .u32 x[2] = {1, 2, 3};", 4, "more initial values"),
        (HEAD + ".global .u32 x = y;", 4, '"y" is neither'),
        (HEAD + ".global .align 3 .u32 x;", 4, "power of two"),
        (HEAD + ".global .f32 x = 1e300;", 4, "does not fit"),
        (HEAD + ".global .b8 x[99999999999999];", 4, "memory of any GPU"),
        (HEAD + ".alias a, b;", 4, ".alias"),
    ],
)
def test_damaged_text_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(FormatError, match=re.escape(says)) as caught:
        parse_module(text, "my.ptx")
    assert caught.value.place == f"my.ptx:{line}"
    assert caught.value.remedy and "\n" not in caught.value.what


def examine(text: str) -> None:
    """All that later stages ask of a module; FormatError and UnsupportedError are the only ways out."""
    try:
        module = parse_module(text, "x.ptx")
        for function in module.functions.values():
            live_in(function, build_cfg(function))
            for instruction in function.instructions:
                op_class(instruction)
                memory_access(instruction)
    except (FormatError, UnsupportedError) as error:
        assert error.place.startswith(("x.ptx:", "ptx:")) and error.remedy and "\n" not in error.what


@pytest.mark.property
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, len(WHOLE)))
def test_text_cut_anywhere_is_refused_or_whole(cut: int) -> None:
    examine(WHOLE[:cut])


@pytest.mark.property
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, len(CODE) - 1), CHARACTERS), max_size=3))
def test_text_with_changed_characters_is_refused_or_read(changes: list[tuple[int, str]]) -> None:
    characters = list(CODE)
    for place, character in changes:
        characters[place] = character
    examine("".join(characters))


@pytest.mark.property
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(60, len(CODE)), st.integers(1, 80), st.integers(0, len(CODE)), st.integers(0, 80))
def test_text_with_a_piece_replaced_by_another_is_refused_or_read(place: int, removed: int, origin: int, length: int) -> None:
    examine(CODE[:place] + CODE[origin : origin + length] + CODE[place + removed :])


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("(){}[]+-*/%<>&|^~!0123456789xabfedU. _$\"'%r,;@"), max_size=60))
def test_any_text_as_operands_is_refused_or_read(text: str) -> None:
    examine(kernel(f"mov.u32 {text};"))


@pytest.mark.unit
@pytest.mark.parametrize(
    "text", ["(" * 300 + "1" + ")" * 300, "-" * 399 + "1", "{" * 3000 + "}" * 3000, "1" + "+1" * 5000, "0x" + "F" * 9000]
)
def test_nesting_and_length_beyond_reason_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse_module(kernel(f"mov.u32 %r1, {text};"))
    with pytest.raises(FormatError):
        parse_module(HEAD + f".global .u32 x[2] = {text};")
