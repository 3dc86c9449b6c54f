"""Objects as a runtime library makes them: their table, CUDA's descriptors, and what native code does with ones that lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from emulator_launch import PTX_HEAD, launch
from image_kernels import fetch, run

from warpsight.base.errors import LaunchFault, UnsupportedError, UsageError
from warpsight.emulator.run import memory as device
from warpsight.emulator.textures.objects import (
    CUBEMAP,
    HANDLE_BASE,
    LAYERED,
    ROW_WORDS,
    AddressMode,
    Channels,
    Descriptor,
    DescriptorTable,
    Filter,
    Format,
    Kind,
    Row,
    TextureSettings,
    Use,
    array_image,
    linear_image,
    pitched_image,
    texture,
)
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit
ARENA = 1 << 32  # device address of the first array of a launch
ONE_FLOAT, FOUR_BYTES = Channels((32, 0, 0, 0), 2), Channels((8, 8, 8, 8), 1)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> DescriptorTable:
    """The table that the next launch uses."""
    made = DescriptorTable()
    monkeypatch.setattr(device, "DescriptorTable", lambda: made)
    return made


LAST = """
.visible .entry k(.param .u64 memory, .param .u64 at, .param .u64 t, .param .u64 out)
{
    .reg .b64 %t, %a, %o; .reg .b32 %r<4>, %c<4>, %i;
    mov.u32 %i, %tid.x;
    ld.param.u64 %t, [t];
    ld.param.u64 %a, [at]; mad.wide.u32 %a, %i, 16, %a; ld.global.v4.b32 {%c0, %c1, %c2, %c3}, [%a];
    BODY
    ld.param.u64 %o, [out]; mad.wide.u32 %o, %i, 16, %o; st.global.v4.b32 [%o], {%r0, %r1, %r2, %r3};
    ret;
}
"""
FETCH_1D = "tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%c0}];"
FETCH_2D = "tex.2d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%c0, %c1}];"


def on_memory(body: str, memory: np.ndarray, handle: int, at: Any, more: str = "") -> np.ndarray:
    """Runs `body` on 8 threads with an object whose texels are the launch's first array; gives [8, 4] words."""
    places, out = np.zeros((8, 4), np.int32), np.zeros((8, 4), np.uint32)
    places[:, : np.shape(at)[1]] = at
    source = load_source(PTX_HEAD + more + LAST.replace("BODY", body), name="objects.ptx")
    launch(source, "k", 1, 8, [memory, places, np.uint64(handle), out])
    return out


# -- linear and pitched memory -----------------------------------------------------------------------------------------------


def test_linear_memory_object_is_zero_outside_and_knows_no_real_coordinates(table: DescriptorTable) -> None:
    memory = np.array([1.5, 2.5, 3.5, 4.5], np.float32)
    handle = table.add(texture(linear_image(ARENA, 14, ONE_FLOAT), TextureSettings(address_modes=(0, 0, 0))))
    got = on_memory(FETCH_1D, memory, handle, np.array([[-1], [0], [1], [2], [3], [99], [-(2**31)], [2**31 - 1]]))
    assert got[:, 0].view(np.float32).tolist() == [0, 1.5, 2.5, 3.5, 0, 0, 0, 0]
    with pytest.raises(LaunchFault, match="does not suit"):
        on_memory(FETCH_1D.replace("u32.s32", "u32.f32"), memory, handle, np.zeros((8, 1)))


def test_pitched_memory_object_skips_the_gaps(table: DescriptorTable) -> None:
    memory = np.arange(64, dtype=np.uint8).reshape(2, 32)
    settings = TextureSettings(read_mode=1, filter_mode=1)
    handle = table.add(texture(pitched_image(ARENA + 4, 3, 2, 32, FOUR_BYTES), settings))
    at = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [9, 9], [-1, -1]])
    got = on_memory(FETCH_2D, memory, handle, at).view(np.float32)
    wanted = [memory[min(max(y, 0), 1), 4 + 4 * min(max(x, 0), 2) :][:4] for x, y in at.tolist()]
    np.testing.assert_array_equal(got, (np.array(wanted) / 255).astype(np.float32))


# -- objects that lie --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "place"),
    [({"width": 100}, (40, 0)), ({"address": ARENA - 64}, (0, 0)), ({"address": 1 << 40}, (0, 0)), ({"address": 0}, (0, 0)),
     ({"row_pitch": 1 << 40}, (0, 1)), ({"address": (1 << 62)}, (0, 0)), ({"row_pitch": (1 << 59)}, (0, 3))],
)  # fmt: skip
def test_texels_outside_of_live_memory_are_a_fault(table: DescriptorTable, change: dict[str, int], place: tuple[int, int]) -> None:
    memory = np.zeros(32, np.float32)
    good = Descriptor(Use.TEXTURE, Kind.TWO_D, ARENA, 8, 4)
    handle = table.add(replace(good, **change))  # type: ignore[arg-type]
    at = np.zeros((8, 2))
    at[:, :] = place
    with pytest.raises(LaunchFault, match="out of bounds") as caught:
        on_memory(FETCH_2D, memory, handle, at)
    assert "tex.2d.v4.u32.s32" in str(caught.value)


