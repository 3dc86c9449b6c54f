"""The counts of the MWP-CWP model from a kernel's PTX and its launch, with nothing executed."""

from __future__ import annotations

from warpsight.base.errors import UnsupportedError, UsageError, suggestion
from warpsight.gpu.spec import GpuSpec
from warpsight.isa.cfg import build_cfg
from warpsight.isa.dataflow import live_in
from warpsight.isa.inline import inline_calls
from warpsight.isa.program import Function
from warpsight.profile.kernel_counts import KernelCounts
from warpsight.profile.static.accesses import Coalescing, Tally
from warpsight.profile.static.iterations import enter
from warpsight.profile.static.loops import REMEDY, dominators_of, find_loops
from warpsight.profile.static.registers import LANES, Registers, array_address, threads_of
from warpsight.profile.static.told import ALL, Told
from warpsight.profile.static.walk import END, NeedIterationError, Program, Walk
from warpsight.trace.schema import StaticInstruction
from warpsight.workload.launch import ArrayArgument, KernelSource, Launch, ScalarArgument

_THREADS_AT_ONCE = 1 << 18


def static_counts(source: KernelSource, launch: Launch, gpu: GpuSpec, blocks_per_sm: int, told: Told | None = None) -> KernelCounts:
    """The counts of `launch`, from the program text: loops with known trip counts, addresses known for every thread.

    Array arguments count as aligned to 256 bytes and loop counters as not wrapping; what memory holds is not known. Raises
    UsageError, with PTX line and remedy, for a trip count, an address or a branch that depends on it and was not `told`;
    UnsupportedError for control flow that is not followed; LimitError for a loop without closed form that is too long.
    """
    from warpsight.emulator.static import static_instructions

    told = told or Told()
    function = inline_calls(source.module, source.module.kernels[launch.kernel])
    program = _program(source.path, function, gpu, told, static_instructions(function))
    size = launch.threads_per_block
    padded = -(-size // LANES) * LANES
    tally, at_once = Tally(), max(1, _THREADS_AT_ONCE // padded)
    for first in range(0, launch.blocks, at_once):
        threads = threads_of(launch.grid, launch.block, first, min(at_once, launch.blocks - first))
        walk = Walk(program, Registers(threads, _parameters(function, launch)), tally, enter=enter)
        try:
            walk.run(0, threads.active, END)
        except NeedIterationError as need:
            what = f"something depends on the iteration in which the loop {need.counter} was left, which is not followed"
            raise UnsupportedError(what, place=source.path, remedy=REMEDY) from None
    _check_told(told, tally, function)
    warps = padded // LANES
    return tally.totals().per_warp(
        launch.blocks * warps, launch.blocks, warps, blocks_per_sm, coalescing=gpu.mwp.coalescing, origin="program text"
    )


def _program(path: str, function: Function, gpu: GpuSpec, told: Told, rows: tuple[StaticInstruction, ...]) -> Program:
    graph = build_cfg(function)
    dominators = dominators_of(graph)
    loops = find_loops(function, graph, dominators)
    labels = [loop.label for loop in loops.values()]
    for label in told.trips:
        if label not in labels:
            what = f'"{label}" is not the label of a loop{suggestion(label, labels)}'
            raise UsageError(what, place="--trips", remedy=f"the kernel's loops: {', '.join(sorted(labels)) or 'none'}")
    rule = Coalescing(gpu.mwp.coalescing, gpu.l1.sector_bytes)
    return Program(path, function, graph, rows, loops, dominators, live_in(function, graph), told, rule)


def _parameters(function: Function, launch: Launch) -> dict[str, bytes | int]:
    """By parameter: a scalar's bytes, or the made-up address of an array."""
    found: dict[str, bytes | int] = {}
    for number, (parameter, argument) in enumerate(zip(function.parameters, launch.arguments, strict=True)):
        if isinstance(argument, ScalarArgument):
            found[parameter.name] = argument.data
        elif isinstance(argument, ArrayArgument):
            found[parameter.name] = array_address(number)
    return found


def _check_told(told: Told, tally: Tally, function: Function) -> None:
    """A line that was told and is no memory instruction whose address is not known is a mistake."""
    for option, lines in (("--coalesced", told.coalesced), ("--uncoalesced", told.uncoalesced)):
        for line in sorted(lines - {ALL} - tally.told):
            what = f"no memory instruction of {function.name} with an unknown address stands in PTX line {line}"
            raise UsageError(what, place=option, remedy="leave it out")
