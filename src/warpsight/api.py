"""The Python interface: the same machine as the command line.

>>> trace = warpsight.trace("saxpy.cu", grid=4096, block=256, args=[2.0, x, y])     # x, y: NumPy arrays, written back
>>> print(warpsight.predict(trace, gpu="mdm-pascal").cpi_stack)
>>> print(warpsight.predict("saxpy.cu", gpu="h100-sxm", grid=4096, block=256, args=[2.0, x, y]).seconds)      # both in one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TextIO

from warpsight.analysis.advice.advise import Advice, advise_trace
from warpsight.analysis.explanation import Explanation, explain_profiled
from warpsight.analysis.report_data.files import report_place, write_report
from warpsight.analysis.report_data.kernel import Parts, advised_report_data, predictions_report_data
from warpsight.analysis.report_data.study import study_report_data
from warpsight.base.errors import UsageError, suggestion
from warpsight.base.findings import Finding
from warpsight.caches.reuse.result import CacheResult
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.jobs.executor import make_executor
from warpsight.pipeline import files as store
from warpsight.pipeline.cache_model import CacheOptions, accesses_of, cache_result, checked_changes
from warpsight.pipeline.checking import check_kernel, check_program, parse_tools
from warpsight.pipeline.evaluate import predict_trace, profile_trace
from warpsight.pipeline.kernel_input import is_launch_file
from warpsight.pipeline.request import DEFAULT_METHOD, DEFAULT_MODEL, Dimensions, KernelRequest, Method
from warpsight.pipeline.sampling import DEFAULT_ACCURACY, trace_to_predict
from warpsight.pipeline.simulation import simulate_trace
from warpsight.pipeline.tracing import import_one, obtain_trace
from warpsight.reports.html.page import page
from warpsight.result.prediction import Prediction
from warpsight.sweeps.configurations import Budget
from warpsight.sweeps.folder import make_folder
from warpsight.sweeps.result import Sweep
from warpsight.sweeps.run import open_store, run_sweep, write_results
from warpsight.sweeps.study import Sampling, SimulatorRuns
from warpsight.sweeps.study_arguments import study_of_arguments
from warpsight.sweeps.tuning import Tuning
from warpsight.sweeps.tuning import tune as tune_kernel
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import open_trace


def trace(
    source: Any, kernel: str | None = None, *, grid: Dimensions | None = None, block: Dimensions | None = None,
    args: Sequence[Any] | None = None, shared: int | None = None, registers: int | None = None, seed: int | None = None,
    max_instructions: int | None = None, threads: int | None = None, sample: int | str | None = None,
    out: str | PathLike[str] | None = None, arch: str | None = None, defines: Sequence[str] | None = None,
    include_dirs: Sequence[str] | None = None, heap_bytes: int | None = None, stack_bytes: int | None = None,
    output: TextIO | None = None, check: bool | None = None, constants: Mapping[str, Any] | None = None,
    gpu: str | PathLike[str] | GpuSpec | None = None, level: str | None = None, maxrregcount: int | None = None,
    opt_level: int | None = None, cluster: Dimensions | None = None, config: int | str | None = None,
    std: str | None = None,
) -> KernelTrace:
    """Execute one launch of a kernel and return its trace, in memory or, with `out`, stored in that new folder.

    `source` is a .cu, .ptx, .cubin or launch file, a program with kernels, source text, a kernel of Numba, Triton or CuPy
    (docs/reference/python-kernels.md), or a trace folder, which is opened. `kernel` is the name of the kernel, if there are
    several; `constants` are the compile-time values of a Triton kernel; `config` selects a configuration of an autotuned one by
    number or values.

    `grid` counts blocks, `block` threads, and `cluster` the blocks of a thread block cluster: one to three numbers each. `args` are
    the arguments in order: NumPy arrays, which are device memory and are written back; scalars; texts that name a rule, such as
    ``f32[1024]:uniform`` (generated from `seed`). `shared` is dynamic shared memory in bytes. Values given here override those of a
    launch file.

    `level` is what is executed: ``ptx``; ``sass``, machine code assembled for `gpu` (or for `arch`); ``auto`` (the default):
    ``sass`` if `gpu` has a compute capability of 7.0 or later, else ``ptx``. `defines`, `include_dirs` and the C++ standard `std`
    (``c++17``) are for the compiler; the assembler uses at most `maxrregcount` registers per thread and optimizes at `opt_level` (0
    to 3); `registers` per thread replaces its count.

    The run stops after `max_instructions` warp instructions (10^10). `heap_bytes` (8 MiB) is the heap of the kernel's own
    ``malloc``, `stack_bytes` per thread (8 KiB) the stack for recursion and calls through pointers; the kernel prints to the text
    stream `output` (standard output). With `check`, wrong accesses, hazards, unwritten memory and misused barriers raise a
    CheckFault, whose `findings` are all of them. Blocks run on `threads` CPU threads (all cores), with the same result and trace as
    on one. With `sample` (a number of blocks, or a share such as ``5%``) all blocks run, but only those, selected by `seed`, are
    recorded.

    Raises WarpsightError: UsageError, FormatError, CompileError, UnsupportedError, LaunchFault, LimitError.
    """
    request = KernelRequest(
        path=source, kernel=kernel, grid=grid, block=block, shared=shared, args=_tuple(args), seed=seed, registers=registers,
        max_instructions=max_instructions, threads=threads, sample=sample, arch=arch, defines=_tuple(defines),
        include_dirs=_tuple(include_dirs), heap_bytes=heap_bytes, stack_bytes=stack_bytes, output=output, check=check,
        constants=constants, level=level, maxrregcount=maxrregcount, opt_level=opt_level, cluster=cluster, config=config, std=std,
    )  # fmt: skip
    spec = None if gpu is None else load_gpu(gpu)
    return obtain_trace(request, gpu=spec) if out is None else store.trace_into(request, fspath(out), gpu=spec)


def check(
    source: Any = None, kernel: str | None = None, *, grid: Dimensions | None = None, block: Dimensions | None = None,
    args: Sequence[Any] | None = None, shared: int | None = None, tools: str | Sequence[str] = "all", order: int = 0,
    program: Sequence[str] | None = None, gpu: str | PathLike[str] | GpuSpec | None = None, level: str | None = None,
    output: TextIO | None = None, **launch: Any,
) -> list[Finding]:
    """Check one launch of a kernel, or a whole CUDA program, and return the findings; equal findings of several launches are one.

    `source` to `shared` are as for `trace`, and so are the other values of a launch as keywords (`seed`, `arch`, `heap_bytes`,
    ...); arrays keep their values. `program` is a program built with ``nvcc`` and its arguments, instead of a kernel. `tools` are
    memcheck, racecheck, initcheck and synccheck, or ``all``; `order` is the number of other orders of blocks, warps and lanes in
    which the launch is repeated and its results are compared. PTX is executed if there is any, unless `level` says otherwise.
    Raises WarpsightError for what cannot be executed; an error in the kernel is a finding, not an exception.
    """
    chosen, spec = parse_tools(tools), None if gpu is None else load_gpu(gpu)
    if program is not None:
        if source is not None or kernel is not None or grid is not None or block is not None or args is not None or launch:
            raise UsageError("a program makes its launches itself", place="program", remedy="give a kernel or a program")
        return check_program(list(program), load_gpu(gpu), chosen, level=level, orders=order).findings
    request = KernelRequest(
        path=source, kernel=kernel, grid=grid, block=block, shared=shared, args=_tuple(args), level=level, output=output,
        **_rest_of_launch("check", launch),
    )
    return check_kernel(request, chosen, gpu=spec, orders=order).findings


_OF_LAUNCHES = ("seed", "registers", "max_instructions", "arch", "defines", "include_dirs", "heap_bytes", "stack_bytes",
                "constants", "config", "maxrregcount", "opt_level", "cluster", "std")  # fmt: skip
_WHOLE_LAUNCHES = ("kernel", "grid", "block", "shared", "args", "level", "threads", "sample", *_OF_LAUNCHES)


def _rest_of_launch(function: str, launch: Mapping[str, Any], known: Sequence[str] = _OF_LAUNCHES) -> dict[str, Any]:
    unknown = next((name for name in launch if name not in known), None)
    if unknown is not None:
        what = f"is not an argument of {function}{suggestion(unknown, known)}"
        raise UsageError(what, place=unknown, remedy=f"known: {', '.join(known)}")
    return {name: _tuple(value) for name, value in launch.items()}


def _tuple(value: Any) -> Any:
    # Anything else is refused, with its place, where the request is checked.
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)) else value


def load_trace(folder: str | PathLike[str]) -> KernelTrace:
    """Open the trace in `folder`; its chunks are read when iterated.

    It may also be the trace of another tool (docs/reference/importing-traces.md): the file of a kernel, or a folder with one
    launch. Raises FormatError or UsageError if it is not a trace.
    """
    request = KernelRequest(path=fspath(folder))
    return import_one(request) if request.is_foreign else open_trace(fspath(folder))


def profile(
    trace: Any, gpu: str | PathLike[str] | GpuSpec | None = None, *, overrides: Sequence[str] = (),
    representative: str = DEFAULT_METHOD.representative, interleaving: str = DEFAULT_METHOD.interleaving,
    order: str = DEFAULT_METHOD.order, caches_before: str = DEFAULT_METHOD.caches_before, **launch: Any,
) -> IntervalProfile:
    """The interval profile of the representative warp on `gpu` (a name, a YAML file, a `GpuSpec`), after the cache simulation.

    `trace` is a trace, the folder of one, or a kernel, which is launched for `gpu` with the other keywords of `trace()`: `grid`,
    `block`, `args`, ... Without `gpu` the default GPU is used: that of `WARPSIGHT_GPU`, else that of `warpsight gpus use`, else the
    A100. `overrides` change keys: ``["sm_count=56"]``. `representative` is kmeans, max or min (GPUMech eqs. 5-6); `interleaving` of
    accesses in the caches is clocked or round-robin; `order` is the timing that orders them, that of the `reference` GPU from which
    `gpu` is derived, or its `own`; `caches_before` is the state of the L2 at the start: `cold`, `warm` (as the same launch leaves
    it) or `auto`. Raises WarpsightError.
    """
    spec = load_gpu(gpu, overrides=overrides)
    method = Method(representative, interleaving, order=order, caches_before=caches_before)
    return profile_trace(_opened("profile", trace, spec, launch), spec, method).profile


def _accuracy(accuracy: float | None, exact: bool) -> float | None:
    """The accuracy of sampled launches; None: every block runs. Raises UsageError for arguments that exclude each other."""
    if exact and accuracy is not None:
        raise UsageError("cannot be combined with exact, which runs every block", place="accuracy", remedy="leave out one of them")
    return None if exact else DEFAULT_ACCURACY if accuracy is None else accuracy


def predict(
    trace: Any, gpu: str | PathLike[str] | GpuSpec | None = None, model: str = DEFAULT_MODEL, overrides: Sequence[str] = (), *,
    representative: str = DEFAULT_METHOD.representative, interleaving: str = DEFAULT_METHOD.interleaving,
    order: str = DEFAULT_METHOD.order, caches: str = DEFAULT_METHOD.caches, caches_before: str = DEFAULT_METHOD.caches_before,
    accuracy: float | None = None, exact: bool = False, **launch: Any,
) -> Prediction:
    """Predict the cycles, the IPC and the CPI stack of a launch on `gpu` by one model; the attributes are the JSON keys.

    `trace` is a trace, a trace folder, or a kernel with its launch. A long launch of a kernel whose blocks are independent is
    predicted from sampled waves, unless arrays of the caller receive its results: waves are added until the 95 % confidence
    interval is within `accuracy` (0.02) of the cycles. `exact` executes every block. ``provenance["sampling"]`` describes the
    sample. The other arguments are as for `profile`. Raises WarpsightError for unknown names and values, and for what cannot be
    executed or predicted.
    """
    wanted = _accuracy(accuracy, exact)
    spec = load_gpu(gpu, overrides=overrides)
    method = Method(representative, interleaving, caches, order, caches_before)

    def recorded(request: KernelRequest) -> KernelTrace:
        if wanted is None:
            return obtain_trace(request, gpu=spec)
        return trace_to_predict(request, spec, model, method, wanted)

    how = (["exact"] if exact else []) + ([] if accuracy is None else ["accuracy"])
    return predict_trace(_opened("predict", trace, spec, launch, recorded, how), spec, [model], method)[0]


def simulate(
    trace: Any, gpu: str | PathLike[str] | GpuSpec | None = None, overrides: Sequence[str] = (), *,
    max_cycles: int | None = None, caches_before: str = DEFAULT_METHOD.caches_before, **launch: Any,
) -> Prediction:
    """Simulate a launch on `gpu` cycle by cycle, as a reference for the models; returns the same as `predict`.

    `trace` is as for `profile`. ``provenance["model"]`` has what only a simulation can provide: hit rates, where a miss spends its
    cycles, occupancy over time. `caches_before` is as for `profile`. After `max_cycles` (10^10) the simulation stops with a
    LimitError. Raises WarpsightError for what cannot be simulated.
    """
    spec = load_gpu(gpu, overrides=overrides)
    opened = _opened("simulate", trace, spec, launch)
    return simulate_trace(opened, spec, max_cycles=max_cycles, caches_before=caches_before).prediction


def explain(
    trace: Any, gpu: str | PathLike[str] | GpuSpec | None = None, model: str = DEFAULT_MODEL, overrides: Sequence[str] = (), *,
    by: str = "line", representative: str = DEFAULT_METHOD.representative, interleaving: str = DEFAULT_METHOD.interleaving,
    order: str = DEFAULT_METHOD.order, caches_before: str = DEFAULT_METHOD.caches_before, **launch: Any,
) -> Explanation:
    """Attribute the cycles of `predict` to lines: `rows` by PTX line (`line`), `source` line, basic `block`, or, for a trace of
    machine code, by instruction (`sass`).

    The CPI stacks of the rows and of `rest` sum to that of the prediction within 1e-9. Other arguments and errors as for `predict`.
    """
    spec = load_gpu(gpu, overrides=overrides)
    method = Method(representative, interleaving, order=order, caches_before=caches_before)
    return explain_profiled(profile_trace(_opened("explain", trace, spec, launch), spec, method), spec, model, by)


def advise(
    trace: Any, gpu: str | PathLike[str] | GpuSpec | None = None, model: str = DEFAULT_MODEL, overrides: Sequence[str] = (), *,
    representative: str = DEFAULT_METHOD.representative, interleaving: str = DEFAULT_METHOD.interleaving,
    order: str = DEFAULT_METHOD.order, caches_before: str = DEFAULT_METHOD.caches_before, **launch: Any,
) -> Advice:
    """Changes that would make a launch faster: `changes`, each predicted again, the largest gain first. Arguments as for `predict`.
    """
    spec = load_gpu(gpu, overrides=overrides)
    method = Method(representative, interleaving, order=order, caches_before=caches_before)
    return advise_trace(_opened("advise", trace, spec, launch), spec, model, method)


def report(
    what: Any, out: str | PathLike[str], gpu: str | PathLike[str] | GpuSpec | None = None, model: str = DEFAULT_MODEL,
    overrides: Sequence[str] = (), *, simulator: bool = False, what_if: str = "quick", **launch: Any,
) -> Path:
    """Write the report of a trace, of a study, or of predictions of one kernel on one GPU to the HTML file `out`; returns its path.

    `what` may also be the folder of a trace, or a kernel with its launch, as for `profile`. For these, `gpu`, `model` and
    `overrides` are as for `predict`; `simulator` also simulates the launch cycle by cycle; `what_if` says how many designs around
    the GPU the sliders have: quick, full or none. Raises WarpsightError for what cannot be predicted or written.
    """
    out, inputs = report_place(out), [what] if isinstance(what, Prediction) else what
    if launch and isinstance(inputs, (Sweep, list)):
        raise UsageError("applies to a kernel", place=next(iter(launch)), remedy="leave it out")
    if isinstance(inputs, Sweep):
        return write_report(out, page(study_report_data(inputs)))
    if isinstance(inputs, (list, tuple)):
        return write_report(out, page(predictions_report_data([prediction.to_json() for prediction in inputs])))
    spec = load_gpu(gpu, overrides=overrides)
    document = advised_report_data(_opened("report", inputs, spec, launch), spec, model, parts=Parts(simulator, what_if))
    return write_report(out, page(document))


def _opened(
    function: str, trace: Any, gpu: GpuSpec, launch: Mapping[str, Any],
    recorded: Callable[[KernelRequest], KernelTrace] | None = None, how: Sequence[str] = (),
) -> KernelTrace:
    """A trace as it is, or that in a folder; of a kernel the trace of its launch for `gpu`, as it is `recorded`, else of all its
    blocks. `how` are further arguments that a trace cannot follow.
    """
    stated = [*_rest_of_launch(function, launch, _WHOLE_LAUNCHES), *how]
    path = fspath(trace) if isinstance(trace, PathLike) else trace
    if isinstance(path, KernelTrace):
        if stated:
            raise _over(stated[0])
        return path
    if isinstance(path, str) and not stated and not is_launch_file(path):
        return load_trace(path)
    request = launch_of(function, trace, launch)
    if how and request.is_trace:
        raise _over(how[0])
    return obtain_trace(request, gpu=gpu) if recorded is None else recorded(request)


def _over(argument: str) -> UsageError:
    what = "applies to a kernel, and this is a trace, whose launch is over"
    return UsageError(what, place=argument, remedy="leave it out, or give the kernel")


def launch_of(function: str, kernel: Any, launch: Mapping[str, Any]) -> KernelRequest:
    """The launch of `kernel` from keywords of `function`, which are those of `trace`. Raises UsageError for another one."""
    path = fspath(kernel) if isinstance(kernel, PathLike) else kernel
    return KernelRequest(path=path, **_rest_of_launch(function, launch, _WHOLE_LAUNCHES))


def sweep(
    kernels: Any = (), gpu: str | PathLike[str] | GpuSpec | None = None, axes: Mapping[str, str | Sequence[Any]] | None = None, *,
    suite: str | None = None, models: Sequence[str] = (DEFAULT_MODEL,), overrides: Sequence[str] = (),
    derived: Mapping[str, str] | None = None, constraints: Sequence[str] = (), sampling: str = "grid", designs: int = 0,
    seed: int = 0, representative: str = DEFAULT_METHOD.representative, interleaving: str = DEFAULT_METHOD.interleaving,
    order: str = DEFAULT_METHOD.order, caches: str = DEFAULT_METHOD.caches, caches_before: str = DEFAULT_METHOD.caches_before,
    simulator: int | None = None, accuracy: float | None = None, exact: bool = False,
    out: str | PathLike[str] | None = None, results: str | PathLike[str] | None = None, executor: str = "inline",
    jobs: int | None = None, scheduler: str | None = None,
) -> Sweep:
    """Predict kernels on many designs around `gpu`: a `Sweep` with the Arrow tables `table` and `designs`, and methods such as
    `best`.

    `kernels` is a study file (then only `out`, `results` and the executor may also be given), or one, a list, or a mapping by name
    of traces, launch files and trace folders. `axes` maps keys (`sm_count`, `noc.bandwidth`, `launch.block`) to values: a list of
    numbers in base units or of texts with units, or a text such as ``15:80:5`` (docs/reference/study-file.md). `derived` maps keys
    to expressions; designs that violate one of the `constraints` are dropped; `sampling` is grid, or random or latin-hypercube with
    the number of `designs`. The simulator runs on `simulator` of them (0: all) and needs every block; otherwise long launches are
    sampled for each design as in `predict`, with its `accuracy` and `exact`, and the column `half_width` has the interval. Results
    are kept in the folder `results` (None: in the user's cache); with `out` the study is written there, for commands such as
    `warpsight sweep best`. `executor` is inline, processes (`jobs` of them; a script then needs ``if __name__ == "__main__":``),
    dask (at `scheduler`) or slurm. Raises WarpsightError; a design that fails is a row with the reason.
    """
    if accuracy is not None and simulator is not None:
        what = "cannot be combined with the simulator, which needs every block"
        raise UsageError(what, place="accuracy", remedy="leave out one of them")
    store = open_store(None if results is None else fspath(results))
    study = study_of_arguments(
        kernels, gpu, axes or {}, store, suite=suite, models=models, overrides=overrides, derived=derived or {},
        constraints=constraints, sampling=Sampling(sampling, designs, seed),
        method=Method(representative, interleaving, caches, order, caches_before),
        simulator=None if simulator is None else SimulatorRuns(simulator, seed), accuracy=_accuracy(accuracy, exact),
    )  # fmt: skip
    folder = None if out is None else make_folder(fspath(out), study, str(store.folder))
    with make_executor(executor, jobs=jobs, scheduler=scheduler) as chosen:
        plan = run_sweep(study, chosen, results=store.folder).plan
    if folder is not None:
        write_results(plan, folder)
    return Sweep.of(plan)


def tune(
    source: Any, axes: Mapping[str, str | Sequence[Any]] | None = None, gpu: str | PathLike[str] | GpuSpec | None = None,
    model: str = DEFAULT_MODEL, overrides: Sequence[str] = (), *, kernel: str | None = None, grid: Dimensions | None = None,
    block: Dimensions | None = None, args: Sequence[Any] | None = None, shared: int | str | None = None, level: str | None = None,
    where: Sequence[str] = (), budget: int | None = None, budget_seed: int = 0,
    caches_before: str = DEFAULT_METHOD.caches_before, results: str | PathLike[str] | None = None, executor: str = "inline",
    jobs: int | None = None, scheduler: str | None = None, **launch: Any,
) -> Tuning:
    """Predict and rank configurations of a kernel on `gpu`: a `Tuning` with `rows`, the fastest first, `best` and `default`.

    `axes` are values by name: ``block``, ``grid``, ``cluster``, ``shared``, ``maxrregcount``, ``opt_level``, ``registers``, macros
    such as ``define.TILE``; lists, or texts such as ``32:1024:*2``. Every combination that satisfies all expressions of `where` is
    executed and predicted; with `budget`, that many of them, selected at random by `budget_seed`. The grid can follow the block as
    an expression: ``"ceil(n / block.x)"``. A configuration whose results differ from those of the default one is not ranked.

    `source` to `level` and other values of a launch are as for `trace`; arrays keep their values. `results`, `executor`, `jobs` and
    `scheduler` are as for `sweep`. Raises WarpsightError; a configuration that fails is a row with the reason.
    """
    request = KernelRequest(
        path=source, kernel=kernel, grid=grid, block=block, shared=shared, args=_tuple(args), level=level,
        **_rest_of_launch("tune", launch),
    )
    method, store = replace(DEFAULT_METHOD, caches_before=caches_before), open_store(None if results is None else fspath(results))
    with make_executor(executor, jobs=jobs, scheduler=scheduler) as chosen:
        return tune_kernel(
            request, load_gpu(gpu, overrides=overrides), axes or {}, chosen, store, where=where, model=model, method=method,
            budget=None if budget is None else Budget(budget, budget_seed),
        )  # fmt: skip


def cache_model(
    source: KernelTrace | str | PathLike[str], gpu: str | PathLike[str] | GpuSpec | None = None, *, overrides: Sequence[str] = (),
    without: Sequence[str] = (), stores: bool = False, cores: int | None = None, max_threads: int | None = None, l2: bool = False,
    **changes: Any,
) -> CacheResult:
    """L1 misses by class from reuse distances (Nugteren et al., HPCA 2014); attributes are the keys of `warpsight cache --json`.

    `source` is a trace, the folder of one, or an access list (.trc, .trc.gz). `without` disables extensions: latency,
    associativity, mshr, divergence. `cores` (all SMs; for a list 1) and `max_threads` limit what is modelled. With `stores`, stores
    count like loads. With `l2`, the misses go to the L2. `changes` are fields of `ReuseSettings`: hit_latency, miss_latency, sigma,
    seed, clip and issue. Raises UsageError, SpecError or FormatError.
    """
    request = source if not isinstance(source, (str, PathLike)) else KernelRequest(path=fspath(source))
    changes = checked_changes({**changes, "without": frozenset(without)})
    options = CacheOptions(cores, max_threads, stores, l2, changes)
    return cache_result(accesses_of(request, load_gpu(gpu, overrides=overrides), options))
