"""Does everything that a GPU would not allow end in an error that names the place, with the process and the arrays unharmed?"""

from __future__ import annotations

import _thread
import functools
import re
import threading
import time
from typing import Any

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, cuda, launch, ptx

from warpsight.base.errors import LaunchFault, LimitError, UnsupportedError, UsageError, WarpsightError
from warpsight.kernels.launch import ArrayArgument, KernelSource
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
I32 = np.int32
BEFORE_ARRAYS = 2 * 256  # the module's two variables, each in its own 256 bytes


def fails(
    kernel: str, grid: Any, block: Any, *args: Any, error: type[WarpsightError] = LaunchFault, line: int = 0, **options: Any
) -> str:
    """The message of a launch that must fail, at that line of the source."""
    with pytest.raises(error) as caught:
        launch(cuda("faults.cu"), kernel, grid, block, args, **options)
    if line:
        assert re.search(rf"faults\.cu:{line}$", caught.value.place), caught.value.place
    assert f"kernel {kernel}" in caught.value.what
    assert caught.value.remedy
    return caught.value.what


def has(message: str, *parts: str) -> None:
    for part in parts:
        assert part in message, message


@pytest.mark.parametrize(
    ("at", "where"),
    [(100, "0 bytes past the end"), (103, "12 bytes past the end"), (-1, "4 bytes before"), (-(1 << 40), "bytes before")],
)
def test_read_out_of_bounds_names_line_thread_address_and_array(at: int, where: str) -> None:
    a, out = np.arange(100, dtype=I32), np.zeros(3 * 64, I32)
    message = fails("read_at", 3, 64, a, out, at, line=7)
    has(message, "access out of bounds", "ld.global", "block (2,0,0) thread (37,0,0)", where)
    has(message, 'array of parameter 1 (400 bytes)' if abs(at) < 999 else "fixed")
    assert re.search(r"PTX line \d+", message)
    assert f"address {hex(((1 << 32) + BEFORE_ARRAYS + 4 * at) % (1 << 64))}" in message


def test_read_in_bounds_at_the_last_element_passes() -> None:
    a, out = np.arange(100, dtype=I32), np.zeros(3 * 64, I32)
    launch(cuda("faults.cu"), "read_at", 3, 64, [a, out, 99])
    assert out[2 * 64 + 37] == 99


@pytest.mark.parametrize("byte", [400, 396 + 256, -4])
def test_write_out_of_bounds_is_a_fault(byte: int) -> None:
    message = fails("write_at", 2, 32, np.zeros(100, I32), byte, line=11)
    has(message, "access out of bounds", "st.global", "block (1,0,0) thread (8,0,0)")


@pytest.mark.parametrize("byte", [1, 2, 399])
def test_misaligned_write_is_a_fault_that_names_the_address(byte: int) -> None:
    message = fails("write_at", 2, 32, np.zeros(100, I32), byte, line=11)
    has(message, "misaligned access", "in the array", f"address {hex((1 << 32) + BEFORE_ARRAYS + byte)}")


def test_misaligned_vector_read_is_a_fault() -> None:
    a, out = np.zeros((9, 4), np.float32), np.zeros((32, 4), np.float32)
    has(fails("vector_at", 1, 32, a, out, 8, line=45), "misaligned access", "v4")
    launch(cuda("faults.cu"), "vector_at", 1, 32, [a, out, 128])
    has(fails("vector_at", 1, 32, a, out, 144, line=45), "access out of bounds", "0 bytes past the end")


def test_null_pointer_is_out_of_bounds_at_address_zero() -> None:
    message = fails("null_pointer", 1, 1, np.ones(4, I32), line=15)
    has(message, "access out of bounds", "address 0x0", "bytes before")


def test_write_to_constant_memory_through_a_generic_pointer_is_a_fault() -> None:
    message = fails("write_constant", 1, 1, np.zeros(4, I32), 2, line=19)
    has(message, "write to constant memory", 'variable "fixed"')


def test_module_data_has_bounds_too() -> None:
    message = fails("write_constant", 1, 1, np.zeros(4, I32), 4, line=19)
    has(message, "access out of bounds", "0 bytes past the end", 'variable "fixed"')


@pytest.mark.parametrize(("at", "offset"), [(64, "offset 256 of 64 bytes (256 are allocated)"), (1000, "offset 4,000 of 64")])
def test_access_past_shared_memory_is_a_fault_that_names_its_size(at: int, offset: str) -> None:
    message = fails("shared_at", 2, 64, np.zeros(128, I32), at, line=23, shared=64)
    has(message, "past the end of shared memory", offset, "thread (33,0,0)")


def test_shared_memory_that_was_not_asked_for_is_not_there() -> None:
    has(fails("shared_at", 2, 64, np.zeros(128, I32), 0, line=23), "shared memory", "of 0 bytes")


def test_access_past_local_memory_is_a_fault() -> None:
    has(fails("local_at", 1, 32, np.zeros(64, I32), 0, line=30), "local memory", "thread (1,0,0)", "offset 32")


def test_atomic_out_of_bounds_is_a_fault() -> None:
    has(fails("atomic_at", 1, 32, np.zeros(10, np.float32), 10, line=42), "access out of bounds", "0 bytes past the end")


def test_trap_names_the_first_thread_that_reaches_it() -> None:
    has(fails("stops", 2, 64, np.zeros(128, I32), 70, line=35), "trap", "block (1,0,0) thread (7,0,0)")


