"""Textures and surfaces in compiled CUDA and hand-written PTX: results, queries, faults, what a trace says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, cuda, launch
from image_kernels import fetch, run
from texture_reference import Reference, Sampler
from trace_reader import accesses

import warpsight
from warpsight.base.errors import LaunchFault, UnsupportedError
from warpsight.emulator.textures.objects import HANDLE_BASE
from warpsight.kernels.sources import load_source
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(12)
F32 = np.float32
FIRST = (1 << 32) // 32  # sector of the first argument's first byte


def cuda_run(kernel: str, grid: Any, block: Any, *args: Any) -> KernelTrace:
    return launch(cuda("images.cu"), kernel, grid, block, args)


# -- compiled CUDA -----------------------------------------------------------------------------------------------------------


def test_linear_memory_is_zero_outside() -> None:
    x, out = RNG.random(100).astype(F32), np.full(120, -1, F32)
    cuda_run("linear_memory", 4, 32, warpsight.Texture(x), out, 110)
    wanted = np.concatenate([np.zeros(5, F32), x, np.zeros(5, F32), np.full(10, -1, F32)])
    np.testing.assert_array_equal(out, wanted)


def test_rotated_image_is_filtered_texel_by_texel() -> None:
    image, (width, height) = RNG.integers(0, 256, (9, 12, 4), dtype=np.uint8), (20, 14)
    out = np.zeros((height, width, 4), F32)
    sampler = Sampler("linear", "mirror", True, "normalized")
    c, s = F32(0.9), F32(0.4)
    texture = warpsight.Texture(image, filter="linear", address="mirror", normalized=True, read="normalized")
    cuda_run("rotate", (3, 2), (8, 8), texture, out, width, height, c, s)
    reference = Reference(image[None], "2d", sampler)
    x, y = np.meshgrid(np.arange(width, dtype=F32), np.arange(height, dtype=F32))
    u, v = (x + F32(0.5)) / F32(width) - F32(0.5), (y + F32(0.5)) / F32(height) - F32(0.5)
    at = np.stack([u * c + (F32(0.5) - v * s), v * c + F32(0.5)], axis=2)
    for row in range(min(height, 16)):
        for column in range(min(width, 24)):
            assert out[row, column].tolist() == reference.fetch(at[row, column].tolist()), (row, column)


def test_bytes_come_one_channel_after_the_other() -> None:
    image = RNG.integers(0, 256, (4, 8, 4), dtype=np.uint8)
    out, quads = np.zeros(32, np.uint8), np.zeros((32, 4), np.uint8)
    cuda_run("bytes", 1, 32, warpsight.Texture(image), out, quads)
    flat = image.reshape(32, 4)
    assert out.tolist() == flat[:, 3].tolist() and quads.tolist() == flat[:, [2, 1, 0, 3]].tolist()


def test_volume_layers_and_line_are_fetched_by_their_own_axes() -> None:
    solid, layers, line = (RNG.integers(-99, 99, shape).astype(F32) for shape in ((3, 5, 6), (3, 4, 7), (11,)))
    out = np.zeros((32, 3), F32)
    linear = {"filter": "linear"}
    textures = [
        warpsight.Texture(solid, dims=3, **linear),
        warpsight.Texture(layers, layered=True, **linear),
        warpsight.Texture(line, **linear),
    ]
    cuda_run("volume", 1, 32, *textures, out)
    sampler = Sampler("linear")
    references = [Reference(solid[..., None], "3d", sampler), Reference(layers[..., None], "a2d", sampler),
                  Reference(line[None, None, :, None], "1d", sampler)]  # fmt: skip
    for i in range(32):
        x, y, z = (float(F32(step) * F32(i)) for step in (0.37, 0.21, 0.11))
        places = [[x, y, z], [i % 3, x, y], [x]]
        assert out[i].tolist() == [r.fetch(p)[0] for r, p in zip(references, places, strict=True)], i


def test_gather_of_integers() -> None:
    image, out = RNG.integers(-1000, 1000, (7, 9)).astype(np.int32), np.zeros((32, 4), np.int32)
    cuda_run("gather", 1, 32, warpsight.Texture(image), out)
    reference = Reference(image[None, ..., None], "2d", Sampler())
    assert out.tolist() == [reference.gather([float(F32(0.4) * F32(i)), float(F32(0.3) * F32(i))], 0) for i in range(32)]


def test_cube_map_is_fetched_by_direction() -> None:
    faces, rays, out = (
        RNG.integers(-999, 999, (6, 4, 4)).astype(np.int16),
        RNG.standard_normal((64, 3)).astype(F32),
        np.zeros(64, np.int16),
    )
    cuda_run("sky", 1, 64, warpsight.Texture(faces, cube=True), rays, out)
    reference = Reference(faces[..., None], "cube", Sampler())
    assert out.tolist() == [reference.fetch(ray)[0] for ray in rays.astype(float).tolist()]


def test_blur_reads_zero_outside_and_writes_its_surface_back() -> None:
    image, out = RNG.integers(0, 256, (13, 21), dtype=np.uint8), np.zeros((13, 21), np.uint8)
    before = image.copy()
    cuda_run("blur", (3, 2), (8, 8), warpsight.Surface(image), warpsight.Surface(out), 21, 13)
    padded = np.pad(before.astype(int), 1)
    wanted = sum(padded[dy : dy + 13, dx : dx + 21] for dy in range(3) for dx in range(3)) // 9
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(image, before)


def test_layered_solid_and_line_surfaces() -> None:
    pairs, line = np.zeros((4, 2, 4, 2), F32), np.zeros(32, np.int16)
    halves = RNG.integers(0, 1 << 30, (2, 4, 4, 2), dtype=np.uint32)
    halves[..., 1] = 0
    wanted = halves.view(np.uint64) * np.uint64(3)
    surfaces = [warpsight.Surface(pairs, layered=True), warpsight.Surface(halves, dims=3), warpsight.Surface(line)]
    cuda_run("layers", 1, 32, *surfaces)
    assert pairs.reshape(32, 2).tolist() == [[i, -i] for i in range(32)]
    np.testing.assert_array_equal(halves.view(np.uint64), wanted)
    assert line.tolist() == list(range(-7, 25))


# -- queries and references --------------------------------------------------------------------------------------------------

QUERIES: list[tuple[Any, str, int]] = [
    (warpsight.Texture(np.zeros((3, 5, 7, 2), F32), dims=3), "txq.width", 7),
    (warpsight.Texture(np.zeros((3, 5, 7, 2), F32), dims=3), "txq.height", 5),
    (warpsight.Texture(np.zeros((3, 5, 7, 2), F32), dims=3), "txq.depth", 3),
    (warpsight.Texture(np.zeros((4, 5, 7), F32), layered=True), "txq.array_size", 4),
    (warpsight.Texture(np.zeros((5, 7), F32)), "txq.num_mipmap_levels", 1),
    (warpsight.Texture(np.zeros((5, 7), F32), normalized=True), "txq.normalized_coords", 1),
    (warpsight.Texture(np.zeros((5, 7), F32), filter="linear"), "txq.filter_mode", 1),
    (warpsight.Texture(np.zeros((5, 7), F32), address=("wrap", "border")), "txq.addr_mode_0", 0),
    (warpsight.Texture(np.zeros((5, 7), F32), address=("wrap", "border")), "txq.addr_mode_1", 4),
    (warpsight.Texture(np.zeros((5, 7), F32), address=("mirror", "clamp")), "txq.addr_mode_1", 3),
    (warpsight.Texture(np.zeros((5, 7, 2), np.int8)), "txq.channel_data_type", 0x10D7),
    (warpsight.Texture(np.zeros((5, 7, 2), np.uint16), read="normalized"), "txq.channel_data_type", 0x10D3),
    (warpsight.Texture(np.zeros((5, 7, 2), np.float16)), "txq.channel_order", 0x10B2),
    (warpsight.Surface(np.zeros((5, 7, 4), np.float16)), "suq.channel_data_type", 0x10DD),
    (warpsight.Surface(np.zeros((5, 7, 4), np.float16)), "suq.width", 7),
    (warpsight.Surface(np.zeros((5, 7, 4), np.float16)), "suq.memory_layout", 1),
]


@pytest.mark.parametrize(("image", "query", "answer"), QUERIES)
def test_query_answers_from_the_object(image: Any, query: str, answer: int) -> None:
    got, trace = run(f"{query}.b32 %r0, [%t];", image, np.zeros((8, 1), np.int32))
    assert set(got[:, 0].tolist()) == {answer}
    assert [access.opcode for access in accesses(trace)].count(f"{query}.b32") == 0


def test_istypep_tells_textures_surfaces_and_numbers_apart() -> None:
    body = "".join(
        f"istypep.{name} %p1, %t; selp.u32 %r{k}, 1, 0, %p1;" for k, name in enumerate(("texref", "surfref", "samplerref"))
    )
    body += "istypep.texref %p1, %q0; selp.u32 %r3, 1, 0, %p1;"
    place = np.zeros((4, 1), np.int32)
    assert run(body, warpsight.Texture(np.zeros(4, F32)), place)[0][0].tolist() == [1, 0, 0, 0]
    assert run(body, warpsight.Surface(np.zeros(4, F32)), place)[0][0].tolist() == [0, 1, 0, 0]


def test_texture_variable_holds_the_object_that_it_is_bound_to() -> None:
    """A `.texref` variable is eight bytes of device memory; binding writes the object's handle there."""
    more = ".global .texref image;"
    bind = "mov.u64 %q1, image; st.global.u64 [%q1], %t; bar.sync 0;"
    at = np.arange(4, dtype=np.int32).reshape(-1, 1)
    for name in ("image", "%q1"):
        body = f"{bind} tex.1d.v4.u32.s32 {{%r0, %r1, %r2, %r3}}, [{name}, {{%c0}}];"
        got, _ = run(body, warpsight.Texture(np.array([5, 6, 7, 8], np.uint8)), at, more=more)
        assert got[:, 0].tolist() == [5, 6, 7, 8]
    with pytest.raises(LaunchFault, match="not a texture"):
        run("tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [image, {%c0}];", warpsight.Texture(np.zeros(4, F32)), at, more=more)


