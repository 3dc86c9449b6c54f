"""A study from the options of a command, or from the arguments of a Python function."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from warpsight.base.diskcache import content_key
from warpsight.base.errors import UsageError
from warpsight.base.outputs import write_whole
from warpsight.gpu.describe import dump_yaml, spec_hash
from warpsight.gpu.document import value_text
from warpsight.gpu.keys import find_key
from warpsight.gpu.loader import default_gpu, load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.jobs.store import ResultStore
from warpsight.pipeline.evaluate import known_models
from warpsight.pipeline.request import DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest, Method
from warpsight.pipeline.sampling import DEFAULT_ACCURACY
from warpsight.pipeline.suites import load_suite
from warpsight.sweeps.axes import axis_of_list, axis_of_text, check_value, parse_axis
from warpsight.sweeps.expressions import parse_expression
from warpsight.sweeps.launches import members_of
from warpsight.sweeps.names import GPU, WHOLE
from warpsight.sweeps.study import NOWHERE, Axis, Sampling, SimulatorRuns, Study, StudyKernel, check_study
from warpsight.sweeps.study_file import default_name, is_study_file, members_of_suite, read_study
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import save_trace

GRID_OF_ALL = Sampling()


def study_of_options(
    kernels: Sequence[KernelRequest | StudyKernel] = (), *, suite: str | None = None, name: str = "sweep", gpu: str | None = None,
    settings: Sequence[str] = (), constraints: Sequence[str] = (), models: Sequence[str] = (DEFAULT_MODEL,),
    sampling: Sampling = GRID_OF_ALL, method: Method = DEFAULT_METHOD, simulator: SimulatorRuns | None = None,
    accuracy: float | None = DEFAULT_ACCURACY,
) -> Study:
    """The study of kernels, and of a suite by name or folder, around `gpu`.

    `settings` are texts as `overrides` has them: a GPU key with one value holds on every design (`l1.ways=4`), a key with several
    values is an axis (`sm_count=15:80:5`), and so is a launch or method key even with one. Axes are in the order given.
    `constraints` are expressions. A request without a name is called after its file. Raises UsageError or SpecError with the place
    `overrides TEXT`, what `parse_expression`, `get_model` and `load_suite` raise, and whatever `check_study` refuses.
    """
    overrides: list[str] = []
    axes: list[Axis] = []
    places: dict[str, str] = {"kernels": "KERNEL", "sampling": "sampling", "models": "models"}
    for text in settings:
        place = f"overrides {text}"
        axis = parse_axis(text, place)
        fixed = find_key(axis.key) is not None and len(axis.values) == 1
        places[f"{'set' if fixed else 'axes'}.{axis.key}"] = place
        if fixed:
            overrides.append(f"{axis.key}={value_text(axis.key, axis.values[0])}")
        else:
            axes.append(axis)
    return _checked(
        (each if isinstance(each, StudyKernel) else StudyKernel(default_name(each), each) for each in kernels),
        suite, places, name=name, gpu=gpu, overrides=tuple(overrides), axes=tuple(axes), sampling=sampling,
        constraints=tuple(parse_expression(text, f"constraints {text}") for text in constraints),
        models=tuple(models), method=method, simulator=simulator, accuracy=accuracy,
    )  # fmt: skip


def _checked(
    kernels: Iterable[StudyKernel], suite: str | None, places: Mapping[str, str], *, gpu: str | None, axes: tuple[Axis, ...],
    models: tuple[str, ...], **fields: Any,
) -> Study:
    """The study of `kernels`, those of imported traces one by one, and of a suite. None for `gpu` is an axis, else the default."""
    known_models(models)
    members = [member for each in kernels for member in members_of(each)]
    if suite is not None:
        members += members_of_suite(load_suite(suite))
    is_axis = any(axis.key == GPU for axis in axes)
    if is_axis and gpu is not None:
        raise UsageError(f"gpu is an axis, and {gpu} is also given", place="gpu", remedy="keep one of them")
    base = gpu or (Study.gpu if is_axis else default_gpu())
    study = Study(kernels=tuple(members), gpu=base, axes=axes, models=models, **fields)
    check_study(study, places)
    return study


# -- A study from what a Python program has at hand: traces in memory, GPU descriptions, mappings.

Kernel = Any
"""A `KernelTrace`, a path (kernel with a launch file, manifest, trace folder), or a `KernelRequest`."""


def study_of_arguments(
    kernels: Kernel | Sequence[Kernel] | Mapping[str, Kernel], gpu: str | os.PathLike[str] | GpuSpec | None,
    axes: Mapping[str, str | Sequence[Any]], store: ResultStore, *, suite: str | None, models: Sequence[str],
    overrides: Sequence[str], derived: Mapping[str, str], constraints: Sequence[str], sampling: Sampling, method: Method,
    simulator: SimulatorRuns | None, accuracy: float | None,
) -> Study:
    """The study of the arguments, checked. Traces in memory and descriptions are kept in `store`, which every worker can read.

    If `kernels` is a study file, nothing else may be given: it would be unclear which of the two holds.
    """
    if isinstance(kernels, (str, os.PathLike)) and is_study_file(os.fspath(kernels)):
        refuse_beside_a_file(
            os.fspath(kernels), axes=axes, suite=suite, overrides=overrides, derived=derived, gpu=gpu, models=models,
            constraints=constraints, sampling=sampling, method=method, simulator=simulator, accuracy=accuracy,
        )  # fmt: skip
        return read_study(kernels)
    _texts(models=models, overrides=overrides, constraints=constraints, derived=derived)
    _wholes(designs=sampling.designs, seed=sampling.seed, simulator=simulator.designs if simulator else 0)
    if not isinstance(axes, Mapping):
        raise UsageError(f"a {type(axes).__name__} is not a mapping", place="axes", remedy='write {"sm_count": [14, 28, 56]}')
    for key, word in asdict(method).items():
        check_value(f"method.{key}", word, key)
    return _checked(
        (_member(name, each, store) for name, each in _named(kernels)),
        suite, NOWHERE, name="sweep", gpu=_description(gpu, store), overrides=tuple(overrides),
        axes=tuple(_axis(key, values) for key, values in axes.items()), sampling=sampling,
        derived=tuple((key, parse_expression(text, f"derived {key}")) for key, text in derived.items()),
        constraints=tuple(parse_expression(text, f"constraint {text}") for text in constraints),
        models=tuple(models), method=method, simulator=simulator, accuracy=accuracy,
    )  # fmt: skip


# The values of arguments that were not given; the others are then empty.
_DEFAULTS = {name: getattr(Study("", ()), name) for name in ("models", "sampling", "method", "simulator", "accuracy")}


def _texts(**arguments: Any) -> None:
    """Refuses what is no sequence of texts; a single text is not taken for its letters."""
    for name, value in arguments.items():
        parts = [*value, *value.values()] if isinstance(value, Mapping) else value
        texts = not isinstance(value, str) and isinstance(parts, Iterable) and all(isinstance(each, str) for each in parts)
        if not texts or (name == "derived") != isinstance(value, Mapping):
            remedy = 'write {"l2.mshrs": "4 * sm_count"}' if name == "derived" else 'write a list of texts, as ["..."]'
            raise UsageError(f"{value!r} is not valid", place=name, remedy=remedy)


def _wholes(**arguments: Any) -> None:
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UsageError(f"{value!r} is not a whole number of 0 or more", place=name, remedy="write for example 10")


def refuse_beside_a_file(path: str, **arguments: Any) -> None:
    """Raises UsageError for arguments beside a study file, which defines all of them, unless they have their defaults."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in arguments.items()}
    extra = [name for name, value in values.items() if (value != _DEFAULTS[name] if name in _DEFAULTS else value)]
    if extra:
        what = f"is a study file and defines the sweep, but {', '.join(extra)} is also given"
        raise UsageError(what, place=path, remedy="write it in the study file")


