"""Is every fetch from a texture what the Programming Guide defines? Each geometry, format, filter, address mode, read mode."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from image_kernels import fetch, run
from texture_reference import Reference, Sampler

import warpsight

pytestmark = pytest.mark.unit
SHAPES = {
    "1d": (1, 1, 13),
    "2d": (1, 5, 7),
    "3d": (3, 4, 5),
    "a1d": (3, 1, 9),
    "a2d": (3, 4, 6),
    "cube": (6, 5, 5),
    "acube": (12, 4, 4),
}
FORMATS = ["u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4"]
MODES = ["wrap", "clamp", "mirror", "border"]
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.0, 2.0, -1.0, 1e-30, -1e-3, 1e30, -1e30, np.inf, -np.inf, np.nan, 2.49805, 0.998]
THREADS = 40


def texels(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return (rng.integers(-2000, 2000, shape) / 64).astype(kind)
    limits = np.iinfo(kind)
    values = rng.integers(limits.min, limits.max, shape, endpoint=True).astype(kind)
    values.reshape(-1)[:2] = limits.min, limits.max
    return values


def image(data: np.ndarray, geometry: str, sampler: Sampler) -> warpsight.Texture:
    """The texture of texels [depth or layers, height, width, channels]."""
    depth, height, width, channels = data.shape
    axes = {"1d": (width,), "2d": (height, width), "a1d": (depth, width)}.get(geometry, (depth, height, width))
    return warpsight.Texture(
        data.reshape(*axes, channels), filter=sampler.filter, address=sampler.address, normalized=sampler.normalized,
        read=sampler.read, border=sampler.border, layered=geometry.startswith("a"), cube="cube" in geometry,
        dims=2 if "cube" in geometry else int(geometry[-2]),
    )  # fmt: skip


def places(rng: np.random.Generator, geometry: str, normalized: bool, shape: tuple[int, ...]) -> np.ndarray:
    """Coordinates [threads, 4] as f32, layers as their integer's bits in front."""
    sizes = np.array([*shape[::-1], 1])
    at = (rng.random((THREADS, 4)) * 4 - 1.5).astype(np.float32)
    at[: len(SPECIAL), :] = np.array(SPECIAL, np.float32)[:, None]
    at[len(SPECIAL) : 40] = np.round(at[len(SPECIAL) : 40] * 8) / 8
    if "cube" in geometry:
        at[: len(SPECIAL)] = rng.random((len(SPECIAL), 4)) - 0.5
        at[0], at[1], at[2] = [1, 1, 1, 1], [-1, 1, -1, 1], [0.25, -1, 1, -1]
    elif not normalized:
        at[len(SPECIAL) :] *= np.roll(sizes, geometry.startswith("a")).astype(np.float32)
    if geometry.startswith("a"):
        at[:, 0] = rng.integers(-1, shape[0] + 2, THREADS).astype(np.int32).view(np.float32)
    return at


def listed(at: np.ndarray, geometry: str) -> list[list[float]]:
    """The coordinates as the reference takes them."""
    found = at.astype(np.float64).tolist()
    if geometry.startswith("a"):
        for row, layer in zip(found, at[:, 0].copy().view(np.uint32).tolist(), strict=True):
            row[0] = layer
    return found


def words(values: list[list[int | float]], floats: bool) -> np.ndarray:
    if floats:
        return np.array(values, np.float32).view(np.uint32)
    return np.array([[int(v) & 0xFFFFFFFF for v in row] for row in values], np.uint32)


