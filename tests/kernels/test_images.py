"""Do textures and surfaces take the arrays that they can be made of, and say what is wrong with others?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import UsageError
from warpsight.kernels.images import ImageShape
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.launch_check import bind
from warpsight.kernels.sources import find_kernel, load_source

pytestmark = pytest.mark.unit
PTX = """.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 t, .param .u32 n) { ret; }
"""


@pytest.mark.parametrize(
    ("shape", "options", "wanted"),
    [
        ((9,), {}, ImageShape("1d", 9)), ((9, 4), {"dims": 1}, ImageShape("1d", 9, channels=4)),
        ((5, 9), {}, ImageShape("2d", 9, 5)),
        ((5, 9, 2), {}, ImageShape("2d", 9, 5, channels=2)), ((5, 9, 7), {}, ImageShape("3d", 7, 9, 5)),
        ((5, 9, 4), {"dims": 3}, ImageShape("3d", 4, 9, 5)), ((5, 9, 7, 4), {}, ImageShape("3d", 7, 9, 5, channels=4)),
        ((3, 9), {"layered": True}, ImageShape("a1d", 9, layers=3)),
        ((3, 5, 9), {"layered": True}, ImageShape("a2d", 9, 5, layers=3)),
        ((3, 5, 4), {"layered": True}, ImageShape("a2d", 4, 5, layers=3)),
        ((3, 9, 2), {"layered": True, "dims": 1}, ImageShape("a1d", 9, layers=3, channels=2)),
        ((3, 5, 9, 4), {"layered": True}, ImageShape("a2d", 9, 5, layers=3, channels=4)),
        ((6, 8, 8), {"cube": True}, ImageShape("cube", 8, 8, layers=6)),
        ((6, 8, 8, 2), {"cube": True}, ImageShape("cube", 8, 8, 1, 6, 2)),
        ((12, 8, 8), {"cube": True, "layered": True}, ImageShape("acube", 8, 8, layers=12)),
    ],
)  # fmt: skip
def test_axes_mean_what_is_documented(shape: tuple[int, ...], options: dict[str, Any], wanted: ImageShape) -> None:
    for make in (warpsight.Texture, warpsight.Surface):
        assert make(np.zeros(shape, np.float32), **options).shape == wanted


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((2, 3, 4, 5, 1), {}), ((5, 9, 7, 3), {}), ((9,), {"layered": True}), ((4, 5, 6, 2, 2), {"layered": True}),
        ((9, 3), {"dims": 1}),
        ((3, 4, 5), {"dims": 3, "layered": True}), ((5, 8, 8), {"cube": True}), ((6, 8, 7), {"cube": True}),
        ((12, 8, 8), {"cube": True}),
        ((6, 8, 8), {"cube": True, "dims": 3}), ((4, 4), {"dims": 4}), ((4, 4), {"dims": 0}), ((4,), {"dims": 2}), ((), {}),
        ((6, 8), {"cube": True}),
    ],
)  # fmt: skip
def test_shape_that_is_no_image_is_refused(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    for make in (warpsight.Texture, warpsight.Surface):
        with pytest.raises(UsageError):
            make(np.zeros(shape, np.float32), **options)


@pytest.mark.parametrize("dtype", ["f8", "i8", "u8", "?", "c8", "O", ">f4", ">u2", "S4"])
def test_type_that_is_no_texel_is_refused(dtype: str) -> None:
    for make in (warpsight.Texture, warpsight.Surface):
        with pytest.raises(UsageError, match="texels"):
            make(np.zeros((4, 4), dtype))


@pytest.mark.parametrize("array", [[1.0, 2.0], 3, None, np.float32(1), "f32[4]:zeros"])
def test_what_is_no_array_is_refused(array: Any) -> None:
    with pytest.raises(UsageError, match="NumPy array"):
        warpsight.Texture(array)


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4), np.float32, order="F"), np.zeros((8, 8), np.float32)[:, ::2], np.zeros((0, 4), np.float32)]
)
def test_array_that_is_not_contiguous_or_empty_is_refused(array: Any) -> None:
    with pytest.raises(UsageError, match="contiguous"):
        warpsight.Surface(array)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"filter": "liner"}, 'did you mean "linear"'), ({"address": "repeat"}, "wrap"), ({"address": ("wrap", "clam")}, "clamp"),
        ({"address": ("wrap",) * 4}, "three"), ({"read": "float"}, "element"), ({"filter": "linear"}, "linear"),
        ({"read": "normalized"}, "normalised"),
    ],
)  # fmt: skip
def test_setting_that_cuda_has_not_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        warpsight.Texture(np.zeros((4, 4), np.int32), **options)


def test_border_and_address_are_spread_over_channels_and_axes() -> None:
    data = np.zeros((4, 4), np.float32)
    assert warpsight.Texture(data, border=2).border_colour == (2, 2, 2, 2)
    assert warpsight.Texture(data, border=(1, 2)).border_colour == (1, 2, 0, 0)
    assert warpsight.Texture(data, address=("wrap", "border")).address_modes == ("wrap", "border", "border")


def test_object_is_bound_to_a_parameter_of_eight_bytes_only() -> None:
    source: KernelSource = load_source(PTX, name="k.ptx")
    function = source.module.kernels[find_kernel(source, "k")]
    texture = warpsight.Texture(np.zeros(4, np.float32))
    assert bind(function, [texture, 3])[0] is texture
    with pytest.raises(UsageError, match="argument 2"):
        bind(function, [texture, texture])
