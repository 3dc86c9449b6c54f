"""PTX in the manner of other compilers than the bundled one: calls of functions, assertions, shuffles with lanes missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, launch, ptx

from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit


def cuda_text(code: str) -> KernelSource:
    return load_source(code + "\n", name="calls.cu")


def with_function(function: str, body: str) -> KernelSource:
    text = ptx("BODY: ret;").ptx.replace("BODY: ret;", body).replace(PTX_HEAD, PTX_HEAD + function)
    return load_source(text, name="test.ptx")


CALL = """{{ .param .{kind} a; .param .{kind} r; st.param.{kind} [a+0], {source};
    call.uni (r), f, (a); ld.param.{kind} {to}, [r+0]; }}"""


def test_called_twice_and_nested_gives_each_call_its_own_registers() -> None:
    functions = """
.func (.param .b32 r) g(.param .b32 x) {
    .reg .b32 %r<4>; ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, 3; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) f(.param .b32 a) {
    .reg .b32 %r<4>; ld.param.b32 %r1, [a];
    { .param .b32 t; .param .b32 u; st.param.b32 [t], %r1; call (u), g, (t); ld.param.b32 %r2, [u]; }
    add.u32 %r3, %r2, %r1; st.param.b32 [r+0], %r3; ret; }
"""
    once = CALL.format(kind="b32", source="%i", to="%r1")
    twice = CALL.format(kind="b32", source="%r1", to="%r2")
    out = np.zeros(64, np.uint64)
    launch(with_function(functions, f"{once}\n{twice}\nst.global.u32 [%out], %r2; ret;"), "k", 1, 64, [out])
    assert out.tolist() == [16 * i for i in range(64)]  # f(x) = 4 x


def test_lanes_that_return_early_from_a_function_meet_the_others_after_the_call() -> None:
    function = """
.func (.param .b32 r) f(.param .b32 a) {
    .reg .pred %p; .reg .b32 %r<4>; ld.param.b32 %r1, [a];
    st.param.b32 [r], 7; setp.lt.u32 %p, %r1, 10; @%p ret;
    AGAIN: add.u32 %r1, %r1, 100; setp.lt.u32 %p, %r1, 300; @%p bra AGAIN;
    st.param.b32 [r], %r1; ret; }
"""
    body = CALL.format(kind="b32", source="%i", to="%r1") + "activemask.b32 %r2; st.global.v2.u32 [%out], {%r1, %r2}; ret;"
    out = np.zeros((32, 2), np.uint32)
    launch(with_function(function, body), "k", 1, 32, [out])
    assert out[:, 0].tolist() == [7 if i < 10 else i + 300 - (100 if i >= 100 else 0) for i in range(32)]
    assert set(out[:, 1]) == {0xFFFFFFFF}


@pytest.mark.parametrize(("kind", "value"), [("b8", 0x1FF), ("s8", 0x80), ("b16", 0x12345), ("b64", 5), ("f64", 2.5)])
def test_arguments_of_every_size_are_cut_and_extended_as_by_memory(kind: str, value: float) -> None:
    function = f"""
.func (.param .{kind} r) f(.param .{kind} a) {{
    .reg .b64 %q1; .reg .f64 %d1; ld.param.{kind} {"%d1" if kind == "f64" else "%q1"}, [a];
    st.param.{kind} [r], {"%d1" if kind == "f64" else "%q1"}; ret; }}
