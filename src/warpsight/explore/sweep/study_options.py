"""A study from the options of a command or the arguments of a function."""

from __future__ import annotations

from collections.abc import Sequence

from warpsight.explore.request import DEFAULT_GPU, DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest, Method
from warpsight.explore.suites.suite import load_suite
from warpsight.explore.sweep.axes import parse_axis
from warpsight.explore.sweep.checks import check_study
from warpsight.explore.sweep.expressions import parse_expression
from warpsight.explore.sweep.study import Axis, Referee, Sampling, Study, StudyKernel
from warpsight.explore.sweep.study_kernels import default_name, members_of_suite
from warpsight.explore.sweep.study_traces import members_of
from warpsight.gpu.keys import KEYS
from warpsight.gpu.values import value_text

GRID_OF_ALL = Sampling()


def study_of_options(
    kernels: Sequence[KernelRequest | StudyKernel] = (),
    *,
    suite: str | None = None,
    name: str = "sweep",
    gpu: str = DEFAULT_GPU,
    settings: Sequence[str] = (),
    constraints: Sequence[str] = (),
    models: Sequence[str] = (DEFAULT_MODEL,),
    sampling: Sampling = GRID_OF_ALL,
    method: Method = DEFAULT_METHOD,
    referee: Referee | None = None,
) -> Study:
    """The study of kernels, and of a suite by name or folder, around `gpu`.

    `settings` are texts as `--set` takes them: a GPU key with one value holds on every design (`l1.ways=4`), a key with several
    values is an axis (`sm_count=15:80:5`), and so is a launch or method key even with one. Axes are in the order given.
    `constraints` are expressions. A request without a name is called after its file. Raises UsageError or SpecError with the place
    `--set TEXT`, what `parse_expression`, `get_model` and `load_suite` raise, and whatever `check_study` refuses.
    """
    from warpsight.explore.pipeline import known_models

    known_models(models)
    named = [each if isinstance(each, StudyKernel) else StudyKernel(default_name(each), each) for each in kernels]
    members = [member for each in named for member in members_of(each)]
    if suite is not None:
        members += members_of_suite(load_suite(suite))
    overrides: list[str] = []
    axes: list[Axis] = []
    places: dict[str, str] = {"kernels": "KERNEL", "sampling": "--sampling", "models": "--model"}
    for text in settings:
        place = f"--set {text}"
        axis = parse_axis(text, place)
        fixed = axis.key in KEYS and len(axis.values) == 1
        places[f"{'set' if fixed else 'axes'}.{axis.key}"] = place
        if fixed:
            overrides.append(f"{axis.key}={value_text(axis.key, axis.values[0])}")
        else:
            axes.append(axis)
    study = Study(
        name=name,
        kernels=tuple(members),
        gpu=gpu,
        overrides=tuple(overrides),
        axes=tuple(axes),
        sampling=sampling,
        constraints=tuple(parse_expression(text, f"--where {text}") for text in constraints),
        models=tuple(models),
        method=method,
        referee=referee,
    )
    check_study(study, places)
    return study