SAMPLED = """
.visible .entry k(.param .u64 t, .param .u64 s, .param .u64 out)
{
    .reg .b64 %t, %s, %o; .reg .f32 %f<4>, %x;
    ld.param.u64 %t, [t]; ld.param.u64 %s, [s]; ld.param.u64 %o, [out];
    mov.f32 %x, 0.75;
    tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, %s, {%x}];
    st.global.f32 [%o], %f0;
    tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {0.5}];
    st.global.f32 [%o+4], %f0;
    ret;
}
"""


def test_sampler_operand_decides_filter_and_address_mode() -> None:
    source, out = load_source(PTX_HEAD + SAMPLED, name="sampled.ptx"), np.zeros(2, F32)
    other = np.full(9, 77, F32)
    launch(
        source,
        "k",
        1,
        1,
        [warpsight.Texture(np.array([2, 4], F32)), warpsight.Texture(other, filter="linear", normalized=True), out],
    )
    assert out.tolist() == [4.0, 2.0]
    launch(source, "k", 1, 1, [warpsight.Texture(np.array([2, 4], F32)), warpsight.Texture(other, filter="linear"), out])
    assert out.tolist() == [2.5, 2.0]


# -- faults ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handle", [0, 1, HANDLE_BASE + 1, HANDLE_BASE + (1 << 32), 1 << 32, (1 << 32) + 8, (1 << 64) - 1])
def test_number_that_is_no_object_is_a_fault(handle: int) -> None:
    for body in (fetch("tex", "2d"), "txq.width.b32 %r0, [%t];", "suld.b.1d.b32.trap {%r0}, [%t, {%c0}];"):
        with pytest.raises(LaunchFault, match="not a texture, surface or sampler object") as caught:
            run(f"{body}", np.uint64(handle), np.zeros((32, 2), np.int32))
        assert f"0x{handle:x}" in str(caught.value) and "thread (0,0,0)" in str(caught.value)


