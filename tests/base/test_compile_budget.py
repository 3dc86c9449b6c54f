"""Is there an end to compiling: is what takes too long or too much refused, with what to raise, and is no process left?"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

import warpsight
from warpsight.base.compile_budget import MEMORY, SECONDS, check, compiling
from warpsight.base.errors import LimitError, UsageError, WarpsightError
from warpsight.emulator.codegen import object_code, shared_functions
from warpsight.kernels.cuda import CompileOptions, compile_cuda
from warpsight.kernels.toolkit import Architecture

pytestmark = pytest.mark.unit
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = """.visible .entry k(.param .u64 o) {
.reg .pred %p<2>; .reg .b32 %r<COUNT>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [o]; mov.u32 %r1, %tid.x;
BODY
st.global.u32 [%rd1], %r1; ret;
}
"""
TEMPLATES = """
template <int N> struct F { static constexpr long long v = F<N - 1>::v + F<N - 2>::v % 7; };
template <> struct F<0> { static constexpr long long v = 0; };
template <> struct F<1> { static constexpr long long v = 1; };
template <int A, int B> struct G { __device__ static int f() { return G<A - 1, B>::f() + G<A - 1, B + (1 << A)>::f(); } };
template <int B> struct G<0, B> { __device__ static int f() { return B; } };
__global__ void k(int* o) { *o = G<22, 0>::f(); }
"""


def ptx(body: str, registers: int = 8) -> str:
    return HEAD + KERNEL.replace("COUNT", str(registers)).replace("BODY", body)


def loads(count: int) -> str:
    """So many loads, whose values are all live until the last of them."""
    lines = [f"ld.global.u32 %r{k + 2}, [%rd1+{4 * (k % 32)}];" for k in range(count)]
    return ptx("\n".join([*lines, *(f"add.u32 %r1, %r1, %r{k + 2};" for k in reversed(range(count)))]), count + 4)


def run(text: str, level: str = "ptx") -> np.ndarray:
    out = np.arange(32, dtype=np.uint32)
    warpsight.trace(text, "k", grid=1, block=1, args=[out], level=level, gpu="a100", registers=32)
    return out


@pytest.mark.parametrize(("variable", "text"), [
    (SECONDS, "0"), (SECONDS, "soon"), (SECONDS, "-1"), (SECONDS, "inf"), (SECONDS, "nan"), (MEMORY, "4"), (MEMORY, "4 GB"),
    (MEMORY, "much"),
])  # fmt: skip
def test_budget_that_is_none_is_refused_with_its_variable(variable: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(WarpsightError, match=variable) as refused, compiling("k.cu"):
        pass
    assert refused.value.remedy


def test_process_is_ended_when_its_time_or_memory_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECONDS, "0.5")
    started = time.monotonic()
    said = r"k.cu: the tool takes longer than the 0.5 s .*\n.*WARPSIGHT_COMPILE_SECONDS"
    with pytest.raises(LimitError, match=said), compiling("k.cu") as limits:
        limits.run([sys.executable, "-c", "while True: pass"], b"", "the tool")
    assert time.monotonic() - started < 60  # a loop that nobody ends goes on for ever
    monkeypatch.setenv(SECONDS, "60")
    monkeypatch.setenv(MEMORY, "64 MiB")
    said = r"the tool needs more than the 64 MiB .*\n.*WARPSIGHT_COMPILE_MEMORY"
    with pytest.raises(LimitError, match=said), compiling("k.cu") as limits:
        limits.run([sys.executable, "-c", "import time; x = b'1' * (256 << 20); time.sleep(60)"], b"", "the tool")


def test_process_gets_its_input_and_both_of_its_outputs_whole() -> None:
    program = "from sys import *; stdout.buffer.write(stdin.buffer.read()); stderr.write('x' * 300000); exit(3)"
    given = bytes(range(256)) * 4000
    with compiling("k.cu") as limits:
        done = limits.run([sys.executable, "-c", program], given, "the tool")
    assert (done.returncode, done.stdout, len(done.stderr)) == (3, given, 300000)


def test_inner_budget_is_that_of_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    check("nothing")  # outside there is none
    with compiling("outer") as outer, compiling("inner") as inner:
        assert outer is inner
    monkeypatch.setenv(SECONDS, "1e-9")
    with pytest.raises(LimitError, match="outer: parsing takes longer"), compiling("outer"), compiling("inner"):
        check("parsing")
    check("nothing")


def test_templates_without_an_end_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECONDS, "1")
    with pytest.raises(LimitError, match=r"the CUDA compiler \(NVRTC\) takes longer than the 1 s"):
        compile_cuda(TEMPLATES, str(tmp_path / "bomb.cu"), CompileOptions(Architecture(80)))


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_kernel_that_takes_longer_is_refused_at_both_levels(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECONDS, "0.05")
    monkeypatch.setenv("WARPSIGHT_CACHE", "/dev/null/none")
    with pytest.raises(LimitError, match=r"WARPSIGHT_COMPILE_SECONDS to more than 0\.05"):
        run(loads(1500), level)


def test_long_kernel_is_compiled_in_a_process_of_its_own_with_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSIGHT_CACHE", "/dev/null/none")
    here = run(loads(40))
    monkeypatch.setattr(shared_functions, "_LONG", 0)
    assert (run(loads(40)) == here).all()
    assert here[0] == sum(range(32)) + sum(range(8))
    monkeypatch.setattr(object_code, "__file__", "/nowhere/object_code.py")
    with pytest.raises(WarpsightError, match=r"LLVM cannot compile it: .*object_code.py"):
        run(loads(41))


@pytest.mark.parametrize("kind", ["u8", "b16", "u32", "s64"])
def test_long_list_of_numbers_is_read_as_each_of_them(kind: str) -> None:
    values = [(k * 7919) % 1000 for k in range(3000)]
    parsed = warpsight_module(
        f"{HEAD}.global .align 8 .{kind} t[3000] = {{{', '.join(map(str, values))}}};\n"
        f".global .align 8 .{kind} s[5] = {{1, 300, 3, 4, 5}};"
    )
    size = int(kind[1:]) // 8
    mask = (1 << 8 * size) - 1
    assert parsed["t"] == b"".join((value & mask).to_bytes(size, "little") for value in values)
    assert parsed["s"] == b"".join((value & mask).to_bytes(size, "little") for value in (1, 300, 3, 4, 5))


def warpsight_module(text: str) -> dict[str, bytes]:
    from warpsight.isa.ptx.parser import parse_module

    return {name: variable.initial for name, variable in parse_module(text).variables.items()}


def test_constant_memory_has_the_size_that_gpus_have() -> None:
    text = f"{HEAD}.const .align 4 .b8 big[{1 << 30}];\n" + ptx("ld.const.u32 %r1, [big];").removeprefix(HEAD)
    with pytest.raises(UsageError, match=r"1,073,741,824 bytes of constant memory, and a GPU has 65,536"):
        run(text)
