"""Each form of call, return and indexed branch that PTX has, on hand-written PTX, against Python."""

from __future__ import annotations

import time

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, launch, ptx

from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
LANES = range(64)


def with_functions(functions: str, body: str) -> KernelSource:
    text = ptx("BODY: ret;").ptx.replace("BODY: ret;", body).replace(PTX_HEAD, PTX_HEAD + functions)
    return load_source(text, name="test.ptx")


def run(functions: str, body: str, threads: int = 64) -> np.ndarray:
    out = np.zeros(threads, np.uint64)
    launch(with_functions(functions, body), "k", 1, threads, [out])
    return out


# Adds its parameters; calls itself while the second is not zero, so that it is never expanded.
ADD = """
.func (.param .b32 r) add(.param .b32 x, .param .b32 y) {
    .reg .b32 %r<8>; .reg .pred %p;
    ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y];
    setp.eq.u32 %p, %r2, 0; @%p bra DONE;
    add.u32 %r1, %r1, 1; sub.u32 %r2, %r2, 1;
    { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b32 [b], %r2;
      call.uni (c), add, (a, b); ld.param.b32 %r1, [c]; }
DONE: st.param.b32 [r], %r1; ret; }
"""
CALL_ADD = """{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %i; st.param.b32 [b], %r1;
    CALL ld.param.b32 %r2, [c]; } st.global.u32 [%out], %r2; ret;"""
POINTER = "mov.u64 %q1, add; call (c), %q1, (a, b), P;"


@pytest.mark.parametrize(
    "call",
    [
        "call (c), add, (a, b);",
        "call.uni (c), add, (a, b);",
        "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _); " + POINTER,
        POINTER + " P: .callprototype (.param .u32 _) p (.param .f32 _, .param .s32 _);",
        "P: .calltargets add; " + POINTER,
        POINTER.replace("call ", "call.uni ") + " P: .calltargets other, add;",
        "setp.ne.u32 %p1, %r1, 2; st.param.b32 [c], 77; @%p1 call (c), add, (a, b);",
        "setp.eq.u32 %p1, %r1, 2; st.param.b32 [c], 77; @!%p1 call (c), add, (a, b);",
    ],
)
def test_call_in_each_form_reaches_the_function(call: str) -> None:
    other = ".func (.param .b32 r) other(.param .b32 x, .param .b32 y) { st.param.b32 [r], 5; ret; }"
    out = run(ADD + other, "and.b32 %r1, %i, 3;\n" + CALL_ADD.replace("CALL", call))
    assert out.tolist() == [77 if "@" in call and i & 3 == 2 else i + (i & 3) for i in LANES]


def test_pointer_outside_the_list_of_targets_or_of_another_prototype_faults() -> None:
    other = ".func (.param .b32 r) other(.param .b32 x, .param .b32 y) { st.param.b32 [r], 5; ret; }"
    for call in (
        "P: .calltargets other; " + POINTER,
        "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _); "
        "{ .param .b64 w; mov.u64 %q1, add; call (c), %q1, (a, w), P; }",
    ):
        with pytest.raises(LaunchFault, match=r'not a function of this prototype by "call".*thread \(0,0,0\), value 0x1000[01]0'):
            run(ADD + other, "and.b32 %r1, %i, 3;\n" + CALL_ADD.replace("CALL", call))


def test_data_access_through_the_address_of_a_function_faults() -> None:
    with pytest.raises(LaunchFault, match="out of bounds"):
        run(ADD, "mov.u64 %q1, add; ld.u32 %r1, [%q1]; st.global.u32 [%out], %r1; ret;")


@pytest.mark.parametrize("deep", [False, True])
def test_register_parameters_registers_and_constants_as_arguments(deep: bool) -> None:
    again = "setp.gt.u32 %p, b, 100; @%p call (r), f, (a, 3);" if deep else "setp.gt.u32 %p, b, 100; @%p ret;"
    function = f"""
.func (.reg .u32 r) f(.reg .u32 a, .reg .u32 b) {{ .reg .pred %p; mad.lo.u32 r, a, b, 1; {again} }}
.func (.param .b32 r) g(.param .b32 a) {{ .reg .b32 %r1; ld.param.b32 %r1, [a]; add.u32 %r1, %r1, 9; st.param.b32 [r], %r1; ret; }}
"""
    out = run(function, "mul.lo.u32 %r3, %i, 4; call (%r1), f, (%i, %r3); call (%r2), g, (%r1); call (_), g, (5);"
                        "st.global.u32 [%out], %r2; ret;")  # fmt: skip
    assert out.tolist() == [9 + (i * 3 + 1 if deep and 4 * i > 100 else 4 * i * i + 1) for i in LANES]


