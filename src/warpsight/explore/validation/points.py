"""What is to be known: a kernel on a GPU, by the referee or as a profile for the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from warpsight.base.errors import UsageError

if TYPE_CHECKING:
    from warpsight.explore.suites.suite import Suite
    from warpsight.gpu.spec import GpuSpec

DIVERGENT = "memory-divergent"


@dataclass(frozen=True)
class Variant:
    """A GPU of the catalogue, changed by `overrides` (as `--set` takes them). `label` is for people, and makes no other GPU."""

    gpu: str
    overrides: tuple[str, ...] = ()
    label: str = field(default="", compare=False)

    def spec(self) -> GpuSpec:
        """The description. Raises SpecError for an override that is wrong."""
        return _spec(self.gpu, self.overrides)


@cache
def _spec(gpu: str, overrides: tuple[str, ...]) -> GpuSpec:
    from warpsight.gpu.loader import load_gpu

    return load_gpu(gpu, overrides=overrides)


@dataclass(frozen=True)
class Point:
    """One computation: `kernel` (of the suite) on `variant`. `representative` is how a profile chooses its warp."""

    what: str
    kernel: str
    variant: Variant
    representative: str = "kmeans"


@dataclass(frozen=True)
class Member:
    """A kernel of the suite, as its manifest says."""

    name: str
    title: str
    domain: str
    memory_class: str
    holdout: bool
    path: str

    @property
    def divergent(self) -> bool:
        """Whether its manifest calls it memory-divergent."""
        return self.memory_class == DIVERGENT


@dataclass(frozen=True)
class Cast:
    """The kernels that a study is of, in the order of their names, from `suite`; `only` some, or (empty) all."""

    suite: str
    members: tuple[Member, ...]
    only: tuple[str, ...] = ()

    @property
    def divergent(self) -> tuple[Member, ...]:
        """MDM's MD-applications."""
        return tuple(member for member in self.members if member.divergent)

    @property
    def others(self) -> tuple[Member, ...]:
        """MDM's NMD-applications."""
        return tuple(member for member in self.members if not member.divergent)

    def by_class(self) -> tuple[Member, ...]:
        """The others, then the divergent ones, as MDM's figures have them."""
        return (*self.others, *self.divergent)

    def prefer(self, name: str, *, divergent: bool) -> Member:
        """The kernel called `name`, or else the first of that class. Raises UsageError when the class has none."""
        pool = self.divergent if divergent else self.others
        if not pool:
            kind = DIVERGENT if divergent else f"not {DIVERGENT}"
            raise UsageError(f"no kernel is {kind}, and a figure shows one", place="--kernels", remedy="add a kernel of that class")
        return next((member for member in pool if member.name == name), pool[0])


def cast_of(suite: Suite, names: Sequence[str] = ()) -> Cast:
    """The kernels called `names`, or all. Raises UsageError for a name that is none."""
    chosen = [suite.kernel(name) for name in dict.fromkeys(names)] if names else list(suite)
    members = [Member(k.name, k.title, k.domain, k.expected_class, k.holdout, k.path) for k in chosen]
    only = tuple(k.name for k in chosen) if names else ()
    return Cast(suite.name, tuple(sorted(members, key=lambda member: member.name)), only)
