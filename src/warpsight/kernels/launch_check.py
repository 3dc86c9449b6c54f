"""A launch that CUDA would accept: grid and block within the limits of CUDA and of the kernel, and arguments that fit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpsight.base.errors import UnsupportedError, UsageError
from warpsight.isa.ptx.program import Function, Variable
from warpsight.kernels.arguments import (
    array_argument,
    pack_for,
    parameter_text,
    parse_argument,
    require_array,
    require_bytes,
    require_scalar,
)
from warpsight.kernels.images import Image
from warpsight.kernels.launch import Argument, ArrayArgument, Dim3, KernelSource, Launch, ScalarArgument
from warpsight.kernels.mangling import display_name
from warpsight.kernels.sources import find_kernel
from warpsight.kernels.values import has_names, parse_integer, shown, whole_number


def describe_parameters(function: Function) -> str:
    """`(u64 (or array), u32)`: what the kernel takes, in order."""
    return f"({', '.join(parameter_text(parameter) for parameter in function.parameters)})"


def refuse_made_parameters(function: Function) -> None:
    """Raises UnsupportedError for a kernel with a parameter that NVIDIA's driver makes with code in the cubin."""
    if function.made_bytes:
        what = "it has parameters that NVIDIA's driver makes with code in the cubin, as tensor maps of CUDA Tile's kernels"
        raise UnsupportedError(what, place=display_name(function.name), remedy="run the program that launches it: `warpsight run`")


def _bind_one(value: Any, parameter: Variable, seed: int, position: int) -> Argument:
    place = f"argument {position + 1}"
    if isinstance(value, str):
        return parse_argument(value, parameter, seed, position=position)
    if isinstance(value, Image):
        require_array(parameter, place)
        return value
    if isinstance(value, ArrayArgument) and value.descriptor:
        require_bytes(value.descriptor, parameter, place)
        return value
    if isinstance(value, (ArrayArgument, np.ndarray)):
        require_array(parameter, place)
        return value if isinstance(value, ArrayArgument) else array_argument(value, place)
    return ScalarArgument(_scalar_bytes(value, parameter, place))


def _scalar_bytes(value: Any, parameter: Variable, place: str) -> bytes:
    if isinstance(value, np.generic):
        require_scalar(value.dtype, parameter, place)
        return value.tobytes()
    if isinstance(value, (bool, int, float)):
        return pack_for(value, parameter, place)
    if not isinstance(value, (ScalarArgument, bytes, bytearray, memoryview)):
        remedy = "pass a NumPy array or scalar, an int, a float, a bool, bytes, or a text such as 'f32[1024]:uniform'"
        raise UsageError(f"a {type(value).__name__} cannot be passed to a kernel", place=place, remedy=remedy)
    data = value.data if isinstance(value, ScalarArgument) else bytes(value)
    require_bytes(data, parameter, place)
    return data


def bind(function: Function, arguments: Sequence[Any], *, seed: int = 0) -> tuple[Argument, ...]:
    """The arguments of a launch of `function`, in order.

    Arrays are device memory and are not copied here (written back after the run unless read-only); a Texture or Surface becomes an
    object and the parameter its handle; NumPy scalars go by their dtype, Python numbers take the parameter's type and must fit,
    bytes go as they are, texts are read by `parse_argument` with `seed`.
    Raises UsageError that names the position (counted from 1), or lists the parameters when the count is wrong, and
    UnsupportedError for `made_bytes`.
    """
    refuse_made_parameters(function)
    expected = len(function.parameters)
    if expected != len(arguments):
        what = f"{display_name(function.name)} takes {expected} argument(s), {len(arguments)} given"
        more = "" if arguments else "; `warpsight init FILE` writes a launch file with a value for each"
        raise UsageError(what, place="arguments", remedy=f"its parameters are {describe_parameters(function)}{more}")
    pairs = zip(arguments, function.parameters, strict=True)
    return tuple(_bind_one(value, parameter, seed, position) for position, (value, parameter) in enumerate(pairs))


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the same for every one since 3.0.
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
MAX_BLOCK: Dim3 = (1024, 1024, 64)
MAX_THREADS_PER_BLOCK = 1024
_EXAMPLES = "write e.g. 128, 16x64 or 12,12,1"


