"""Tuning without a GPU: every configuration of a kernel is executed and predicted, compared with the default one, and ranked.

A configuration is a task of an executor. What it gives is kept in the store of results, so that a run that was stopped continues.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from warpsight.base.diskcache import content_key
from warpsight.base.errors import NotKept, UsageError, WarpsightError
from warpsight.base.progress import Watch, stage
from warpsight.gpu.spec import GpuSpec
from warpsight.jobs.executor import Executor
from warpsight.jobs.fingerprint import PROFILE, fingerprint
from warpsight.jobs.store import ResultStore, StoreAddress
from warpsight.kernels.launch import ArrayArgument
from warpsight.kernels.mangling import display_name
from warpsight.pipeline.autotune import copied
from warpsight.pipeline.evaluate import Designs, evaluate, known_models
from warpsight.pipeline.kernel_input import ReadyLaunch, prepare
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest, Method
from warpsight.pipeline.tracing import ListingSink, run_ready
from warpsight.sweeps.configurations import Budget, Space, configurations, shown_name
from warpsight.sweeps.launches import Choice, launched, trace_key
from warpsight.sweeps.tasks import KeptStages, loaded

_RESULTS, _COMPARED, _TRIED = "results", "compared", "tried"  # kinds of what is kept
_NPZ = ".npz"
DEFAULT, SAME, DIFFERS, UNKNOWN = "default", "same", "differs", "not compared"
CLOSE = 0.05  # predictions nearer to each other than this do not say which one is faster


Differences = list[dict[str, Any]] | None
"""Of each array that is not the default configuration's: `argument`, its number, and `difference`; None where nothing compares."""


@dataclass(frozen=True)
class Tuning:
    """What tuning found: `rows`, the fastest first, of configurations whose results are the default's; then the others.

    A row has its `configuration` (values by name), its `number` in the list of an autotuned kernel, `default`, `failed` (why it
    was not predicted, or nothing), `results` (`default`, `same`, `differs`, `not compared`) with the `differences`, and of a
    prediction `seconds`, `cycles`, `speedup` over the default, `bound_by`, `occupancy`, `occupancy_limiter`, `registers`,
    `shared_bytes`, `grid`, `block` and `code`.
    """

    document: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One for each configuration."""
        rows: list[dict[str, Any]] = self.document["rows"]
        return rows

    @property
    def best(self) -> dict[str, Any] | None:
        """The fastest configuration whose results are those of the default one; None where there is none."""
        return next((row for row in self.rows if ranked(row)), None)

    @property
    def default(self) -> dict[str, Any]:
        """The configuration that the kernel has today."""
        return next(row for row in self.rows if row["default"])

    def to_json(self) -> dict[str, Any]:
        """The whole document, as ``warpsight tune --json`` prints it."""
        return self.document


def ranked(row: Mapping[str, Any]) -> bool:
    """Whether a configuration takes part in the ranking: it was predicted, and its results do not differ from the default's."""
    return not row["failed"] and row["results"] != DIFFERS


@dataclass(frozen=True)
class TuneTask:
    """Execute `request` and predict it on `gpu`. Traces are kept in `store`, the answer in `answers` under `key`.

    Its results are compared with those kept under `reference`, the key of the default configuration's trace; "" if that one has
    none, and None for the default configuration itself.
    """

    store: StoreAddress
    answers: StoreAddress
    key: str
    request: KernelRequest = field(compare=False)
    gpu: GpuSpec = field(compare=False)
    model: str = field(compare=False)
    method: Method = field(compare=False)
    reference: str | None = field(compare=False)


def tune(
    request: KernelRequest, gpu: GpuSpec, axes: Mapping[str, str | Sequence[Any]], executor: Executor, store: ResultStore, *,
    where: Sequence[str] = (), budget: Budget | None = None, model: str = DEFAULT_MODEL, method: Method = DEFAULT_METHOD,
    watch: Watch | None = None,
) -> Tuning:
    """Try the configurations of `request` over `axes` (`configurations`) on `gpu`, and rank them by predicted time.

    A configuration that cannot be compiled, launched or predicted is a row with the reason. Raises what `configurations` raises,
    UsageError for an unknown model, and NotKept.
    """
    known_models([model])
    if executor.name != "inline" and not isinstance(request.path, (str, PathLike)):
        what = f"an object of this program cannot be tuned in other processes, as {executor.name} would"
        raise UsageError(what, place="executor", remedy="use `executor=inline`, or name the kernel in a launch file (.py)")
    space = configurations(request, axes, where, budget)
    with TemporaryDirectory(dir=store.folder, prefix="tune") as folder:
        answers = ResultStore(folder)
        run = partial(_answers, executor, answers, watch)
        task = partial(_task, store, answers, request, gpu, model, method)
        tried = run([task(space.default, None)])
        tried += run([task(choice, tried[0].get("key", "")) for choice in space.choices[1:]])
    rows = [_row(choice, space.number(choice), answer) for choice, answer in zip(space.choices, tried, strict=True)]
    return Tuning(_document(request, gpu, model, space, budget, _with_default(rows)))


