"""Warpsight in IPython and Jupyter: `%load_ext warpsight` gives the cell magic `%%cuda`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

from warpsight.analysis.summary import summary
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.cli.options import default_model
from warpsight.cli.parser import Parser
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch_template import parameter_names
from warpsight.kernels.sources import find_kernel, load_source
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.first_screen import first_screen
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace


class CellAnswer:
    """What `%%cuda` gives: `prediction` and `trace`, for any function of `warpsight`, and `arrays`, the arguments that are arrays.

    Shown, it is the first screen of `warpsight predict`.
    """

    def __init__(self, trace: KernelTrace, gpu: GpuSpec, model: str, arrays: Mapping[str, Any]) -> None:
        profiled = profile_trace(trace, gpu)
        self.trace, self.arrays = trace, dict(arrays)
        self.prediction: Prediction = predict_profiled(profiled, gpu, [model])[0]
        self._document = self.prediction.to_json() | {"summary": summary(profiled, gpu, self.prediction)}

    def __repr__(self) -> str:
        return first_screen(self._document, stack=True)


def cuda(line: str, cell: str, names: Mapping[str, Any]) -> CellAnswer:
    """Compile the kernel in `cell`, run it on arrays and numbers of the notebook (`names`), and predict its time.

    `line` has the options. Raises WarpsightError: of options, of a name that is missing, and all that `warpsight.trace` raises.
    """
    chosen = _parser().parse_strictly(_words(line))
    gpu = load_gpu(chosen.gpu, overrides=chosen.overrides)
    source = load_source(cell + "\n", kernel_expressions=(chosen.kernel,) if chosen.kernel else ())
    wanted = [text.strip() for text in chosen.args.split(",")] if chosen.args is not None else None
    expressions = parameter_names(source, find_kernel(source, chosen.kernel), [cell]) if wanted is None else wanted
    values = {text: _value(text, names) for text in expressions}
    request = KernelRequest(
        path=cell + "\n", kernel=chosen.kernel, grid=chosen.grid, block=chosen.block, shared=chosen.shared,
        args=tuple(values[text] for text in expressions),
    )  # fmt: skip
    trace = obtain_trace(request, gpu=gpu)
    arrays = {text: value for text, value in values.items() if hasattr(value, "dtype")}
    return CellAnswer(trace, gpu, chosen.model or default_model(), arrays)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        what = f"{str(error).lower()}: {line}"
        raise UsageError(what, place="%%cuda", remedy="close the quotes: --grid 'ceil(n / block.x)'") from None


def _parser() -> Parser:
    parser = Parser(prog="%%cuda", description=cuda.__doc__)
    parser.add_argument("--grid", required=True, help="blocks: `4096`, `64,64`, or an expression: `ceil(n / block.x)`")
    parser.add_argument("--block", required=True, help="threads of a block: `256` or `16,16`")
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
    """What `%load_ext warpsight` calls: registers `%%cuda`."""

    def magic(line: str, cell: str) -> CellAnswer | None:
        try:
            return cuda(line, cell, shell.user_ns)
        except WarpsightError as error:
            print(f"error: {error}", file=sys.stderr)
            return None

    shell.register_magic_function(magic, "cell", "cuda")
