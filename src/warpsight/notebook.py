"""Warpsight in IPython and Jupyter: `%load_ext warpsight` gives the cell magic `%%cuda`; `explore` is the explorer as a widget."""

from __future__ import annotations

import ast
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy

from warpsight.analysis.summary import summary
from warpsight.api import launch_of
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.cli.options import default_model
from warpsight.cli.parser import Parser
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch_template import parameter_names
from warpsight.kernels.sources import find_kernel
from warpsight.pipeline.autotune import copied
from warpsight.pipeline.evaluate import ProfiledTrace, known_models, predict_profiled, profile_trace
from warpsight.pipeline.kernel_input import kernels_for
from warpsight.pipeline.request import DEFAULT_MODEL, KernelRequest
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.first_screen import first_screen
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace

if TYPE_CHECKING:
    from warpsight.explorer.widget import ExplorerWidget

_widget = lazy.load("warpsight.explorer.widget", suppress_warning=True)  # needs the extra `notebook`


class CellAnswer:
    """What `%%cuda` gives: `prediction` and `trace`, for any function of `warpsight`, and `arrays`, the arguments that are arrays.

    Shown, it is the first screen of `warpsight predict`. `request` made `trace`, and has the arrays as they were before.
    """

    def __init__(self, request: KernelRequest, trace: KernelTrace, gpu: GpuSpec, model: str, arrays: Mapping[str, Any]) -> None:
        profiled = profile_trace(trace, gpu)
        self.trace, self.arrays = trace, dict(arrays)
        self._explored = request, profiled, gpu, model
        self.prediction: Prediction = predict_profiled(profiled, gpu, [model])[0]
        self._document = self.prediction.to_json() | {"summary": summary(profiled, gpu, self.prediction)}

    def __repr__(self) -> str:
        return first_screen(self._document, stack=True)

    def explore(self) -> ExplorerWidget:
        """The kernel as a widget, as `warpsight.explore` shows it. Raises UsageError without the extra `notebook`."""
        return _explorer(*self._explored)


def explore(
    kernel: Any, gpu: str | PathLike[str] | GpuSpec | None = None, model: str = DEFAULT_MODEL, overrides: Sequence[str] = (),
    **launch: Any,
) -> ExplorerWidget:
    """A kernel in a notebook, as a widget: its time, CPI stack, advice and lines, sliders over the keys of `gpu`, other GPUs.

    `kernel` and its `launch` (`grid`, `block`, `args`, ...) are as for `warpsight.trace`, `gpu`, `model` and `overrides` as for
    `warpsight.predict`. Arrays stay as they are: the kernel runs on copies, again for each GPU of other machine code.
    Raises WarpsightError: UsageError without the extra `notebook`, and all that `warpsight.trace` raises.
    """
    _check_installed()
    if isinstance(kernel, KernelTrace):
        remedy = "give the kernel and its launch, or call `explore()` of what `%%cuda` gives"
        raise UsageError("is a trace, and other GPUs need the kernel to be run again", place="kernel", remedy=remedy)
    known_models([model])
    request, spec = launch_of("explore", kernel, launch), load_gpu(gpu, overrides=overrides)
    profiled = profile_trace(obtain_trace(_untouched(request), gpu=spec), spec)
    return _explorer(request, profiled, spec, model)


def _untouched(request: KernelRequest) -> KernelRequest:
    """The same launch on copies of its arrays."""
    return replace(request, args=copied(request.args))


def _check_installed() -> None:
    if find_spec("anywidget") is None:
        remedy = "install it in the environment of warpsight: `python -m pip install anywidget`"
        raise UsageError("anywidget is not installed", place="explore", remedy=remedy)


def _explorer(request: KernelRequest, profiled: ProfiledTrace, gpu: GpuSpec, model: str) -> ExplorerWidget:
    _check_installed()
    widget: ExplorerWidget = _widget.ExplorerWidget(request, profiled, gpu, model)
    return widget