@functools.cache
def _twice(size: int, step: int) -> KernelSource:
    """A load that first succeeds, so that it knows an allocation, and then goes to `base`."""
    return ptx(
        f"""
        ld.param.u64 %q1, [out];
        mad.wide.u32 %q1, %i, {step}, %q1;
        mov.u32 %r1, 0;
        AGAIN:
        ld.global.b{8 * size} %q2, [%q1];
        st.global.b64 [%out], %q2;
        setp.eq.u32 %p1, %r1, 1;
        @%p1 ret;
        mov.u32 %r1, 1;
        ld.param.u64 %q1, [base];
        mad.wide.u32 %q1, %i, {step}, %q1;
        bra AGAIN;""",
        ".param .u64 out, .param .s64 base",
    )


@pytest.mark.parametrize("base", [-4, -64, -128, 1 << 62, -(1 << 63)])
def test_addresses_near_the_end_of_the_address_space_are_out_of_bounds(base: int) -> None:
    for size, step in ((4, 4), (4, 0), (8, 8)):
        with pytest.raises(LaunchFault, match=f"address {hex(base % (1 << 64))},"):
            launch(_twice(size, step), "k", 1, 32, [np.zeros(32, np.uint64), np.int64(base)])


def test_array_without_elements_is_an_address_that_cannot_be_read() -> None:
    with pytest.raises(UsageError, match="no elements"):
        launch(cuda("faults.cu"), "first_of", 1, 32, [np.zeros(0, I32), np.zeros(32, I32)])
    empty, out = ArrayArgument(np.zeros(0, I32)), np.zeros(32, I32)
    launch(cuda("faults.cu"), "first_of", 1, 32, [empty, out])
    assert out.tolist() == [1] * 32  # not a null pointer
    has(fails("reads_nothing", 1, 32, empty, out, line=44), "access out of bounds")


def test_failed_launch_leaves_the_callers_arrays_as_they_were() -> None:
    out = np.arange(64, dtype=I32)
    fails("writes_then_fails", 2, 32, out, 64, line=48)
    assert out.tolist() == list(range(64))


def test_process_goes_on_after_faults() -> None:
    out = np.zeros(64, I32)
    for _ in range(3):
        fails("writes_then_fails", 2, 32, out, 64)
        launch(cuda("faults.cu"), "writes_then_fails", 1, 64, [out, 64])
    assert out.tolist() == [5] * 64


@pytest.mark.parametrize("limit", [1000, 10**7])
def test_endless_loop_ends_at_the_limit_of_instructions(limit: int) -> None:
    out = np.zeros(32, I32)
    message = fails("endless", 1, 32, out, 2, error=LimitError, max_instructions=limit)
    has(message, f"{limit:,} warp instructions")
    with pytest.raises(LimitError) as caught:
        launch(cuda("faults.cu"), "endless", 1, 32, [out, 2], max_instructions=limit)
    assert caught.value.exit_code == 4


def test_limit_that_the_launch_just_reaches_is_no_error() -> None:
    out = np.zeros(64, I32)
    count = launch(cuda("faults.cu"), "writes_then_fails", 1, 64, [out, 64]).header.warp_instructions
    launch(cuda("faults.cu"), "writes_then_fails", 1, 64, [out, 64], max_instructions=count)
    with pytest.raises(LimitError):
        launch(cuda("faults.cu"), "writes_then_fails", 1, 64, [out, 64], max_instructions=count - 1)


def test_keyboard_interrupt_stops_a_long_kernel_promptly() -> None:
    out = np.zeros(32, I32)
    launch(cuda("faults.cu"), "endless", 1, 32, [out, -1])  # compiled beforehand
    timer = threading.Timer(0.3, _thread.interrupt_main)
    started = time.process_time()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        launch(cuda("faults.cu"), "endless", 1, 32, [out, 2], max_instructions=10**11)
    assert time.process_time() - started < 5  # 0.3 s and one poll; of processor time, as others use the machine, too
    assert out.tolist() == [0] * 32


def test_error_raised_by_the_progress_callback_stops_the_launch() -> None:
    def progress(done: int, blocks: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        launch(cuda("faults.cu"), "endless", 1, 32, [np.zeros(32, I32), 2], progress=progress)


UNSUPPORTED = {
    "multimem": "multimem.red.relaxed.sys.global.add.u32 [%q1], %r1;",
    "made_up": "made_up.u32 %r1, %r2;",
    "modifier": "add.rna.f32 %f1, %f2, %f3;",
    "barrier form": "barrier.cta.red.xor.pred %p1, 0, %p2;",
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_opcode_that_is_not_modelled_is_refused_with_its_line(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        launch(ptx(f"\n\n{UNSUPPORTED[name]}\nret;"), "k", 1, 32, [np.zeros(32, np.uint64)])
    assert caught.value.exit_code == 3
    assert caught.value.place.endswith(":25"), caught.value.place
    assert UNSUPPORTED[name].split(" ")[0].strip(";") in caught.value.what
    assert "nothing is run" in caught.value.what


def test_recursion_without_end_is_a_fault_with_its_line() -> None:
    text = f"{PTX_HEAD}.func helper() {{ call helper; ret; }}\n.visible .entry k()\n{{\ncall helper;\nret;\n}}\n"
    with pytest.raises(LaunchFault, match="call stack overflow") as caught:
        launch(load_source(text, name="recursive.ptx"), "k", 1, 1, [])
    assert (caught.value.exit_code, caught.value.place) == (5, "recursive.ptx:4")