def samplers(dtype: str) -> list[Sampler]:
    """All combinations that CUDA allows for a format."""
    reads = ["element", "normalized"] if dtype[0] in "ui" and dtype[1] in "12" else ["element"]
    found = []
    for read, mode, normalized in itertools.product(reads, MODES, [False, True]):
        filters = ["point", "linear"] if dtype[0] == "f" or read == "normalized" else ["point"]
        found += [Sampler(name, mode, normalized, read, 3.75) for name in filters]
    return found


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("geometry", SHAPES)
def test_fetch_by_real_coordinates_equals_the_definition(geometry: str, dtype: str) -> None:
    rng = np.random.default_rng(len(geometry) * 100 + FORMATS.index(dtype))
    # Every combination in two dimensions; in the others a third of them, another third for each format.
    chosen = samplers(dtype) if geometry == "2d" else samplers(dtype)[FORMATS.index(dtype) % 3 :: 3]
    for number, sampler in enumerate(chosen):
        data = texels(rng, (*SHAPES[geometry], (1, 2, 4)[number % 3]), dtype)
        reference = Reference(data, geometry, sampler)
        result = "f32" if reference.float_result else "s32" if dtype[0] == "i" else "u32"
        at = places(rng, geometry, sampler.normalized, SHAPES[geometry])
        got, _ = run(fetch("tex", geometry, result), image(data, geometry, sampler), at)
        wanted = words([reference.fetch(row) for row in listed(at, geometry)], reference.float_result)
        different = np.argwhere((got != wanted).any(axis=1)).ravel()
        assert not len(different), (sampler, at[different[0]], got[different[0]], wanted[different[0]])


@pytest.mark.parametrize("geometry", [g for g in SHAPES if "cube" not in g])
def test_fetch_by_integer_coordinates_is_neither_filtered_nor_normalised(geometry: str) -> None:
    rng = np.random.default_rng(5)
    for mode, dtype in itertools.product(MODES, ["i2", "f4"]):
        sampler = Sampler("linear" if dtype == "f4" else "point", mode, True, "element", -2.0)
        data = texels(rng, (*SHAPES[geometry], 2), dtype)
        reference = Reference(data, geometry, sampler)
        at = rng.integers(-4, 16, (THREADS, 4)).astype(np.int32)
        if geometry.startswith("a"):
            at[:, 0] = np.abs(at[:, 0])
        at[0, 1:], at[1, 1:] = -(2**31), 2**31 - 1
        got, _ = run(fetch("tex", geometry, "f32" if dtype == "f4" else "s32", "s32"), image(data, geometry, sampler), at)
        values = [reference.fetch(row, plain=True) for row in at.tolist()]
        if geometry == "1d":  # as memory: zero outside, whatever the address mode
            values = [value if 0 <= x < 13 else [0] * 4 for value, x in zip(values, at[:, 0].tolist(), strict=True)]
        wanted = words(values, dtype == "f4")
        np.testing.assert_array_equal(got, wanted, f"{mode} {dtype}")


@pytest.mark.parametrize("geometry", ["2d", "a2d", "cube", "acube"])
@pytest.mark.parametrize("component", range(4))
def test_gather_gives_one_component_of_the_footprint(geometry: str, component: int) -> None:
    rng = np.random.default_rng(component)
    for mode, (normalized, dtype) in itertools.product(MODES, [(False, "f4"), (True, "u1"), (True, "i2")]):
        sampler = Sampler("point", mode, normalized, "element", 9.0)
        data = texels(rng, (*SHAPES[geometry], 1 if component == 3 and normalized else 4), dtype)
        reference = Reference(data, geometry, sampler)
        at = places(rng, geometry, normalized, SHAPES[geometry])
        result = {"f": "f32", "u": "u32", "i": "s32"}[dtype[0]]
        got, _ = run(fetch(f"tld4.{'rgba'[component]}", geometry, result), image(data, geometry, sampler), at)
        wanted = words([reference.gather(row, component) for row in listed(at, geometry)], result == "f32")
        np.testing.assert_array_equal(got, wanted, f"{mode} {normalized} {dtype}")


def test_gather_rounds_positions_to_256ths_as_the_guide_warns() -> None:
    """The Guide's own example: x = 2.49805 is close enough to 2.5 that texels 2 and 3 are gathered, not 1 and 2."""
    data = np.arange(16, dtype=np.float32).reshape(4, 4)
    at = np.array([[2.49805, 1.0], [2.49, 1.0]], np.float32)
    got, _ = run(fetch("tld4.r", "2d"), warpsight.Texture(data), np.repeat(at, 32, axis=0))
    assert got.view(np.float32)[0].tolist() == [6, 7, 3, 2] and got.view(np.float32)[63].tolist() == [5, 6, 2, 1]