def test_several_results_and_no_parameters_at_all() -> None:
    functions = """
.global .u32 count;
.func two(.param .b32 x) ;
.func (.param .b32 s, .param .b64 d) both(.param .b32 x) {
    .reg .b32 %r1; .reg .b64 %q1; .reg .u64 f; ld.param.u32 %r1, [x]; mul.wide.u32 %q1, %r1, 3; st.param.b64 [d], %q1;
    mov.u64 f, nothing; P: .callprototype _ ; call f, P; add.u32 %r1, %r1, 1; st.param.b32 [s], %r1; ret; }
.func nothing { .reg .b64 a; mov.u64 a, count; red.global.add.u32 [a], 1; }
"""
    out = run(functions, """{ .param .b32 x; .param .b32 s; .param .b64 d; st.param.b32 [x], %i;
        mov.u64 %q3, both; P: .calltargets both; call (s, d), %q3, (x), P; ld.param.u32 %r1, [s]; ld.param.u64 %q1, [d]; }
        cvt.u64.u32 %q2, %r1; mad.lo.u64 %q1, %q1, 1000, %q2; bar.sync 0; ld.global.u32 %r3, [count]; cvt.u64.u32 %q2, %r3;
        mad.lo.u64 %q1, %q2, 1000000, %q1; st.global.u64 [%out], %q1; ret;""")  # fmt: skip
    assert out.tolist() == [64_000_000 + 3000 * i + i + 1 for i in LANES]


def test_address_of_a_parameter_and_pieces_of_it_are_its_bytes() -> None:
    functions = """
.func (.param .b32 r) f(.param .align 8 .b8 p[24], .param .b32 n) {
    .reg .b64 %q<4>; .reg .b32 %r<8>; ld.param.u32 %r1, [n]; mov.b64 %q1, p; cvt.u64.u32 %q2, %r1; add.u64 %q1, %q1, %q2;
    ld.param.u8 %r2, [%q1+8]; ld.param.u16 %r3, [p+6]; mad.lo.u32 %r2, %r3, 256, %r2; st.param.u8 [r+2], %r2; st.param.u16 [r], %r2;
    st.param.u8 [r+3], 1; ret; }
"""
    out = run(functions, """{ .param .align 8 .b8 p[24]; .param .b32 n; .param .b32 r; mov.u64 %q1, 0x1122334455667788;
        st.param.b64 [p], %q1; st.param.v2.b32 [p+8], {%i, 0x01020304}; st.param.b64 [p+16], %q1; and.b32 %r1, %i, 15;
        st.param.b32 [n], %r1; call (r), f, (p, n); ld.param.u32 %r2, [r]; } st.global.u32 [%out], %r2; ret;""")  # fmt: skip

    def wanted(i: int) -> int:
        data = (0x1122334455667788).to_bytes(8, "little") + i.to_bytes(4, "little") + (0x01020304).to_bytes(4, "little")
        data += (0x1122334455667788).to_bytes(8, "little")
        value = int.from_bytes(data[6:8], "little") * 256 + data[8 + (i & 15)]
        return value & 0xFFFF | (value & 0xFF) << 16 | 1 << 24

    assert out.tolist() == [wanted(i) for i in LANES]


def test_generic_address_of_a_parameter_reaches_its_bytes() -> None:
    function = """
.func (.param .b64 r) f(.param .align 8 .b8 p[16]) { .reg .b64 %q<4>; mov.b64 %q1, p; cvta.local.u64 %q1, %q1;
    ld.u64 %q2, [%q1+8]; cvta.param.u64 %q3, p; ld.u64 %q1, [%q3]; sub.u64 %q1, %q2, %q1; st.param.b64 [r], %q1; ret; }
"""
    out = run(function, """{ .param .align 8 .b8 p[16]; .param .b64 r; cvt.u64.u32 %q1, %i; mul.lo.u64 %q2, %q1, %q1;
        st.param.v2.b64 [p], {%q1, %q2}; call (r), f, (p); ld.param.b64 %q1, [r]; } st.global.u64 [%out], %q1; ret;""")  # fmt: skip
    assert out.tolist() == [(i * i - i) & (1 << 64) - 1 for i in LANES]