def _named(kernels: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(kernels, Mapping):
        for name in kernels:
            if not isinstance(name, str):
                raise UsageError(f"{name!r} is not the name of a kernel", place="kernels", remedy='write {"saxpy": "saxpy.yaml"}')
        return kernels.items()
    if isinstance(kernels, (str, bytes, os.PathLike)) or not isinstance(kernels, Iterable):
        kernels = [kernels]
    return [("", each) for each in kernels]


def _member(name: str, kernel: Any, store: ResultStore) -> StudyKernel:
    if isinstance(kernel, StudyKernel):
        return kernel
    if isinstance(kernel, KernelTrace):
        header = kernel.header
        counts = (header.registers_per_thread, header.sampled_blocks, header.warp_instructions)
        parts = (header.kernel_hash, header.input_hash, *map(str, counts), header.tool_version, str(header.schema))
        key = content_key("given", *parts)
        folder = store.make_folder(key, lambda place: save_trace(kernel, place))
        return StudyKernel(name or header.kernel, KernelRequest(path=str(folder)))
    if isinstance(kernel, (str, os.PathLike)):
        kernel = KernelRequest(path=os.fspath(kernel))
    if not isinstance(kernel, KernelRequest):
        what = f"a {type(kernel).__name__} is not a kernel"
        raise UsageError(what, place="kernels", remedy="give traces (warpsight.trace), launch files or trace folders")
    return StudyKernel(name or default_name(kernel), kernel)


def _description(gpu: str | os.PathLike[str] | GpuSpec | None, store: ResultStore) -> str | None:
    if gpu is None:
        return None
    if not isinstance(gpu, (str, os.PathLike, GpuSpec)):
        remedy = "give a name of the catalogue, a file, or a GpuSpec"
        raise UsageError(f"a {type(gpu).__name__} is not a GPU", place="gpu", remedy=remedy)
    if not isinstance(gpu, GpuSpec):
        return os.fspath(gpu)
    checked = load_gpu(gpu)
    path = store.folder / "gpus" / f"{content_key(spec_hash(checked), checked.name)}.yaml"
    path.parent.mkdir(exist_ok=True)
    write_whole(path, dump_yaml(checked))
    return str(path)


def _axis(key: str, values: str | Sequence[Any]) -> Axis:
    """Values as an axis has them in text, or one by one: numbers in base units (counts as they are), or texts with their unit."""
    place = f"axes {key}"
    if not isinstance(key, str) or not isinstance(values, Iterable):
        raise UsageError("is not a key with values", place=place, remedy='write {"sm_count": [14, 28, 56]}')
    if isinstance(values, str):
        return axis_of_text(key, values, place)
    return axis_of_list(key, [(_text(key, value), place) for value in values], place)


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    known = find_key(key)
    if known is None or not known.numeric or isinstance(value, bool):
        return str(value).lower() if isinstance(value, bool) else str(value)
    try:
        number = float(value)
        if known.kind in WHOLE and number % 1 > 0:
            raise UsageError(f"{value!r} is not a whole number", place=f"axes {key}", remedy="give whole numbers")
        return value_text(key, int(number) if number.is_integer() else number)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{value!r} is not a value of {key}", place=f"axes {key}", remedy="give numbers of 0 or more") from None