def test_weight_zero_does_not_let_an_infinity_through() -> None:
    data = np.array([1, np.inf, np.nan, 4], np.float32)
    at = np.array([[0.5], [1.0], [3.5], [3.0], [0.501]] * 2, np.float32)
    got, _ = run(fetch("tex", "1d"), warpsight.Texture(data, filter="linear"), at)
    found = got.view(np.float32)[:5, 0].tolist()
    assert found[:3] == [1, np.inf, 4] and np.isnan(found[3]) and found[4] == 1


def test_level_and_gradients_have_no_effect_on_one_level() -> None:
    data = np.arange(35, dtype=np.float32).reshape(5, 7)
    at = np.array([[1.25, 3.5, 7.0, 9.0], [4.5, 0.5, -3.0, 0.0]] * 16, np.float32)
    texture = warpsight.Texture(data, filter="linear")
    plain, _ = run(fetch("tex", "2d"), texture, at)
    for body in (
        "tex.level.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x0, %x1}], %x2;",
        "tex.grad.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x0, %x1}], {%x2, %x3}, {%x3, %x2};",
        "tex.base.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x0, %x1}];",
    ):
        got, _ = run(body + "".join(f"mov.b32 %r{k}, %f{k};" for k in range(4)), texture, at)
        np.testing.assert_array_equal(got, plain)


def test_f16_results_are_rounded_to_nearest_even() -> None:
    data = np.array([1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0, 2**-25, 2**-24 * 1.5, -0.0, 3.0], np.float32)
    at = np.arange(8, dtype=np.int32).reshape(8, 1)
    with np.errstate(over="ignore"):
        wanted = data.astype(np.float16).view(np.uint16)
    got, _ = run(
        "tex.1d.v4.f16.s32 {%h0, %h1, %h2, %h3}, [%t, {%c0}];" + "".join(f"cvt.u32.u16 %r{k}, %h{k};" for k in range(4)),
        warpsight.Texture(data), at,
    )  # fmt: skip
    assert got[:, 0].tolist() == wanted.tolist() and set(got[:, 3].tolist()) == {0x3C00}
    packed, _ = run("tex.1d.v2.f16x2.s32 {%r0, %r1}, [%t, {%c0}];", warpsight.Texture(data), at)
    assert packed[:, 0].tolist() == wanted.tolist() and set(packed[:, 1].tolist()) == {0x3C000000}


def test_half_texels_keep_every_value() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    at = np.arange(1 << 16, dtype=np.int32).reshape(-1, 1)
    got, _ = run(fetch("tex", "1d", "f32", "s32"), warpsight.Texture(patterns), at)
    np.testing.assert_array_equal(got[:, 0].view(np.float32), patterns.astype(np.float32))


def test_lanes_may_use_different_textures_and_guards() -> None:
    from warpsight.emulator.textures.objects import HANDLE_BASE

    body = """ld.global.b64 %t, [%d]; setp.lt.u32 %p1, %i0, 48;
        @%p1 tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%c0}];"""
    at = np.arange(64, dtype=np.int32).reshape(-1, 1) % 5
    handle = np.where(np.arange(64) < 48, HANDLE_BASE, 77).astype(np.uint64)
    data = np.zeros((64, 4), np.uint32)
    data[:, :2] = handle.view(np.uint32).reshape(-1, 2)
    got, _ = run(body, warpsight.Texture(np.arange(10, 15, dtype=np.uint8)), at, data)
    assert got[:48, 0].tolist() == (10 + at[:48, 0]).tolist() and (got[48:] == data[48:]).all()


def test_sparse_predicate_says_that_all_is_resident() -> None:
    body = "tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}|%p1, [%t, {%c0}]; selp.u32 %r3, 7, 8, %p1;"
    got, _ = run(body, warpsight.Texture(np.arange(5, dtype=np.uint8)), np.arange(4, dtype=np.int32).reshape(-1, 1))
    assert got.tolist() == [[k, 0, 0, 7] for k in range(4)]
