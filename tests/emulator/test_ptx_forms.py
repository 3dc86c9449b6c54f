"""Forms of PTX that compilers seldom write and people do: vector registers, predicates as arguments, array elements, bare names."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, launch, ptx

from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
LANES = range(64)


def run(body: str, before: str = "") -> list[int]:
    """What the 64 threads of a kernel with this body store at `%out`; `before` stands in front of the kernel."""
    text = ptx("BODY: ret;").ptx.replace("BODY: ret;", body).replace(PTX_HEAD, PTX_HEAD + before)
    out = np.zeros(64, np.uint64)
    launch(load_source(text, name="test.ptx"), "k", 1, 64, [out])
    return [int(v) for v in out]


@pytest.mark.parametrize(
    ("mode", "meaning"),
    [("all", all), ("any", any), ("uni", lambda votes: len(set(votes)) == 1)],
)
@pytest.mark.parametrize("limit", [0, 1, 31, 32, 33, 63, 64])
def test_vote_of_members_is_all_any_or_uniform_among_them(mode: str, meaning: object, limit: int) -> None:
    out = run(f"""setp.lt.u32 %p1, %i, {limit}; mov.pred %p2, 0; and.b32 %r1, %i, 31; setp.ne.u32 %p3, %r1, 0;
        @%p3 vote.sync.{mode}.pred %p2, %p1, 0xFFFFFFFE; selp.u32 %r2, 1, 0, %p2; st.global.u32 [%out], %r2; ret;""")
    votes = [[i < limit for i in range(base + 1, base + 32)] for base in (0, 32)]
    assert out == [int(i % 32 != 0 and meaning(votes[i // 32])) for i in LANES]  # type: ignore[operator]


@pytest.mark.parametrize("deep", [False, True])
def test_vector_registers_are_parameters_and_results(deep: bool) -> None:
    call = "setp.gt.u32 %p, a.x, 50; @!%p bra DONE; mov.u32 t.x, 7; mov.u32 t.y, a.y; call (r), f, (t); DONE:"
    again = call + " ret;" if deep else "ret;"
    function = f""".func (.reg .v2 .u32 r) f(.reg .v2 .u32 a) {{ .reg .v2 .u32 t; .reg .pred %p;
        mad.lo.u32 r.x, a.x, 3, a.y; sub.u32 r.y, a.x, a.y; {again} }}
"""
    out = run("""{ .reg .v2 .u32 v; mul.lo.u32 v.y, %i, %i; mov.u32 v.x, %i; call (v), f, (v); mov.b64 %q1, v;
        st.global.u64 [%out], %q1; ret; }""", function)  # fmt: skip
    seen = [(7 if deep and i > 50 else i, i * i) for i in LANES]
    assert out == [(3 * x + y) % 2**32 | (x - y) % 2**32 << 32 for x, y in seen]


@pytest.mark.parametrize("deep", [False, True])
def test_predicates_are_parameters_and_results(deep: bool) -> None:
    again = "setp.gt.u32 %p, a, 50; @%p call (r, q), f, (3, q);" if deep else ""
    function = f""".func (.reg .u32 r, .reg .pred q) f(.reg .u32 a, .reg .pred b) {{ .reg .pred %p;
        selp.u32 r, a, 1000, b; setp.lt.u32 %p, a, 9; xor.pred q, b, %p; {again} ret; }}