def cuda(line: str, cell: str, names: Mapping[str, Any]) -> CellAnswer:
    """Compile the kernel in `cell`, run it on arrays and numbers of the notebook (`names`), and predict its time.

    `line` has the options. Raises WarpsightError: of options, of a name that is missing, and all that `warpsight.trace` raises.
    """
    chosen = _parser().parse_strictly(_words(line))
    if missing := [option for option in ("grid", "block") if getattr(chosen, option) is None]:
        needed = " and ".join(f"--{option}" for option in missing)
        raise UsageError(f"needs {needed}", place="%%cuda", remedy="for example: %%cuda --grid 4096 --block 256")
    gpu = load_gpu(chosen.gpu, overrides=chosen.overrides)
    text = cell + "\n"
    expressions = _parameters(text, gpu, chosen.kernel) if chosen.args is None else _expressions(chosen.args)
    values = {each: _value(each, names) for each in expressions}
    request = KernelRequest(
        path=text, kernel=chosen.kernel, grid=chosen.grid, block=chosen.block, shared=chosen.shared,
        args=tuple(values[each] for each in expressions),
    )  # fmt: skip
    before = _untouched(request)
    trace = obtain_trace(request, gpu=gpu)
    arrays = {each: value for each, value in values.items() if hasattr(value, "dtype")}
    return CellAnswer(before, trace, gpu, chosen.model or default_model(), arrays)


def _parameters(text: str, gpu: GpuSpec, kernel: str | None) -> list[str]:
    source = kernels_for(text, gpu, kernel)
    return parameter_names(source, find_kernel(source, kernel), [text])


def _expressions(text: str) -> list[str]:
    """`max(a, b), c` is two."""
    try:
        listed = ast.parse(f"[{text}]", mode="eval").body
    except SyntaxError:
        listed = None
    if not isinstance(listed, ast.List):
        remedy = "give Python expressions with commas between them: --args 'a, b, len(a)'"
        raise UsageError(f"is not a list of expressions: {text}", place="--args", remedy=remedy)
    return [ast.unparse(each) for each in listed.elts]


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        what = f"{str(error).lower()}: {line}"
        raise UsageError(what, place="%%cuda", remedy="close the quotes: --grid 'ceil(n / block.x)'") from None


def _parser() -> Parser:
    parser = Parser(
        prog="%%cuda", description="Compile the kernel in the cell, run it on variables of the notebook, and predict its time.",
        epilog="example: %%cuda --grid 'ceil(n / block.x)' --block 256 --gpu a100",
    )  # fmt: skip
    parser.add_argument("--grid", help="blocks: `4096`, `64,64`, or an expression: `ceil(n / block.x)`")
    parser.add_argument("--block", help="threads of a block: `256` or `16,16`")
    parser.add_argument("--args", help="expressions, separated by commas (default: the variables named like the parameters)")
    parser.add_argument("--kernel", help="which, where the cell has several")
    parser.add_argument("--shared", type=int, help="dynamic shared memory in bytes")
    parser.add_argument("--gpu", help="the GPU (default: as for `warpsight predict`)")
    parser.add_argument("--set", dest="overrides", metavar="KEY=VALUE", action="append", default=[], help="change the GPU")
    parser.add_argument("--model", help="the model (default: as for `warpsight predict`)")
    return parser


def _value(text: str, names: Mapping[str, Any]) -> Any:
    try:
        return names[text] if text in names else eval(text, dict(names))  # the user's own notebook
    except Exception as error:
        remedy = "define it in a cell before, or name other values: --args 'a, b, len(a)'"
        raise UsageError(f"{type(error).__name__}: {error}", place=f"argument {text}", remedy=remedy) from None


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext warpsight` calls: registers `%%cuda`, and `%cuda`, which shows its help."""

    def magic(line: str, cell: str | None = None) -> CellAnswer | None:
        try:
            if cell is None or "--help" in line.split():
                _parser().print_help()
                return None
            return cuda(line, cell, shell.user_ns)
        except WarpsightError as error:
            # IPython refuses a cell magic without a cell
            print(f"error: {error}".replace("`%%cuda --help`", "`%cuda --help`"), file=sys.stderr)
            return None

    shell.register_magic_function(magic, "line_cell", "cuda")
