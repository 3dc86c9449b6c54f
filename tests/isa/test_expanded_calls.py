"""Does each instruction know the calls that a compiler, or we, have expanded around it?"""

from __future__ import annotations

import pytest

from warpsight.isa.ptx.inlining import inline_calls
from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.program import ExpandedCall
from warpsight.isa.sass.listing import read_listing

pytestmark = pytest.mark.unit

PTX = """\
.version 9.0
.target sm_75
.address_size 64
.func put(.param .b64 p)
{
	.reg .b64 %rd<2>;
	.loc 1 2 3
	ld.param.b64 %rd1, [p];
	st.b32 [%rd1], 1;
	.loc 1 3 1
	ret;
}
.visible .entry kernel(.param .b64 out)
{
	.reg .b64 %rd<3>;
	.loc 1 9 3
	ld.param.b64 %rd1, [out];
	.loc 1 5 3, function_name $L__info_string0, inlined_at 1 9 3
	mov.b64 %rd2, %rd1;
	.loc 1 2 7, function_name $L__info_string1, inlined_at 1 5 3
	st.b32 [%rd1], 2;
	.loc 1 6 3, function_name $L__info_string0, inlined_at 1 9 3
	{
	.param .b64 a;
	st.param.b64 [a], %rd1;
	call.uni put, (a);
	}
	.loc 1 10 1
	ret;
}
.file 1 "calls.cu"
.section .debug_str
{
$L__info_string0:
.b8 95,90,53,116,119,105,99,101,80,105,105,0
$L__info_string1:
.b8 108,
101,97,102,0
}
"""
TWICE = ExpandedCall("_Z5twicePii", "calls.cu", 9)


def test_line_information_names_the_expanded_calls() -> None:
    function = parse_module(PTX).functions["kernel"]
    calls = {each.text: each.calls for each in function.instructions}
    assert calls["ld.param.b64"] == ()
    assert calls["mov.b64"] == (TWICE,)
    assert calls["st.b32"] == (ExpandedCall("leaf", "calls.cu", 5), TWICE)
    assert calls["ret"] == ()


def test_calls_that_we_expand_are_named_with_those_around_them() -> None:
    module = parse_module(PTX)
    function = inline_calls(module, module.functions["kernel"])
    stores = [each for each in function.instructions if each.text == "st.b32"]
    assert [(each.line, each.calls) for each in stores] == [
        (2, (ExpandedCall("leaf", "calls.cu", 5), TWICE)),
        (2, (ExpandedCall("put", "calls.cu", 6), TWICE)),
    ]


def test_call_that_names_itself_as_its_place_has_an_end() -> None:
    store, loc = "\tst.b32 [%rd1], 2;", "\t.loc 1 2 7, function_name $L__info_string1, inlined_at 1 2 7\n"
    loops = PTX.replace("inlined_at 1 5 3", "inlined_at 1 2 7").replace(store, 500 * loc + store)
    (found,) = (each for each in parse_module(loops).functions["kernel"].instructions if each.text == "st.b32")
    assert 1 < len(found.calls) < 100


LISTING = """\
	.section	.text.kernel,"ax",@progbits
	//## File "calls.cu", line 9
        /*0000*/                   NOP ;                                         /* 0x0000000000007918 */
                                                                                 /* 0x000fc00000000000 */
	//## File ".nv_debug_ptx_txt", line 27
	//## File "calls.cu", line 2 inlined at "calls.cu", line 5
	//## File "calls.cu", line 5 inlined at "calls.cu", line 9
	//## File "calls.cu", line 9
        /*0010*/                   NOP ;                                         /* 0x0000000000007918 */
                                                                                 /* 0x000fc00000000000 */
	//## File "calls.cu", line 10
        /*0020*/                   EXIT ;                                        /* 0x000000000000794d */
                                                                                 /* 0x000fea0003800000 */
"""


def test_listing_of_machine_code_names_the_innermost_line_and_the_calls_around_it() -> None:
    section = read_listing(LISTING, "calls.cubin")["kernel"]
    calls = (ExpandedCall("", "calls.cu", 5), ExpandedCall("", "calls.cu", 9))
    assert [each.source for each in section.instructions] == [None, ("calls.cu", 2, calls), ("calls.cu", 10, ())]


def with_leaf_in(file: str) -> str:
    return PTX.replace('.file 1 "calls.cu"', f'.file 1 "calls.cu"\n.file 2 "{file}"').replace(".loc 1 2 7,", ".loc 2 2 7,")


@pytest.mark.parametrize("folder", [
    "/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/crt", "/venv/site-packages/nvidia/cu13/include", "/usr/include",
    "/opt/cuda/12.4/include/cccl/cub", "/venv/site-packages/triton/language",
])  # fmt: skip
def test_code_of_a_library_counts_for_the_line_that_calls_it(folder: str) -> None:
    """Two functions deep, and one function that is the user's own."""
    text = with_leaf_in(f"{folder}/mma.hpp")
    places = {each.text: each.user_place for each in parse_module(text).functions["kernel"].instructions}
    assert places["st.b32"] == ("calls.cu", 5) and places["mov.b64"] == ("calls.cu", 5) and places["ret"] == ("calls.cu", 10)
    assert not parse_module(text).functions["kernel"].is_of_library
    assert parse_module(text.replace("calls.cu", f"{folder}/util.cuh")).functions["kernel"].is_of_library


def test_header_of_the_user_is_named_itself() -> None:
    text = with_leaf_in("/home/me/include/tile.hpp")
    places = {each.text: each.user_place for each in parse_module(text).functions["kernel"].instructions}
    assert places["st.b32"] == ("/home/me/include/tile.hpp", 2)
