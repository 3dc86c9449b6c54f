"""Checks of a kernel or of a whole program: what is wrong with it, as one document (docs/reference/check.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from warpsight.base.errors import LaunchFault, LimitError, UnsupportedError, UsageError, WarpsightError, suggestion
from warpsight.base.findings import MEMCHECK, ORDER, TOOLS, WATCHING, Finding, Repeated, fold
from warpsight.base.progress import Watch, stage
from warpsight.emulator.run.launch import execute, prepare_kernel
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.machine_code import native_architecture
from warpsight.kernels.mangling import display_name
from warpsight.pipeline.kernel_input import level_of, prepare, wanted_architecture
from warpsight.pipeline.orders import compare_orders, compare_program_orders
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import DEFAULT_MAX_INSTRUCTIONS, KernelRequest
from warpsight.programs.checked import LEAK
from warpsight.programs.host import EndedProgram, describe_signal, run_program
from warpsight.programs.session import ExecutedLaunch, Observer

SCHEMA = 1
INTERRUPTED = 130  # the exit code of a program that was stopped by Ctrl-C


@dataclass(frozen=True)
class Checked:
    """The `findings`, the same ones as one, and the result document."""

    findings: list[Finding]
    document: dict[str, Any]


ALL = "all"


def parse_tools(names: str | Iterable[str] | None) -> frozenset[str]:
    """The checks that are meant by ``memcheck,racecheck``, a list of names, or ``all`` (None). Raises UsageError."""
    listed = (names.split(",") if isinstance(names, str) else list(names)) if names is not None else [ALL]
    words = [str(name).strip() for name in listed]
    for name in words:
        if name != ALL and name not in WATCHING:
            known = sorted(WATCHING, key=TOOLS.index)
            remedy = f"use one or several of {', '.join(known)}, or {ALL}"
            remedy += "; other orders are tried with `order`" if name == ORDER else ""
            raise UsageError(f'"{name}" is not a check{suggestion(name, known)}', place="tool", remedy=remedy)
    return WATCHING if ALL in words or not words else frozenset(words)


def findings_document(
    findings: Iterable[Repeated], *, checks: Iterable[str], level: str, target: str = "", kernel: str = "", source: str = "",
    command: Sequence[str] = (), launches: int = 1, exit_code: int = 0, notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The result document. `exit_code` is the program's own, 0 for a kernel."""
    rows = [each.to_json() for each in findings]
    errors = [row for row in rows if row["severity"] == "error"]
    leaks = [row for row in rows if row["kind"] == LEAK]
    ran = sorted(checks, key=TOOLS.index)
    return {
        "schema": SCHEMA, "tool": TOOL, "checks": ran, "kernel": kernel, "source": source, "command": list(command),
        "level": level, "target": target, "launches": launches, "exit_code": exit_code, "ended_by": describe_signal(exit_code),
        "findings": rows,
        "totals": {
            "errors": len(errors), "warnings": len(rows) - len(errors),
            "by_check": {name: sum(row["tool"] == name for row in rows) for name in ran},
            "leaks": sum(row["count"] for row in leaks), "leaked_bytes": sum(row["bytes"] * row["count"] for row in leaks),
        },
        "notes": list(notes),
    }  # fmt: skip


# -- A kernel.