def test_registers_of_every_type_survive_a_recursive_call() -> None:
    function = """
.func (.param .b64 r) f(.param .b32 n) {
    .reg .pred %p<3>; .reg .b16 %h; .reg .f32 %f; .reg .f64 %d, %e; .reg .b64 %q<3>; .reg .b32 %r<5>; .reg .b8 %c; .reg .f16 %x;
    ld.param.u32 %r1, [n]; mov.u64 %q1, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
    and.b32 %r2, %r1, 1; setp.ne.u32 %p2, %r2, 0; cvt.u16.u32 %h, %r1; cvt.rn.f32.u32 %f, %r1; cvt.rn.f64.u32 %d, %r1;
    cvt.rn.f16.u32 %x, %r1;
    { .param .b32 a; .param .b64 b; sub.u32 %r3, %r1, 1; st.param.b32 [a], %r3; call (b), f, (a); ld.param.u64 %q1, [b]; }
    selp.b32 %r4, 1000, 0, %p2; cvt.u64.u32 %q2, %r4; add.u64 %q1, %q1, %q2; cvt.u64.u16 %q2, %h; mad.lo.u64 %q1, %q2, 7, %q1;
    cvt.rzi.u64.f32 %q2, %f; add.u64 %q1, %q1, %q2; cvt.rzi.u64.f64 %q2, %d; mad.lo.u64 %q1, %q2, 100000, %q1; cvt.f64.f16 %e, %x;
    cvt.rzi.u64.f64 %q2, %e; add.u64 %q1, %q1, %q2;
END: st.param.b64 [r], %q1; ret; }
"""
    out = run(function, """and.b32 %r1, %i, 15; { .param .b32 a; .param .b64 b; st.param.b32 [a], %r1; call (b), f, (a);
        ld.param.u64 %q1, [b]; } st.global.u64 [%out], %q1; ret;""")  # fmt: skip

    def wanted(n: int) -> int:
        return 0 if n == 0 else wanted(n - 1) + 1000 * (n & 1) + 7 * n + n + 100000 * n + n

    assert out.tolist() == [wanted(i & 15) for i in LANES]


