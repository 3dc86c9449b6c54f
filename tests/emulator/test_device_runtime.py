"""`printf`, `malloc`, `free` and `assert` in kernels: what CUDA's programming guide says of them, on small kernels."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, cuda, launch, ptx

from warpsight.base.errors import FaultDetails, LaunchFault, UnsupportedError
from warpsight.emulator.run.parallel import why_in_order
from warpsight.isa.ptx.inlining import inline_calls
from warpsight.kernels.launch import RunOptions
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
I32 = np.int32


def printed(kernel: str, grid: int, block: int, *args: Any) -> str:
    """What a launch prints."""
    output = io.StringIO()
    launch(cuda("runtime.cu"), kernel, grid, block, args, options=RunOptions(output=output))
    return output.getvalue()


def stopped(kernel: str, grid: int, block: int, *args: Any, heap: int = 1 << 20) -> tuple[LaunchFault, FaultDetails]:
    """The fault of a launch, and its details."""
    with pytest.raises(LaunchFault) as caught:
        launch(cuda("runtime.cu"), kernel, grid, block, args, options=RunOptions(heap_bytes=heap, output=io.StringIO()))
    assert caught.value.details is not None
    assert caught.value.details.kernel == kernel
    return caught.value, caught.value.details


def test_printf_writes_a_line_for_each_active_thread_in_order_and_returns_its_arguments() -> None:
    out = np.full(80, -7, I32)
    text = printed("prints", 2, 40, out)
    threads = [i for i in range(80) if i % 3 == 1]
    assert text.splitlines() == [f"{i % 40} of block {i // 40}: {i * 0.5:5.2f} text x {1 << 40}" for i in threads]
    assert out.tolist() == [6 if i % 3 == 1 else -7 for i in range(80)]


def test_printf_reads_strings_of_every_memory_and_returns_minus_one_without_a_format() -> None:
    given, out = np.frombuffer(b"given \xc3\xa4\0", np.uint8), np.zeros(3, I32)
    assert printed("prints_strings", 1, 2, given.copy(), out) == "given ä|s|l0|c   |%\ngiven ä|s|l1|c   |%\nplain\nplain\n"
    assert out.tolist() == [4, 0, -1]


def test_printf_goes_to_standard_output_without_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    launch(cuda("runtime.cu"), "prints", 1, 2, [np.zeros(2, I32)])
    assert capsys.readouterr().out == "1 of block 0:  0.50 text x 1099511627776\n"


def test_printf_of_a_string_without_an_end_is_out_of_bounds_at_its_first_byte_too_many() -> None:
    fault, details = stopped("prints_bad_string", 1, 1, np.full(100, 65, np.uint8))
    assert (details.kind, details.line, details.distance) == ("out-of-bounds", 20, 1)
    assert "0 bytes past the end of the array" in fault.what


def test_blocks_that_print_run_in_order_and_those_that_only_assert_do_not() -> None:
    out, output = np.zeros(64 * 64, I32), io.StringIO()
    launch(cuda("runtime.cu"), "prints", 64, 64, [out], threads=2, options=RunOptions(output=output))
    lines = output.getvalue().splitlines()
    assert [line.split()[3].rstrip(":") for line in lines] == [str(i // 64) for i in range(64 * 64) if i % 3 == 1]
    source = cuda("runtime.cu")
    kernels = source.module.functions
    assert why_in_order(inline_calls(source.module, kernels["sums_lists"]))
    assert not why_in_order(inline_calls(source.module, kernels["asserts"]))
    with pytest.raises(LaunchFault) as caught:
        launch(source, "asserts", 64, 64, [np.array([2000], I32), out], threads=2)
    assert caught.value.details is not None
    assert (caught.value.details.block, caught.value.details.thread) == ((31, 0, 0), (16, 0, 0))


def test_stream_that_fails_stops_the_launch_with_its_own_error() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        launch(cuda("runtime.cu"), "prints", 1, 40, [np.zeros(40, I32)], options=RunOptions(output=Full()))


def test_trace_counts_a_call_as_one_branch_instruction() -> None:
    trace = launch(cuda("runtime.cu"), "prints", 1, 32, [np.zeros(32, I32)], options=RunOptions(output=io.StringIO()))
    calls = [row for row in trace.instructions if row.opcode.startswith("call")]
    assert [row.op_class for row in calls] == ["branch"]


def test_linked_lists_of_allocated_nodes_sum_to_the_closed_form() -> None:
    out = np.zeros(70, I32)
    launch(cuda("runtime.cu"), "sums_lists", 2, 35, [out, 9])
    assert out.tolist() == [36 * (i + 1) for i in range(70)]


def test_heap_is_reused_when_it_is_full() -> None:
    out = np.zeros(64, I32)  # 64 threads x 50 nodes x 32 bytes is more than 8 KiB, 32 x 9 is not
    launch(cuda("runtime.cu"), "sums_lists", 2, 32, [out, 7], options=RunOptions(heap_bytes=32 * 7 * 32))
    assert out.tolist() == [21 * (i + 1) for i in range(64)]


def test_malloc_past_the_heap_gives_null_and_blocks_are_aligned_and_distinct() -> None:
    out = np.zeros(40, np.uint64)
    launch(cuda("runtime.cu"), "takes", 1, 40, [24, out], options=RunOptions(heap_bytes=20 * 48))
    taken = out[out != 0].tolist()
    assert len(taken) == 20 == len(set(taken))
    assert out[20:].tolist() == [0] * 20  # lanes are served in order
    assert all(address % 16 == 0 for address in taken)
    again = np.zeros(40, np.uint64)
    launch(cuda("runtime.cu"), "takes", 1, 40, [24, again], options=RunOptions(heap_bytes=20 * 48))
    assert (again == out).all()


@pytest.mark.parametrize("size", [0, -1, (8 << 20) + 1])
def test_malloc_of_nothing_or_too_much_gives_null(size: int) -> None:
    out = np.ones(1, np.uint64)
    launch(cuda("runtime.cu"), "takes", 1, 1, [size, out])
    assert out.tolist() == [0]


def test_new_of_an_aligned_type_keeps_its_alignment() -> None:
    out = np.zeros(33, np.uint64)
    launch(cuda("runtime.cu"), "aligned", 1, 33, [out])
    assert all(out != 0) and all(out % 128 == 0) and len(set(out.tolist())) == 33


@pytest.mark.parametrize(
    ("what", "kind", "line", "words"),
    [
        (1, "out-of-bounds", 35, "0 bytes past the end of the 16 bytes from malloc at .*runtime.cu:33, block"),
        (2, "use-after-free", 37, r"byte 0 of 16 bytes from malloc at .*:33, block \(0,0,0\) thread \(0,0,0\).* freed at .*:36"),
        (3, "double-free", 38, r"of memory that is free already.* freed at .*runtime.cu:36"),
        (4, "bad-free", 39, 'malloc did not give.* in the array of parameter 1'),
        (5, "double-free", 40, "byte 4 of 16 bytes"),
    ],
)
def test_misuse_of_allocated_memory_is_a_fault_that_names_the_block(what: int, kind: str, line: int, words: str) -> None:
    fault, details = stopped("misuses", 1, 1, np.zeros(4, I32), what)
    assert (details.kind, details.line, details.thread) == (kind, line, (0, 0, 0))
    assert re.search(words, fault.what), fault.what


def test_correct_use_of_allocated_memory_passes() -> None:
    launch(cuda("runtime.cu"), "misuses", 3, 40, [np.zeros(4, I32), 0])


def test_free_makes_instructions_forget_the_allocation_that_they_last_hit() -> None:
    _, details = stopped("keeps_site", 1, 1, np.zeros(1, I32))
    assert (details.kind, details.line) == ("use-after-free", 48)


def test_failed_assertion_says_what_cuda_says() -> None:
    limit, out = np.array([70], I32), np.zeros(128, I32)
    fault, details = stopped("asserts", 2, 64, limit, out)
    assert re.search(
        r"kernels/runtime\.cu:55: .*asserts.*: block: \[1,0,0\], thread: \[6,0,0\] Assertion `.*limit\[0\].*` failed\.", fault.what
    )
    assert (details.kind, details.block, details.thread, details.line) == ("assertion", (1, 0, 0), (6, 0, 0), 55)
    assert details.assertion is not None
    assert details.assertion.line == 55
    assert "limit[0]" in details.assertion.message
    assert "asserts" in details.assertion.function
    assert details.assertion.file.endswith("runtime.cu")
    assert not out.any()


def test_breakpoint_stops_at_the_thread_that_reaches_it() -> None:
    _, details = stopped("breaks", 2, 64, np.zeros(128, I32), 100)
    assert (details.kind, details.block, details.thread, details.line) == ("breakpoint", (1, 0, 0), (36, 0, 0), 58)


def test_misaligned_shared_access_names_the_variable_and_the_offset() -> None:
    launch(cuda("runtime.cu"), "shared_misaligned", 1, 32, [np.zeros(32, I32), 0])
    fault, details = stopped("shared_misaligned", 1, 32, np.zeros(32, I32), 6)
    assert (details.kind, details.line, details.distance) == ("misaligned", 65, 0)
    assert '.shared variable "' in details.allocation
    assert re.search(r"offset \d+ of 96 bytes", fault.what)


@pytest.mark.parametrize(("at", "kind", "distance"), [(16, "param-out-of-bounds", 1), (4, "", 0), (6, "misaligned", 0)])
def test_parameter_read_at_a_computed_place_names_the_parameter(at: int, kind: str, distance: int) -> None:
    body = f"mov.u32 %r1, {at}; setp.eq.u32 %p1, %i, 3; @!%p1 mov.u32 %r1, 8; ld.param.u32 %r2, [%r1]; ret;"
    source = ptx(body, ".param .u64 out, .param .u32 a, .param .u32 b")
    if not kind:
        launch(source, "k", 1, 32, [np.zeros(32, np.uint64), 1, 2])
        return
    with pytest.raises(LaunchFault) as caught:
        launch(source, "k", 1, 32, [np.zeros(32, np.uint64), 1, 2])
    details = caught.value.details
    assert details is not None
    assert (details.kind, details.thread, details.address, details.distance) == (kind, (3, 0, 0), at, distance)
    assert f".param variable \"{'b' if at == 16 else 'out'}\"" in caught.value.what


def test_function_of_the_device_runtime_that_is_not_there_is_refused_by_name() -> None:
    text = (
        f"{PTX_HEAD}.extern .func (.param .b32 r) cudaGetLastError;\n.visible .entry k()\n"
        "{\n.param .b32 r;\ncall.uni (r), cudaGetLastError, ();\nret;\n}\n"
    )
    with pytest.raises(UnsupportedError, match=r"cudaGetLastError.*device runtime") as caught:
        launch(load_source(text, name="cdp.ptx"), "k", 1, 1, [])
    assert caught.value.place == "cdp.ptx:8"


def test_own_function_named_like_one_of_the_runtime_is_called_itself() -> None:
    text = f"""{PTX_HEAD}.func (.param .b64 r) malloc(.param .b64 n) {{
    .reg .b64 %q; ld.param.b64 %q, [n]; add.u64 %q, %q, 5; st.param.b64 [r], %q; ret; }}
.visible .entry k(.param .u64 out) {{
    .reg .b64 %q<3>; .param .b64 n; .param .b64 r; ld.param.u64 %q1, [out];
    st.param.b64 [n], 10; call.uni (r), malloc, (n); ld.param.b64 %q2, [r]; st.global.u64 [%q1], %q2; ret; }}
"""
    out = np.zeros(1, np.uint64)
    launch(load_source(text, name="own.ptx"), "k", 1, 1, [out])
    assert out.tolist() == [15]
