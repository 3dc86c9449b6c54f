"""From a request to kernels, a checked launch and the registers it takes."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.findings import WATCHING
from warpsight.gpu.occupancy import occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.isa.ptx.lexer import lines_of
from warpsight.kernels import launch_file as launch_spec
from warpsight.kernels.launch import DEFAULT_HEAP_BYTES, DEFAULT_STACK_BYTES, MAX_STACK_BYTES, KernelSource, Launch, RunOptions
from warpsight.kernels.launch_file import LaunchSpec, is_kernel_object, read_launch_file
from warpsight.kernels.machine_code import OLDEST_GPU, native_architecture, variant_of
from warpsight.kernels.python_kernels import as_launch
from warpsight.kernels.registers import RegisterUse, register_use
from warpsight.kernels.sources import check_source, has_only_machine_code, load_source, own_architecture
from warpsight.kernels.toolkit import Architecture, parse_architecture
from warpsight.kernels.triton_kernel import configurations, is_triton_kernel, launched_kernel, listed
from warpsight.kernels.values import check_kinds, parse_integer
from warpsight.pipeline.request import DEFAULT_MAX_INSTRUCTIONS, LEVELS, KernelRequest
from warpsight.pipeline.suites import MANIFEST, read_manifest


def ptx_of(kernel: Any) -> str:
    """The path or source text that `kernel` is, or the PTX that it holds. Raises `UsageError` if it holds none, or several.

    Triton: the compiled kernel, with `asm["ptx"]`. Numba: the pair (PTX, return type) of its `compile` functions, or a dispatcher
    with `inspect_asm()` that has been compiled for one signature.
    """
    if isinstance(kernel, str):
        return kernel
    if isinstance(kernel, tuple) and kernel and isinstance(kernel[0], str):
        return kernel[0]
    asm = getattr(kernel, "asm", None)
    if isinstance(asm, Mapping) and "ptx" in asm:
        return str(asm["ptx"])
    if not callable(getattr(kernel, "inspect_asm", None)):
        remedy = "give a path, PTX text, what numba.cuda.compile returns, or a compiled Numba or Triton kernel"
        raise UsageError(f"an object of type {type(kernel).__name__} contains no PTX", place="source", remedy=remedy)
    listing = kernel.inspect_asm()
    texts = [listing] if isinstance(listing, str) else list(listing.values())
    if len(texts) == 1:
        return str(texts[0])
    signatures = f"is compiled for {len(texts)} signatures" if texts else "is not compiled for any signature"
    remedy = "compile it for exactly one, or give one text of inspect_asm()"
    raise UsageError(f"the Numba kernel {signatures}", place="source", remedy=remedy)


_LAUNCH_FILES = (".yaml", ".yml", ".py")
_NEXT_VALUE = re.compile(r",(?=\s*[A-Za-z_]\w*\s*=)")  # the comma before a further NAME=
MAX_THREADS = 1024
_CHECKED = ("max_instructions", "threads", "sample", "heap_bytes", "stack_bytes", "check")
_OVER_A_FILE = ("kernel", "grid", "block", "args", "shared", "arch", "defines", "include_dirs", "registers", "seed", "maxrregcount",
                "opt_level", "cluster", "std")  # fmt: skip


@dataclass(frozen=True)
class ReadyLaunch:
    """What the emulator needs, and what a reader of its results must know (`notes`)."""

    source: KernelSource
    launch: Launch
    registers: RegisterUse
    max_instructions: int
    threads: int
    sample: int  # blocks to record, 0 for all
    seed: int
    notes: tuple[str, ...]
    options: RunOptions
    architecture: Architecture | None = None  # whose machine code is executed; None: PTX is

    def check_fit(self, gpu: GpuSpec) -> None:
        """Raise `UsageError` if a block does not fit an SM of `gpu`: before the kernel runs, not after."""
        shared = self.registers.static_shared_bytes + self.launch.shared_bytes
        occupancy(gpu, self.launch.threads_per_block, self.registers.registers, shared, self.launch.cluster_blocks)


def prepare(request: KernelRequest, gpu: GpuSpec | None = None) -> ReadyLaunch:
    """Read or compile the kernels of `request`, check its launch and count its registers.

    At level `sass` the machine code of `gpu` is executed, or without one that of the request's `arch`. Raises UsageError,
    FormatError, CompileError, UnsupportedError.
    """
    check_kinds({name: getattr(request, name) for name in _CHECKED})
    limit = DEFAULT_MAX_INSTRUCTIONS if request.max_instructions is None else request.max_instructions
    if limit < 1:
        remedy = "give 1 or more, or leave it out"
        raise UsageError("a limit of 0 instructions executes nothing", place="max_instructions", remedy=remedy)
    threads = threads_of(request.threads)
    level = level_of(request, gpu)
    wanted = wanted_architecture(gpu) if level == "sass" and gpu is not None else None
    own = wanted if gpu is None else _stated_architecture(gpu)
    spec = launch_spec_of(request, None if own is None else native_architecture(own)[0])
    if level == "sass" and wanted is None:
        wanted = own_architecture(spec.source, spec.arch)
    architecture, note = (None, "") if wanted is None else native_architecture(wanted)
    source, launch = launch_spec.prepare(spec, architecture)
    if architecture is not None:
        architecture = variant_of(source, architecture)
    with lines_of(source.path):
        registers = register_use(source, launch.kernel, spec.registers, architecture)
    texts = (source.warnings, registers.note, note, *launch_spec.notes_on_arrays(spec, launch))
    notes = tuple(text.strip() for text in texts if text.strip())
    sample = sample_size(request.sample, launch.blocks)
    return ReadyLaunch(source, launch, registers, limit, threads, sample, spec.seed, notes, _run_options(request), architecture)


def kernels_for(path_or_text: str, gpu: GpuSpec, kernel: str | None = None) -> KernelSource:
    """The kernels of a file or text, as a launch on `gpu` has them, which then finds them compiled. `kernel` names one, such as an
    instance of a template. Raises what `load_source` raises.
    """
    machine_code = level_of(KernelRequest(path_or_text), gpu) == "sass"
    native = native_architecture(wanted_architecture(gpu))[0] if machine_code else None
    return load_source(path_or_text, kernel_expressions=(kernel,) if kernel else (), native=native)


def threads_of(wanted: int | None) -> int:
    """How many threads of this machine blocks run on: as many as `wanted`, or by default one on each core. Raises UsageError."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = processors if wanted is None else wanted
    if not 0 < threads <= MAX_THREADS:
        remedy = f"give 1 to {MAX_THREADS:,}, or leave it out"
        raise UsageError(f"blocks cannot run on {threads} threads", place="threads", remedy=remedy)
    return threads