def test_surface_on_constant_memory_cannot_be_stored_to(table: DescriptorTable) -> None:
    handle = table.add(Descriptor(Use.SURFACE, Kind.ONE_D, ARENA, 4))
    body = "mov.u32 %r0, 7; {} ld.const.u32 %r1, [fixed];"
    more = ".const .align 4 .b8 fixed[16] = {9, 0, 0, 0};"
    load, store = "suld.b.1d.b32.trap {%r2}, [%t, {%c0}];", "sust.b.1d.b32.trap [%t, {%c0}], {%r0};"
    assert on_memory(body.format(load), np.zeros(4, np.uint32), handle, np.zeros((8, 1)), more)[0].tolist()[1:3] == [9, 9]
    with pytest.raises(LaunchFault, match="write to constant memory"):
        on_memory(body.format(store), np.zeros(4, np.uint32), handle, np.zeros((8, 1)), more)


def test_surface_with_crooked_rows_faults_where_an_access_is_misaligned(table: DescriptorTable) -> None:
    handle = table.add(Descriptor(Use.SURFACE, Kind.TWO_D, ARENA, 10, 2, row_pitch=10, channel_bits=8, format=Format.UNSIGNED))
    body = "suld.b.2d.b32.trap {%r0}, [%t, {%c0, %c1}];"
    memory = np.arange(20, dtype=np.uint8)
    assert on_memory(body, memory, handle, np.array([[4, 0]] * 8))[0, 0] == 0x07060504
    with pytest.raises(LaunchFault, match="misaligned"):
        on_memory(body, memory, handle, np.array([[4, 1]] * 8))


def test_handle_of_a_destroyed_object_is_a_fault_also_when_its_row_is_used_again(table: DescriptorTable) -> None:
    old = table.add(texture(linear_image(ARENA, 16, ONE_FLOAT), TextureSettings()))
    assert table.remove(old).width == 4
    for again in (False, True):
        if again:
            new = table.add(texture(linear_image(ARENA, 16, ONE_FLOAT), TextureSettings()))
            assert new != old and on_memory(FETCH_1D, np.ones(4, np.uint32), new, np.zeros((8, 1)))[0, 0] == 1
        with pytest.raises(LaunchFault, match="not a texture"):
            on_memory(FETCH_1D, np.ones(4, np.uint32), old, np.zeros((8, 1)))


def test_sampler_object_has_no_texels(table: DescriptorTable) -> None:
    handle = table.add(Descriptor(Use.SAMPLER, filter=Filter.LINEAR))
    with pytest.raises(LaunchFault, match="does not suit"):
        run(fetch("tex", "2d"), np.uint64(handle), np.zeros((4, 2), np.float32))
    body = "txq.filter_mode.b32 %r0, [%t]; istypep.samplerref %p1, %t; selp.u32 %r1, 1, 0, %p1;"
    assert run(body, np.uint64(handle), np.zeros((4, 2), np.float32))[0][0, :2].tolist() == [1, 1]


# -- the table ---------------------------------------------------------------------------------------------------------------


def test_table_grows_and_gives_each_object_its_own_handle() -> None:
    table, made = DescriptorTable(), {}
    for k in range(100):
        made[table.add(Descriptor(Use.TEXTURE, Kind.ONE_D, 4096 * k, k + 1))] = k
    assert len(made) == table.count == 100 and all(table.get(h).width == k + 1 for h, k in made.items())
    for handle, k in made.items():
        row = table.rows[handle & 0xFFFFFFFF]
        assert (row[Row.HANDLE], row[Row.ADDRESS], row[Row.WIDTH]) == (handle, 4096 * k, k + 1)
    for handle in list(made)[::2]:
        table.remove(handle)
    later = {table.add(Descriptor(Use.SURFACE)) for _ in range(60)}
    assert table.count == 110 and not later & set(made)
    with pytest.raises(UsageError, match="not a texture"):
        table.remove(next(iter(made)))
    with pytest.raises(UsageError, match="not a texture"):
        table.get(HANDLE_BASE + 500)


def test_object_can_move_to_another_address() -> None:
    table = DescriptorTable()
    handle = table.add(Descriptor(Use.TEXTURE, address=64))
    table.move(handle, 128)
    assert table.get(handle).address == 128 and table.rows[0, Row.ADDRESS] == 128 and table.rows[0, Row.HANDLE] == handle


