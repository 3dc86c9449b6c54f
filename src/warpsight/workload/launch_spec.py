"""What a launch file says, before anything is compiled, and the step from there to a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from warpsight.workload.launch import KernelSource, Launch


@dataclass(frozen=True)
class LaunchSpec:
    """A launch as a user wrote it. `source` is a path or kernel text; `grid`, `block`, `args` as `make_launch` takes them.

    `registers` per thread replaces the assembler's count; None leaves it. `path` is the file that it was read from, `name` what to
    call a source that is text.
    """

    source: str
    grid: str | int | Sequence[int]
    block: str | int | Sequence[int]
    kernel: str | None = None
    args: tuple[Any, ...] = ()
    shared: str | int = 0
    arch: str | None = None
    defines: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    registers: int | None = None
    seed: int = 0
    path: str = ""
    name: str = ""


KEYS = ("kernel", "source", "grid", "block", "shared", "args", "arch", "defines", "include_dirs", "registers", "seed")
REQUIRED = ("source", "grid", "block")


def prepare(spec: LaunchSpec) -> tuple[KernelSource, Launch]:
    """Compile or read the kernels of `spec` and check its launch. Raises what `load_source` and `make_launch` raise."""
    from warpsight.workload.kinds import check_kinds
    from warpsight.workload.launch_check import make_launch
    from warpsight.workload.sources import load_source

    given = {field.name: getattr(spec, field.name) for field in fields(spec)}
    check_kinds(given, {name: f"{spec.path}: {name}" for name in given} if spec.path else {"args": "arguments"})
    expressions = (spec.kernel,) if spec.kernel else ()
    source = load_source(
        spec.source,
        arch=spec.arch,
        kernel_expressions=expressions,
        defines=spec.defines,
        include_dirs=spec.include_dirs,
        name=spec.name or None,
    )
    return source, make_launch(source, spec.kernel, spec.grid, spec.block, spec.args, shared=spec.shared, seed=spec.seed)