def _task(
    store: ResultStore, answers: ResultStore, request: KernelRequest, gpu: GpuSpec, model: str, method: Method, choice: Choice,
    reference: str | None,
) -> TuneTask:
    key = content_key(repr(choice))
    return TuneTask(store.address, answers.address, key, launched(request, choice), gpu, model, method, reference)


def _answers(executor: Executor, answers: ResultStore, watch: Watch | None, tasks: Sequence[TuneTask]) -> list[dict[str, Any]]:
    """What came of each task; a task that failed as a whole has the reason."""
    what = "trying the default configuration" if len(tasks) == 1 else "trying configurations"
    reasons = executor.run(try_configuration, tasks, stage(watch, what)) if tasks else {}
    return [answers.get(_TRIED, task.key) or {"failed": reasons.get(task, "it gave no answer")} for task in tasks]


# -- One configuration, in whichever process.

def try_configuration(task: TuneTask) -> str:
    """Compile, execute, compare and predict. What refuses the configuration is kept as its answer."""
    try:
        answer = _tried(task, ResultStore.reopen(task.store))
    except NotKept:
        raise
    except WarpsightError as error:
        answer = {"failed": str(error)}
    ResultStore.reopen(task.answers).put(_TRIED, task.key, answer)
    return ""


def _tried(task: TuneTask, store: ResultStore) -> dict[str, Any]:
    # the arrays of the caller stay as they are, and what the kernel prints must not mix with a result on stdout
    ready = prepare(replace(task.request, output=sys.stderr, args=copied(task.request.args)), task.gpu)
    ready.check_fit(task.gpu)
    key = trace_key(ready)
    differences = _executed(store, ready, key, task.reference)
    folder = str(store.folder_of(key))
    kept = KeptStages(store, key, fingerprint(PROFILE))
    (evaluation,) = evaluate(lambda: loaded(folder), [Designs(task.gpu, task.method)], [task.model], kept)
    document = evaluation.predictions()[0].to_json()
    return {
        "failed": "", "key": key, "kernel": display_name(ready.launch.kernel), "differences": differences,
        **{name: document[name] for name in ("cycles", "seconds", "bound_by", "occupancy", "occupancy_limiter")},
        "registers": ready.registers.registers, "shared_bytes": ready.registers.static_shared_bytes + ready.launch.shared_bytes,
        "grid": list(ready.launch.grid), "block": list(ready.launch.block),
        "code": "PTX" if ready.architecture is None else ready.architecture.real,
    }  # fmt: skip


def _executed(store: ResultStore, ready: ReadyLaunch, key: str, reference: str | None) -> Differences:
    """Execute the launch, unless its trace is kept under `key` and its results were compared with those of `reference`."""
    compared = content_key(key, reference or "")
    known = store.get(_COMPARED, compared)
    if known is not None and store.has_folder(key):
        differences: Differences = known["differences"]
        return differences
    found: list[Differences] = []

    def run(place: Path) -> None:
        with ListingSink(place, notes=ready.notes) as sink:
            run_ready(ready, sink=sink)
        found.append(_compared(store, ready, key, reference))

    store.make_folder(key, run)
    if not found:  # the trace is kept, and what it computed was never compared with this
        with TemporaryDirectory() as folder:
            run(Path(folder) / "trace")
    store.put(_COMPARED, compared, {"differences": found[0]})
    return found[0]


