"""Kernels that `triton.jit` made, compiled to PTX for a stated target and specialised as Triton's launcher does, without a GPU.

Triton binds and specialises the arguments itself, for a driver of ours (`triton_driver`) that keeps the launch. Of an autotuned
kernel the configuration is chosen by the constants; what its tuner would try are its `configurations`.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from warpsight.base.errors import CompileError, UnsupportedError, UsageError, WarpsightError
from warpsight.kernels.arguments import parse_argument
from warpsight.kernels.launch import ArrayArgument
from warpsight.kernels.launch_check import parse_dim3
from warpsight.kernels.toolkit import DEFAULT_ARCHITECTURE, parse_architecture
from warpsight.kernels.triton_driver import ARGUMENTS, Device, DeviceArray, TritonLaunch, driving

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # of a configuration, beside the kernel's own parameters
_MOST_LISTED = 8
_CHOOSING = "choose one by its number or its values (--config, constants={...}); `warpsight tune` ranks them"
# Bytes of shared memory that a block may have, by compute capability (CUDA C++ Programming Guide, "Technical Specifications").
_SHARED_KIB = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
_SCALARS = (bool, int, float, str, type(None))


class OpenChoice(UsageError):
    """The constants leave several `configurations` of an autotuned kernel open; `tuner` keeps the fastest one by `key`."""

    def __init__(
        self, what: str, configurations: Sequence[dict[str, Any]], tuner: object = None, key: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(what, place="constants", remedy=_CHOOSING)
        self.configurations, self.tuner, self.key = tuple(configurations), tuner, key


def is_triton_kernel(kernel: Any) -> bool:
    """A `@triton.jit` function, also below `@triton.autotune` and `@triton.heuristics`; not one that is compiled already."""
    return type(kernel).__module__.startswith("triton.") and hasattr(kernel, "arg_names") and hasattr(kernel, "fn")


def launched_kernel(value: Any) -> tuple[Any, Any] | None:
    """The kernel and the grid of `kernel[grid]`, a function that Triton makes; None for anything else."""
    if not inspect.isfunction(value) or not value.__module__.startswith("triton."):
        return None
    held = inspect.getclosurevars(value).nonlocals
    return (held["self"], held["grid"]) if {"self", "grid"} <= held.keys() and is_triton_kernel(held["self"]) else None


def configurations(
    kernel: Any, args: Sequence[Any] = (), constants: Mapping[str, Any] | None = None, *, seed: int = 0
) -> tuple[dict[str, Any], ...]:
    """The configurations among which `@triton.autotune` chooses for these arguments; () for a kernel that it does not tune.

    Each has meta-parameters, `num_warps`, `num_stages`, `num_ctas` and `maxnreg`, as far as they are set, and chooses itself among
    the `constants` of a launch. `prune_configs_by` is applied. Raises UsageError for arguments that do not fit.
    """
    tuner = next((each for each in _layers(kernel) if hasattr(each, "configs")), None)
    if tuner is None:
        return ()
    call = _Call.of(_jit_function(kernel), args, constants or {}, seed)
    return tuple(_values(config) for config in _pruned(tuner, call))


def listed(configurations: Sequence[Mapping[str, Any]]) -> str:
    """Configurations as an error lists them: each with its number, from 1, and its values."""
    shown = [", ".join(f"{name}={value}" for name, value in each.items()) for each in configurations[:_MOST_LISTED]]
    more = f"; and {len(configurations) - _MOST_LISTED} more" if len(configurations) > _MOST_LISTED else ""
    return "; ".join(f"{number} ({values})" for number, values in enumerate(shown, 1)) + more


def compile_triton(kernel: Any, launch: Mapping[str, Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """The launch of a Triton kernel: `source` (PTX), `kernel`, `grid`, `block`, `shared`, `args`, `name`, and the rest of `launch`.

    `launch` holds `args` (for the parameters that are not `constants`, in order), `grid` (numbers, or a function of the parameters
    by name, as in Triton), `arch`. `constants` are the other parameters by name, and Triton's options, as `num_warps`.
    Raises CompileError with Triton's words, UsageError and UnsupportedError for what cannot be passed.
    """
    rest = {key: value for key, value in launch.items() if key not in ("arch", "args", "grid", "seed", "block", "cluster")}
    function = _jit_function(kernel)
    for key, what, remedy in (
        ("block", "Triton fixes the threads of a block: 32 x num_warps", "pass num_warps in `constants`"),
        ("shared", "Triton fixes the shared memory of a block", "leave it out"),
        ("cluster", "Triton fixes the blocks of a cluster", "pass num_ctas in `constants`"),
    ):
        if launch.get(key) is not None:
            raise UsageError(what, place=key, remedy=remedy)
    if launch.get("grid") is None:
        raise UsageError("is missing: how many blocks in the grid?", place="grid", remedy="pass numbers or a function as `grid`")
    architecture = parse_architecture(launch["arch"] if launch.get("arch") is not None else DEFAULT_ARCHITECTURE)
    call = _Call.of(function, launch.get("args", ()), constants, int(launch.get("seed", 0)))
    kept = _Kept(architecture.number)
    _run(kernel, call, launch["grid"], kept)
    made = kept.made
    if made is None:
        raise UsageError("the grid has no blocks: nothing would run", place="grid", remedy="give 1 or more in each dimension")
    return {
        **rest,
        "source": _INLINE.sub(_of_one_line, made.ptx),
        "kernel": rest.get("kernel") or made.entry,
        "name": f"{function.fn.__name__} (Triton)",
        "grid": made.grid,
        "block": (made.threads, 1, 1),
        "shared": made.shared,
        "args": made.arguments,
        **({} if made.cluster is None else {"cluster": made.cluster}),
    }


# Triton writes loads and stores as inline assembly, and LLVM counts the lines of that text on from the line of the source.
_INLINE = re.compile(r"// begin inline asm\n.*?// end inline asm", re.DOTALL)
_LOC = re.compile(r"^[ \t]*\.loc\b.*$", re.MULTILINE)


def _of_one_line(found: re.Match[str]) -> str:
    """Inline assembly with the first line of source that it names alone; all lines of PTX keep their numbers."""
    first, *_ = [*_LOC.finditer(found[0]), None]
    return found[0] if first is None else found[0][: first.end()] + _LOC.sub("", found[0][first.end() :])


class _Kept(Device):
    """A device that keeps the launch."""

    def __init__(self, number: int) -> None:
        self.number, self.made = number, None
        self.properties = {"max_shared_mem": _SHARED_KIB.get(number, max(_SHARED_KIB.values())) << 10}

    made: TritonLaunch | None

    def launch(self, launch: TritonLaunch) -> None:
        """Keep it."""
        self.made = launch


# -- The decorators around a kernel.

def _layers(kernel: Any) -> list[Any]:
    """The kernel with its decorators, the outermost first; the last is the `JITFunction`."""
    layers = [kernel]
    while hasattr(layers[-1], "fn") and hasattr(layers[-1].fn, "arg_names"):
        layers.append(layers[-1].fn)
    return layers


def _jit_function(kernel: Any) -> Any:
    function = _layers(kernel)[-1]
    if not hasattr(function, "params"):
        what = "only compiled kernels of Triton are known, not interpreted ones"
        raise UnsupportedError(what, place="source", remedy="unset TRITON_INTERPRET")
    return function


def _run(kernel: Any, call: _Call, grid: Any, device: Device) -> None:
    """Launch the kernel as `kernel[grid](...)` does, with the configuration that the constants choose."""
    *decorators, function = _layers(kernel)
    named = call.named
    for layer in decorators:
        if isinstance(getattr(layer, "values", None), Mapping):
            for key, rule in layer.values.items():
                named[key] = _of_user(rule, named, f"heuristic of {key}")
        else:
            config = _chosen(layer, call)
            named |= {key: value for key, value in config.all_kwargs().items() if value is not None}
            if config.pre_hook is not None:
                _of_user(config.pre_hook, named, "pre_hook")
    call.check_complete(named)
    sizes = {key: value for key, value in named.items() if isinstance(value, int)}
    dimensions = grid if callable(grid) else parse_dim3(grid, "grid", sizes)
    try:
        with driving(device), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function.run(grid=dimensions, warmup=False, **named)
    except WarpsightError:
        raise
    except Exception as error:  # Triton has no common base for what it raises on a wrong kernel
        raise _compile_error(function, error) from error


def _of_user(function: Callable[[dict[str, Any]], Any], values: dict[str, Any], what: str) -> Any:
    try:
        return function(values)
    except Exception as error:
        message = f"the {what} raised {type(error).__name__}: {error}"
        raise UsageError(message, place="source", remedy="correct it, or pass its value in `constants`") from error


def _values(config: Any) -> dict[str, Any]:
    """What a configuration sets."""
    options = {key: getattr(config, key, None) for key in OPTIONS}
    return dict(config.kwargs) | {key: value for key, value in options.items() if value is not None}


def _pruned(tuner: Any, call: _Call) -> list[Any]:
    """The configurations that the tuner would try."""
    tuner.nargs = call.arguments
    try:
        return list(tuner.prune_configs(call.constants))
    except Exception as error:
        what = f"prune_configs_by raised {type(error).__name__}: {error}"
        raise UsageError(what, place="constants", remedy="pass all arguments that it reads") from error
    finally:
        tuner.nargs = None


def _chosen(tuner: Any, call: _Call) -> Any:
    """The configuration that agrees with the constants, or where they give all meta-parameters the nearest one with their values.

    Raises OpenChoice where several agree, and UsageError where none does.
    """
    settings = [_values(config) for config in tuner.configs]
    wanted = {key: value for key, value in call.constants.items() if any(key in values for values in settings)}
    complete = bool(wanted) and all(key in wanted for config in tuner.configs for key in config.kwargs)
    agreement = [sum(values.get(key) == value for key, value in wanted.items()) for values in settings]
    if complete:
        nearest = tuner.configs[agreement.index(max(agreement))]
        return nearest if max(agreement) == len(wanted) else _with(nearest, wanted)
    agreeing = [config for config, count in zip(tuner.configs, agreement, strict=True) if count == len(wanted)]
    if not agreeing:
        values = ", ".join(f"{key}={value}" for key, value in wanted.items())
        what = f"no configuration of the kernel has {values}; it has {listed(settings)}"
        raise UsageError(what, place="constants", remedy="choose one of them, or give all meta-parameters")
    among = [config for config in _pruned(tuner, call) if config in agreeing] or agreeing
    if len(among) == 1:
        return among[0]
    found = [_values(config) for config in among]
    what = f"the kernel is tuned at run time, among {len(among)} configurations: {listed(found)}"
    raise OpenChoice(what, found, tuner, _tuning_key(tuner, call))


def _tuning_key(tuner: Any, call: _Call) -> tuple[Any, ...]:
    """What Triton keeps the fastest configuration by: the parameters that the tuner's `key` names, and the types of tensors."""
    named = {name: value for name, value in call.named.items() if name in tuner.arg_names}
    types = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
    return (*(named[name] for name in tuner.keys if name in named), *types)