"""
    register, start = ("%d1", f"mov.f64 %d1, 0d{np.float64(value).view(np.uint64):016X};") if kind == "f64" else (
        "%q1", f"mov.b64 %q1, {value};")  # fmt: skip
    out = np.zeros(32, np.uint64)
    body = start + CALL.format(kind=kind, source=register, to=register) + f"st.global.b64 [%out], {register}; ret;"
    launch(with_function(function, body), "k", 1, 32, [out])
    wanted = {"b8": 0xFF, "s8": 0xFFFFFFFFFFFFFF80, "b16": 0x2345, "b64": 5, "f64": int(np.float64(2.5).view(np.uint64))}
    assert out.tolist() == [wanted[kind]] * 32


def test_double_precision_power_and_sine_of_large_numbers_equal_libm() -> None:
    source = cuda_text('extern "C" __global__ void k(const double *x, double *y)'
                       "{ int i = threadIdx.x; y[2 * i] = pow(x[i], 1.7); y[2 * i + 1] = sin(x[i] * 1e9); }")  # fmt: skip
    assert any(each.opcode == "call" for each in source.module.kernels["k"].instructions)  # else it would show nothing
    x, y = np.linspace(0.1, 50, 64), np.zeros((64, 2))
    launch(source, "k", 1, 64, [x, y])
    wanted = [(math.pow(v, 1.7), math.sin(v * 1e9)) for v in x]
    np.testing.assert_allclose(y, wanted, rtol=1e-13)


def test_struct_by_value_and_shared_memory_of_a_function_work() -> None:
    source = cuda_text("""
struct P { float x; int n; double d; };
__noinline__ __device__ double f(P p) {
    __shared__ float s[64]; s[threadIdx.x] = p.x; __syncthreads();
    return s[63 - threadIdx.x] + p.n * p.d; }
extern "C" __global__ void k(double *y) { int i = threadIdx.x; P p{i * 0.5f, i, 0.25}; y[i] = f(p); p.n = 2; y[64 + i] = f(p); }""")
    y = np.zeros((2, 64))
    launch(source, "k", 1, 64, [y])
    i = np.arange(64)
    assert (y == [(63 - i) * 0.5 + i * 0.25, (63 - i) * 0.5 + 0.5]).all()


def test_expansion_numbers_instructions_without_gaps_and_leaves_no_call() -> None:
    source = cuda_text('__noinline__ __device__ int f(int x) { return x * x; }\n'
                       'extern "C" __global__ void k(int *y) { *y = f(*y); }')  # fmt: skip
    function = inline_calls(source.module, source.module.kernels["k"])
    assert [each.index for each in function.instructions] == list(range(len(function.instructions)))
    assert not {"call"} & {each.opcode for each in function.instructions}
    assert inline_calls(source.module, function) is function


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ('extern "C" __device__ int other(int);\n__device__ int f(int x) { return other(x); }', "other"),
    ],
)  # fmt: skip
def test_call_that_cannot_be_expanded_is_refused_with_its_line(code: str, what: str) -> None:
    source = cuda_text(code + '\nextern "C" __global__ void k(int *y) { *y = f(*y); }')
    with pytest.raises(UnsupportedError, match=what) as caught:
        launch(source, "k", 1, 32, [np.ones(1, np.int32)])
    assert caught.value.exit_code == 3
    assert int(caught.value.place.rpartition(":")[2]) > 1


def test_assertion_in_a_kernel_passes_or_stops_at_the_thread_that_fails_it() -> None:
    source = cuda_text('#include <cassert>\nextern "C" __global__ void k(int *y, int n)'
                       '{ int i = threadIdx.x; assert(i < n); y[i] = i; }')  # fmt: skip
    y = np.zeros(64, np.int32)
    launch(source, "k", 1, 64, [y, 64])
    assert y.tolist() == list(range(64))
    with pytest.raises(LaunchFault, match=r"thread: \[40,0,0\] Assertion `i < n` failed"):
        launch(source, "k", 1, 64, [y, 40])


def test_shuffle_from_a_lane_that_does_not_take_part_gives_zero() -> None:
    body = """setp.gt.u32 %p1, %i, 7; @%p1 ret;
        add.u32 %r1, %i, 1; shfl.sync.down.b32 %r2, %r1, 4, 31, 255; st.global.u32 [%out], %r2; ret;"""
    out = np.zeros(32, np.uint64)
    launch(ptx(body), "k", 1, 32, [out])
    assert out.tolist() == [5, 6, 7, 8] + [0] * 28
