"""`tex` and `tld4` for a warp, compiled by Numba: CUDA C++ Programming Guide, appendix "Texture Fetching".

Coordinates are taken to texels in double precision. Weights of linear filtering have 8 fractional bits: the position less one half
is rounded to the nearest 1/256 (so 1.998 is 2 and a quarter texel is exact). Weighted texels are summed in double precision and
rounded once. A texel of weight 0 does not count, so an infinity there does no harm; its sector is touched all the same. NaN is 0.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.compiled import compiled
from warpsight.emulator.textures import objects as descriptors
from warpsight.emulator.textures import texels as tx

numba = lazy.load("numba")

WRAP, CLAMP, MIRROR, BORDER_MODE = (int(mode) for mode in descriptors.AddressMode)
LINEAR = int(descriptors.Filter.LINEAR)

INTEGER_COORDINATES, GATHER_SHIFT = 1 << 8, 16  # in WHAT, above the geometry; a gather has its component plus 1
OPTIONAL, USES_SHIFT = 1 << 8, 16  # the same for queries
_FAR = 2.0**40


@compiled
def _position(coordinate: Any, size: Any, mode: Any, normalized: Any) -> Any:
    """A coordinate in texels, wrapped or mirrored where that is asked for."""
    position = coordinate
    if normalized:
        if mode == WRAP:
            position = coordinate - np.floor(coordinate)
        elif mode == MIRROR:
            whole = np.floor(coordinate)
            position = coordinate - whole
            if whole - 2.0 * np.floor(whole / 2.0) != 0.0:
                position = 1.0 - position
        position *= size
    if math.isnan(position):
        return 0.0
    return min(max(position, -_FAR), _FAR)


@compiled
def _index(index: Any, size: Any, mode: Any, normalized: Any) -> Any:
    """The texel at `index` after addressing, or -1 for the border."""
    if 0 <= index < size:
        return index
    if mode == BORDER_MODE:
        return -1
    if mode == WRAP and normalized:
        return index % size
    return 0 if index < 0 else size - 1


@compiled
def _face(x: Any, y: Any, z: Any) -> Any:
    """Face of a cube map and the Guide's s, t and m. Of equal magnitudes x goes before y before z."""
    if abs(x) >= abs(y) and abs(x) >= abs(z):
        face, major, s, t = (0, x, -z, -y) if x >= 0 else (1, -x, z, -y)
    elif abs(y) >= abs(z):
        face, major, s, t = (2, y, x, z) if y >= 0 else (3, -y, x, -z)
    else:
        face, major, s, t = (4, z, x, -y) if z >= 0 else (5, -z, -x, -y)
    return face, s, t, major