def test_lanes_that_skip_a_call_meet_those_that_made_it_where_it_returns() -> None:
    # The block after the call is also where both ways meet, in the kernel and in every activation of the function.
    function = """
.func (.param .b32 r) f(.param .b32 n) {
    .reg .pred %p; .reg .b32 %r<8>; .param .b32 a; .param .b32 b; ld.param.u32 %r1, [n]; st.param.b32 [b], 0;
    setp.lt.u32 %p, %r1, 4; @%p bra AFTER; sub.u32 %r2, %r1, 4; st.param.b32 [a], %r2; call (b), f, (a);
AFTER: activemask.b32 %r3; popc.b32 %r3, %r3; ld.param.b32 %r4, [b]; mad.lo.u32 %r4, %r4, 100, %r3; st.param.b32 [r], %r4; ret; }
"""
    out = run(function, """{ .param .b32 a; .param .b32 b; st.param.b32 [a], %i; call (b), f, (a); ld.param.b32 %r1, [b]; }
        activemask.b32 %r2; mad.lo.u32 %r1, %r1, 100, %r2; cvt.u64.u32 %q1, %r2; st.global.v2.u32 [%out], {%r1, %r2};
        ret;""", 16)  # fmt: skip
    # Lane i is i // 4 deep; at depth d the lanes with i // 4 >= d meet after their call.
    parts = [sum(4 * (4 - d) * 100 ** (d) for d in range(i // 4 + 1)) for i in range(16)]
    assert [int(v) & 0xFFFFFFFF for v in out] == [(p * 100 + 0xFFFF) & 0xFFFFFFFF for p in parts]
    assert {int(v) >> 32 for v in out} == {0xFFFF}


def test_function_that_does_not_return_ends_its_lanes_or_traps() -> None:
    functions = """
.func (.param .b32 r) leave(.param .b32 x) .noreturn { .reg .b32 %r<3>; .reg .pred %p; ld.param.u32 %r1, [x];
    setp.gt.u32 %p, %r1, 40; @%p trap; exit; }
"""
    body = """st.global.u32 [%out], 3; setp.ge.u32 %p1, %i, LIMIT; @!%p1 bra STAY;
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %i; mov.u64 %q1, leave; call (b), %q1, (a), P; }
        P: .callprototype (.param .b32 _) _ (.param .b32 _) .noreturn;
        STAY: st.global.u32 [%out], 4; ret;"""
    assert run(functions, body.replace("LIMIT", "20"), 32).tolist() == [4] * 20 + [3] * 12
    with pytest.raises(LaunchFault, match=r"trap.*thread \(41,0,0\)"):
        run(functions, body.replace("LIMIT", "20"))


def test_call_in_a_loop_with_trip_count_by_lane_equals_python() -> None:
    body = """mov.u32 %r3, 0; and.b32 %r4, %i, 7;
LOOP: setp.eq.u32 %p1, %r4, 0; @%p1 bra END; and.b32 %r1, %r4, 3; { .param .b32 a; .param .b32 b; .param .b32 c;
    st.param.b32 [a], %r3; st.param.b32 [b], %r1; call (c), add, (a, b); ld.param.b32 %r3, [c]; }
    mad.lo.u32 %r3, %r3, 2, %i; sub.u32 %r4, %r4, 1; bra.uni LOOP;
END: st.global.u32 [%out], %r3; ret;"""

    def wanted(i: int) -> int:
        total = 0
        for n in range(i & 7, 0, -1):
            total = (total + (n & 3)) * 2 + i
        return total

    assert run(ADD, body).tolist() == [wanted(i) for i in LANES]


def test_alias_is_called_directly_and_by_its_address() -> None:
    functions = ADD + ".alias plus, add;"
    for call in ("call (c), plus, (a, b);", "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _); "
                 + POINTER.replace("add", "plus")):  # fmt: skip
        assert run(functions, "mov.u32 %r1, 6;" + CALL_ADD.replace("CALL", call)).tolist() == [i + 6 for i in LANES]


def test_variable_arguments_are_read_by_offset() -> None:
    function = """
.func (.param .b32 r) f(.param .b32 n, .param .align 8 .b8 %VA[]) { .reg .b32 %r<4>; ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [%VA+0]; ld.param.u32 %r3, [%VA+4]; mad.lo.u32 %r1, %r2, %r3, %r1; st.param.b32 [r], %r1; ret; }
"""
    out = run(function, """{ .param .b32 n; .param .align 8 .b8 v[8]; .param .b32 r; st.param.b32 [n], 7; st.param.b32 [v], %i;
        st.param.b32 [v+4], 3; call (r), f, (n, v); ld.param.b32 %r1, [r]; } st.global.u32 [%out], %r1; ret;""")  # fmt: skip
    assert out.tolist() == [3 * i + 7 for i in LANES]


def test_function_that_nobody_provides_is_refused_with_its_name() -> None:
    functions = ".extern .func (.param .b32 r) elsewhere(.param .b32 x);"
    with pytest.raises(UnsupportedError, match='"elsewhere"'):
        run(functions, "{ .param .b32 a; .param .b32 b; st.param.b32 [a], 1; call (b), elsewhere, (a); } ret;")


@pytest.mark.parametrize("arguments", ["(a)", "(a, b, b)", "(a, w)"])
def test_call_that_does_not_fit_its_function_is_refused(arguments: str) -> None:
    call = "{ .param .b32 a; .param .b32 b; .param .b32 c; .param .b64 w; call (c), add, " + arguments + "; } ret;"
    with pytest.raises(UnsupportedError, match="arguments or results"):
        run(ADD, call)


# -- many calls of a large function ------------------------------------------------------------------------------------------


def many_calls(calls: int) -> KernelSource:
    steps = "".join(f"xor.b32 %r2, %r1, {77 * k}; mad.lo.u32 %r1, %r2, {2 * k + 1}, %r1;\n" for k in range(100))
    function = f""".func (.param .b32 r) f(.param .b32 a) {{
    .reg .b32 %r<4>; ld.param.b32 %r1, [a]; {steps} st.param.b32 [r], %r1; ret; }}
"""
    call = """{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; call (r), f, (a); ld.param.b32 %r1, [r]; }
    add.u32 %r1, %r1, %i;
"""
    return with_functions(function, "mov.u32 %r1, %i;\n" + call * calls + "st.global.u32 [%out], %r1; ret;")


@pytest.mark.parametrize("calls", [3, 100])
def test_many_calls_of_a_large_function_share_its_body_and_compile_soon(calls: int) -> None:
    source, out = many_calls(calls), np.zeros(64, np.uint64)
    linked = inline_calls(source.module, source.module.kernels["k"])
    assert bool(linked.call_sites) == (calls == 100)
    assert len(linked.instructions) < 1000
    started = time.process_time()
    launch(source, "k", 1, 64, [out])
    assert time.process_time() - started < 6  # of a few CPU seconds, a fraction is compiling 600 instructions: 20,000 take over 8

    def wanted(i: int) -> int:
        value = i
        for _ in range(calls):
            for k in range(100):
                value = ((value ^ 77 * k) * (2 * k + 1) + value) & 0xFFFFFFFF
            value = (value + i) & 0xFFFFFFFF
        return value

    assert out.tolist() == [wanted(i) for i in LANES]


def test_chain_of_calls_deeper_than_python_s_stack() -> None:
    head = ".func (.param .b32 r) f{}(.param .b32 x) {{ .reg .b32 %r<3>; ld.param.u32 %r1, [x];"
    functions = head.format(0) + " st.param.b32 [r], %r1; ret; }\n"
    for k in range(1, 1200):
        functions += head.format(k) + f""" add.u32 %r1, %r1, {k}; {{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;
            call.uni (b), f{k - 1}, (a); ld.param.b32 %r2, [b]; }} st.param.b32 [r], %r2; ret; }}\n"""
    body = """{ .param .b32 a; .param .b32 b; st.param.b32 [a], %i; call.uni (b), f1199, (a); ld.param.b32 %r1, [b]; }
        st.global.u32 [%out], %r1; ret;"""
    module = with_functions(functions, body).module
    whole = inline_calls(module, module.functions["k"])
    added = [each.operands[2] for each in whole.instructions if each.opcode == "add" and "#" in str(each.operands[0])]
    assert [getattr(each, "value", None) for each in added] == list(range(1199, 0, -1))


# -- indexed and uniform branches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("targets", "guard"), [(3, ""), (7, "@%p1"), (300, "@!%p2")])
def test_indexed_branch_with_and_without_guard_and_of_any_length(targets: int, guard: str) -> None:
    labels = ", ".join(f"L{k}" for k in range(targets))
    cases = "".join(f"L{k}: add.u32 %r2, %r2, {3 * k}; bra.uni END;\n" for k in range(targets))
    body = f"""rem.u32 %r1, %i, {targets}; T: .branchtargets {labels}; setp.lt.u32 %p1, %i, 700; not.pred %p2, %p1; mov.u32 %r2, 5;
        {guard} brx.idx{".uni" if not guard else ""} %r1, T;\n mov.u32 %r2, 6; bra END;\n{cases}
        END: activemask.b32 %r3; st.global.v2.u32 [%out], {{%r2, %r3}}; ret;"""
    out = np.zeros((736, 2), np.uint32)
    launch(ptx(body), "k", 1, 736, [out])
    assert out[:, 0].tolist() == [5 + 3 * (i % targets) if not guard or i < 700 else 6 for i in range(736)]
    assert set(out[:, 1]) == {0xFFFFFFFF}


def test_index_past_the_table_of_lanes_that_do_not_branch_is_no_fault() -> None:
    body = """T: .branchtargets A, B; setp.lt.u32 %p1, %i, 2; mov.u32 %r2, 9; @%p1 brx.idx %i, T; bra END;
        A: mov.u32 %r2, 1; bra END; B: mov.u32 %r2, 2; END: st.global.u32 [%out], %r2; ret;"""
    assert run("", body, 32).tolist() == [1, 2] + [9] * 30
    with pytest.raises(LaunchFault, match=r"indexed branch.*thread \(2,0,0\)"):
        run("", body.replace("%i, 2;", "%i, 3;"), 32)