def _compared(store: ResultStore, ready: ReadyLaunch, key: str, reference: str | None) -> Differences:
    """Keep the results of the default configuration; of another one where they differ from them."""
    results: dict[str, Any] = {
        str(number): argument.array for number, argument in enumerate(ready.launch.arguments, 1)
        if isinstance(argument, ArrayArgument) and argument.written_back
    }
    if reference is None:
        body = io.BytesIO()
        np.savez(body, **results)
        store.put_bytes(_RESULTS, key, body.getvalue(), _NPZ)
        return []
    kept = store.get_bytes(_RESULTS, reference, _NPZ)
    if kept is None:
        return None
    with np.load(io.BytesIO(kept)) as default:
        found = [(int(number), _difference(default[number], array)) for number, array in results.items() if number in default]
    return [{"argument": number, "difference": far} for number, far in found if far is not None]


def _difference(default: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> float | None:
    """How far `array` is from the default's, in parts of the largest magnitude there; None where they agree.

    Whole numbers and bytes agree where they are equal, floating-point numbers in half of the digits of their type, since another
    order of additions gives other roundings.
    """
    if default.size != array.size:
        return 1.0
    default = default.reshape(array.shape).view(array.dtype)  # NumPy keeps types of other packages as bytes
    if default.tobytes() == array.tobytes():
        return None
    digits = _epsilon(array.dtype) ** 0.5
    if not digits:
        return float(np.mean(default != array))
    theirs, ours = default.astype(np.float64), array.astype(np.float64)
    if (np.isnan(theirs) != np.isnan(ours)).any() or (np.isinf(theirs) != np.isinf(ours)).any():
        return 1.0
    finite = np.isfinite(theirs) & np.isfinite(ours)
    largest = float(np.abs(theirs[finite]).max(initial=0.0))
    far = float(np.abs(theirs[finite] - ours[finite]).max(initial=0.0)) / (largest or 1.0)
    return far if far > digits else None


def _epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number of a floating-point type, 0 for other types."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).eps)
    if dtype.kind == "V" and dtype.type.__module__.startswith("ml_dtypes"):
        return float(importlib.import_module("ml_dtypes").finfo(dtype).eps)
    return 0.0


# -- The ranking.

def _row(choice: Choice, number: int | None, answer: Mapping[str, Any]) -> dict[str, Any]:
    differences = answer.get("differences")
    results = UNKNOWN if differences is None else DIFFERS if differences else SAME
    named = {shown_name(name): text for name, text in choice}
    return {"number": number, "configuration": named, "default": False, "results": results, **answer}


def _with_default(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, the first one marked as the default; one that launches the same as that has its place."""
    first, *others = rows
    same = [row for row in others if row.get("key") and row.get("key") == first.get("key")]
    default = {**(same or [first])[0], "default": True, "results": DEFAULT}
    return [{name: value for name, value in row.items() if name != "key"} for row in [default, *others] if row not in same]


def _document(
    request: KernelRequest, gpu: GpuSpec, model: str, space: Space, budget: Budget | None, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    base = rows[0].get("seconds")
    for row in rows:
        row["speedup"] = base / row["seconds"] if base and row.get("seconds") else None
    ordered = sorted(rows, key=lambda row: (not ranked(row), bool(row["failed"]), row.get("seconds") or 0.0))
    times = [row["seconds"] for row in ordered if ranked(row)]
    predicted = next((row for row in ordered if not row["failed"]), {})
    return {
        "tool": TOOL, "kernel": predicted.get("kernel", ""), "source": _called(request), "gpu": gpu.name, "model": model,
        "code": predicted.get("code", ""), "varied": {shown_name(name): name for name in space.names},
        "combinations": space.combinations, "excluded": space.excluded, "left_out": space.left_out,
        "budget": None if budget is None else asdict(budget),
        "tried": len(rows), "failed": sum(bool(row["failed"]) for row in rows),
        "close": sum(time <= times[0] * (1 + CLOSE) for time in times) if times else 0, "close_within": CLOSE,
        "rows": ordered, "notes": _notes(rows),
    }  # fmt: skip


def _called(request: KernelRequest) -> str:
    path = request.path
    return "a source text" if isinstance(path, str) and "\n" in path else str(getattr(path, "__name__", path))


def _notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the ranking cannot say by itself."""
    notes = []
    grids = {tuple(row["grid"]) for row in rows if not row["failed"]}
    blocks = {tuple(row["block"]) for row in rows if not row["failed"]}
    if len(grids) == 1 and len(blocks) > 1:
        notes.append("the grid is the same for every block, so that configurations have different numbers of threads: "
                     "write the grid as an expression, such as `grid: ceil(n / block.x)`")  # fmt: skip
    return notes
