"""Kernels that `triton.jit` made, compiled to PTX for a stated target, without a driver, and specialised as Triton's launcher does.

The launcher compiles for the arguments: an integer of 1 becomes a constant, one divisible by 16 and every pointer aligned
to 16 bytes (device arrays here are, as PyTorch's) are promised to be so, unless the kernel says `do_not_specialize`. The compiled
kernel takes what is left in order, then two addresses of scratch memory. Triton is imported only when such a kernel is given.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpsight.base.errors import CompileError, UnsupportedError, UsageError
from warpsight.kernels.arguments import parse_argument
from warpsight.kernels.launch import ArrayArgument
from warpsight.kernels.toolkit import DEFAULT_ARCHITECTURE, parse_architecture

_DIVISOR = 16
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "allow_fp8e4nv")
_TYPES = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
_SCALARS = {"fp32": np.float32, "fp64": np.float64, "i1": np.uint8, "u1": np.uint8, "i8": np.int8, "i16": np.int16,
            "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}  # fmt: skip
_ARRAYS = "pass NumPy arrays (bfloat16 with ml_dtypes) and Python numbers"


def is_triton_kernel(kernel: Any) -> bool:
    """A `@triton.jit` function, also below `@triton.autotune` and `@triton.heuristics`; not one that is compiled already."""
    return type(kernel).__module__.startswith("triton.") and hasattr(kernel, "arg_names") and hasattr(kernel, "fn")


def compile_triton(kernel: Any, launch: Mapping[str, Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """The launch of a Triton kernel: `source` (PTX), `kernel`, `grid`, `block`, `shared`, `args`, `name`, and the rest of `launch`.

    `launch` holds `args` (for the parameters that are not `constants`, in order), `grid` (numbers, or a function of the parameters
    by name, as in Triton), `arch`. `constants` are the `tl.constexpr` parameters by name, and `num_warps`, `num_stages`.
    Raises CompileError with Triton's words, UsageError and UnsupportedError for what cannot be passed.
    """
    rest = {key: value for key, value in launch.items() if key not in ("arch", "args", "grid", "seed", "block")}
    constants = dict(constants)
    function = _unwrapped(kernel, constants)
    name = str(function.fn.__name__)
    if launch.get("block") is not None:
        what = "Triton fixes the threads of a block: 32 x num_warps"
        raise UsageError(what, place="block", remedy="pass num_warps in `constants`")
    if rest.get("shared") is not None:
        raise UsageError("Triton fixes the shared memory of a block", place="shared", remedy="leave it out")
    options = {key: constants.pop(key) for key in _OPTIONS if key in constants}
    if options.get("num_ctas", 1) != 1:
        what = f"kernel {name} with thread block clusters is not modelled"
        raise UnsupportedError(what, place="num_ctas", remedy="use num_ctas=1")
    values = _bound(function, name, launch.get("args", ()), constants, int(launch.get("seed", 0)))
    _heuristics(kernel, values, constants)
    compiled, passed = _compile(function, name, values, set(constants), options, launch.get("arch"))
    metadata = compiled.metadata
    if getattr(metadata, "global_scratch_size", 0):
        raise UnsupportedError(f"kernel {name} needs scratch in global memory", place=name, remedy="avoid tensor descriptors")
    if launch.get("grid") is None:
        raise UsageError("is missing: how many blocks in the grid?", place="grid", remedy="pass numbers or a function as `grid`")
    grid = launch["grid"](values) if callable(launch["grid"]) else launch["grid"]
    return {
        **rest,
        "source": str(compiled.asm["ptx"]),
        "kernel": rest.get("kernel") or str(metadata.name),
        "name": f"{name} (Triton)",
        "grid": grid,
        "block": (32 * int(metadata.num_warps), 1, 1),
        "shared": int(metadata.shared),
        "args": (*passed, *_scratch(str(compiled.asm["ptx"]), len(passed))),
    }


def _unwrapped(kernel: Any, constants: dict[str, Any]) -> Any:
    """The `JITFunction`, with the values of an autotuner's only configuration among the constants."""
    function = kernel
    while hasattr(function, "fn") and hasattr(function.fn, "arg_names"):
        configs = getattr(function, "configs", None)
        if configs is not None and not set(constants) & {key for config in configs for key in config.kwargs}:
            if len(configs) != 1:
                listed = "; ".join(str(config) for config in configs[:6])
                what = f"the kernel is tuned at run time, among {len(configs)} configurations: {listed}"
                raise UsageError(what, place="constants", remedy="choose one: constants={...}")
            for key, value in configs[0].all_kwargs().items():
                if value is not None and (key in _OPTIONS or key in function.arg_names):
                    constants.setdefault(key, value)
        function = function.fn
    if not hasattr(function, "params") or getattr(function, "is_gluon", bool)():
        what = "only kernels of triton.jit are known, not interpreted or Gluon ones"
        raise UnsupportedError(what, place="source", remedy="unset TRITON_INTERPRET, or use triton.jit")
    return function