def parse_dim3(value: str | int | Sequence[int], place: str, names: Mapping[str, int] | None = None) -> Dim3:
    """One to three whole numbers, `128`, `16x64`, `12,12,1`, `(16, 16)`; missing dimensions are 1. Raises UsageError.

    With `names` also expressions that read them, between commas: `ceil(n / block.x), 4`.
    """
    if isinstance(value, str) and names is not None and has_names(value):
        numbers = [parse_integer(part, place, names) for part in _between_commas(value)]
    elif isinstance(value, str):
        text = value.strip()
        if text.startswith(("(", "[")) and text.endswith((")", "]")) and re.search(r"[,x]", text):
            text = text[1:-1].rstrip(", ")
        # The x of a hexadecimal 0x10 does not separate dimensions.
        parts = [part if part.strip() else "nothing" for part in re.split(r",|(?<!\b0)[xX]", text)]
        numbers = [parse_integer(part, place) for part in parts]
    elif isinstance(value, Sequence):
        numbers = [
            parse_integer(part, place, names) if isinstance(part, str) else whole_number(part, place, _EXAMPLES) for part in value
        ]
    else:
        numbers = [whole_number(value, place, _EXAMPLES)]
    if not 1 <= len(numbers) <= 3:
        raise UsageError(f"{shown(value)} has {len(numbers)} dimensions, not 1 to 3", place=place, remedy=_EXAMPLES)
    x, y, z = (*numbers, 1, 1)[:3]
    return (x, y, z)


def _between_commas(text: str) -> list[str]:
    """The parts between commas that stand in no parentheses; those around all of the text count as none."""
    parts, depth, stripped = [""], 0, text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        stripped = stripped[1:-1]
    for sign in stripped:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _dims_text(dims: Dim3) -> str:
    return f"({dims[0]},{dims[1]},{dims[2]})"


def _check_dims(dims: Dim3, limits: Dim3, place: str) -> None:
    for axis, size, limit in zip("xyz", dims, limits, strict=True):
        if size <= 0:
            what = f"the {place} {_dims_text(dims)} has {size} in {axis}: nothing would run"
            raise UsageError(what, place=place, remedy=_EXAMPLES)
        if size > limit:
            what = f"the {place} {_dims_text(dims)} has {size:,} in {axis}, above CUDA's limit of {limit:,}"
            raise UsageError(what, place=place, remedy=f"use at most {limit:,} in {axis}")


def _check_block(block: Dim3, function: Function) -> None:
    threads, name, dims = math.prod(block), display_name(function.name), _dims_text(block)
    if min(block) > 0 and threads > MAX_THREADS_PER_BLOCK:
        what = f"the block {dims} has {threads:,} threads, above CUDA's limit of {MAX_THREADS_PER_BLOCK:,}"
        raise UsageError(what, place="block", remedy=f"use at most {MAX_THREADS_PER_BLOCK:,} threads per block, and more blocks")
    _check_dims(block, MAX_BLOCK, "block")
    required = function.required_threads
    if required is not None and block != required:
        what = f"the block is {dims}, and {name} is compiled for {_dims_text(required)} only (.reqntid)"
        raise UsageError(what, place="block", remedy=f"use `block='{'x'.join(map(str, required))}'`")
    most = threads if function.max_threads is None else math.prod(function.max_threads)
    if threads > most:
        what = f"the block {dims} has {threads:,} threads, and {name} was compiled for at most {most:,} (.maxntid)"
        raise UsageError(what, place="block", remedy=f"use at most {most:,} threads a block, or raise __launch_bounds__")