@pytest.mark.parametrize("geometry", ["1d", "3d", "a1d", "a2d", "cube", "acube"])
def test_fetch_with_other_dimensions_than_the_texture_is_a_fault(geometry: str) -> None:
    with pytest.raises(LaunchFault, match="does not suit") as caught:
        run(fetch("tex", geometry), warpsight.Texture(np.zeros((4, 4), F32)), np.zeros((32, 4), F32))
    assert f"tex.{geometry}.v4.f32.f32" in str(caught.value)


def test_filter_of_a_sampler_on_integer_texels_is_a_fault() -> None:
    source, out = load_source(PTX_HEAD + SAMPLED, name="sampled.ptx"), np.zeros(2, F32)
    with pytest.raises(LaunchFault, match="does not suit"):
        launch(
            source, "k", 1, 1, [warpsight.Texture(np.zeros(2, np.int32)), warpsight.Texture(np.zeros(2, F32), filter="linear"), out]
        )


def test_query_of_the_wrong_kind_of_object_is_a_fault() -> None:
    with pytest.raises(LaunchFault, match="does not suit"):
        run("suq.width.b32 %r0, [%t];", warpsight.Texture(np.zeros(4, F32)), np.zeros((1, 1), np.int32))


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x0, %x1}], {%c0, %c1};", "offsets"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x0, %x1}], %x2;", "depth"),
        ("tex.2dms.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%t, {%c0, %c1, %c2, %c2}];", "2dms"),
        ("tex.2d.v4.f64.f32 {%q0, %q1, %q2, %q3}, [%t, {%x0, %x1}];", "f64|f16"),
        ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x0}];", "coordinates"),
        ("tex.2d.v4.f32.f32 {%f0, %f1}, [%t, {%x0, %x1}];", "destinations"),
        ("tld4.r.3d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%x0, %x1, %x2, %x2}];", "footprint"),
        ("txq.colour.b32 %r0, [%t];", "not modelled"),
    ],
)
def test_form_of_fetch_that_is_not_modelled_is_refused_by_name(body: str, word: str) -> None:
    with pytest.raises(UnsupportedError, match=word):
        run(body, warpsight.Texture(np.zeros((4, 4), F32)), np.zeros((1, 2), F32))


