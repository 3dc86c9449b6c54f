"""From a request to a trace: a kernel is executed, a stored trace is opened, a trace of another tool is imported."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy
import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError, UsageError, WarpsightError
from warpsight.base.progress import Watch, remark, stage, step
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.mangling import display_name
from warpsight.pipeline.request import KernelRequest
from warpsight.traces.schema import KernelTrace, PathTable, StaticInstruction, TraceHeader, TraceSink
from warpsight.traces.store import FolderSink, open_trace

if TYPE_CHECKING:
    from warpsight.emulator.run.launch import PreparedKernel
    from warpsight.pipeline.kernel_input import ReadyLaunch
    from warpsight.traces.importers.launch import Launch

emulator = lazy.load("warpsight.emulator.run.launch", suppress_warning=True)  # compilers take long to load
# A stored trace needs neither a kernel's sources nor the traces of other tools.
autotune: Any = lazy.load("warpsight.pipeline.autotune", suppress_warning=True)
formats: Any = lazy.load("warpsight.traces.importers.formats", suppress_warning=True)
machine_listing: Any = lazy.load("warpsight.pipeline.machine_listing", suppress_warning=True)
imported: Any = lazy.load("warpsight.traces.importers.launch", suppress_warning=True)
opcodes: Any = lazy.load("warpsight.isa.sass.opcodes", suppress_warning=True)

_MOST_NAMED = 8  # of launches, or of places, in one message
# Warp instructions for each instruction of a kernel in which code that was made quickly has lost what LLVM would have taken longer:
# 1 ms for an instruction, and 15 ns for a warp instruction.
_BRIEFLY = 50_000


def listing(prepared: PreparedKernel, instructions: tuple[StaticInstruction, ...]) -> dict[str, dict[str, Any]]:
    """The text of each instruction, by pc written as text (JSON has no other keys): `ptx`, the line of the PTX that it stands in or
    was made from, and for machine code `sass`.

    Machine code also has `unused_ptx`, by line the PTX between that no instruction was made from, and `machine_code`: by pc the
    `section` of each instruction, its `address` there, whether it `yields`, and how many registers are live after it.

    Of PTX a line is left out that does not name the opcode: an instruction of a linked library stands in another text.
    """
    lines = prepared.source.ptx.splitlines()
    texts = {}
    for instruction in instructions:
        text = lines[instruction.ptx_line - 1] if 0 < instruction.ptx_line <= len(lines) else ""
        if text and (prepared.level == "sass" or instruction.opcode.partition(".")[0] in text):
            texts[str(instruction.pc)] = " ".join(text.split())
    if prepared.level == "ptx":
        return {"ptx": texts}
    native = [i.native for i in prepared.function.instructions if i.native is not None]
    facts = {
        "section": [each.section for each in native], "address": [each.address for each in native],
        "yields": [each.control.yields for each in native],
        "live_registers": machine_listing.live_registers(prepared.function),
    }
    return {
        "ptx": texts, "sass": {str(pc): each.text for pc, each in enumerate(native)}, "machine_code": facts,
        "unused_ptx": _unused(lines, {instruction.ptx_line for instruction in instructions} - {0}),
    }


def _unused(lines: list[str], used: set[int]) -> dict[str, str]:
    """Lines of PTX between those that are `used`: labels, and instructions that the assembler has left out."""
    between = range(min(used, default=1), max(used, default=0))
    texts = {line: " ".join(lines[line - 1].split()) for line in between if line not in used}
    return {str(line): text for line, text in texts.items() if text and not text.startswith((".loc", "//", "{", "}", ".reg"))}


def _notes(prepared: PreparedKernel) -> tuple[str, ...]:
    """What a reader of the trace has to know: the lines of loops that wait for a value in memory."""
    instructions = prepared.function.instructions
    waiting = sorted({instructions[pc].user_place for pc, _ in prepared.native.graph.waits.tests})
    places = [f"{file.rpartition('/')[2]}:{line}" for file, line in waiting if file] or (["a loop"] if waiting else [])
    what = "threads wait for others to change memory; how long they wait is not modelled, and failed tests are not in the trace"
    return (f"at {', '.join(places[:_MOST_NAMED])} {what}",) if places else ()


class ListingSink(FolderSink):
    """A folder's sink that also keeps the text of the instructions of `prepared`, the kernel that is launched."""

    prepared: PreparedKernel | None = None

    def finish(
        self, header: TraceHeader, instructions: tuple[StaticInstruction, ...], block_start: npt.NDArray[np.int32], paths: PathTable
    ) -> KernelTrace:
        """Close the trace and give it back, ready to be read."""
        if self.prepared is not None:
            self.describe(_notes(self.prepared), listing(self.prepared, instructions))
        return super().finish(header, instructions, block_start, paths)


