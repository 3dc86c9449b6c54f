"""Do surface loads, stores and reductions do what the PTX ISA says? Against byte arrays, in every geometry, width and mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from image_kernels import PLACES, run

import warpsight
from warpsight.base.errors import LaunchFault, UnsupportedError

pytestmark = pytest.mark.unit
SHAPES = {"1d": (1, 1, 16), "2d": (1, 4, 16), "3d": (3, 4, 16), "a1d": (3, 1, 16), "a2d": (3, 2, 16)}
AXES = {"1d": "x", "2d": "xy", "3d": "xyz", "a1d": "zx", "a2d": "zxy"}  # how an instruction names them
WIDTHS = [("", "b8"), ("", "b16"), ("", "b32"), ("", "b64"), ("v2.", "b8"), ("v2.", "b32"), ("v2.", "b64"), ("v4.", "b8"),
          ("v4.", "b16"), ("v4.", "b32")]  # fmt: skip
REGISTERS = {"b8": "%h", "b16": "%h", "b32": "%r", "b64": "%q"}
COORDINATES = ["%c0", "%c1", "%c2", "%c3"]


MODES = ["trap", "clamp", "zero"]


def shapes_of_access(geometry: str) -> list[tuple[str, str, str]]:
    """Vector, type and mode: every width and every mode in two dimensions, some of each in the others."""
    if geometry == "2d":
        return [(*width, MODES[k % 3]) for k, width in enumerate(WIDTHS)] + [("v2.", "b32", "zero"), ("v4.", "b16", "clamp")]
    turn = list(SHAPES).index(geometry)
    return [(*width, MODES[(k + turn) % 3]) for k, width in enumerate(WIDTHS[turn % 2 :: 2])]


def size_of(vector: str, kind: str) -> int:
    return int(vector[1:-1] or 1) * int(kind[1:]) // 8


def surface(texels: np.ndarray, geometry: str) -> warpsight.Surface:
    depth, height, width = texels.shape
    axes = {"1d": (width,), "2d": (height, width), "a1d": (depth, width)}.get(geometry, (depth, height, width))
    return warpsight.Surface(texels.reshape(*axes, 1), layered=geometry[0] == "a", dims=int(geometry[-2]))


def place_text(geometry: str) -> str:
    return PLACES[geometry].format(*COORDINATES)


def moved(vector: str, kind: str) -> tuple[str, str, str]:
    """The registers of an element list, code that fills them from %r0.. and code that puts them there."""
    count, letter = int(vector[1:-1] or 1), REGISTERS[kind]
    names = [f"{letter}{k}" for k in range(count)]
    if kind == "b64":
        unpack = "mov.b64 {%r0, %r1}, %q0;" + ("mov.b64 {%r2, %r3}, %q1;" if count > 1 else "")
        return f"{{{', '.join(names)}}}", "", unpack
    if letter == "%r":
        return f"{{{', '.join(names)}}}", "", ""
    fill = "".join(f"cvt.u16.u32 %h{k}, %r{k};" for k in range(count))
    return f"{{{', '.join(names)}}}", fill, "".join(f"cvt.u32.u16 %r{k}, %h{k};" for k in range(count))


def places(rng: np.random.Generator, geometry: str, row: int, size: int, inside: bool, count: int = 64) -> np.ndarray:
    """Coordinates by axis name x (bytes, aligned), y, z: int [threads, 3]."""
    depth, height, _ = SHAPES[geometry]
    limits = np.array([row // size, height, depth])
    at = rng.integers(0, limits, (count, 3)) if inside else rng.integers(-2, limits + 2, (count, 3))
    at[:, 0] *= size
    for axis, name in enumerate("xyz"):
        if name not in AXES[geometry]:
            at[:, axis] = 0
    return at


def operands(at: np.ndarray, geometry: str) -> np.ndarray:
    columns = ["xyz".index(name) for name in AXES[geometry]]
    return np.ascontiguousarray(at[:, columns].astype(np.int32))


def settle(place: Any, texels: np.ndarray, size: int, mode: str) -> tuple[int, int, int] | None:
    """Where an access takes place: (slice, row, byte), None for nowhere."""
    depth, height, row = texels.shape
    x, y, z = (int(v) for v in place)
    if 0 <= x <= row - size and 0 <= y < height and 0 <= z < depth:
        return z, y, x
    if mode == "zero":
        return None
    return min(max(z, 0), depth - 1), min(max(y, 0), height - 1), min(max(x, 0), row - size)


def words_of(data: bytes, kind: str) -> list[int]:
    step = int(kind[1:]) // 8
    values = [int.from_bytes(data[k : k + step], "little") for k in range(0, len(data), step)]
    if kind == "b64":
        values = [part for v in values for part in (v & 0xFFFFFFFF, v >> 32)]
    return values


@pytest.mark.parametrize("geometry", SHAPES)
def test_loads_give_the_bytes_that_are_there(geometry: str) -> None:
    rng = np.random.default_rng(3)
    for vector, kind, mode in shapes_of_access(geometry):
        texels = rng.integers(0, 256, SHAPES[geometry], dtype=np.uint8)
        size = size_of(vector, kind)
        names, _, show = moved(vector, kind)
        clear = "mov.b64 %q0, 0; mov.b64 %q1, 0;"
        at = places(rng, geometry, 16, size, mode == "trap")
        body = f"{clear} suld.b.{geometry}.{vector}{kind}.{mode} {names}, [%t, {{{place_text(geometry)}}}]; {show}"
        got, _ = run(body, surface(texels, geometry), operands(at, geometry))
        for place, found in zip(at, got.tolist(), strict=True):
            where = settle(place, texels, size, mode)
            data = bytes(size) if where is None else texels[where[0], where[1], where[2] : where[2] + size].tobytes()
            wanted = words_of(data, kind)
            assert found[: len(wanted)] == wanted, (vector, kind, mode, place)


@pytest.mark.parametrize("geometry", SHAPES)
def test_stores_change_these_bytes_and_no_other(geometry: str) -> None:
    rng = np.random.default_rng(4)
    for vector, kind, mode in shapes_of_access(geometry):
        texels = rng.integers(0, 256, SHAPES[geometry], dtype=np.uint8)
        expected, size = texels.copy(), size_of(vector, kind)
        names, fill, _ = moved(vector, kind)
        at = places(rng, geometry, 16, size, mode == "trap", 32)
        data = rng.integers(0, 1 << 32, (32, 4), dtype=np.uint32)
        run(f"{fill} sust.b.{geometry}.{vector}{kind}.{mode} [%t, {{{place_text(geometry)}}}], {names};",
            surface(texels, geometry), operands(at, geometry), data)  # fmt: skip
        step = int(kind[1:]) // 8
        for place, words in zip(at, data, strict=True):
            where = settle(place, texels, size, mode)
            stored = words.tobytes()[:size] if kind == "b64" else b"".join(w.tobytes()[:step] for w in words)[:size]
            if where is not None:
                expected[where[0], where[1], where[2] : where[2] + size] = list(stored)
        np.testing.assert_array_equal(texels, expected, f"{vector}{kind} {mode}")


def converted(value: int, dtype: np.dtype[Any]) -> Any:
    """A 32-bit source as `sust.p` stores it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array([value], np.uint32).view(np.float32).astype(dtype)[0]
    limits = np.iinfo(dtype)
    signed = value - (1 << 32) if dtype.kind == "i" and value >> 31 else value
    return dtype.type(min(max(signed, limits.min), limits.max))


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4"])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_formatted_stores_convert_to_the_surfaces_format(dtype: str, channels: int) -> None:
    rng = np.random.default_rng(channels)
    texels = np.zeros((4, 8, channels), dtype)
    data = rng.integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    if dtype[0] == "f":
        data = (rng.standard_normal((32, 4)) * 10.0 ** rng.integers(-9, 6, (32, 4))).astype(np.float32).view(np.uint32)
    data[:6, 0] = [0, 0x80, 0xFFFFFF80, 0xFFFF8000, 0x7F, 0x8000]
    at = np.stack([np.arange(32) % 8, np.arange(32) // 8], axis=1).astype(np.int32)
    run("sust.p.2d.v4.b32.trap [%t, {%c0, %c1}], {%r0, %r1, %r2, %r3};", warpsight.Surface(texels), at, data)
    wanted = np.array([[converted(int(v), texels.dtype) for v in row[:channels]] for row in data], dtype)
    np.testing.assert_array_equal(texels.reshape(32, channels), wanted)


def test_formatted_store_rounds_to_half_like_numpy() -> None:
    edges = np.array(
        [65519.996, 65520, 2**-25, 2**-25 * 1.0001, 2**-14 * 0.99999, 1 + 2**-11, 1 + 3 * 2**-11, -0.0, np.inf, 6e-8, 3e-8, -7]
    )
    data = np.zeros((12, 4), np.uint32)
    data[:, 0] = edges.astype(np.float32).view(np.uint32)
    texels = np.zeros((1, 12), np.float16)
    run("sust.p.1d.b32.zero [%t, {%c0}], {%r0};", warpsight.Surface(texels[0]), np.arange(12, dtype=np.int32).reshape(-1, 1), data)
    with np.errstate(over="ignore"):
        wanted = edges.astype(np.float32).astype(np.float16)
    assert texels[0].view(np.uint16).tolist() == wanted.view(np.uint16).tolist()


REDUCTIONS = [
    ("add", "u32"), ("add", "s32"), ("add", "u64"), ("min", "u32"), ("min", "s32"), ("max", "u32"), ("max", "s32"), ("min", "u64"),
    ("max", "s64"), ("and", "b32"), ("or", "b32"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "kind"), REDUCTIONS)
def test_reductions_combine_lane_after_lane(operation: str, kind: str) -> None:
    rng, bits = np.random.default_rng(8), int(kind[1:])
    words = rng.integers(0, 1 << 32, (2, 8), dtype=np.uint32)
    data = rng.integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 8}")
    expected = words.copy().view(dtype)
    at = np.stack([rng.integers(0, 32 * 8 // bits // 2, 32) * bits // 8, rng.integers(0, 2, 32)], axis=1).astype(np.int32)
    function = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or}[operation]
    for (x, y), row in zip(at, data, strict=True):
        place = (y, x * 8 // bits)
        with np.errstate(over="ignore"):
            expected[place] = function(expected[place], row.view(dtype)[0])
    source = "%q0" if bits == 64 else "%r0"
    run(f"sured.b.{operation}.2d.{kind}.trap [%t, {{%c0, %c1}}], {source};", warpsight.Surface(words), at, data)
    np.testing.assert_array_equal(words.view(dtype), expected)


def test_cube_map_surfaces_are_layers_of_faces() -> None:
    texels = np.arange(6 * 16, dtype=np.uint8).reshape(6, 4, 4)
    at = np.array([[face, 3, 2] for face in range(6)] * 2, np.int32)
    body = "suld.b.a2d.b8.trap {%h0}, [%t, {%c0, %c1, %c2, %c2}]; cvt.u32.u16 %r0, %h0;"
    got, _ = run(body, warpsight.Surface(texels, cube=True), at)
    assert got[:6, 0].tolist() == texels[:, 2, 3].tolist()


def test_read_only_array_stays_as_it_is() -> None:
    texels = np.zeros((2, 4), np.uint32)
    texels.flags.writeable = False
    run(
        "sust.b.2d.b32.trap [%t, {%c0, %c1}], {%r0};",
        warpsight.Surface(texels),
        np.zeros((4, 2), np.int32),
        np.full((4, 4), 7, np.uint32),
    )
    assert not texels.any()


FAULTS = [
    ("suld.b.2d.b32.trap {%r0}, [%t, {%c0, %c1}];", (16, 0), "outside of a surface"),
    ("suld.b.2d.b32.trap {%r0}, [%t, {%c0, %c1}];", (-4, 0), "outside of a surface"),
    ("suld.b.2d.b32.trap {%r0}, [%t, {%c0, %c1}];", (0, 2), "outside of a surface"),
    ("suld.b.2d.b32.trap {%r0}, [%t, {%c0, %c1}];", (2, 0), "misaligned"),
    ("sust.b.2d.v2.b32.zero [%t, {%c0, %c1}], {%r0, %r1};", (4, 0), "misaligned"),
    ("sust.p.2d.b32.trap [%t, {%c0, %c1}], {%r0};", (4, 0), "outside of a surface"),
    ("suld.b.1d.b32.trap {%r0}, [%t, {%c0}];", (0, 0), "does not suit"),
    ("suld.b.3d.b32.trap {%r0}, [%t, {%c0, %c1, %c1, %c1}];", (0, 0), "does not suit"),
    ("tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%t, {%c0, %c1}];", (0, 0), "does not suit"),
]


@pytest.mark.parametrize(("body", "place", "words"), FAULTS)
def test_access_that_a_gpu_would_stop_is_a_fault(body: str, place: tuple[int, int], words: str) -> None:
    texels = np.arange(8, dtype=np.float32).reshape(2, 4)
    at = np.zeros((64, 2), np.int32)
    at[37] = place
    if "suit" in words:
        at[0] = place
    with pytest.raises(LaunchFault, match=words) as caught:
        run(body, warpsight.Surface(texels), at)
    assert body.split(maxsplit=1)[0] in str(caught.value) and (f"thread ({0 if 'suit' in words else 37},0,0)") in str(caught.value)
    assert texels.tolist() == np.arange(8).reshape(2, 4).tolist()


@pytest.mark.parametrize(
    "body",
    [
        "sured.p.add.1d.b32.trap [%t, {%c0}], %r0;", "sured.b.add.1d.b32.trap [%t, {%c0}], %r0;",
        "suld.b.2d.v4.b64.trap {%q0, %q1, %q2, %q3}, [%t, {%c0, %c1}];", "suld.p.2d.b32.trap {%r0}, [%t, {%c0, %c1}];",
        "suld.b.cube.b32.trap {%r0}, [%t, {%c0, %c1, %c2}];", "suld.b.2d.b32.mirror {%r0}, [%t, {%c0, %c1}];",
        "suld.b.2d.b32.trap {%r0}, [%t, {%c0}];", "sust.p.2d.b8.trap [%t, {%c0, %c1}], {%h0};",
    ],
)  # fmt: skip
def test_form_that_is_not_modelled_is_refused_by_name(body: str) -> None:
    with pytest.raises(UnsupportedError, match=body.split(".", maxsplit=1)[0]):
        run(body, warpsight.Surface(np.zeros((2, 4), np.uint32)), np.zeros((1, 2), np.int32))