def level_of(request: KernelRequest, gpu: GpuSpec | None) -> str:
    """What is executed for `gpu`: `ptx` or `sass`. Raises UsageError for a level that is not known.

    Unless the request says it, what is checked is PTX where there is PTX: it has the barriers and masks of the source.
    """
    level = LEVELS[0] if request.level is None else request.level
    if level not in LEVELS:
        raise UsageError(f'"{level}" is not a level of instructions', place="level", remedy=f"known: {', '.join(LEVELS)}")
    if level != "auto":
        return level
    by_input = gpu is None or request.check
    native = has_only_machine_code(request.path) if by_input else gpu is not None and _stated_architecture(gpu) is not None
    return "sass" if native else "ptx"


def wanted_architecture(gpu: GpuSpec) -> Architecture:
    """Whose machine code `gpu` executes. Raises UsageError for a GPU that has none here."""
    stated = _stated_architecture(gpu)
    if stated is None:
        what = f"{gpu.name} states no compute capability of 7.0 or later, so that there is no machine code for it"
        raise UsageError(what, place="level", remedy="use level `ptx`, or another GPU")
    return stated


def _stated_architecture(gpu: GpuSpec) -> Architecture | None:
    stated = None if gpu.compute_capability == "none" else parse_architecture(gpu.compute_capability)
    return stated if stated is not None and stated.number >= OLDEST_GPU else None


