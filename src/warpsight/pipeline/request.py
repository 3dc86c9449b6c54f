"""What a user asks to be run: a kernel input with everything that may be said about its launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os.path import exists, isdir
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import lazy_loader as lazy

from warpsight.base.errors import UsageError
from warpsight.gpu.steps import BY_REFERENCE

if TYPE_CHECKING:
    from warpsight.traces.importers.formats import TraceFormat

formats: Any = lazy.load("warpsight.traces.importers.formats", suppress_warning=True)  # every importer: not for `--help`

Dimensions = str | int | Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]  # a function for Triton kernels alone

DEFAULT_MODEL = "warpsight"
LEVELS = ("auto", "ptx", "sass")
PAPERS_MODELS = ("mdm", "gpumech-plus", "gpumech")  # shown beside the default model
REPRESENTATIVES = ("kmeans", "max", "min")
INTERLEAVINGS = ("clocked", "round-robin")
CACHES = ("exact", "reuse-distance")
AUTO, COLD, WARM = CACHES_BEFORE = ("auto", "cold", "warm")
CARRIED = "program"  # for the launches of a program: the L2 as its launches and copies so far have left it
DEFAULT_MAX_INSTRUCTIONS = 10**10

IMPORTING = ("kernels", "launches", "isa_file")  # of what other tools have traced

# What a field of a request holds that is more than a value of its type.
DIMENSIONS, ARGUMENTS, PATHS = "dimensions", "arguments", "paths"


def _of(*types: type, key: str = "", holds: str = "") -> Any:
    """A field that is None when not given. Files and options have it under `key` (its name), as a JSON value of these types."""
    return field(default=None, metadata={"types": types, "key": key, "holds": holds})


@dataclass(frozen=True)
class Method:
    """How a trace becomes an interval profile: the choice of the representative warp, and how the caches are modelled.

    `interleaving` is the order of accesses in exact caches; `caches` are exact or by the reuse-distance model. `order` says whose
    timing orders the accesses: that of the `reference` GPU, which the design is a change of, or the design's `own`.
    `caches_before` is the state of the L2 at the start: `cold` (empty); `warm`, as the same launch leaves it; the path of the
    launch before, a trace folder or launch file; `auto`: warm or cold, as `pipeline.caches_before` says. L1s are empty.
    """

    representative: str = "kmeans"
    interleaving: str = "clocked"
    caches: str = "exact"
    order: str = BY_REFERENCE
    caches_before: str = AUTO


DEFAULT_METHOD = Method()


@dataclass(frozen=True)
class KernelRequest:
    """A kernel input. `path` is a .cu, .ptx, .cubin, launch file or trace folder, a program, source text, or a Python kernel.

    Every other field is None when not given, so that a launch file's values show through and a trace folder can refuse it.
    `args` are texts by rule (``f32[1024]:uniform``), Python or NumPy scalars, or NumPy arrays (device memory, written back).
    `grid`, `block` count blocks and threads, `cluster` the blocks of a thread block cluster; `shared` bytes of dynamic shared
    memory; `registers` per thread, of which the assembler takes at most `maxrregcount`; `opt_level` (0 to 3) is how far it
    optimises; `std` is the C++ standard of CUDA sources (`c++17`); `threads` of this machine run the blocks; `sample` blocks are
    recorded, as a number or a share (``5%``).
    `heap_bytes` are for the kernel's own `malloc`; its `printf` writes to `output` (None: standard output). `constants` are the
    compile-time values of a Triton kernel, by name or as texts (`BLOCK=128`); `config` is one of its configurations, by its number
    from 1 or its values (`BLOCK=128,num_warps=4`). `level` is what is executed and timed: `ptx`, `sass` (machine code assembled for
    the GPU), or `auto` (None): `sass` for a GPU with a compute capability of 7.0 or later, else `ptx`. `check` makes what the
    checks of `warpsight check` find a fault. Of a trace of another tool, `kernels` and `launches` choose launches (``a,b`` and
    ``1,3-5``) and `isa_file` says what opcodes are.
    """

    path: Any
    kernel: str | None = _of(str)
    grid: Dimensions | None = _of(str, int, list, holds=DIMENSIONS)  # noqa: RUF009  it makes a dataclass field
    block: Dimensions | None = _of(str, int, list, holds=DIMENSIONS)  # noqa: RUF009  it makes a dataclass field
    cluster: Dimensions | None = _of(str, int, list, holds=DIMENSIONS)  # noqa: RUF009  it makes a dataclass field
    shared: str | int | None = _of(str, int)
    args: tuple[Any, ...] | None = _of(list, holds=ARGUMENTS)
    seed: int | None = _of(int)
    registers: int | None = _of(int)
    max_instructions: int | None = _of(int)
    threads: int | None = _of(int)
    sample: str | int | None = _of(str, int)
    arch: str | None = _of(str)
    maxrregcount: int | None = _of(int)
    opt_level: int | None = _of(int)
    level: str | None = _of(str)
    defines: tuple[str, ...] | None = _of(list)
    include_dirs: tuple[str, ...] | None = _of(list, holds=PATHS)
    std: str | None = _of(str)
    heap_bytes: str | int | None = _of(str, int, key="heap")
    stack_bytes: int | None = _of(int, key="stack")
    output: TextIO | None = None
    check: bool | None = _of(bool)
    constants: Mapping[str, Any] | tuple[str, ...] | None = _of(list)
    config: int | str | None = _of(int, str)
    kernels: str | None = _of(str)
    launches: str | None = _of(str)
    isa_file: str | None = _of(str, holds=PATHS)

    @property
    def is_trace(self) -> bool:
        """The input is a trace made earlier: a folder, or what another tool has traced."""
        return isinstance(self.path, (str, Path)) and (isdir(self.path) or self.is_foreign)

    @property
    def is_foreign(self) -> bool:
        """The input is a trace of another tool (`traces/importers/formats.py`): a folder, a list of kernels, or a kernel's file."""
        return self._format is not None

    @property
    def _format(self) -> TraceFormat | None:
        is_path = isinstance(self.path, (str, Path)) and self.path != "-" and exists(self.path)
        return formats.format_of(self.path) if is_path else None

    def refuse_import_options(self) -> None:
        """Raise `UsageError` if an option is given that only applies to the traces of other tools."""
        for name in IMPORTING:
            if getattr(self, name) is not None:
                message = f"applies to a trace of another tool, and {self.path} is not one"
                raise UsageError(message, place=name, remedy="leave it out")

    def refuse_launch_options(self) -> None:
        """Raise `UsageError` if anything but the path is given: a trace's launch is over and cannot be changed.

        Formats that leave out facts of the launch take these.
        """
        trace_format = self._format
        allowed = ("path", "output", *IMPORTING, *(trace_format.takes if trace_format else ()))
        for each in fields(self):
            if each.name not in allowed and getattr(self, each.name) is not None:
                message = f"applies to a kernel, and {self.path} is a trace folder, whose launch cannot change"
                raise UsageError(message, place=each.name, remedy="leave it out, or trace the kernel again with it")


@dataclass(frozen=True)
class RequestField:
    """A field of a request that files and options can have: its `name`, its `key` there, its JSON `types`, what it `holds`."""

    name: str
    key: str
    types: tuple[type, ...]
    holds: str


REQUEST_FIELDS = tuple(
    RequestField(each.name, each.metadata["key"] or each.name, each.metadata["types"], each.metadata["holds"])
    for each in fields(KernelRequest)
    if each.metadata
)