# -- traces ------------------------------------------------------------------------------------------------------------------


def sectors_of(trace: KernelTrace, opcode: str) -> tuple[int, ...]:
    (found,) = [access for access in accesses(trace) if access.opcode.startswith(opcode)]
    assert found.sectors is not None
    return found.sectors


def test_point_fetch_records_its_texels_sectors_in_lane_order() -> None:
    image, out = np.zeros((4, 64), F32), np.zeros(32, F32)
    for step, columns in ((1.0, range(32)), (2.0, range(0, 64, 2)), (0.0, [0]), (-3.0, [0])):
        trace = cuda_run("row", 1, 32, warpsight.Texture(image), out, F32(step))
        row = FIRST + 64 * 4 // 32
        assert sectors_of(trace, "tex") == tuple(dict.fromkeys(row + 4 * x // 32 for x in columns)), step
    instruction = next(i for i in trace.instructions if i.opcode.startswith("tex"))
    assert (instruction.op_class, instruction.space, instruction.access, instruction.access_bytes) == (
        "memory",
        "global",
        "load",
        16,
    )


def test_linear_fetch_records_the_whole_footprint_and_no_border() -> None:
    image, out = np.zeros((4, 64), F32), np.zeros(32, F32)
    trace = cuda_run("row", 1, 32, warpsight.Texture(image, filter="linear", address="border"), out, F32(1.0))
    first, second = [FIRST + (row * 64 + 4 * 0) * 4 // 32 for row in (0, 1)]
    wanted: dict[int, None] = {}
    for lane in range(32):  # x - 0.5 lies half between texels lane - 1 and lane; y - 0.5 between rows 0 and 1
        for row in (first, second):
            for x in (lane - 1, lane):
                if x >= 0:
                    wanted[row + 4 * x // 32] = None
    assert sectors_of(trace, "tex") == tuple(wanted)


def test_solid_footprint_of_256_sectors_records_the_255_that_an_event_can_count() -> None:
    solid = np.zeros((64, 4, 64, 4), F32)
    at = np.zeros((32, 4), F32)
    at[:, 0], at[:, 1], at[:, 2] = 2 * np.arange(32) + 2, 2, 2 * np.arange(32) + 1
    at[:, 0] = 4 * (np.arange(32) % 16) + 2  # two texels of 16 bytes that lie in different sectors
    texture = warpsight.Texture(solid, dims=3, filter="linear")
    _, trace = run(fetch("tex", "3d"), texture, at)
    assert len(sectors_of(trace, "tex")) == 255


def test_rows_begin_in_a_sector_of_their_own() -> None:
    at = np.stack([np.zeros(4), np.arange(4)], axis=1).astype(F32)
    _, trace = run(fetch("tex", "2d", "u32"), warpsight.Texture(np.zeros((4, 5), np.uint8)), at)
    assert sectors_of(trace, "tex") == tuple(FIRST + row for row in range(4))


def test_surface_accesses_are_recorded_as_loads_stores_and_atomics() -> None:
    at = np.stack([np.arange(32) % 4 * 4, np.arange(32) // 8], axis=1).astype(np.int32)
    body = """suld.b.2d.b32.zero {%r1}, [%t, {%c0, %c1}]; sust.b.2d.b32.zero [%t, {%c0, %c1}], {%r1};
        sured.b.add.2d.u32.zero [%t, {%c0, %c1}], %r1;"""
    _, trace = run(body, warpsight.Surface(np.zeros((3, 4), np.uint32)), at)
    found = [a for a in accesses(trace) if a.opcode.startswith("su")]
    assert [a.sectors for a in found] == [(FIRST, FIRST + 1, FIRST + 2)] * 3  # the fourth row is outside
    assert [a.sharing for a in found] == [None, None, 2]
    kinds = [(i.access, i.space, i.access_bytes) for i in trace.instructions if i.opcode.startswith("su")]
    assert kinds == [("load", "global", 4), ("store", "global", 4), ("atomic", "global", 4)]


def test_input_hash_depends_on_texels_and_on_how_they_are_read() -> None:
    data, out = np.zeros((4, 64), F32), np.zeros(32, F32)
    textures = [
        warpsight.Texture(data),
        warpsight.Texture(data + 1),
        warpsight.Texture(data, filter="linear"),
        warpsight.Surface(data),
    ]
    hashes = [cuda_run("row", 1, 32, texture, out.copy(), F32(1)).header.input_hash for texture in textures[:3]]
    assert len(set(hashes)) == 3
    assert cuda_run("row", 1, 32, textures[0], out.copy(), F32(1)).header.input_hash == hashes[0]


def test_many_fetches_in_a_loop_grow_the_trace_as_they_should() -> None:
    body = (
        "mov.u32 %i1, 0; L: tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%t, {%c0, %c1}]; add.u32 %i1, %i1, 1; add.u32 %c1, %c1, 1;"
        " setp.lt.u32 %p1, %i1, 3000; @%p1 bra L;"
    )
    at = np.stack([np.arange(32) * 8, np.zeros(32)], axis=1).astype(np.int32)
    _, trace = run(body, warpsight.Texture(np.zeros((8, 256), F32)), at)
    found = [a for a in accesses(trace) if a.opcode.startswith("tex")]
    assert len(found) == 3000 and all(
        a.sectors == tuple(FIRST + min(k, 7) * 32 + x for x in range(32)) for k, a in enumerate(found)
    )
