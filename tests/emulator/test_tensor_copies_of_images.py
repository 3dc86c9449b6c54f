"""Do copies of images bring the pixels that the PTX ISA names: `im2col::w`, `im2col::w::128`, and interleaved tensors?

Expected pixels are walked here with NumPy. Where the ISA's text leaves the order in shared memory to a figure, as of the halo of
`im2col::w::128`, it is that of the public simulator which `docs/explanation/functional-simulation.md` names.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from tensor_copy_launch import LEVELS, load_kernel, run, store_kernel, swizzled, tensor_map, together

from warpsight.base.errors import LaunchFault, UnsupportedError

WIDE, WIDE128 = 3, 4


def for_sm_100(text: str) -> str:
    return text.replace(".version 8.6\n.target sm_90a", ".version 8.8\n.target sm_100a")


def row_of_images(width: int, lower: int, upper: int, step: int, start: tuple[int, int], offset: int) -> Any:
    """Pixels (image, w) from `start` on, image after image, without end."""
    image, w = start[0], start[1] + offset
    while True:
        yield image, w
        w += step
        if w > width - 1 + upper + offset:
            image, w = image + 1, lower + offset


def wide_kernel(mode: str, pixels: int, channels: int, halo: int, offset: int) -> tuple[str, int]:
    """A copy of words, and its bytes."""
    count = (128 + 4 * halo if mode.endswith("128") else pixels + halo) * channels * 4
    return for_sm_100(load_kernel(4, count, mode, (halo, offset))), count


def wide(tensor: np.ndarray, mode: str, pixels: int, corners: tuple[int, int], step: int, at: Any, halo: int, offset: int,
         level: str) -> np.ndarray:  # fmt: skip
    """The pixels that a copy with 64-byte rows brings from NHWC images, in the order of shared memory: [pixels, channels]."""
    images, height, width, channels = tensor.shape
    text, count = wide_kernel(mode, pixels, channels, halo, offset)
    described = tensor_map("u32", (channels, width, height, images), [tensor.strides[k] for k in (2, 1, 0)], (), steps=(1, step),
                           swizzle=2, im2col=(channels, pixels, corners[:1], corners[1:]), mode=WIDE)  # fmt: skip
    data = np.zeros(count, np.uint8)
    run(text, count, described, tensor, data, at, level, "b200")
    places = np.arange(count)
    return data[places ^ (places >> 7 & 3) << 4].view(np.uint32).reshape(-1, channels)


def pixels_of(tensor: np.ndarray, h: int, places: Any) -> np.ndarray:
    images, _, width, channels = tensor.shape
    inside = [0 <= n < images and 0 <= w < width for n, w in places]
    zeros = np.zeros(channels, tensor.dtype)
    return np.array([tensor[n, h, w] if ok else zeros for (n, w), ok in zip(places, inside, strict=True)])


WALKS = {
    "example": ((0, 0), 1, 3, 2, 0), "stride-2-first": ((-1, 0), 2, -1, 1, 0), "stride-2-second": ((-1, 0), 2, -1, 0, 1),
    "stride-3": ((-1, -1), 3, -1, 0, 2), "left-of-the-box": ((1, 0), 1, -1, 5, 3),
}  # fmt: skip
HALOS = [0, 2]
together(*(wide_kernel("im2col::w", 20, 16, halo, offset)[0] for *_, halo, offset in WALKS.values()),
         *(wide_kernel("im2col::w::128", 77, 16, halo, 0)[0] for halo in HALOS))  # fmt: skip


@LEVELS
@pytest.mark.parametrize(("corners", "step", "start", "halo", "offset"), WALKS.values(), ids=WALKS)
def test_im2col_w_stays_in_one_row_of_each_image(
    level: str, corners: tuple[int, int], step: int, start: int, halo: int, offset: int
) -> None:
    """The first four are the ISA's examples with fewer pixels; in the last the first pixel lies left of the bounding box."""
    tensor = np.random.default_rng(4).integers(1, 9999, (6, 5, 7, 16)).astype(np.uint32)
    found = wide(tensor, "im2col::w", 20, corners, step, (0, start, 2, 1), halo, offset, level)
    walk = row_of_images(7, *corners, step, (1, start), offset)
    assert np.array_equal(found, pixels_of(tensor, 2, list(itertools.islice(walk, 20 + halo))))