def make_launch(
    source: KernelSource, kernel: str | None, grid: str | int | Sequence[int], block: str | int | Sequence[int],
    args: Sequence[Any] = (), *, shared: str | int = 0, seed: int = 0, cluster: str | int | Sequence[int] | None = None,
    names: Mapping[str, int] | None = None,
) -> Launch:
    """A checked launch of `kernel` (as `find_kernel` reads it; None when `source` has only one).

    `grid` in blocks and `block` in threads, 1 to 3 dimensions; `args` as `bind` takes them; `shared` dynamic shared bytes;
    `cluster` in blocks, None for what the kernel was compiled for. The texts of these may read `names`, and those of grid and
    shared memory also the block, as `block.x`.
    Raises UsageError for what CUDA would refuse. What depends on the GPU (its shared memory) is checked by occupancy.
    """
    name = find_kernel(source, kernel)
    function = source.module.kernels[name]
    try:
        block_dims, grid_dims, shared_bytes = _dimensions(function, grid, block, shared, names)
    except UsageError:
        bind(function, args, seed=seed)  # an argument that is wrong is named before what reads it
        raise
    shape = _cluster_shape(function, None if cluster is None else parse_dim3(cluster, "cluster"), grid_dims)
    return Launch(name, grid_dims, block_dims, bind(function, args, seed=seed), shared_bytes, shape)


def _dimensions(
    function: Function, grid: str | int | Sequence[int], block: str | int | Sequence[int], shared: str | int,
    names: Mapping[str, int] | None,
) -> tuple[Dim3, Dim3, int]:
    """Block, grid and bytes of shared memory, checked; see `make_launch`."""
    block_dims = parse_dim3(block, "block", names)
    _check_block(block_dims, function)
    sides = {f"block.{axis}": size for axis, size in zip("xyz", block_dims, strict=True)}
    names = {**(names or {}), "block": math.prod(block_dims), **sides}
    grid_dims = parse_dim3(grid, "grid", names)
    _check_dims(grid_dims, MAX_GRID, "grid")
    shared_bytes = parse_integer(shared, "shared", names) if isinstance(shared, str) else whole_number(shared, "shared", _EXAMPLES)
    if shared_bytes < 0:
        raise UsageError(f"{shared_bytes} bytes of shared memory is negative", place="shared", remedy="give 0 or more bytes")
    return block_dims, grid_dims, shared_bytes


MOST_CLUSTER_BLOCKS = 16  # CUDA C++ Programming Guide, "Thread Block Clusters": 8, and 16 where a program allows more


def _cluster_shape(function: Function, wanted: Dim3 | None, grid: Dim3) -> Dim3 | None:
    """The cluster that a launch has: what is wanted, or what the kernel was compiled for."""
    name, required = display_name(function.name), function.required_cluster
    if wanted is not None and required is not None and wanted != required:
        what = f"the cluster is {_dims_text(wanted)}, and {name} is compiled for {_dims_text(required)} only (.reqnctapercluster)"
        raise UsageError(what, place="cluster", remedy=f"use `cluster='{'x'.join(map(str, required))}'`, or leave it out")
    shape = wanted or required
    if shape is None:
        return None
    blocks, most = math.prod(shape), min(function.max_cluster_blocks or MOST_CLUSTER_BLOCKS, MOST_CLUSTER_BLOCKS)
    if min(shape) < 1 or blocks > most:
        what = f"the cluster {_dims_text(shape)} has {blocks:,} blocks, and {name} may have 1 to {most}"
        raise UsageError(what, place="cluster", remedy="write e.g. 2 or 2x2")
    for axis, size, count in zip("xyz", shape, grid, strict=True):
        if count % size:
            what = f"the grid {_dims_text(grid)} has {count:,} blocks in {axis}, not a multiple of the cluster's {size}"
            raise UsageError(what, place="grid", remedy="launch whole clusters")
    return shape