def trace_kernel(request: KernelRequest, *, gpu: GpuSpec | None = None, watch: Watch | None = None) -> KernelTrace:
    """Run the kernel functionally and record it in memory. NumPy arrays among the arguments are written back.

    A `gpu`, if given, says beforehand whether a block fits an SM, and whose machine code is executed at level `sass`.
    Raises UsageError, FormatError, CompileError, UnsupportedError, LaunchFault, and LimitError past `max_instructions`.
    """
    ready, results = _ready(request, gpu, watch), wants_results(request)
    told = bool(ready.options.check) or ready.options.out_of_bounds is not None  # what has been told cannot be taken back
    trace = None if told else _traced_briefly(ready, watch, results=results)
    return trace or trace_launch(ready, _compiled(ready, results=results), watch)


def _traced_briefly(ready: ReadyLaunch, watch: Watch | None, *, results: bool) -> KernelTrace | None:
    """The trace of a short launch, whose code is made in a fraction of the time and not well; None of a longer one, which has to
    start again: its arrays are as they were.
    """
    prepared, printed = _compiled(ready, results=results, briefly=True), StringIO()
    limit = min(ready.max_instructions, _BRIEFLY * len(prepared.function.instructions))
    short = replace(ready, max_instructions=limit, options=replace(ready.options, output=printed))
    try:
        trace = trace_launch(short, prepared, watch)
    except LimitError:
        return None
    except WarpsightError:
        print(printed.getvalue(), end="", file=ready.options.output)
        raise
    print(printed.getvalue(), end="", file=ready.options.output)
    return trace


def wants_results(request: KernelRequest) -> bool:
    """Whether somebody sees what the kernel computes: the caller's arrays get it, or checks look at it."""
    own = any(not isinstance(each, (str, int, float, np.generic)) for each in request.args or ())
    return own or bool(request.check)


def launch_of(request: KernelRequest, gpu: GpuSpec | None, watch: Watch | None = None) -> tuple[ReadyLaunch, PreparedKernel]:
    """The launch of `request` and its kernel, ready to run: where nobody asks for results, that of it which decides the trace.
    Raises as `trace_kernel`.
    """
    ready = _ready(request, gpu, watch)
    return ready, _compiled(ready, results=wants_results(request))


def _ready(request: KernelRequest, gpu: GpuSpec | None, watch: Watch | None) -> ReadyLaunch:
    request.refuse_import_options()
    ready: ReadyLaunch = autotune.prepare_tuned(request, gpu, run_ready, watch)
    if gpu is not None:
        ready.check_fit(gpu)
    return ready


def trace_launch(ready: ReadyLaunch, prepared: PreparedKernel, watch: Watch | None = None) -> KernelTrace:
    """Run all blocks of a launch, and keep their trace in memory. Raises as `trace_kernel`."""
    trace = _run(ready, prepared, None, watch)
    return replace(trace, notes=(*ready.notes, *_notes(prepared)), extra=listing(prepared, trace.instructions))


def _compiled(ready: ReadyLaunch, *, results: bool = True, briefly: bool = False) -> Any:
    with step(f"translate {display_name(ready.launch.kernel)} to code of this machine"):
        wanted = {"architecture": ready.architecture, "checks": ready.options.check, "traced": None if results else ready.launch}
        clustered = ready.launch.cluster_blocks > 1
        return emulator.prepare_kernel(ready.source, ready.launch.kernel, clustered=clustered, briefly=briefly, **wanted)