def _heuristics(kernel: Any, values: dict[str, Any], constants: dict[str, Any]) -> None:
    """Fill in what `@triton.heuristics` computes from the arguments."""
    while hasattr(kernel, "fn") and hasattr(kernel.fn, "arg_names"):
        if isinstance(getattr(kernel, "values", None), Mapping):
            for key, rule in kernel.values.items():
                values[key] = constants[key] = rule(values)
        kernel = kernel.fn


def _bound(function: Any, name: str, args: Sequence[Any], constants: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Every parameter's value by name: `args` in order for those that are not constants, then constants and defaults."""
    names = [parameter.name for parameter in function.params]
    remedy = f"its parameters are {', '.join(names)}"
    if unknown := [key for key in constants if key not in names]:
        raise UsageError(f'{name} has no parameter "{unknown[0]}"', place="constants", remedy=remedy)
    free = [parameter for parameter in function.params if parameter.name not in constants]
    if len(args) > len(free):
        what = f"{name} takes {len(free)} argument(s) that are not constants, {len(args)} given"
        raise UsageError(what, place="arguments", remedy=remedy)
    values = dict(constants)
    for position, (parameter, value) in enumerate(zip(free, args, strict=False)):
        if isinstance(value, str):
            value = parse_argument(value, None, seed, position=position)  # noqa: PLW2901
            if not isinstance(value, ArrayArgument):
                raise UsageError("is a scalar given as text", place=f"argument {position + 1}", remedy=_ARRAYS)
        values[parameter.name] = value.array if isinstance(value, ArrayArgument) else value
    return values


def _compile(
    function: Any, name: str, values: dict[str, Any], fixed: set[str], options: dict[str, Any], arch: str | int | None
) -> tuple[Any, list[Any]]:
    """The compiled kernel and the arguments that it still takes."""
    signature: dict[str, str] = {}
    constexprs: dict[str, Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    passed: list[Any] = []
    for position, parameter in enumerate(function.params):
        key = parameter.name
        if key not in values:
            if not parameter.has_default:
                remedy = "pass it in `constants`" if parameter.is_constexpr else "pass it in `args`"
                raise UsageError(f'{name} needs a value for "{key}"', place="arguments", remedy=remedy)
            values[key] = parameter.default
        value = values[key]
        annotated = getattr(parameter, "annotation_type", "")
        unit = isinstance(value, int) and not isinstance(value, bool) and value == 1 and not parameter.do_not_specialize
        if parameter.is_constexpr or key in fixed or value is None or (unit and not annotated.startswith(("fp", "bf", "u1"))):
            signature[key], constexprs[key] = "constexpr", value
            continue
        kind = annotated if annotated and not isinstance(value, np.ndarray) else _type_of(key, value)
        signature[key] = kind
        if not parameter.do_not_specialize and not getattr(parameter, "do_not_specialize_on_alignment", False):
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) % _DIVISOR == 0
            if isinstance(value, np.ndarray) or whole:
                attributes[(position,)] = [["tt.divisibility", _DIVISOR]]
        passed.append(value if isinstance(value, np.ndarray) else _scalar(key, value, kind))
    target = parse_architecture(arch if arch is not None else DEFAULT_ARCHITECTURE)
    triton, backend = importlib.import_module("triton"), importlib.import_module("triton.backends.compiler")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = importlib.import_module("triton.compiler").ASTSource(function, signature, constexprs, attributes)
            return triton.compile(source, target=backend.GPUTarget("cuda", target.number, 32), options=options), passed
    except Exception as error:  # Triton has no common base for what it raises on a wrong kernel
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        what = f"Triton cannot compile {name}: {' '.join(lines[-2:]) if lines else type(error).__name__}"
        raise CompileError(what, place=name, remedy="correct the kernel or its arguments") from error


def _type_of(name: str, value: Any) -> str:
    if isinstance(value, np.ndarray):
        kind = _TYPES.get(value.dtype.name)
        if kind is None:
            raise UsageError(f"Triton has no arrays of {value.dtype}", place=f'argument "{name}"', remedy=_ARRAYS)
        return f"*{kind}"
    if isinstance(value, (bool, np.bool_)):
        return "u1"
    if isinstance(value, int):
        for kind, low, high in (("i32", -(1 << 31), 1 << 31), ("i64", -(1 << 63), 1 << 63), ("u64", 0, 1 << 64)):
            if low <= value < high:
                return kind
    if isinstance(value, float):
        return "fp32"
    if isinstance(value, np.number) and _TYPES.get(value.dtype.name) in _SCALARS:
        return _TYPES[value.dtype.name]
    what = f"a {type(value).__name__} cannot be passed to a Triton kernel here"
    raise UnsupportedError(what, place=f'argument "{name}"', remedy=_ARRAYS)


def _scalar(name: str, value: Any, kind: str) -> Any:
    if kind in ("fp16", "bf16"):
        kind = "fp32"  # the launcher passes both as single precision
    if kind not in _SCALARS:
        raise UnsupportedError(f"a scalar of type {kind} is not modelled", place=f'argument "{name}"', remedy=_ARRAYS)
    return _SCALARS[kind](value)


def _scratch(ptx: str, passed: int) -> list[Any]:
    """Null for the addresses of scratch memory that follow the kernel's own parameters."""
    start = ptx.index(".entry")
    return [np.uint64(0)] * max(0, ptx.count(".param", start, ptx.index(")", start)) - passed)
