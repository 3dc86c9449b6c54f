"""A study from what a Python program has at hand: traces in memory, GPU descriptions, mappings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.base.diskcache import content_key
from warpsight.base.errors import UsageError
from warpsight.explore.request import DEFAULT_GPU, DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest, Method
from warpsight.explore.runs.store import ResultStore
from warpsight.explore.suites.suite import load_suite
from warpsight.explore.sweep.axes import axis_of_list, axis_of_text
from warpsight.explore.sweep.checks import check_study
from warpsight.explore.sweep.expressions import parse_expression
from warpsight.explore.sweep.study import Axis, Referee, Sampling, Study, StudyKernel
from warpsight.explore.sweep.study_file import is_study_file, read_study
from warpsight.explore.sweep.study_kernels import default_name

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec
    from warpsight.trace.schema import KernelTrace

Kernel = Any
"""A `KernelTrace`, a path (kernel with a launch file, manifest, trace folder), or a `KernelRequest`."""


def study_of_arguments(
    kernels: Kernel | Sequence[Kernel] | Mapping[str, Kernel],
    gpu: str | os.PathLike[str] | GpuSpec,
    axes: Mapping[str, str | Sequence[Any]],
    store: ResultStore,
    *,
    suite: str | None,
    models: Sequence[str],
    overrides: Sequence[str],
    derived: Mapping[str, str],
    constraints: Sequence[str],
    sampling: Sampling,
    method: Method,
    referee: Referee | None,
) -> Study:
    """The study that they say, checked. Traces in memory and descriptions are kept in `store`, where every worker reaches them.

    Where `kernels` is a study file it is that one's, and nothing else may be given: nobody would know which of the two holds.
    """
    from warpsight.models.registry import get_model

    if isinstance(kernels, (str, os.PathLike)) and is_study_file(os.fspath(kernels)):
        given = {
            "gpu": gpu != DEFAULT_GPU, "axes": axes, "suite": suite, "models": tuple(models) != (DEFAULT_MODEL,),
            "overrides": overrides, "derived": derived, "constraints": constraints,
            "sampling, designs or seed": sampling != Sampling(),
            "representative, interleaving or caches": method != DEFAULT_METHOD, "referee": referee is not None,
        }  # fmt: skip
        twice = [name for name, is_given in given.items() if is_given]
        if twice:
            what = f"says itself what is swept, and {', '.join(twice)} is given too"
            raise UsageError(what, place=os.fspath(kernels), remedy="write it in the study file")
        return read_study(kernels)
    for model in models:
        get_model(model)
    members = [_member(name, each, store) for name, each in _named(kernels)]
    if suite is not None:
        members += [StudyKernel(kernel.name, kernel.request()) for kernel in load_suite(suite)]
    study = Study(
        name="sweep",
        kernels=tuple(members),
        gpu=_description(gpu, store),
        overrides=tuple(overrides),
        axes=tuple(_axis(key, values) for key, values in axes.items()),
        sampling=sampling,
        derived=tuple((key, parse_expression(text, f"derived {key}")) for key, text in derived.items()),
        constraints=tuple(parse_expression(text, f"constraint {text}") for text in constraints),
        models=tuple(models),
        method=method,
        referee=referee,
    )
    check_study(study)
    return study


def _named(kernels: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(kernels, Mapping):
        return kernels.items()
    if isinstance(kernels, (str, bytes, os.PathLike)) or not isinstance(kernels, Iterable):
        kernels = [kernels]
    return [("", each) for each in kernels]


def _member(name: str, given: Any, store: ResultStore) -> StudyKernel:
    from warpsight.trace.schema import KernelTrace

    if isinstance(given, StudyKernel):
        return given
    if isinstance(given, KernelTrace):
        return StudyKernel(name or given.header.kernel, KernelRequest(path=str(_kept(given, store))))
    if isinstance(given, (str, os.PathLike)):
        given = KernelRequest(path=os.fspath(given))
    if not isinstance(given, KernelRequest):
        what = f"a {type(given).__name__} is no kernel"
        raise UsageError(what, place="kernels", remedy="give traces (warpsight.trace), launch files or trace folders")
    return StudyKernel(name or default_name(given), given)


def _kept(trace: KernelTrace, store: ResultStore) -> Path:
    """The folder of a trace that is in memory."""
    from warpsight.trace.store import save_trace

    header = trace.header
    parts = (header.kernel_hash, header.input_hash, header.registers_per_thread, header.sampled_blocks, header.warp_instructions)
    key = content_key("given", *map(str, parts), header.tool_version, str(header.schema))
    return store.make_folder(key, lambda place: save_trace(trace, place))


def _description(gpu: str | os.PathLike[str] | GpuSpec, store: ResultStore) -> str:
    from warpsight.gpu.describe import dump_yaml, spec_hash
    from warpsight.gpu.loader import load_gpu
    from warpsight.gpu.spec import GpuSpec

    if not isinstance(gpu, GpuSpec):
        return os.fspath(gpu)
    checked = load_gpu(gpu)
    path = store.folder / "gpus" / f"{content_key(spec_hash(checked), checked.name)}.yaml"
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(dump_yaml(checked), encoding="utf-8")
    temporary.replace(path)
    return str(path)


def _axis(key: str, values: str | Sequence[Any]) -> Axis:
    """Values as an axis has them in text, or one by one: numbers in base units (counts as they are), or texts with their unit."""
    place = f"axes {key}"
    if isinstance(values, str):
        return axis_of_text(key, values, place)
    return axis_of_list(key, [(_text(key, value), place) for value in values], place)


def _text(key: str, value: Any) -> str:
    from warpsight.gpu.keys import KEYS
    from warpsight.gpu.values import value_text

    if isinstance(value, str):
        return value
    known = KEYS.get(key)
    if known is None or not known.numeric or isinstance(value, bool):
        return str(value).lower() if isinstance(value, bool) else str(value)
    number = float(value)
    try:
        return value_text(key, int(number) if number.is_integer() else number)
    except (ValueError, OverflowError):
        raise UsageError(f"{value!r} is no value of {key}", place=f"axes {key}", remedy="give numbers of 0 or more") from None