def sample_size(sample: str | int | None, blocks: int) -> int:
    """How many of `blocks` blocks are recorded: a number, or a share as ``5%`` (at least one); 0 means all, as without a sample."""
    if sample is None:
        return 0
    text = str(sample).strip()
    share = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text)
    if share and 0 < float(share[1]) <= 100:
        count = max(1, round(blocks * float(share[1]) / 100))
    elif re.fullmatch(r"[\d_,]+", text) and int(re.sub("[_,]", "", text) or 0) > 0:
        count = int(re.sub("[_,]", "", text))
    else:
        message = f'"{text}" is neither a number of blocks nor a share of them'
        raise UsageError(message, place="sample", remedy="give for example 256, or 5%")
    return 0 if count >= blocks else count


def _run_options(request: KernelRequest) -> RunOptions:
    heap = DEFAULT_HEAP_BYTES if request.heap_bytes is None else request.heap_bytes
    size = parse_integer(heap, "heap_bytes") if isinstance(heap, str) else heap
    if size < 0:
        raise UsageError(f"{size} bytes of heap is negative", place="heap_bytes", remedy="give 0 or more bytes")
    stack = DEFAULT_STACK_BYTES if request.stack_bytes is None else request.stack_bytes
    if not 0 < stack <= MAX_STACK_BYTES:
        message = f"a stack of {stack:,} bytes per thread is out of range"
        raise UsageError(message, place="stack_bytes", remedy=f"give 1 to {MAX_STACK_BYTES:,} bytes")
    return RunOptions(size, request.output, WATCHING if request.check else frozenset(), stack_bytes=stack)


def is_launch_file(path: object) -> bool:
    """Whether a kernel input is a launch file, by its name."""
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    return isinstance(name, str) and "\n" not in name and name.endswith(_LAUNCH_FILES)


@dataclass(frozen=True)
class PythonLaunch:
    """A launch of an object of a Python program: a kernel of Numba, Triton or CuPy, its compile-time values, and the other settings
    of a `LaunchSpec` that were given.
    """

    kernel: Any
    constants: dict[str, Any]
    settings: dict[str, Any]


def launch_spec_of(request: KernelRequest, architecture: Architecture | None = None) -> LaunchSpec:
    """The launch as a file says it, with what the request says over it; or the request alone.

    A kernel of Python is compiled for `architecture` where the request says nothing else.
    """
    written = written_launch(request)
    if isinstance(written, LaunchSpec):
        return written
    default = {} if architecture is None else {"arch": architecture.virtual}
    settings = as_launch(written.kernel, default | written.settings, written.constants)
    return _complete(written.kernel, written.settings if settings is None else settings)


def written_launch(request: KernelRequest) -> LaunchSpec | PythonLaunch:
    """The launch with nothing compiled. Raises UsageError for compile-time values of what is no kernel of Python."""
    written = _written(request)
    return written if request.config is None else _configured(written, request.config)


def _written(request: KernelRequest) -> LaunchSpec | PythonLaunch:
    settings: dict[str, Any] = {name: getattr(request, name) for name in _OVER_A_FILE if getattr(request, name) is not None}
    constants = constants_of(request)
    path = str(request.path) if hasattr(request.path, "__fspath__") else request.path
    if isinstance(path, str) and is_launch_file(path):
        is_manifest = os.path.basename(path) == MANIFEST and os.path.isfile(path)
        spec = read_manifest(path).launch_spec() if is_manifest else read_launch_file(path)
        if is_kernel_object(spec.source):
            stated = {name: value for name in _OVER_A_FILE if (value := getattr(spec, name)) not in (None, (), 0)}
            return _python_launch(spec.source, {**spec.constants, **constants}, {**stated, **settings, "path": path})
        _refuse_constants({**spec.constants, **constants})
        return replace(spec, places={key: place for key, place in spec.places.items() if key not in settings}, **settings)
    if isinstance(path, (str, tuple)):
        _refuse_constants(constants)
        return _complete(path, settings)
    return _python_launch(path, constants, settings)