def _with(config: Any, values: Mapping[str, Any]) -> Any:
    """A configuration with other values."""
    kwargs = {key: values.get(key, value) for key, value in config.kwargs.items()}
    options = {key: values.get(key, getattr(config, key, None)) for key in OPTIONS}
    return type(config)(kwargs, pre_hook=config.pre_hook, **options)


# -- Arguments.

class _Call:
    """What a kernel is called with: `arguments` by parameter, and `constants`, which may be options of Triton too."""

    def __init__(self, function: Any, arguments: dict[str, Any], constants: dict[str, Any]) -> None:
        self.function, self.arguments, self.constants = function, arguments, constants

    @classmethod
    def of(cls, function: Any, args: Sequence[Any], constants: Mapping[str, Any], seed: int) -> _Call:
        """Bind `args` in order to the parameters that are no constants. Raises UsageError."""
        name, names = str(function.fn.__name__), [parameter.name for parameter in function.params]
        remedy = f"its parameters are {', '.join(names)}"
        options = _option_names()
        if unknown := [key for key in constants if key not in names and key not in options]:
            raise UsageError(f'{name} has no parameter "{unknown[0]}"', place="constants", remedy=remedy)
        free = [key for key in names if key not in constants]
        if len(args) > len(free):
            what = f"{name} takes {len(free)} argument(s) that are not constants, {len(args)} given"
            raise UsageError(what, place="arguments", remedy=remedy)
        given = {key: _seen_by_triton(key, value, seed, at) for at, (key, value) in enumerate(zip(free, args, strict=False))}
        return cls(function, given, {key: _wrapped(value) for key, value in constants.items()})

    @property
    def named(self) -> dict[str, Any]:
        """Everything by name."""
        return {**self.arguments, **self.constants}

    def check_complete(self, values: Mapping[str, Any]) -> None:
        """Raise UsageError for a parameter without a value."""
        for parameter in self.function.params:
            if parameter.name not in values and not parameter.has_default:
                remedy = "pass it in `constants`" if parameter.is_constexpr else "pass it in `args`"
                what = f'{self.function.fn.__name__} needs a value for "{parameter.name}"'
                raise UsageError(what, place="arguments", remedy=remedy)