def test_packed_descriptor_holds_the_border_as_the_result_has_it() -> None:
    border = (1.5, -2.0, 3.0, 0.0)
    floats = Descriptor(Use.TEXTURE, channels=4, border=border).pack(1)
    integers = Descriptor(Use.TEXTURE, channels=4, format=Format.SIGNED, border=border).pack(1)
    assert floats.shape == (ROW_WORDS,)
    assert floats[Row.BORDER : Row.BORDER + 4].astype(np.uint32).view(np.float32).tolist() == list(border)
    assert integers[Row.BORDER : Row.BORDER + 4].tolist() == [1, 0xFFFFFFFE, 3, 0]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"channels": 3}, "3 channels"), ({"channel_bits": 64}, "64-bit"), ({"channel_bits": 8}, "8-bit float"),
        ({"normalized_read": True}, "normalised"), ({"format": Format.SIGNED, "filter": Filter.LINEAR}, "linear filtering"),
        ({"width": 0}, "positive"), ({"depth": 1 << 31}, "positive"), ({"address": 2}, "multiple"), ({"row_pitch": 6}, "multiple"),
        ({"row_pitch": 1 << 61, "height": 4}, "outside"), ({"row_pitch": -8}, "outside"), ({"address": 1 << 63}, "outside"),
        ({"kind": Kind.CUBE, "layers": 5}, "six"), ({"kind": Kind.CUBE, "layers": 6, "width": 2, "height": 3}, "six"),
        ({"channel_bits": 32, "format": Format.UNSIGNED, "normalized_read": True}, "normalised"),
    ],
)  # fmt: skip
def test_object_that_cuda_would_refuse_is_refused(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Descriptor(Use.TEXTURE, **fields)


# -- CUDA's descriptors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extent", "flags", "wanted"),
    [
        ((8, 0, 0), 0, (Kind.ONE_D, 8, 1, 1, 1)), ((8, 4, 0), 0, (Kind.TWO_D, 8, 4, 1, 1)),
        ((8, 4, 3), 0, (Kind.THREE_D, 8, 4, 3, 1)),
        ((8, 0, 5), LAYERED, (Kind.LAYERED_1D, 8, 1, 1, 5)), ((8, 4, 5), LAYERED | 2, (Kind.LAYERED_2D, 8, 4, 1, 5)),
        ((8, 8, 6), CUBEMAP, (Kind.CUBE, 8, 8, 1, 6)), ((8, 8, 12), CUBEMAP | LAYERED, (Kind.LAYERED_CUBE, 8, 8, 1, 12)),
    ],
)  # fmt: skip
def test_array_with_flags_becomes_its_kind(extent: tuple[int, int, int], flags: int, wanted: tuple[Any, ...]) -> None:
    made = array_image(Use.TEXTURE, 1 << 20, extent, flags, FOUR_BYTES)
    assert (made.kind, made.width, made.height, made.depth, made.layers) == wanted
    assert (made.channels, made.channel_bits, made.format, made.address) == (4, 8, Format.UNSIGNED, 1 << 20)


def test_texture_settings_are_taken_as_cuda_numbers_them() -> None:
    settings = TextureSettings((0, 2, 3), 1, 1, True, (1.0, 2.0, 3.0, 4.0))
    made = texture(array_image(Use.TEXTURE, 0, (8, 4, 0), 0, FOUR_BYTES), settings)
    assert made.address_modes == (AddressMode.WRAP, AddressMode.MIRROR, AddressMode.BORDER)
    assert (made.filter, made.normalized_read, made.normalized, made.border) == (Filter.LINEAR, True, True, (1.0, 2.0, 3.0, 4.0))
    exact = texture(array_image(Use.TEXTURE, 0, (8, 4, 0), 0, Channels((32, 0, 0, 0), 0)), TextureSettings(read_mode=1))
    assert not exact.normalized_read


@pytest.mark.parametrize("channels", [Channels((8, 8, 8, 0), 1), Channels((8, 16, 0, 0), 1),
                                      Channels((0, 8, 0, 0), 1), Channels((0,) * 4, 0),
                                      Channels((8, 0, 0, 0), 3), Channels((8, 0, 0, 0), 2), Channels((8, 0, 8, 0), 1)])  # fmt: skip
def test_channels_that_are_no_format_are_refused(channels: Channels) -> None:
    with pytest.raises(UsageError):
        array_image(Use.TEXTURE, 0, (8, 4, 0), 0, channels)


def test_what_is_not_modelled_of_a_texture_is_refused() -> None:
    image = array_image(Use.TEXTURE, 0, (8, 4, 0), 0, ONE_FLOAT)
    for field in ("srgb", "seamless_cubemap"):
        with pytest.raises(UnsupportedError, match=field[:4]):
            texture(image, replace(TextureSettings(), **{field: True}))  # type: ignore[arg-type]
    for settings in (TextureSettings((4, 1, 1)), TextureSettings(filter_mode=2)):
        with pytest.raises(UsageError, match="do not exist"):
            texture(image, settings)
    for extent, flags in (((8, 4, 0), 16), ((8, 4, 6), CUBEMAP)):
        with pytest.raises(UsageError, match="not modelled"):
            array_image(Use.TEXTURE, 0, extent, flags, ONE_FLOAT)