@compiled
def _channel(address: Any, row: Any) -> Any:
    """The 32-bit pattern that a channel at a host address reads as."""
    bits = row[tx.CHANNEL_BITS]
    raw = tx.load(address, bits // 8)
    if bits == 32:
        return raw
    if row[tx.FORMAT] == tx.FLOAT_FORMAT:
        return tx.widen(raw)
    if row[tx.FORMAT] == tx.SIGNED_FORMAT and raw >> (bits - 1):
        raw -= 1 << bits
    if not row[tx.NORMALIZED_READ]:
        return raw & 0xFFFFFFFF
    largest = (1 << (bits - 1 if row[tx.FORMAT] == tx.SIGNED_FORMAT else bits)) - 1
    return tx.pattern_of(numba.float32(max(raw / largest, -1.0)))


@compiled
def _missing(channel: Any, row: Any) -> Any:
    """What a channel that the format lacks reads as: 0, and 1 for the fourth."""
    if channel < 3:
        return numba.int64(0)
    return numba.int64(tx.ONE if row[tx.FORMAT] == tx.FLOAT_FORMAT or row[tx.NORMALIZED_READ] else 1)


@compiled
def _address(row: Any, x: Any, y: Any, z: Any) -> Any:
    """Device address of a texel; -1, no address, if an index is -1, which is the border."""
    if x < 0 or y < 0 or z < 0:
        return numba.int64(-1)
    size = row[tx.CHANNELS] * row[tx.CHANNEL_BITS] // 8
    return row[tx.ADDRESS_WORD] + z * row[tx.SLICE_PITCH] + y * row[tx.ROW_PITCH] + x * size


@compiled
def _texel(request: Any, lane: Any, row: Any, address: Any, out: Any) -> Any:
    """Patterns of the four channels at `_address` into `out`. False when the memory is not there."""
    channels = row[tx.CHANNELS]
    if address == -1:
        for channel in range(4):
            out[channel] = row[tx.BORDER + channel] if channel < channels else _missing(channel, row)
        return True
    step = row[tx.CHANNEL_BITS] // 8
    failure = tx.reach(request, address, channels * step, False)
    if failure != tx.FINE:
        tx.fail(request, failure, lane, address)
        return False
    tx.touch(request, address)
    for channel in range(4):
        out[channel] = _channel(address + request[tx.DELTA] + channel * step, row) if channel < channels else _missing(channel, row)
    return True


@compiled
def _locate(request: Any, lane: Any, row: Any, position: Any) -> Any:
    """The lane's coordinates of up to three filtered axes into `position`; returns the layer (or face), 0 without layers.

    On a face they are s, t and m."""
    geometry, integers = request[tx.WHAT] & 0xFF, request[tx.WHAT] & INTEGER_COORDINATES
    coordinates = numba.carray(tx.pointer(request[tx.COORDINATES]), (4, 32), numba.int32)
    layered = geometry in (tx.LAYERED_1D, tx.LAYERED_2D, tx.LAYERED_CUBE)
    first = 1 if layered else 0
    for axis in range(3):
        pattern = numba.int64(coordinates[min(first + axis, 3), lane])
        position[axis] = numba.float64(pattern) if integers else numba.float64(tx.float_of(pattern))
    layer = numba.int64(0)
    if layered:
        layer = min(numba.int64(coordinates[0, lane]) & 0xFFFFFFFF, row[tx.LAYERS] // (6 if geometry == tx.LAYERED_CUBE else 1) - 1)
    if geometry in (tx.CUBE, tx.LAYERED_CUBE):
        face, position[0], position[1], position[2] = _face(position[0], position[1], position[2])
        layer = 6 * layer + face
    return layer


@compiled
def _axes(geometry: Any) -> Any:
    """How many axes are filtered."""
    if geometry == tx.THREE_D:
        return 3
    return 1 if geometry in (tx.ONE_D, tx.LAYERED_1D) else 2


@compiled
def _mode(geometry: Any, sampler: Any, axis: Any) -> Any:
    """Address mode of an axis. Faces of a cube map are clamped: their edges are not joined."""
    return CLAMP if geometry in (tx.CUBE, tx.LAYERED_CUBE) else sampler[tx.ADDRESS_X + axis]


@compiled
def _lowest(here: Any, smooth: Any) -> Any:
    """The lowest texel of the footprint along an axis, and the weight of the next one in 1/256; 0 without a filter."""
    if smooth:
        fixed = numba.int64(np.floor((here - 0.5) * 256.0 + 0.5))
        return fixed >> 8, fixed & 255
    return numba.int64(np.floor(here)), numba.int64(0)


@compiled
def _weight(axes: Any, x: Any, y: Any, z: Any, corner: Any) -> Any:
    """Of texel `corner` of the footprint, in 1/256 along each axis, whose next texels have the weights x, y and z."""
    weight = x if corner & 1 else 256 - x
    if axes > 1:
        weight *= y if corner & 2 else 256 - y
    if axes > 2:
        weight *= z if corner & 4 else 256 - z
    return weight


@compiled
def _footprint(request: Any, row: Any, sampler: Any, smooth: Any, normalized: Any, position: Any, low: Any, share: Any) -> Any:
    """From coordinates to the lowest texel of the footprint and the weight, in 1/256, of the next one along each axis."""
    geometry = request[tx.WHAT] & 0xFF
    low[:], share[:] = 0, 0
    for axis in range(_axes(geometry)):
        if geometry in (tx.CUBE, tx.LAYERED_CUBE):  # (s / m + 1) / 2 * size, rounded once
            share_of_face = (position[axis] + position[2]) * row[tx.WIDTH + axis] / (2.0 * position[2])
            here = _position(share_of_face, row[tx.WIDTH + axis], CLAMP, False)
        else:
            here = _position(position[axis], row[tx.WIDTH + axis], _mode(geometry, sampler, axis), normalized)
        low[axis], share[axis] = _lowest(here, smooth)


@compiled
def _corner_address(row: Any, sampler: Any, geometry: Any, normalized: Any, x: Any, y: Any, z: Any, corner: Any) -> Any:
    """`_address` of texel `corner` of the footprint whose lowest one is (x, y, z): bits 0 to 2 say whether it is the next one in x,
    y, z. An axis that is not filtered has its index: the layer, or 0.
    """
    axes = _axes(geometry)
    x = _index(x + (corner & 1), row[tx.WIDTH], _mode(geometry, sampler, 0), normalized)
    if axes > 1:
        y = _index(y + (corner >> 1 & 1), row[tx.HEIGHT], _mode(geometry, sampler, 1), normalized)
    if axes > 2:
        z = _index(z + (corner >> 2), row[tx.DEPTH], _mode(geometry, sampler, 2), normalized)
    return _address(row, x, y, z)


@compiled
def _corner(request: Any, lane: Any, row: Any, sampler: Any, normalized: Any, low: Any, corner: Any, layer: Any, out: Any) -> Any:
    """Patterns of texel `corner` of the footprint, as of `_corner_address`."""
    geometry = request[tx.WHAT] & 0xFF
    z = low[2] if _axes(geometry) > 2 else layer
    return _texel(request, lane, row, _corner_address(row, sampler, geometry, normalized, low[0], low[1], z, corner), out)


@compiled
def _filtered(request: Any, lane: Any, row: Any, sampler: Any, normalized: Any, low: Any, share: Any, layer: Any, out: Any) -> Any:
    """The weighted mean of a footprint. False when the memory is not there."""
    axes = _axes(request[tx.WHAT] & 0xFF)
    sums = (0.0, 0.0, 0.0, 0.0)
    for corner in range(1 << axes):
        if not _corner(request, lane, row, sampler, normalized, low, corner, layer, out):
            return False
        weight = _weight(axes, share[0], share[1], share[2], corner)
        if weight:
            r, g, b, a = tx.float_of(out[0]), tx.float_of(out[1]), tx.float_of(out[2]), tx.float_of(out[3])
            sums = (sums[0] + weight * r, sums[1] + weight * g, sums[2] + weight * b, sums[3] + weight * a)
    whole = 256.0**axes
    out[0], out[1] = tx.pattern_of(numba.float32(sums[0] / whole)), tx.pattern_of(numba.float32(sums[1] / whole))
    out[2], out[3] = tx.pattern_of(numba.float32(sums[2] / whole)), tx.pattern_of(numba.float32(sums[3] / whole))
    return True


@compiled
def _gathered(
    request: Any, lane: Any, row: Any, sampler: Any, normalized: Any, low: Any, layer: Any, component: Any, out: Any, four: Any
) -> Any:
    """One component of the four texels of a footprint, counter-clockwise from the lower left, where y grows downwards."""
    for place in range(4):
        corner = (2, 3, 1, 0)[place]
        if not _corner(request, lane, row, sampler, normalized, low, corner, layer, four):
            return False
        out[place] = four[component]
    return True


@compiled
def _fetch(request: Any, lane: Any, row: Any, sampler: Any, reals: Any, whole: Any) -> Any:
    """One lane of `tex` or `tld4`: four patterns into `whole[0]`. False when the memory is not there."""
    geometry, gather = request[tx.WHAT] & 0xFF, request[tx.WHAT] >> GATHER_SHIFT
    integers = (request[tx.WHAT] & INTEGER_COORDINATES) != 0
    out, low, share = whole[0], whole[1], whole[2]
    layer = _locate(request, lane, row, reals)
    if geometry == tx.ONE_D and integers and not 0 <= reals[0] < row[tx.WIDTH]:
        out[:] = 0
        return True
    normalized = (sampler[tx.NORMALIZED] != 0 or geometry in (tx.CUBE, tx.LAYERED_CUBE)) and not integers
    smooth = (sampler[tx.FILTER] == LINEAR and not integers) or gather > 0
    _footprint(request, row, sampler, smooth, normalized, reals, low, share)
    if gather:
        return _gathered(request, lane, row, sampler, normalized, low, layer, gather - 1, out, whole[3])
    if smooth:
        return _filtered(request, lane, row, sampler, normalized, low, share, layer, out)
    return _corner(request, lane, row, sampler, normalized, low, 0, layer, out)


@compiled
def _suits(row: Any, sampler: Any, what: Any) -> Any:
    """May this object and this sampler be used by the instruction?"""
    geometry = what & 0xFF
    if row[tx.USE] != tx.TEXTURE or sampler[tx.USE] == tx.SURFACE:
        return False
    # A sampler object may ask for a filter that the texture's format has not.
    exact = row[tx.FORMAT] != tx.FLOAT_FORMAT and not row[tx.NORMALIZED_READ]
    if exact and sampler[tx.FILTER] == LINEAR and not what & INTEGER_COORDINATES and not what >> GATHER_SHIFT:
        return False
    linear = row[tx.KIND] == tx.LINEAR_MEMORY and geometry == tx.ONE_D and what & INTEGER_COORDINATES != 0
    return row[tx.KIND] == geometry or linear


@compiled
def _lane_footprint(request: Any, lane: Any, row: Any, sampler: Any, integers: Any, normalized: Any, smooth: Any) -> Any:
    """`_lowest` for x, y and z; z is the layer where there are layers, and what a geometry lacks is 0."""
    geometry = request[tx.WHAT] & 0xFF
    patterns = numba.carray(tx.pointer(request[tx.COORDINATES]), (4, 32), numba.int32)
    reals = numba.carray(tx.pointer(request[tx.COORDINATES]), (4, 32), numba.float32)
    axes, first = _axes(geometry), 1 if geometry in (tx.LAYERED_1D, tx.LAYERED_2D) else 0
    y, z = (numba.int64(0), numba.int64(0)), (numba.int64(0), numba.int64(0))
    if first:
        z = (min(numba.int64(patterns[0, lane]) & 0xFFFFFFFF, row[tx.LAYERS] - 1), numba.int64(0))
    at = numba.float64(patterns[first, lane]) if integers else numba.float64(reals[first, lane])
    x = _lowest(_position(at, row[tx.WIDTH], sampler[tx.ADDRESS_X], normalized), smooth)
    if axes > 1:
        at = numba.float64(patterns[first + 1, lane]) if integers else numba.float64(reals[first + 1, lane])
        y = _lowest(_position(at, row[tx.HEIGHT], sampler[tx.ADDRESS_X + 1], normalized), smooth)
    if axes > 2:
        at = numba.float64(patterns[2, lane]) if integers else numba.float64(reals[2, lane])
        z = _lowest(_position(at, row[tx.DEPTH], sampler[tx.ADDRESS_X + 2], normalized), smooth)
    return x, y, z


@compiled
def _fetch_alike(request: Any, row: Any, sampler: Any, values: Any, sums: Any) -> Any:
    """`tex` of lanes that all use one object and sampler, no cube map: what they share is looked at once. False, with nothing
    done, where a lane meets a border or memory that is not there: then lanes are served one by one.
    """
    geometry, integers = request[tx.WHAT] & 0xFF, (request[tx.WHAT] & INTEGER_COORDINATES) != 0
    normalized, smooth = sampler[tx.NORMALIZED] != 0 and not integers, sampler[tx.FILTER] == LINEAR and not integers
    axes, channels, step, delta = _axes(geometry), row[tx.CHANNELS], row[tx.CHANNEL_BITS] // 8, request[tx.DELTA]
    patterns = numba.carray(tx.pointer(request[tx.COORDINATES]), (4, 32), numba.int32)
    size, whole, before, mask = channels * step, 256.0**axes, numba.int64(-1), request[tx.MASK]
    for lane in range(32):
        if not mask >> lane & 1 or (geometry == tx.ONE_D and integers and not 0 <= patterns[0, lane] < row[tx.WIDTH]):
            continue
        x, y, z = _lane_footprint(request, lane, row, sampler, integers, normalized, smooth)
        sums[:] = 0.0
        for corner in range(1 << axes if smooth else 1):
            address = _corner_address(row, sampler, geometry, normalized, x[0], y[0], z[0], corner)
            if address < 0 or tx.reach(request, address, size, False) != tx.FINE:
                values[:], request[tx.COUNT] = 0, 0
                return False
            if address >> 5 != before:
                before = address >> 5
                tx.touch(request, address)
            weight = _weight(axes, x[1], y[1], z[1], corner) if smooth else numba.int64(1)
            for channel in range(channels):
                pattern = _channel(address + delta + channel * step, row)
                if smooth and weight:
                    sums[channel] += weight * tx.float_of(pattern)
                values[channel, lane] = pattern
        for channel in range(4):
            if channel >= channels:
                values[channel, lane] = _missing(channel, row)
            elif smooth:
                values[channel, lane] = tx.pattern_of(numba.float32(sums[channel] / whole))
    return True


@compiled
def _alike(request: Any, word: Any) -> Any:
    """Whether all active lanes have one handle in `word` of the request."""
    handles, mask = numba.carray(tx.pointer(request[word]), 32, numba.int64), request[tx.MASK]
    differ, one = numba.int64(0), numba.int64(0)
    for lane in range(32):
        one |= handles[lane] if mask >> lane & 1 else 0
    for lane in range(32):
        differ |= handles[lane] ^ one if mask >> lane & 1 else 0
    return differ == 0


@cache
def fetch_function(sources: int = tx.SOURCES) -> Any:
    """The C function of `tex` and `tld4`. `sources` is a constant in it, so that a copy on disk is used for these sources only."""

    def fetch_warp(place):  # type: ignore[no-untyped-def]
        """`tex` or `tld4` of a warp: VALUES of the request get four patterns per lane, lanes that are off get 0."""
        if sources < 0:
            return
        request = numba.carray(place, tx.REQUEST_WORDS, numba.int64)
        values = numba.carray(tx.pointer(request[tx.VALUES]), (4, 32), numba.int64)
        table = numba.carray(tx.pointer(request[tx.TABLE]), (request[tx.TABLE_COUNT], tx.ROW_WORDS), numba.int64)
        values[:] = 0
        request[tx.FAILURE], request[tx.COUNT] = tx.FINE, 0
        reals, whole = np.zeros(4, np.float64), np.zeros((4, 4), np.int64)
        geometry, lane = request[tx.WHAT] & 0xFF, 0
        if geometry not in (tx.CUBE, tx.LAYERED_CUBE) and not request[tx.WHAT] >> GATHER_SHIFT and request[tx.MASK] and (
            _alike(request, tx.HANDLES) and _alike(request, tx.SAMPLERS)
        ):
            while not request[tx.MASK] >> lane & 1:
                lane += 1
            number, other = tx.find(request, lane, tx.HANDLES), tx.find(request, lane, tx.SAMPLERS)
            if (
                number >= 0 and other >= 0 and _suits(table[number], table[other], request[tx.WHAT])
                and _fetch_alike(request, table[number], table[other], values, reals)
            ):
                return
        for lane in range(32):
            if not request[tx.MASK] >> lane & 1:
                continue
            number, other = tx.find(request, lane, tx.HANDLES), tx.find(request, lane, tx.SAMPLERS)
            if number < 0 or other < 0:
                tx.refuse(request, tx.BAD_HANDLE, lane, tx.HANDLES if number < 0 else tx.SAMPLERS)
                return
            if not _suits(table[number], table[other], request[tx.WHAT]):
                tx.refuse(request, tx.WRONG_KIND, lane, tx.HANDLES)
                return
            if not _fetch(request, lane, table[number], table[other], reals, whole):
                return
            for channel in range(4):
                values[channel, lane] = whole[0, channel]

    return tx.warp_function(fetch_warp)


@cache
def query_function(sources: int = tx.SOURCES) -> Any:
    """The C function of `txq`, `suq` and `istypep`."""

    def query_warp(place):  # type: ignore[no-untyped-def]
        """`txq`, `suq`, `istypep`: first VALUES get a word of the descriptor.

        WHAT is the word, above it a bit per use that the object may have; with OPTIONAL lanes without such an object get 0.
        """
        if sources < 0:
            return
        request = numba.carray(place, tx.REQUEST_WORDS, numba.int64)
        values = numba.carray(tx.pointer(request[tx.VALUES]), (4, 32), numba.int64)
        table = numba.carray(tx.pointer(request[tx.TABLE]), (request[tx.TABLE_COUNT], tx.ROW_WORDS), numba.int64)
        values[:] = 0
        request[tx.FAILURE] = tx.FINE
        for lane in range(32):
            if not request[tx.MASK] >> lane & 1:
                continue
            number = tx.find(request, lane, tx.HANDLES)
            known = number >= 0 and request[tx.WHAT] >> USES_SHIFT >> table[number, tx.USE] & 1 != 0
            if known:
                values[0, lane] = table[number, request[tx.WHAT] & 0xFF]
            elif not request[tx.WHAT] & OPTIONAL:
                tx.refuse(request, tx.BAD_HANDLE if number < 0 else tx.WRONG_KIND, lane, tx.HANDLES)
                return

    return tx.warp_function(query_warp)