def _option_names() -> frozenset[str]:
    """What Triton's compiler for NVIDIA can be told with a launch."""
    compiler = importlib.import_module("triton.backends.nvidia.compiler")
    return frozenset(compiler.CUDAOptions.__dataclass_fields__)


def _seen_by_triton(name: str, value: Any, seed: int, position: int) -> Any:
    if isinstance(value, str):
        value = parse_argument(value, None, seed, position=position)
        if not isinstance(value, ArrayArgument):
            raise UsageError("is a scalar given as text", place=f"argument {position + 1}", remedy=ARGUMENTS)
    value = _wrapped(value)
    known = isinstance(value, (*_SCALARS, tuple)) or hasattr(value, "data_ptr") or hasattr(value, "block_shape")
    if not known and not type(value).__module__.startswith("triton."):
        what = f"a {type(value).__name__} cannot be passed to a Triton kernel here"
        raise UnsupportedError(what, place=f'argument "{name}"', remedy=ARGUMENTS)
    return value


def _wrapped(value: Any) -> Any:
    """Arrays as the launcher takes them, and numbers of NumPy as those of Python."""
    if isinstance(value, ArrayArgument):
        value = value.array
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "c" or value.dtype.names is not None:
            raise UsageError(f"Triton has no arrays of {value.dtype}", place="arguments", remedy=ARGUMENTS)
        return DeviceArray(value)
    return value.item() if isinstance(value, np.generic) else value


def _compile_error(function: Any, error: Exception) -> WarpsightError:
    """Triton's own words, and the line of the kernel that it names."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    what = f"Triton cannot compile {function.fn.__name__}: {' '.join(lines[-2:]) if lines else type(error).__name__}"
    if type(error).__name__ == "OutOfResources":
        return UsageError(what, place=function.fn.__name__, remedy="use smaller blocks or fewer stages, or another GPU")
    node: Any = getattr(error, "node", None)
    place = str(function.fn.__name__)
    if hasattr(node, "lineno") and getattr(error, "src", None) == function.src:
        above = next(k for k, line in enumerate(function.raw_src) if line.lstrip().startswith("def "))
        first = function.starting_line_number + above
        place = f"{function.fn.__code__.co_filename}:{first + node.lineno - 1}"
    return CompileError(what, place=place, remedy="correct the kernel or its arguments")