def _python_launch(kernel: Any, constants: dict[str, Any], settings: dict[str, Any]) -> PythonLaunch:
    """The launch of an object; Triton's `kernel[grid]` is the kernel with a grid."""
    held = launched_kernel(kernel)
    if held is None:
        return PythonLaunch(kernel, constants, settings)
    return PythonLaunch(held[0], constants, {"grid": held[1], **settings})


def tuned_configurations(request: KernelRequest) -> tuple[dict[str, Any], ...]:
    """What `@triton.autotune` lists for the launch and its constants leave open, each as constants; () where nothing is open."""
    return _open_configurations(written_launch(request))


def _open_configurations(written: LaunchSpec | PythonLaunch) -> tuple[dict[str, Any], ...]:
    if not isinstance(written, PythonLaunch) or not is_triton_kernel(written.kernel):
        return ()
    fixed, settings = written.constants, written.settings
    found = configurations(written.kernel, settings.get("args", ()), fixed, seed=int(settings.get("seed", 0)))
    return tuple(each for each in found if all(each[name] == value for name, value in fixed.items() if name in each))


def _configured(written: LaunchSpec | PythonLaunch, config: int | str) -> PythonLaunch:
    """The launch with one of the configurations that are open: by its number from 1, or by values as `BLOCK=128,num_warps=4`."""
    found = _open_configurations(written)
    if not found or not isinstance(written, PythonLaunch):
        what = "the kernel has no configurations: only one that `@triton.autotune` tunes does"
        raise UsageError(what, place="config", remedy="leave it out, or set values with `constants` (--constant NAME=VALUE)")
    text = str(config).strip()
    if not text.lstrip("-").isdecimal():
        chosen = constants_of(KernelRequest(None, constants=tuple(part.strip() for part in _NEXT_VALUE.split(text))))
    elif 1 <= int(text) <= len(found):
        chosen = found[int(text) - 1]
    else:
        what = f"there is no configuration {text}; the kernel has {listed(found)}"
        raise UsageError(what, place="config", remedy=f"give 1 to {len(found)}, or the values of one")
    return replace(written, constants={**written.constants, **chosen})


def constants_of(request: KernelRequest) -> dict[str, Any]:
    """The compile-time values of the request, given as a mapping or as texts (`BLOCK=128`)."""
    given = request.constants or {}
    if isinstance(given, Mapping):
        return dict(given)
    pairs = [text.partition("=") for text in given]
    unnamed = next(("".join(pair) for pair in pairs if not pair[0] or not pair[2]), None)
    if unnamed is not None:
        raise UsageError(f'"{unnamed}" is not NAME=VALUE', place="constants", remedy="write for example BLOCK=128")
    return {name: constant_value(text) for name, _, text in pairs}


def constant_value(text: str) -> Any:
    """The compile-time value that a text means: a number, True, False or None as Python writes them, else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _refuse_constants(constants: Mapping[str, Any]) -> None:
    if constants:
        what = f"only a Triton kernel has compile-time values, as {next(iter(constants))} would be"
        raise UsageError(what, place="constants", remedy="leave them out, or define macros")


def _complete(source: Any, settings: dict[str, Any]) -> LaunchSpec:
    """The spec of `settings`, of a kernel in `source` where they name none. Raises UsageError where grid or block are missing."""
    for name, unit in (("grid", "blocks in the grid"), ("block", "threads in a block")):
        if name not in settings:
            if isinstance(source, str) and source != "-":
                check_source(source, settings.get("arch"))  # what is wrong with the file itself comes first
            is_path = isinstance(source, str) and "\n" not in source and source != "-"
            writes = f"; `warpsight init {source}` writes one" if is_path else ""
            remedy = f"give --{name}, or a launch file (.yaml, .py){writes}"
            raise UsageError(f"is missing: how many {unit}?", place=f"--{name}", remedy=remedy)
    return LaunchSpec(**settings if "source" in settings else {"source": ptx_of(source), **settings})