def run_ready(ready: ReadyLaunch, *, sink: TraceSink | None = None, watch: Watch | None = None) -> KernelTrace:
    """Run a prepared launch, its trace into `sink`, or kept in memory without one."""
    prepared = _compiled(ready)
    if isinstance(sink, ListingSink):
        sink.prepared = prepared
    return _run(ready, prepared, sink, watch)


def _run(ready: ReadyLaunch, prepared: Any, sink: TraceSink | None, watch: Watch | None) -> KernelTrace:
    with step(f"run {display_name(ready.launch.kernel)} on {ready.threads} CPU {'thread' if ready.threads == 1 else 'threads'}"):
        trace: KernelTrace = emulator.emulate(
            ready.source, ready.launch, sink=sink, registers=ready.registers, max_instructions=ready.max_instructions,
            threads=ready.threads, sample=ready.sample, seed=ready.seed, progress=stage(watch, "running the kernel"),
            options=ready.options, prepared=prepared,
        )
        header = trace.header
        remark(f"{header.warp_instructions:,} warp instructions of {header.level.upper()}")
        remark(f"{header.recorded_blocks:,} of {header.blocks:,} blocks recorded")
    return trace


def obtain_trace(request: KernelRequest, *, gpu: GpuSpec | None = None, watch: Watch | None = None) -> KernelTrace:
    """The trace of `request`: read if it is a trace folder or the trace of another tool, else made in memory. `gpu` as for
    `trace_kernel`. Raises UsageError too where a trace of another tool has several launches.
    """
    if request.is_foreign:
        return import_one(request, watch=watch)
    request.refuse_import_options()
    if not request.is_trace:
        return trace_kernel(request, gpu=gpu, watch=watch)
    request.refuse_launch_options()
    with step(f"open the trace {request.path}"):
        return open_trace(request.path)


def launches_of(request: KernelRequest) -> list[Launch]:
    """The launches that the request chooses. Raises UsageError for options of a kernel, and what reading the folder raises."""
    request.refuse_launch_options()
    facts = imported.LaunchFacts(request.grid, request.block, request.shared, request.registers)
    launches = formats.launches_in(request.path, opcodes.read_isa_file(request.isa_file), facts)
    selected: list[Launch] = imported.select(launches, request.kernels, request.launches)
    return selected


def import_one(request: KernelRequest, *, watch: Watch | None = None) -> KernelTrace:
    """The trace of the one launch that the request chooses. Raises UsageError where there are several."""
    launches = launches_of(request)
    if len(launches) > 1:
        named = ", ".join(f"{launch.number} {launch.kernel}" for launch in launches[:_MOST_NAMED])
        more = f" and {len(launches) - _MOST_NAMED} more" if len(launches) > _MOST_NAMED else ""
        message = f"has {len(launches)} launches ({named}{more}), and one is needed here"
        raise UsageError(message, place=str(request.path), remedy="choose one with `launches=N`, or name the kernel's file")
    return launches[0].trace(progress=stage(watch, "reading the trace"))


def launch_folder(number: int, kernel: str) -> str:
    """The name of the folder of one launch of several: `0001-kernel-name`."""
    name = re.sub(r"\W+", "-", kernel).strip("-")[:60]
    return f"{number:04d}-{name}"


def convert_launches(
    request: KernelRequest, folder: str | Path, *, overwrite: bool = False, watch: Watch | None = None
) -> list[KernelTrace]:
    """Write the chosen launches as traces of our own: into `folder`, or where there are several into ``0001-name`` and so on in it.

    Raises UsageError where a folder is in the way, and what reading raises.
    """
    launches, traces = launches_of(request), []
    for launch in launches:
        place = Path(folder) / launch_folder(launch.number, launch.kernel) if len(launches) > 1 else Path(folder)
        with FolderSink(place, overwrite=overwrite) as sink:
            traces.append(launch.trace(sink, stage(watch, f"reading launch {launch.number}")))
    return traces