def test_im2col_w_by_hand() -> None:
    """Images of three pixels, from the second pixel of image 0 on: the rest of it, two of image 1; the halo ends in image 2."""
    tensor = np.repeat(np.arange(1, 19, dtype=np.uint32).reshape(3, 2, 3, 1), 16, axis=3)
    found = wide(tensor, "im2col::w", 4, (0, 0), 1, (0, 1, 1, 0), 2, 0, "ptx")
    assert found[:, 0].tolist() == [5, 6, 10, 11, 12, 16]


@LEVELS
@pytest.mark.parametrize("halo", HALOS)
def test_im2col_w_128_has_a_halo_behind_each_32_pixels(level: str, halo: int) -> None:
    """128 pixels, then the first halo pixel of each of the four chunks, then the second ones."""
    tensor = np.arange(1, 1 + 40 * 2 * 5 * 16, dtype=np.uint32).reshape(40, 2, 5, 16)
    found = wide(tensor, "im2col::w::128", 77, (0, 0), 1, (0, 4, 1, 3), halo, 0, level)  # the map's number of pixels is ignored
    places = list(itertools.islice(row_of_images(5, 0, 0, 1, (3, 4), 0), 128 + halo))
    halos = [places[32 * (chunk + 1) + k] for k in range(halo) for chunk in range(4)]
    assert np.array_equal(found, pixels_of(tensor, 1, places[:128] + halos))


