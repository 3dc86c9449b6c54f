"""What a study is: kernels on designs around a base GPU, by models and, on some designs, by the referee."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warpsight.explore.request import DEFAULT_GPU, DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest, Method

if TYPE_CHECKING:
    from warpsight.explore.sweep.expressions import Expression

GRID, RANDOM, LATIN_HYPERCUBE = "grid", "random", "latin-hypercube"


@dataclass(frozen=True)
class Axis:
    """Values of one key, in the order given, in base units (a word's or flag's as themselves).

    `key` is one of the GPU description's (`noc.bandwidth`), of the launch (`launch.block`, `launch.grid`, `launch.shared`,
    `launch.registers`, `launch.arg.NAME_OR_NUMBER`, the first argument being 1) or of the method (`method.caches`,
    `method.interleaving`, `method.representative`). Grid, block and arguments are texts as the command line has them, grid and
    block always written `32x8`. `continuous`: the first and last of `values` bound a range that random and Latin hypercube samples
    fill; a grid has no such axes.
    """

    key: str
    values: tuple[float | int | str | bool, ...]
    continuous: bool = False


@dataclass(frozen=True)
class Sampling:
    """How designs are drawn from the axes: every combination, or `designs` of them by `seed`."""

    kind: str = GRID
    designs: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Referee:
    """Which designs the referee runs too: `designs` of them drawn by `seed` (0: all) among those where `where` holds."""

    designs: int = 0
    seed: int = 0
    where: Expression | None = None
    max_cycles: int | None = None


@dataclass(frozen=True)
class StudyKernel:
    """One kernel of a study. `name` tells it from the others in rows; `request` is what `explore.pipeline` takes."""

    name: str
    request: KernelRequest


@dataclass(frozen=True)
class Study:
    """`overrides` are `key=value` texts that hold on every design, as `--set` takes them. `derived` keys are computed in order
    from the axes, other keys of the base GPU and each other; a design is kept where every one of `constraints` holds.
    """

    name: str
    kernels: tuple[StudyKernel, ...]
    gpu: str = DEFAULT_GPU
    overrides: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    derived: tuple[tuple[str, Expression], ...] = ()
    constraints: tuple[Expression, ...] = ()
    models: tuple[str, ...] = (DEFAULT_MODEL,)
    method: Method = DEFAULT_METHOD
    referee: Referee | None = None
