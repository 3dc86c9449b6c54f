"""Do tensor copies move the boxes that their maps describe, at both levels, compared with NumPy?"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tensor_copy_launch import LEVELS, load_kernel, run, store_kernel, swizzled, tensor_map, together

import warpsight
from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.traces.events import EventReader


def box_of(tensor: np.ndarray, at: Sequence[int], box: Sequence[int], steps: Sequence[int] = (), fill: Any = 0) -> np.ndarray:
    """The box of `tensor` (its last axis is dimension 0) at coordinates; outside of it `fill`."""
    steps = [*steps, *[1] * (len(at) - len(steps))]
    picks = [np.arange(-(-n // step)) * step + x for x, n, step in zip(at, box, steps, strict=True)]
    inside = [(pick >= 0) & (pick < size) for pick, size in zip(picks, tensor.shape[::-1], strict=True)]
    values = tensor[np.ix_(*[np.where(ok, pick, 0) for pick, ok in zip(picks, inside, strict=True)][::-1])]
    return np.where(functools.reduce(np.multiply.outer, inside[::-1]), values, np.asarray(fill, tensor.dtype))


CASES = [
    ("u8", (300,), (160,), (-7,), 0, ()),
    ("f32", (40, 30), (16, 8), (30, 25), 0, ()),
    ("f32", (40, 30), (32, 16), (-5, -3), 3, ()),
    ("f16", (64, 20), (16, 8), (3, 14), 1, ()),
    ("bf16", (64, 20, 6), (32, 5, 3), (40, 3, -1), 2, ()),
    ("u64", (6, 5, 4, 9), (2, 3, 2, 2), (1, 4, 3, 0), 0, (1, 1, 2, 1)),
    ("u16", (16, 5, 4, 3, 6), (8, 2, 3, 2, 2), (4, 1, 2, 2, -1), 0, ()),
    ("f32", (256, 128), (256, 64), (0, 60), 0, ()),
]
WIDTHS = {"u8": 1, "f16": 2, "bf16": 2, "u16": 2, "f32": 4, "u64": 8}
SIZES = [box_of(np.zeros(c[1][::-1], f"u{WIDTHS[c[0]]}"), c[3], c[2], c[5]).nbytes for c in CASES]
together(*(load_kernel(len(case[1]), size) for case, size in zip(CASES, SIZES, strict=True)))


@LEVELS
@pytest.mark.parametrize(
    ("kind", "sizes", "box", "at", "swizzle", "steps"), CASES, ids=[f"{len(c[1])}d-{c[0]}-{c[4]}" for c in CASES]
)
def test_a_load_brings_the_box_with_zeros_outside_of_the_tensor(
    level: str, kind: str, sizes: Any, box: Any, at: Any, swizzle: int, steps: Any
) -> None:
    width = WIDTHS[kind]
    dtype = np.dtype(f"u{width}")
    padded = -(-sizes[0] * width // 16) * 16 // width
    tensor = np.random.default_rng(1).integers(1, 200, (*sizes[:0:-1], padded)).astype(dtype)
    expected = swizzled(box_of(tensor[..., : sizes[0]], at, box, steps), swizzle)
    strides = [tensor.strides[-1 - k] for k in range(1, len(sizes))]
    data = np.zeros(len(expected), np.uint8)
    described = tensor_map(kind, sizes, strides, box, steps=steps, swizzle=swizzle)
    trace = run(load_kernel(len(sizes), len(expected)), len(expected), described, tensor, data, at, level)
    assert np.array_equal(data, expected)
    (copy,) = [i for i in trace.instructions if i.opcode.startswith(("cp.async.bulk.tensor", "UTMALDG"))]
    assert (copy.space, copy.access, copy.count_bytes) == ("global", "load", 3)
    places = box_of(np.arange(1, tensor.size + 1).reshape(tensor.shape)[..., : sizes[0]], at, box, steps).reshape(-1)
    wanted = np.unique((places[places > 0] - 1) * width // 32)
    (chunk,) = trace.chunks
    events = EventReader(trace).read(chunk)
    (number,) = np.flatnonzero((events.pc == copy.pc) & (events.sectors > 0))
    found = np.asarray(chunk.sectors)[events.first[number] : events.first[number] + events.sectors[number]].astype(np.int64)
    assert np.array_equal(np.sort(found) - found.min(), wanted - wanted.min())  # each once


def test_packed_elements_get_gaps_in_shared_memory_that_are_no_bytes_of_the_mbarrier() -> None:
    tensor, data = np.random.default_rng(1).integers(1, 256, (4, 64)).astype(np.uint8), np.zeros((4, 8, 16), np.uint8)
    text = load_kernel(2, 512).replace("_, [%bar], 512", "_, [%bar], 256")
    run(text, 512, tensor_map("b4x16_p64", (128, 4), (64,), (128, 4)), tensor, data, (0, 0), "ptx")
    assert np.array_equal(data[..., :8], tensor.reshape(4, 8, 8))


@LEVELS
def test_four_rows_are_gathered_and_scattered_with_a_coordinate_each(level: str) -> None:
    """A row outside of the tensor is zeros in shared memory, and is not written. A box of two rows is refused."""
    columns, at, swizzle = 16, (8, 5, 17, 30, 2), 1  # of 32 bytes

    def rows(text: str, mode: str) -> str:
        for old, new in (("sm_90a", "sm_100a"), ("tensor.5d", "tensor.2d"), (".tile.mb", f".tile::{mode}.mb"),
                         (".tile.bu", f".tile::{mode}.bu")):  # fmt: skip
            text = text.replace(old, new)
        return text

    tensor = np.arange(1, 24 * 40 + 1, dtype=np.uint16).reshape(24, 40)
    described = tensor_map("u16", (40, 24), (80,), (columns, 1), swizzle=swizzle)
    padded, outside = np.vstack([tensor, np.zeros((8, 40), np.uint16)]), np.array([False, False, True, False])
    box = padded[list(at[1:]), at[0] : at[0] + columns]
    data = np.zeros(box.nbytes, np.uint8)
    run(rows(load_kernel(5, box.nbytes), "gather4"), box.nbytes, described, tensor, data, at, level, "b200")
    assert np.array_equal(data, swizzled(box, swizzle))
    fresh, expected = np.arange(2000, 2000 + box.size, dtype=np.uint16).reshape(box.shape), tensor.copy()
    for row, values, beyond in zip(at[1:], fresh, outside, strict=True):
        if not beyond:
            expected[row, at[0] : at[0] + columns] = values
    run(rows(store_kernel(5, box.nbytes), "scatter4"), box.nbytes, described, tensor, swizzled(fresh, swizzle), at, level, "b200")
    assert np.array_equal(tensor, expected)
    with pytest.raises(UnsupportedError, match="four rows with a box of several"):
        described = tensor_map("u16", (40, 24), (80,), (columns, 2))
        run(rows(load_kernel(5, box.nbytes), "gather4"), box.nbytes, described, tensor, data, at, level, "b200")


@LEVELS
def test_a_policy_of_the_l2_is_a_hint(level: str) -> None:
    """Machine code has it as a descriptor of its own: `UTMALDG.2D [UR8], [UR4], desc[UR6]`."""
    text = load_kernel(2, 128).replace("complete_tx::bytes [%box]", "complete_tx::bytes.L2::cache_hint [%box]")
    text = text.replace("[%bar];\n", "[%bar], %q4;\n", 1).replace(
        "    cp.async.bulk.tensor", "    createpolicy.fractional.L2::evict_first.b64 %q4, 1.0;\n    cp.async.bulk.tensor"
    )
    assert ".L2::cache_hint [%box], [%map, {%x0, %x1}], [%bar], %q4;" in text
    tensor, data = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(32, np.float32)
    run(text, 128, tensor_map("f32", (8, 8), (32,), (8, 4)), tensor, data, (0, 2), level)
    np.testing.assert_array_equal(data.reshape(4, 8), tensor[2:6])


@LEVELS
def test_a_map_that_was_made_in_shared_memory_is_copied_to_device_memory(level: str) -> None:
    one, text = "    @%p0 bra WAIT;\n", load_kernel(2, 128).replace("st.global.b64 [%map+", "st.shared.b64 [%box+")
    copied = "    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%map], [%box], 128;\n"
    text = text.replace(one, "").replace("    tensormap.replace", f"{copied}{one}    tensormap.replace", 1)  # by all lanes
    assert "cp_fenceproxy" in text
    tensor, data = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(32, np.float32)
    run(text, 128, tensor_map("f32", (8, 8), (32,), (8, 4)), tensor, data, (0, 2), level)
    np.testing.assert_array_equal(data.reshape(4, 8), tensor[2:6])


@LEVELS
def test_nan_fills_what_lies_outside_of_a_tensor_of_floats(level: str) -> None:
    tensor, data = np.ones((4, 8), np.float32), np.zeros((8, 8), np.float32)
    run(load_kernel(2, 256), 256, tensor_map("f32", (8, 4), (32,), (8, 8), fill=1), tensor, data, (0, -2), level)
    assert np.array_equal(np.isnan(data), [[not 2 <= row < 6] * 8 for row in range(8)])


@LEVELS
@pytest.mark.parametrize("at", [(4, -3), (30, 25)])
def test_a_store_leaves_what_lies_outside_of_the_tensor(level: str, at: Any) -> None:
    tensor, data = np.zeros((30, 40), np.float32), np.arange(1, 129, dtype=np.float32)
    run(store_kernel(2, 512), 512, tensor_map("f32", (40, 30), (160,), (16, 8)), tensor, data, at, level)
    expected = np.zeros((60, 80), np.float32)
    expected[at[1] + 10 : at[1] + 18, at[0] + 10 : at[0] + 26] = data.reshape(8, 16)
    assert np.array_equal(tensor, expected[10:40, 10:50])


REDUCTIONS = [("f32", "add", np.float32), ("u32", "max", np.uint32), ("s32", "min", np.int32), ("u64", "xor", np.uint64),
              ("f16", "add", np.float16), ("f16", "max", np.float16), ("u32", "inc", np.uint32)]  # fmt: skip
together(*(store_kernel(2, 64 * np.dtype(dtype).itemsize, operation) for _, operation, dtype in REDUCTIONS))


@LEVELS
@pytest.mark.parametrize(("kind", "operation", "dtype"), REDUCTIONS, ids=[f"{k}-{o}" for k, o, _ in REDUCTIONS])
def test_a_reduction_changes_the_elements_of_the_box(level: str, kind: str, operation: str, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    tensor, data = rng.integers(0, 100, (16, 16)).astype(dtype), rng.integers(0, 100, (8, 8)).astype(dtype)
    if np.dtype(dtype).kind == "i":
        tensor -= 50
    functions = {"add": np.add, "max": np.maximum, "min": np.minimum, "xor": np.bitwise_xor,
                 "inc": lambda old, new: np.where(old >= new, 0, old + 1)}  # fmt: skip
    expected = tensor.copy()
    expected[3:11, 8:] = functions[operation](expected[3:11, 8:], data)
    size = data.nbytes
    described = tensor_map(kind, (16, 16), (tensor.strides[0],), (8, 8))
    run(store_kernel(2, size, operation), size, described, tensor, data, (8, 3), level)
    assert np.array_equal(tensor, expected)


@LEVELS
def test_im2col_walks_pixels_of_its_box_and_reads_beside_them(level: str) -> None:
    """Pixels of NHWC images as a 3 x 3 convolution with padding 1 and stride 2 takes them: offsets (2, 1) read right and below."""
    images, height, width, channels = 2, 6, 7, 8
    tensor = np.random.default_rng(3).integers(1, 9999, (images, height, width, channels)).astype(np.uint32)
    lower, upper, pixels, offsets = (-1, -1), (-1, -1), 20, (2, 1)
    described = tensor_map("u32", (channels, width, height, images), [tensor.strides[k] for k in (2, 1, 0)], (), steps=(1, 2, 2, 1),
                           im2col=(channels, pixels, lower, upper))  # fmt: skip
    size = pixels * channels * 4
    data = np.zeros((pixels, channels), np.uint32)
    run(load_kernel(4, size, "im2col", offsets), size, described, tensor, data, (0, -1, 1, 0), level)
    walk = [(n, h, w) for n in range(3) for h in range(-1, height - 1, 2) for w in range(-1, width - 1, 2)]
    walk = walk[walk.index((0, 1, -1)) :][:pixels]
    for row, (n, h, w) in zip(data, walk, strict=True):
        y, x = h + offsets[1], w + offsets[0]
        inside = n < images and 0 <= y < height and 0 <= x < width
        assert np.array_equal(row, tensor[n, y, x] if inside else np.zeros(channels, np.uint32)), (n, h, w)


@LEVELS
def test_every_field_of_a_map_can_be_replaced(level: str) -> None:
    """A map of zeros becomes one of a 2D tensor of f32, as Triton makes its descriptors."""
    fields = [("rank", "1"), ("box_dim", "0, 8"), ("box_dim", "1, 4"), ("global_dim", "0, 24"), ("global_dim", "1, 6"),
              ("element_stride", "0, 1"), ("element_stride", "1, 1"), ("elemtype", "7"), ("interleave_layout", "0"),
              ("swizzle_mode", "1"), ("fill_mode", "0")]  # fmt: skip
    replaced = "\n".join(f"    tensormap.replace.tile.{field}.global.b1024.b32 [%map], {value};" for field, value in fields)
    replaced += "\n    mov.u64 %q4, 96;\n    tensormap.replace.tile.global_stride.global.b1024.b64 [%map], 0, %q4;"
    text = load_kernel(2, 128).replace("    fence.proxy.tensormap::generic.release.gpu;", replaced)
    tensor, data = np.arange(144, dtype=np.float32).reshape(6, 24), np.zeros(128, np.uint8)
    run(text, 128, bytes(128), tensor, data, (12, 1), level)
    assert np.array_equal(data, swizzled(box_of(tensor, (12, 1), (8, 4)), 1))


def retyped(number: int) -> tuple[str, str]:
    """A kernel that copies with a map whose type it has replaced, and one that leaves it."""
    made = f"    tensormap.replace.tile.elemtype.global.b1024.b32 [%map], {number};"
    text = load_kernel(2, 512).replace("8.6\n.target sm_90a", "8.7\n.target sm_100a")
    text = text.replace("    fence.proxy.tensormap::generic.release.gpu;", made)
    if number == PACKED:
        text = text.replace("_, [%bar], 512", "_, [%bar], 256")
    return text, text.replace(made, "")


PACKED = 14
RETYPED = [(0, "u8"), (5, "s64"), (10, "bf16"), (11, "tf32"), (PACKED, "b4x16_p64")]
together(*dict.fromkeys(text for number, _ in RETYPED for text in retyped(number)))


@LEVELS
@pytest.mark.parametrize(("number", "kind"), RETYPED)
def test_a_type_that_a_kernel_gives_to_a_map_is_that_of_the_same_number_of_the_driver(level: str, number: int, kind: str) -> None:
    """Machine code has the bits that NVIDIA's assembler chose: 12 for b4x16_p64 (14), and those of f32 and one more for tf32."""
    text, untouched = retyped(number)
    row = {"u8": 128, "s64": 16, "bf16": 64, "tf32": 32, "b4x16_p64": 128}[kind]
    bits = np.random.default_rng(2).integers(0, 256, (4, 128)).astype(np.uint8)
    given, blank = tensor_map(kind, (row, 4), (128,), (row, 4)), tensor_map("u8", (row, 4), (128,), (row, 4))
    data = [np.zeros(512, np.uint8) for _ in range(2)]
    for described, found in zip((given, blank), data, strict=True):
        run(text if described is blank else untouched, 512, described, bits, found, (0, 0), level, "b200")
    assert data[0].any() and np.array_equal(*data)