def slices(images: np.ndarray, bytes_of: int) -> np.ndarray:
    """NHWC images as NC/sHWs: [images, slices, height, width, elements of a slice]."""
    n, h, w, c = images.shape
    size = bytes_of // images.itemsize
    return np.ascontiguousarray(images.reshape(n, h, w, c // size, size).transpose(0, 3, 1, 2, 4))


def sliced_map(tensor: np.ndarray, kind: str, box: Any = (), **options: Any) -> bytes:
    n, count, h, w, _ = tensor.shape
    strides = [tensor.strides[k] for k in (2, 1, 0)]
    return tensor_map(kind, (w, h, count, n), strides, box, interleave=tensor[0, 0, 0, 0].nbytes // 16, **options)


SLICED = {"16": (16, 0, 1), "16-step-2": (16, 0, 2), "32": (32, 1, 1)}
together(*(make(4, 48 * width // step) for width, _, step in SLICED.values()
           for make in (load_kernel, store_kernel, partial(store_kernel, operation="and"))))  # fmt: skip


@LEVELS
@pytest.mark.parametrize(("width", "swizzle", "step"), SLICED.values(), ids=SLICED)
def test_a_box_of_an_interleaved_tensor_has_one_slice_of_the_channels(level: str, width: int, swizzle: int, step: int) -> None:
    images = np.random.default_rng(5).integers(1, 9999, (3, 6, 7, 64)).astype(np.uint16)
    tensor, at = slices(images, width), (3, -1, 2, 1)  # w, h, slice, image
    size = width // 2
    expected = np.zeros((2, 4, 6 // step, size), np.uint16)  # two images; a row above and columns beside lie outside
    for n, y, k in np.ndindex(2, 4, 6 // step):
        h, w = y - 1, 3 + k * step
        if h >= 0 and w < 7:
            expected[n, y, k] = images[1 + n, h, w, 2 * size : 3 * size]
    described = sliced_map(tensor, "u16", (6, 4, 1, 2), swizzle=swizzle, steps=(step, 1, 1, 1))
    data = np.zeros(expected.nbytes, np.uint8)
    run(load_kernel(4, data.size), data.size, described, tensor, data, at, level)
    assert np.array_equal(data, swizzled(expected, swizzle))
    fresh = np.random.default_rng(6).integers(1, 9999, expected.shape).astype(np.uint16)
    stored, sums = tensor.copy(), tensor.copy()
    run(store_kernel(4, data.size), data.size, described, stored, swizzled(fresh, swizzle), at, level)
    run(store_kernel(4, data.size, "and"), data.size, described, sums, swizzled(fresh, swizzle), at, level)
    for n, y, k in np.ndindex(2, 4, 6 // step):
        h, w = y - 1, 3 + k * step
        if h >= 0 and w < 7:
            tensor[1 + n, 2, h, w] = fresh[n, y, k]
    assert np.array_equal(stored, tensor)
    assert np.array_equal(sums, slices(images, width) & np.where(tensor == slices(images, width), 0xFFFF, tensor))


@LEVELS
def test_im2col_of_an_interleaved_tensor_walks_pixels_of_one_slice(level: str) -> None:
    images = np.random.default_rng(7).integers(1, 9999, (2, 6, 7, 16)).astype(np.float16)
    tensor, pixels, offsets = slices(images, 16), 30, (2, 1)
    described = sliced_map(tensor, "f16", im2col=(200, pixels, (-1, -1), (-1, -1)), steps=(2, 1, 1, 1))  # channels are ignored
    data = np.zeros((pixels, 8), np.float16)
    run(load_kernel(4, data.nbytes, "im2col", offsets), data.nbytes, described, tensor, data, (-1, 2, 1, 0), level)
    walk = [(n, h, w) for n in range(3) for h in range(-1, 5) for w in range(-1, 6, 2)]
    for row, (n, h, w) in zip(data, walk[walk.index((0, 2, -1)) :], strict=False):
        y, x = h + offsets[1], w + offsets[0]
        assert np.array_equal(row, images[n, y, x, 8:] if n < 2 and 0 <= y < 6 and 0 <= x < 7 else np.zeros(8)), (n, h, w)


@LEVELS
def test_what_no_public_text_establishes_is_refused(level: str) -> None:
    tensor, data = np.zeros((2, 2, 4, 4, 8), np.uint16), np.zeros(256, np.uint8)
    for box, swizzle in (((4, 4, 1, 1), 1), ((4, 2, 2, 1), 0)):
        with pytest.raises(UnsupportedError, match=r"slices of 16 bytes with a swizzle, .* or several of channels at once"):
            run(load_kernel(4, 256), 256, sliced_map(tensor, "u16", box, swizzle=swizzle), tensor, data, (0, 0, 0, 0), level)
    with pytest.raises(UnsupportedError, match="a halo from 512 pixels on"):
        images = np.zeros((2, 2, 4, 16), np.uint32)
        wide(images, "im2col::w::128", 4, (0, 0), 1, (0, 0, 0, 0), 32, 0, level)


def test_a_map_of_another_walk_is_a_fault() -> None:
    tensor, data = np.zeros((2, 2, 4, 16), np.uint32), np.zeros(256, np.uint8)
    described = tensor_map("u32", (16, 4, 2, 2), (64, 256, 512), (), swizzle=2, im2col=(16, 4, (0,), (0,)), mode=WIDE128)
    with pytest.raises(LaunchFault, match="not a tensor map of the instruction's rank and mode"):
        run(for_sm_100(load_kernel(4, 256, "im2col::w", (0, 0))), 256, described, tensor, data, (0, 0, 0, 0), "ptx", "b200")


@LEVELS
def test_loads_round_tf32_and_fill_with_the_nan_of_fma_oob(level: str) -> None:
    """Ten bits behind the point, ties to even; 0x3f801000 is one and a half units. NaN outside is 0x7ff7 in each half of a word."""
    bits = [0x3F801000, 0x3F803000, 0xBF801001, 0x7F800000, 0x7FC01234, 0x3F7FFFFF, 0x80000000, 0x00001FFF]
    tensor, data = np.array([bits], np.uint32), np.zeros((2, 8), np.uint32)
    run(load_kernel(2, 64), 64, tensor_map("tf32", (8, 1), (32,), (8, 2), fill=1), tensor, data, (0, 0), level)
    rounded = [0x3F800000, 0x3F804000, 0xBF802000, 0x7F800000, 0x7FFFE000, 0x3F800000, 0x80000000, 0x00002000]
    assert data.tolist() == [rounded, [0x7FF77FF7] * 8]
