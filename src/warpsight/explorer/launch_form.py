"""The launch of a question as a form: what the kernel's signature asks for, with the values given and those suggested."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.explorer.question import Question
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch import Dim3, KernelSource
from warpsight.kernels.launch_template import LaunchTemplate, launch_template
from warpsight.kernels.mangling import display_name
from warpsight.kernels.sources import find_kernel, source_texts
from warpsight.pipeline.kernel_input import kernels_for
from warpsight.pipeline.request import KernelRequest

_TRITON = re.compile(r"^[ \t]*(?:import|from)[ \t]+triton\b", re.M)


@dataclass(frozen=True)
class Field:
    """A value of the form: its `name` and `type`, `value`, whether it was `given` or is suggested, and what it is `about`."""

    name: str
    type: str
    value: str
    given: bool
    about: str


@dataclass(frozen=True)
class LaunchForm:
    """The launch of one of `kernels`; empty for a text in Python.

    `unused` are arguments of the question that the kernel has no parameter for.
    """

    kernels: tuple[str, ...]
    kernel: str
    dimensions: tuple[Field, ...]
    parameters: tuple[Field, ...]
    unused: tuple[str, ...]

    def request(self, path: str, **more: Any) -> KernelRequest:
        """The launch of the form, of the kernel in the file `path`; a file in Python names its launch itself."""
        if not self.kernel:
            return KernelRequest(path, **more)
        values: dict[str, Any] = {each.name: each.value for each in self.dimensions}
        args = tuple(each.value for each in self.parameters)
        return KernelRequest(path, kernel=self.kernel, args=args, **values, **more)


def launch_form(question: Question, gpu: GpuSpec) -> LaunchForm:
    """The form of a question whose text lies in its file, in the current folder. Raises what `load_source` raises."""
    if question.language == "python":
        _check_installed(question)
        return LaunchForm((), "", (), (), tuple(question.args))
    source = kernels_for(question.file, gpu, question.kernel)
    kernels = tuple(display_name(name) for name in source.module.kernels)
    template = _template(source, question, kernels)
    names = [each.name or f"argument {number}" for number, each in enumerate(template.parameters, 1)]
    parameters = tuple(
        _field(name, each.type, question.args.get(name, ""), each.value, each.why)
        for name, each in zip(names, template.parameters, strict=True)
    )
    dimensions = (
        _field("grid", "blocks", question.grid, _dimensions(template.grid), "blocks of the grid"),
        _field("block", "threads", question.block, _dimensions(template.block), "threads of a block"),
        _field("shared", "bytes", question.shared, str(template.shared), "dynamic shared memory of a block"),
    )
    return LaunchForm(kernels, template.kernel, dimensions, parameters, tuple(name for name in question.args if name not in names))


def _check_installed(question: Question) -> None:
    """Raise UsageError for a text that needs Triton where there is none."""
    needed = _TRITON.search(question.source)
    if needed and find_spec("triton") is None:
        line = question.source.count("\n", 0, needed.start()) + 1
        remedy = "install it in the environment of warpsight: `python -m pip install triton`"
        raise UsageError("Triton is not installed", place=f"{question.file}:{line}", remedy=remedy)


def _template(source: KernelSource, question: Question, kernels: tuple[str, ...]) -> LaunchTemplate:
    """A launch of the question's kernel; of the first one where it names none. The form shows which one that is."""
    wanted = question.kernel or (kernels[0] if kernels else None)
    return launch_template(source, find_kernel(source, wanted), source_texts(question.file))


def _field(name: str, type: str, given: str, suggested: str, about: str) -> Field:
    return Field(name, type, given.strip() or suggested, bool(given.strip()), about)


def _dimensions(dims: Dim3) -> str:
    """`4096`, `64x64`."""
    kept = list(dims)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(map(str, kept))