@LEVELS
def test_a_multicast_writes_and_signals_in_every_block_of_its_mask(level: str) -> None:
    again = "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 64;"
    text = load_kernel(1, 64).replace("[%bar];", "[%bar], %h0;").replace(
        "complete_tx::bytes [%box]", "complete_tx::bytes.multicast::cluster [%box]"
    )
    # Only block 0 copies; each of 0, 1 and 3 waits for the bytes in its own memory, and block 2 leaves.
    text = text.replace(".reg .pred %p<4>;", ".reg .pred %p<4>;\n    .reg .b16 %h0;\n    .reg .b32 %rank;")
    first = "    mbarrier.init.shared::cta.b64 [%bar], 1;"
    text = text.replace(first, f"{first}\n{again}").replace(f"{again}\n    cp.async", "    mov.b16 %h0, 11;\n    cp.async")
    copy = text[text.index("    mov.b16 %h0, 11;") : text.index("WAIT:")]
    text = text.replace(copy, "").replace("WAIT:\n    bar.sync 0;", f"""WAIT:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mov.u32 %rank, %cluster_ctarank;
    or.b32 %r4, %rank, %i;
    setp.ne.u32 %p0, %r4, 0;
    @%p0 bra COPIED;
{copy}COPIED:
    setp.eq.u32 %p0, %rank, 2;
    @%p0 bra LEAVE;""").replace("    ret;", "LEAVE:\n    ret;")
    begin = "    mov.u32 %r0, 0;\nLOOP:"
    text = text.replace(begin, f"    mul.wide.u32 %q5, %rank, 64;\n    add.u64 %data, %data, %q5;\n{begin}")
    text = text.replace("ld.param.u64 %map, [scratch];", "ld.param.u64 %map, [scratch];\n    mov.u32 %rank, %cluster_ctarank;\n"
                        "    mul.wide.u32 %q6, %rank, 128;\n    add.u64 %map, %map, %q6;")  # fmt: skip
    tensor, data = np.arange(1, 65, dtype=np.uint8), np.zeros((4, 64), np.uint8)
    args = [tensor_map("u8", (64,), (), (64,)), np.zeros(64, np.uint64), tensor, data, 0, 0, 0, 0, 0]
    options = {"cluster": 4, "shared": 72, "max_instructions": 1_000_000}
    trace = warpsight.trace(text, "k", grid=4, block=32, args=args, level=level, gpu="h100-sxm", **options)
    assert np.array_equal(data, [tensor, tensor, np.zeros(64, np.uint8), tensor])
    (copy_at,) = (i.pc for i in trace.instructions if "multicast" in i.opcode.lower())
    events = [EventReader(trace).read(chunk) for chunk in trace.chunks]
    assert sum(int(part.sectors[part.pc == copy_at].sum()) for part in events) == 2  # 64 bytes for three blocks, read once
    assert trace.header.cluster == (4, 1, 1)


@LEVELS
@pytest.mark.parametrize(("described", "why"), [
    (tensor_map("f32", (16, 4, 1), (64, 256), (16, 4, 1)), "not a tensor map of the instruction's rank and mode"),
    (tensor_map("f32", (1 << 20, 4), (1 << 22,), (16, 4)), "access out of bounds"),
], ids=["rank", "bounds"])  # fmt: skip
def test_a_map_that_does_not_fit_is_a_fault(level: str, described: bytes, why: str) -> None:
    with pytest.raises(LaunchFault, match=why):
        run(load_kernel(2, 256), 256, described, np.zeros((4, 16), np.float32), np.zeros(256, np.uint8), (0, 0), level)