def check_kernel(
    request: KernelRequest, tools: frozenset[str] = WATCHING, *, gpu: GpuSpec | None = None, orders: int = 0,
    watch: Watch | None = None,
) -> Checked:
    """Run the launch with `tools` watching, then compare its results in `orders` other orders.

    Arrays stay as they are. PTX is executed where there is PTX, unless the request names a level. Raises what preparing the launch
    raises, and LimitError or UnsupportedError for a launch that had to be stopped before anything was found.
    """
    ready = prepare(replace(request, check=True), gpu)
    if gpu is not None:
        ready.check_fit(gpu)
    findings: list[Finding] = []
    notes = list(ready.notes)
    options = replace(ready.options, check=tools, found=findings.append)
    prepared = prepare_kernel(
        ready.source, ready.launch.kernel, architecture=ready.architecture, checks=tools,
        clustered=ready.launch.cluster_blocks > 1,
    )  # fmt: skip
    try:
        execute(
            prepared, ready.launch, None, max_instructions=ready.max_instructions, progress=stage(watch, "checking the kernel"),
            options=options,
        )
    except LaunchFault as fault:
        if not findings:
            raise
        notes.append(f"the launch ended there: {fault.what}" if fault.details is None else "the launch ended at the last finding")
    except (LimitError, UnsupportedError) as stopped:
        if not findings:
            raise
        notes.append(f"the launch was stopped: {stopped.what}")
    if orders:
        findings += compare_orders(ready, orders, watch=watch)
    folded = fold(findings)
    document = findings_document(
        folded, checks=[*tools, *([ORDER] if orders else [])], level=prepared.level,
        target=prepared.target if ready.architecture is not None else "",
        kernel=display_name(ready.launch.kernel), source=ready.source.path, notes=notes,
    )  # fmt: skip
    return Checked([each.finding for each in folded], document)


# -- A program.

@dataclass
class _Checker(Observer):
    """The observer of a program that is checked, and neither traced nor predicted."""

    check: frozenset[str]
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused_something: bool = False
    launches: int = 0

    def ran(self, launch: ExecutedLaunch) -> float:
        """How long it takes is not asked."""
        self.launches += 1
        return 0.0


    def refused(self, number: int, kernel: str, error: WarpsightError) -> None:
        """A launch or the loading of a module has failed: a finding if it is the kernel's fault, else a note."""
        self.refused_something |= not number or isinstance(error, UnsupportedError)
        if not isinstance(error, LaunchFault):
            self.notes.append(f"launch {number:,}, {kernel}: {error.what}" if number else str(error.what))

    def found(self, finding: Finding) -> None:
        """A check has found something."""
        self.findings.append(finding)


def check_program(
    command: Sequence[str], gpu: GpuSpec, tools: frozenset[str] = WATCHING, *, level: str | None = None, orders: int = 0,
    max_instructions: int = DEFAULT_MAX_INSTRUCTIONS, stdout: IO[Any] | None = None,
) -> Checked:
    """Run a program built with `nvcc` with `tools` watching its launches. The document has the program's own
    `exit_code`, and `refused` where something of it is not modelled.

    PTX is executed where the program has PTX, unless `level` is given. Raises UsageError where the program cannot be started.
    """
    executed = level_of(KernelRequest(command[0], level=level, check=True), gpu)
    architecture = native_architecture(wanted_architecture(gpu))[0] if executed == "sass" else None
    checker = _Checker(tools)
    try:
        run = run_program(command, gpu, checker, architecture=architecture, max_instructions=max_instructions, stdout=stdout)
    except (KeyboardInterrupt, SystemExit) as stopped:
        code = INTERRUPTED if isinstance(stopped, KeyboardInterrupt) else int(stopped.code or 0)
        run, orders = EndedProgram(code, True, checker.launches), 0
        checker.notes.append("stopped by a signal: this is what was found until then")
    if orders:
        checker.findings += compare_program_orders(
            command, gpu, orders, architecture=architecture, max_instructions=max_instructions
        )
    notes = list(dict.fromkeys(checker.notes))
    if run.exit_code:
        lost = ", so that memory that it never freed is not known" if MEMCHECK in tools and describe_signal(run.exit_code) else ""
        notes.append(f"the program ended with exit code {run.exit_code}{lost}")
    if not run.connected:
        notes.append("the program made no CUDA call that was seen: build it with `nvcc -cudart shared`, or do not strip it")
    folded = fold(checker.findings)
    document = findings_document(
        folded, checks=[*tools, *([ORDER] if orders else [])], level=executed,
        target="" if architecture is None else architecture.real, command=command, launches=run.launches,
        exit_code=run.exit_code, notes=notes,
    )  # fmt: skip
    return Checked([each.finding for each in folded], {**document, "refused": checker.refused_something})