"""
    out = run("""and.b32 %r1, %i, 1; setp.eq.u32 %p1, %r1, 1; call (%r2, %p2), f, (%i, %p1); @%p2 add.u32 %r2, %r2, 5000;
        st.global.u32 [%out], %r2; ret;""", function)  # fmt: skip

    def f(a: int, b: bool) -> tuple[int, bool]:
        result = a if b else 1000, b != (a < 9)
        return f(3, result[1]) if deep and a > 50 else result

    expected = [f(i, i % 2 == 1) for i in LANES]
    assert out == [r + 5000 * q for r, q in expected]


def test_mov_of_vectors_moves_each_element_once() -> None:
    out = run("""{ .reg .v4 .u16 v<2>; .reg .u16 a, b, c, d; cvt.u16.u32 a, %i;
        add.u16 b, a, 100; add.u16 c, a, 200; add.u16 d, a, 300;
        mov.v4.u16 v1, {b, c, d, a}; mov.v4.u16 {c, d, a, b}, v1; mov.v4.u16 {d, a, b, c}, {c, d, a, b};
        mov.v4.u16 v0, {a, b, c, d};
        mov.v2.u16 {v0.x, v0.y}, {v0.y, v0.x}; mov.b64 %q1, v0; st.global.u64 [%out], %q1; ret; }""")
    # After the second move (c, d, a, b) holds (b, c, d, a); after the third (d, a, b, c) does. The last swaps a and b.
    for i, found in enumerate(out):
        d, a, b, c = i + 100, i + 200, i + 300, i
        assert found == b | a << 16 | c << 32 | d << 48


@pytest.mark.parametrize("space", ["global", "const"])
def test_element_of_an_array_is_an_address(space: str) -> None:
    before = f".{space} .align 8 .u32 a[6] = {{10, 11, 12, 13, 14, 15}};\n.{space} .v2 .u16 v[2] = {{{{1, 2}}, {{3, 4}}}};\n"
    out = run(f"""mov.u64 %q1, a[5]; ld.{space}.u32 %r1, [%q1]; ld.{space}.u32 %r2, a[2];
        ld.{space}.u16 %h1, v[1]; cvt.u32.u16 %r3, %h1;
        mad.lo.u32 %r1, %r1, 100, %r2; mad.lo.u32 %r1, %r1, 100, %r3; st.global.u32 [%out], %r1; ret;""", before)  # fmt: skip
    assert out == [151203] * 64


@pytest.mark.parametrize("space", ["shared", "local", "global", "const"])
def test_access_that_names_a_variable_is_in_its_space(space: str) -> None:
    body = "st.u32 [a+4], %i; ld.u32 %r1, [a+4];" if space in {"shared", "local"} else "ld.u32 %r1, [a+4];"
    inside, before = f".{space} .u32 a[2];", f".{space} .u32 a[2] = {{8, 9}};\n"
    if space in {"shared", "local"}:
        out = run(f"{{ {inside} {body} st.global.u32 [%out], %r1; ret; }}")
        assert out == list(LANES) if space == "local" else len({*out[:32]}) == 1
    else:
        assert run(f"{body} st.global.u32 [%out], %r1; ret;", before) == [9] * 64


@pytest.mark.parametrize("operand", ["a[%r1]", "a[1.5]", "b[1]", "a[1][1]"])
def test_index_that_is_no_constant_element_is_refused(operand: str) -> None:
    with pytest.raises(FormatError, match="is not"):
        run(f"mov.u64 %q1, {operand}; ret;", ".global .u32 a[4];\n")


def test_mov_between_vectors_of_different_length_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="vectors of that many elements"):
        run("mov.v4.u32 {%r1, %r2, %r3, %r4}, {%r5, %r6}; ret;")


@pytest.mark.parametrize("table", ["0x1ff", "256", "-1"])
def test_table_of_lop3_that_has_more_than_eight_bits_is_refused(table: str) -> None:
    with pytest.raises(UnsupportedError, match="out of range 0 to 0xff"):
        run(f"lop3.b32 %r1, %r2, %r3, %r4, {table}; ret;")


@pytest.mark.parametrize("space", ["shared", "local"])
@pytest.mark.parametrize("address", ["4294967296", "%r1+4294967296", "%r1+-2147483649"])
def test_address_past_the_32_bits_of_its_space_is_refused(space: str, address: str) -> None:
    with pytest.raises(UnsupportedError, match="addresses of this state space have 32 bits"):
        run(f".{space} .u32 a[2]; ld.{space}.u32 %r2, [{address}]; ret;")


@pytest.mark.parametrize(
    ("align", "complaint"),
    [(3, "3 is not a power of two"), (1 << 30, "more than the largest alignment supported, 67,108,864"), ("9" * 30, "largest")],
)
def test_alignment_that_cannot_be_had_is_refused_with_its_reason(align: object, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        run("ret;", f".global .align {align} .u32 a[4];\n")
