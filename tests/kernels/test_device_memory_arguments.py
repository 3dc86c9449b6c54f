"""Do arguments name the memory that they should: shared between parameters, from an offset on, described by a tensor map?"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import LimitError, UsageError
from warpsight.kernels import arrays as rules
from warpsight.kernels.launch import ArrayArgument
from warpsight.kernels.tensor_map import TensorShape
from warpsight.programs import script
from warpsight.programs.script import ScriptMemory

pytestmark = pytest.mark.unit
# b[i] += a[i], and of the second kernel the first eight bytes of a struct are the address of a.
KERNEL = """.version 7.0
.target sm_75
.address_size 64
.visible .entry k({first}, .param .u64 b)
{{
    .reg .b32 %r<4>;
    .reg .b64 %q<4>;
    ld.param.u64 %q0, [a];
    ld.param.u64 %q1, [b];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %q2, %r0, 4;
    add.u64 %q0, %q0, %q2;
    add.u64 %q1, %q1, %q2;
    ld.global.u32 %r1, [%q0];
    ld.global.u32 %r2, [%q1];
    add.u32 %r2, %r2, %r1;
    st.global.u32 [%q1], %r2;
    ret;
}}
"""
POINTER, STRUCT = ".param .u64 a", ".param .align 64 .b8 a[128]"


def test_one_array_given_twice_is_one_array_on_the_device() -> None:
    a = np.arange(32, dtype=np.int32)
    warpsight.trace(KERNEL.format(first=POINTER), grid=1, block=32, args=[a, a])
    assert a.tolist() == [2 * k for k in range(32)]


@pytest.mark.parametrize(("first", "descriptor"), [(POINTER, b""), (STRUCT, bytes(128))])
def test_an_argument_begins_in_the_middle_of_its_memory(first: str, descriptor: bytes) -> None:
    a, b = np.arange(40, dtype=np.int32), np.zeros(32, np.int32)
    given = ArrayArgument(a, offset=32, descriptor=descriptor)
    warpsight.trace(KERNEL.format(first=first), grid=1, block=32, args=[given, b])
    assert b.tolist() == list(range(8, 40))


def test_a_struct_of_another_size_than_the_parameter_is_refused() -> None:
    given = ArrayArgument(np.zeros(32, np.int32), descriptor=bytes(64))
    with pytest.raises(UsageError, match="64 bytes are given"):
        warpsight.trace(KERNEL.format(first=STRUCT), grid=1, block=32, args=[given, np.zeros(32, np.int32)])


def test_a_tensor_map_has_the_fields_of_the_driver() -> None:
    """Numbers from the layout in `emulator/ptx/tensor_engine.py`: f16 is 6, sizes and boxes are less 1, strides in 16 bytes."""
    made = TensorShape(6, (64, 20), (128,), swizzle=3).tiled((32, 8))
    words = np.frombuffer(made, np.uint32)
    assert (len(made), words[2] >> 4 & 7, words[2] >> 7 & 15, words[2] >> 13 & 3) == (128, 1, 6, 3)
    assert (words[3], words[8], words[9], made[55], made[56]) == (8, 63, 19, 31, 7)
    column = TensorShape(7, (16, 9, 9, 2), (64, 576, 5184)).im2col(8, 64, (-1, -1), (1, 1))
    assert (column[64], column[65], column[66]) == (1, 7, 64)
    assert np.frombuffer(column, np.int16)[34:40].tolist() == [-1, -1, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("sizes", "strides", "box", "words"),
    [((64, 8), (120,), (32, 8), "a stride of 120"), ((64, 8), (128,), (512, 8), "512 elements"), ((0,), (), (8,), "a size of 0"),
     ((64, 8), (128,), (2, 8), "rows of 4 bytes"), ((64, 8), (), (32, 8), "0 strides")],
)  # fmt: skip
def test_a_tensor_map_that_cuda_refuses_is_refused(
    sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        TensorShape(6, sizes, strides).tiled(box)


def test_memory_of_a_script_keeps_its_address_and_returns_its_results() -> None:
    memory = ScriptMemory()
    a, b = ArrayArgument(np.arange(100, dtype=np.uint8)), ArrayArgument(np.zeros(16, np.uint8), offset=8)
    shared = memory.share(b)
    (address,) = memory.copy_in([a])
    rows, names = memory.table()
    assert rows.tolist() == [[shared - 8, shared + 8, 1], [address, address + 100, 1]]
    assert names[address] == "memory of a tensor (100 bytes)"
    view = memory.bytes_at(shared - 8, 16)
    view[:] = 7
    memory.copy_out()
    assert b.array.tolist() == [7] * 16
    assert memory.copy_in([a, a]) == [address, address]


def test_arrays_of_a_script_that_do_not_fit_beside_earlier_ones_take_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "MEMORY_BYTES", script.MODULE_ZONE + 1024)
    memory = ScriptMemory()
    first, second, third = (ArrayArgument(np.full(size, k, np.uint8)) for k, size in enumerate((512, 512, 600)))
    memory.copy_in([first])
    for arrays in ([second, first], [first, second], [third], [second, first]):  # the first forgets one of its own, then none
        places = memory.copy_in(arrays)
        assert [memory.bytes_at(place, 512)[0] for place in places] == [array.array[0] for array in arrays]
    for arrays in ([first, third], [ArrayArgument(np.zeros(2000, np.uint8))]):
        with pytest.raises(LimitError, match="GiB of device memory"):
            memory.copy_in(arrays)


# -- Arrays are held once where they can be.

def test_long_array_of_a_rule_lies_in_a_file_with_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = np.random.default_rng((3, 1)).uniform(-1, 1, 1000).astype(np.float32)
    monkeypatch.setattr(rules, "_IN_MEMORY", 64)
    made = rules.make_array("uniform(-1,1)", (10, 100), np.dtype(np.float32), (3, 1), "here")
    assert made.shape == (10, 100) and (made.reshape(-1) == expected).all()
    base = made
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base.base.obj, mmap.mmap)  # whose pages can be dropped


def test_array_of_negative_zeros_is_copied_to_device_memory() -> None:
    """Its values equal those of new memory, its bytes do not: 0x80000000 + 1."""
    numbers, ones = np.full(4, -0.0, np.float32), np.ones(4, np.uint32)
    warpsight.trace(KERNEL.format(first=POINTER), grid=1, block=4, args=[numbers, ones])
    assert ones.tolist() == [0x80000001] * 4
